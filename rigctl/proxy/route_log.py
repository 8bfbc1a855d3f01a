"""The last decisions, for `rigctl route explain`."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace

from rigctl.core.flow import RouteRecord
from rigctl.core.homes import MOST_SESSIONS

KEPT = 500


class RouteLog:
    """A ring of records; those not yet told to the daemon are taken by `fresh`."""

    def __init__(self) -> None:
        self._records: deque[RouteRecord] = deque(maxlen=KEPT)
        self._seq = 0
        self._told = 0
        self._owners: OrderedDict[str, str] = OrderedDict()
        """Of as many sessions as have a home."""

    def add(self, record: RouteRecord) -> None:
        """Keep one decision with its outcome; its number is given here."""
        self._seq += 1
        self._records.append(replace(record, seq=self._seq))
        if record.session:
            self._owners[record.session] = record.client
            self._owners.move_to_end(record.session)
            if len(self._owners) > MOST_SESSIONS:
                self._owners.popitem(last=False)

    def owner(self, session: str) -> str:
        """The client of a session's last request; empty where there was none lately."""
        return self._owners.get(session, "")

    def fresh(self, most: int = 200) -> tuple[RouteRecord, ...]:
        """Those since the last call, oldest first; with a gap in numbers where there were more."""
        found: list[RouteRecord] = []
        for record in reversed(self._records):
            if record.seq <= self._told or len(found) == most:
                break
            found.append(record)
        self._told = self._seq
        return tuple(reversed(found))

    def again(self) -> None:
        """A new daemon knows none of them."""
        self._told = 0

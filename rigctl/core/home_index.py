"""From digests and ids to the sessions that have them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Set

from rigctl.core.ask import Digest
from rigctl.core.home import Session


class Index:
    """Sessions by label, by the digests of their chain and turns, by id and by opening."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        """The least recently seen first."""
        self.chain: dict[Digest, set[str]] = {}
        self.turns: dict[Digest, set[str]] = {}
        self.opening: dict[Digest, set[str]] = {}
        self.ids: dict[bytes, set[str]] = {}

    def add(self, session: Session) -> None:
        """Put it in, as the one seen last."""
        label = session.home.label
        self.sessions[label] = session
        for table, keys in self._tables(session):
            for key in keys:
                table.setdefault(key, set()).add(label)

    def remove(self, label: str) -> Session:
        """Take it out; KeyError where it is not in."""
        session = self.sessions.pop(label)
        for table, keys in self._tables(session):
            for key in keys:
                self._forget(table, key, label)
        return session

    def rename(
        self,
        session: Session,
        chain: dict[Digest, int],
        turns: dict[Digest, int],
        opening: Digest,
        key: str,
    ) -> None:
        """Give a session that is in the index another path; only what differs is touched."""
        label = session.home.label
        before = [(table, frozenset(keys)) for table, keys in self._tables(session)]
        session.chain, session.turns, session.opening, session.key = chain, turns, opening, key
        for (table, was), (_, keys) in zip(before, self._tables(session), strict=True):
            now = frozenset(keys)
            for gone in was - now:
                self._forget(table, gone, label)
            for new in now - was:
                table.setdefault(new, set()).add(label)

    @staticmethod
    def _forget(table: dict[bytes, set[str]], key: bytes, label: str) -> None:
        labels = table.get(key)
        if labels is not None:
            labels.discard(label)
            if not labels:
                del table[key]

    def named(self, key: str) -> Set[str]:
        """The sessions of that explicit id."""
        return self.ids.get(key.encode(), frozenset())

    def _tables(self, session: Session) -> Iterable[tuple[dict[bytes, set[str]], Iterable[bytes]]]:
        yield self.chain, session.chain
        yield self.turns, session.turns
        yield self.opening, (session.opening,) if session.opening else ()
        yield self.ids, (session.key.encode(),) if session.key else ()

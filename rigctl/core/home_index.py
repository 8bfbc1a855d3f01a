"""From digests and ids to the sessions that have them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from rigctl.core.ask import Digest
from rigctl.core.home import Session

Table = dict[Digest, tuple[str, ...]]
"""Digest, or id -> labels of the sessions that have it."""


class Index:
    """Sessions by label, by the digests of their chain and turns, by id and by opening."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        """The least recently seen first."""
        # Tuples, for nearly every digest is one session's alone: a set takes four times as much.
        self.chain: Table = {}
        self.turns: Table = {}
        self.opening: Table = {}
        self.ids: Table = {}

    def add(self, session: Session) -> None:
        """Put it in, as the one seen last."""
        label = session.home.label
        self.sessions[label] = session
        for table, keys in self._tables(session):
            for key in keys:
                _note(table, key, label)

    def remove(self, label: str) -> Session:
        """Take it out; KeyError where it is not in."""
        session = self.sessions.pop(label)
        for table, keys in self._tables(session):
            for key in keys:
                _forget(table, key, label)
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
                _forget(table, gone, label)
            for new in now - was:
                _note(table, new, label)

    def named(self, key: str) -> frozenset[str]:
        """The sessions of that explicit id."""
        return frozenset(self.ids.get(key.encode(), ()))

    def _tables(self, session: Session) -> Iterable[tuple[Table, Iterable[bytes]]]:
        yield self.chain, session.chain
        yield self.turns, session.turns
        yield self.opening, (session.opening,) if session.opening else ()
        yield self.ids, (session.key.encode(),) if session.key else ()


def _note(table: Table, key: bytes, label: str) -> None:
    labels = table.get(key, ())
    if label not in labels:
        table[key] = (*labels, label)


def _forget(table: Table, key: bytes, label: str) -> None:
    left = tuple(each for each in table.get(key, ()) if each != label)
    if left:
        table[key] = left
    else:
        table.pop(key, None)

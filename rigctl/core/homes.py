"""Which session a request belongs to, and where that session is at home.

An explicit id narrows; the longest known beginning decides. The head alone (system and tools)
never does: all agents of one kind share it (C19). The same text under another clock is found by
its turns, from the first assistant message on, which no two conversations share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from rigctl.core import home_rows
from rigctl.core.ask import Ask, Digest, Endpoint, Size
from rigctl.core.clusters import RoutePolicy
from rigctl.core.home import MOST_TIPS, Ended, Found, Home, Match, Session, kept
from rigctl.core.home_index import Index
from rigctl.core.home_match import match
from rigctl.core.ids import GroupName, Mono
from rigctl.core.lengths import learn
from rigctl.core.reading import Reading

__all__ = ["Ended", "Found", "Home", "Homes"]

MOST_SESSIONS = 384
"""Of more than these no engine has the prefix still cached: its pool is some hundred of them."""
MOST_ANSWERS = 4_096
"""Responses whose cluster is remembered, for `previous_response_id`."""


class Homes:
    """All sessions that were here lately, the least recently seen first."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._index = Index()
        self._ended: list[Ended] = []
        self._changed: set[str] = set()
        self._answers: OrderedDict[str, tuple[GroupName, str]] = OrderedDict()
        self._given: list[str] = []
        """Of those, the ones that no row has told yet."""
        self._made = 0

    def __len__(self) -> int:
        return len(self._index.sessions)

    def count(self, cluster: GroupName) -> int:
        """Sessions whose home it is."""
        return sum(1 for each in self._index.sessions.values() if each.home.cluster == cluster)

    def all(self) -> tuple[Home, ...]:
        """Every home, the one seen last first."""
        return tuple(each.home for each in reversed(self._index.sessions.values()))

    # ---- a request comes ---------------------------------------------------------------

    def find(self, ask: Ask, now: Mono, policy: RoutePolicy) -> Found:
        """The session whose next turn this is, if it is one's."""
        pinned = self._answers.get(ask.previous_response) if ask.previous_response else None
        found = match(self._index, ask, policy)
        if found is not None and now - found.session.home.seen > policy.home_ttl:
            self._drop_old(now, policy)
            found = match(self._index, ask, policy)
        if found is None:
            return Found(pinned=pinned)
        session = found.session
        home = session.home
        tokens = 0 if home.cold else session.shared_tokens(found.place)
        return Found(
            home=home,
            source=found.source,
            branch=not found.own,
            tokens=tokens,
            newer=self._newer(home),
            learnt=session.learnt.value,
            pinned=pinned,
            match=found,
        )

    def claim(
        self, ask: Ask, where: Found, cluster: GroupName, run: str, now: Mono, tokens: int
    ) -> Home:
        """It is sent to `cluster`: that is its session's home from now on. `tokens`: its prompt, as
        estimated; `where`: by `find`, and nothing since. Returns the home with the label that all
        its turns bear. `record` is the other half, due before anything else is asked of the homes.
        """
        found = where.match
        if found is not None and found.own:
            session = found.session
            self._moved(session.home, cluster)
            longer = len(ask.chain) - 1 > session.end or found.source == "opening"
            before = session.home
            turns = before.turns + (1 if longer else 0)
            session.home = Home(
                before.label, cluster, run, tokens, before.since, now, turns, before.cached
            )
        else:
            session = self._new(ask, cluster, run, now, tokens, found)
        session.running += 1
        return session.home

    def answered(
        self, home: Home, prompt_tokens: Reading, cached_tokens: Reading, context: int, now: Mono
    ) -> Home:
        """The engine told what the turn took: `context` is prompt and answer together, 0 where it
        told nothing. Returns the home as it is now."""
        session = self._index.sessions.get(home.label)
        if session is None or session.home.cluster != home.cluster:
            return home
        told = context if context > 0 else session.home.tokens
        if isinstance(prompt_tokens, int | float):
            told = max(told, int(prompt_tokens))
        session.home = session.home._replace(
            tokens=told, cached=cached_tokens, seen=max(now, session.home.seen)
        )
        self._touch(home.label)
        return session.home

    def ended(self, home: Home) -> None:
        """A request that was sent there ended, however: once for every `claim`."""
        session = self._index.sessions.get(home.label)
        if session is not None and session.running:
            session.running -= 1

    def taught(self, home: Home, size: Size, prompt_tokens: int) -> None:
        """Let the session learn its own bytes per token from an answered request."""
        session = self._index.sessions.get(home.label)
        if session is not None:
            session.learnt = learn(session.learnt, size, prompt_tokens)

    def gave(self, response: str, cluster: GroupName, run: str) -> None:
        """`response` was given by that cluster; only it can continue it (C48)."""
        if response:
            self._answers[response] = (cluster, run)
            self._answers.move_to_end(response)
            self._given.append(response)
            while len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)

    # ---- what ends ---------------------------------------------------------------------

    def lost(self, cluster: GroupName, run: str, why: str) -> int:
        """That cluster runs as `run` now (empty: not at all): what it had cached before is gone.
        Its sessions keep their label and learn why; returns how many they are."""
        cold = 0
        for label, session in self._index.sessions.items():
            home = session.home
            if home.cluster == cluster and home.run != run and not home.cold:
                session.home = home._replace(cold=why)
                self._changed.add(label)
                cold += 1
        return cold

    def expired(self, now: Mono, policy: RoutePolicy) -> tuple[Ended, ...]:
        """Sessions that ended since the last call: silent too long, pushed out, or moved; their
        former engines may be told (`/close_session`)."""
        self._drop_old(now, policy)
        ended, self._ended = tuple(self._ended), []
        return ended

    # ---- over a restart of the proxy ---------------------------------------------------

    def changes(self) -> list[dict[str, Any]]:
        """Rows of what changed since the last call; an ended session's row says only that. Rows
        appended to a file in this order and read back in it give the same homes."""
        changed, self._changed = self._changed, set()
        given = [each for each in self._given if each in self._answers]
        self._given = []
        live = [label for label in self._index.sessions if label in changed]
        gone = [label for label in changed if label not in self._index.sessions]
        return [
            *({"label": label, "ended": True} for label in sorted(gone)),
            *(home_rows.row(self._index.sessions[label]) for label in live),
            *(home_rows.given(each, *self._answers[each]) for each in given),
        ]

    @classmethod
    def from_json(
        cls, rows: Iterable[Any], now: Mono, most: int = MOST_SESSIONS
    ) -> tuple[Homes, int]:
        """The homes of those rows, and how many rows could not be used: a broken one, or one
        from before a reboot (its time lies ahead), costs only itself."""
        homes = cls(most)
        sessions, answers, bad = home_rows.read(rows, now)
        for response, cluster, run in answers:
            homes.gave(response, cluster, run)
        homes._given.clear()
        for session in sessions:
            homes._index.add(session)
            homes._bound()
        homes._ended.clear()
        homes._made = len(sessions)
        return homes, bad

    # ---- inside ------------------------------------------------------------------------

    def _new(
        self,
        ask: Ask,
        cluster: GroupName,
        run: str,
        now: Mono,
        tokens: int,
        found: Match | None,
    ) -> Session:
        tip: Digest = ask.chain[-1] if ask.chain else ask.opening
        home = Home(self._label(tip), cluster, run, tokens, since=now, seen=now)
        session = Session(home)
        if found is not None:
            session.learnt = found.session.learnt
        if ask.chain or ask.opening or ask.session is not None:
            self._index.sessions[home.label] = session  # `record` gives it what it is found by
        return session

    def _label(self, tip: Digest) -> str:
        """Eight hex signs that no other session bears."""
        while True:
            self._made += 1
            serial = self._made.to_bytes(8, "little")
            label = blake2b(tip + serial, digest_size=4).hexdigest()
            if label not in self._index.sessions:
                return label

    def record(self, home: Home, ask: Ask, tokens: int) -> None:
        """The session of a claimed home is found again by what this request says."""
        self._bound()
        label = home.label
        session = self._index.sessions.get(label)
        if session is None or not (ask.chain or ask.opening or ask.session is not None):
            return
        end = len(ask.chain) - 1
        chain, turns, key = session.chain, session.turns, session.key
        grows = end >= session.end or ask.endpoint is Endpoint.COMPLETIONS
        if ask.chain and (grows or not chain):
            # Not the head's: all agents of one kind share it, and it decides nothing.
            chain = {ask.chain[place]: place for place in kept(len(ask.chain)) if place}
            turns = {ask.turns[place]: place for place in kept(len(ask.turns))}
            session.end, session.turns_end = end, len(ask.turns) - 1
        if ask.chain:
            session.tips = [*session.tips, (end, tokens)][-MOST_TIPS:]
        if ask.session is not None and ask.session.source != "user":
            key = ask.session.key
        self._index.rename(session, chain, turns, session.opening or ask.opening, key)
        self._touch(label)

    def _touch(self, label: str) -> None:
        self._index.sessions.move_to_end(label)
        self._changed.add(label)

    def _moved(self, home: Home, cluster: GroupName) -> None:
        if home.cluster != cluster:
            self._ended.append(Ended(home.label, home.cluster, home.run))

    def _newer(self, home: Home) -> int:
        """Tokens of the sessions seen on that cluster after this one."""
        total = 0
        for label, session in reversed(self._index.sessions.items()):
            if label == home.label:
                break
            if session.home.cluster == home.cluster and not session.home.cold:
                total += session.home.tokens
        return total

    def _drop_old(self, now: Mono, policy: RoutePolicy) -> None:
        while self._index.sessions:
            label, session = next(iter(self._index.sessions.items()))
            if now - session.home.seen <= policy.home_ttl:
                return
            self._drop(label)

    def _bound(self) -> None:
        while len(self._index.sessions) > self._most:
            self._drop(next(iter(self._index.sessions)))

    def _drop(self, label: str) -> None:
        home = self._index.remove(label).home
        self._ended.append(Ended(home.label, home.cluster, home.run))
        self._changed.add(label)

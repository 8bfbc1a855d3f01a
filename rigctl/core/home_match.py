"""The rule by which a request is taken for the next turn of a session, for a branch, or for new."""

from __future__ import annotations

from collections.abc import Set

from rigctl.core.ask import Ask, Endpoint
from rigctl.core.clusters import RoutePolicy
from rigctl.core.home import Match, Session
from rigctl.core.home_index import Index

_NOBODY: frozenset[str] = frozenset()

PER_REQUEST = frozenset({"x-client-request-id"})
"""Sources that some clients renew with every request: an unknown one tells nobody apart."""


def match(index: Index, ask: Ask, policy: RoutePolicy) -> Match | None:
    """The session that this request belongs to or branches off; None: it is a new one."""
    if policy.session_rule == "opening":
        return _by_opening(index, ask)
    key = ask.session.key if ask.session is not None and ask.session.source != "user" else ""
    named = index.named(key) if key else _NOBODY
    found = _by_chain(index, ask, key, named) or _by_turns(index, ask, named)
    if found is not None and ask.session is not None and found.session.home.label in named:
        return Match(found.session, ask.session.source, found.place, found.own)
    if found is None and not ask.chain and len(named) == 1 and ask.session is not None:
        # Nothing but the id tells anything: `previous_response_id` with a bare input.
        session = index.sessions[next(iter(named))]
        return Match(session, ask.session.source, session.end, own=True)
    return found


def _by_opening(index: Index, ask: Ask) -> Match | None:
    labels = frozenset(index.opening.get(ask.opening, ())) if ask.opening else _NOBODY
    if not labels:
        return None
    session = _latest(index, labels)
    return Match(session, "opening", session.end, own=True)


def _by_chain(index: Index, ask: Ask, key: str, named: Set[str]) -> Match | None:
    """The longest beginning that is known. Place 0, system and tools alone, never counts."""
    for place in range(len(ask.chain) - 1, 0, -1):
        found = index.chain.get(ask.chain[place])
        if found is None:
            continue
        labels = frozenset(found)
        answered = 0 < ask.answered_at <= place - 1
        candidates = _allowed(index, ask, labels, key, named, answered)
        if not candidates:
            continue
        last = len(ask.chain) - 1
        tips = {each for each in candidates if index.sessions[each].end == place}
        resting = {each for each in tips if not index.sessions[each].running}
        session = _latest(index, resting or tips or candidates)
        if place == session.end == last and session.running:
            # The same ask beside one that still runs is not that one sent again.
            if session.home.turns == 1:
                return None  # two that begin alike; neither has anything cached yet
            own = False
        elif place == session.end:
            own = True  # its next turn, or its last one once more
        elif ask.endpoint is Endpoint.COMPLETIONS:
            # Its last block was not full. Others may share the full ones: longer, or known by id.
            longer = last > session.end or session.home.label in named
            own = place == session.end - 1 and longer
        else:
            # Longer than all it has sent, and with an answer in common: a client that rewrites
            # its own past (old tool output cut, a reminder taken out). A true branch is first
            # seen where it leaves, and is never longer there.
            own = answered and last > session.end and len(candidates) == 1
        return Match(session, "chain", place, own)
    return None


def _by_turns(index: Index, ask: Ask, named: Set[str]) -> Match | None:
    """The same words after another system prompt. Before an answer is among them only an id that
    is known makes them one's own: many begin with the same question."""
    last = len(ask.turns) - 1
    for place in range(last, -1, -1):
        answered = 0 < ask.answered_at <= place
        labels = frozenset(index.turns.get(ask.turns[place], ()))
        candidates = labels if answered else labels & named
        if not answered and (len(candidates) != 1 or not named):
            continue
        if not candidates:
            continue
        tips = {each for each in candidates if index.sessions[each].turns_end == place}
        session = _latest(index, tips or candidates)
        if not answered and not tips:
            continue
        if place == session.turns_end == last and session.running:
            return None  # as in the chain: beside one that runs it is another
        own = place == session.turns_end or (last > session.turns_end and len(candidates) == 1)
        return Match(session, "turns", place + 1, own)
    return None


def _allowed(
    index: Index, ask: Ask, labels: Set[str], key: str, named: Set[str], answered: bool
) -> Set[str]:
    """Whose of these sessions the request may be, by its id."""
    if not key or ask.session is None:
        return labels
    narrowed = labels & named
    if narrowed or answered:
        # An answer in common makes it one conversation, whatever its client calls it now.
        return narrowed or labels
    if named:
        return _NOBODY
    if ask.session.source in PER_REQUEST:
        return labels
    return {each for each in labels if not index.sessions[each].key}


def _latest(index: Index, labels: Set[str]) -> Session:
    """The one seen last; by label where that does not tell."""
    return max(
        (index.sessions[each] for each in labels),
        key=lambda session: (session.home.seen, session.home.label),
    )

"""The usual case, decided at once: all clusters well, and room where the request belongs.

Nothing is decided here that the rules would decide otherwise (a property holds the two together):
it only saves laying out a whole case, which the first byte of nearly every answer would wait for.
"""

from __future__ import annotations

from collections.abc import Sequence

from rigctl.core import lengths
from rigctl.core.ask import Ask
from rigctl.core.clusters import Cluster, Estimate, RoutePolicy, Send, Standing, Why
from rigctl.core.home import Found
from rigctl.core.lengths import LEAST_ROOM

_WELL = frozenset({Standing.UP, Standing.BUSY, Standing.SLOWED})


def usual(
    ask: Ask, guess: Estimate, clusters: Sequence[Cluster], found: Found, policy: RoutePolicy
) -> Send | None:
    """Where a request goes that no cluster failed and for which none is claimed by another; None
    where the rules have to be asked."""
    if not clusters or ask.previous_response or not ask.endpoint.generates or ask.choices > 1:
        return None
    names = []
    for each in clusters:
        if each.standing not in _WELL or each.untried:
            return None
        names.append(each.name)
    if tuple(names) != policy.order:
        return None
    first, home = clusters[0], found.home
    if home is not None and (
        home.cluster != first.name
        or home.run != first.run
        or home.cold
        or (first.pool > 0 and found.newer + home.tokens > first.pool)
    ):
        return None
    room = policy.default_output if ask.output is None else ask.output
    limit = first.limit
    if guess.high + max(room, LEAST_ROOM) > limit or first.in_flight >= first.slots:
        return None
    tokens = lengths.held(guess, ask.output, policy)
    if first.pool > 0 and first.held_tokens + tokens > first.pool:
        return None
    if home is None:
        rule, say = "free", free_words(first)
    else:
        rule, say = "home", cached_words(found, first)
    return Send(first.name, Why(rule, say, found.source, guess.likely, guess.how))


def free_words(cluster: Cluster) -> str:
    """How much room there is."""
    return f"`{cluster.name}` has {cluster.free_slots} of {cluster.slots} slots free"


def cached_words(found: Found, home: Cluster) -> str:
    """What a session has where it is at home."""
    kind = "branches off a session whose" if found.branch else "its"
    return f"{kind} {found.tokens:,} tokens of prefix are on `{home.name}`"

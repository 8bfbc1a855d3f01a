"""Both halves of what the proxy does with a session's home when it sends a request."""

from __future__ import annotations

from rigctl.core.ask import Ask
from rigctl.core.clusters import RoutePolicy
from rigctl.core.home import Home
from rigctl.core.homes import Homes
from rigctl.core.ids import GroupName, Mono


def settle(
    homes: Homes,
    ask: Ask,
    cluster: GroupName,
    run: str,
    now: float,
    tokens: int,
    policy: RoutePolicy,
) -> Home:
    """It was sent to `cluster`, and is remembered: the home of its session."""
    where = homes.find(ask, Mono(now), policy)
    home = homes.claim(ask, where, cluster, run, Mono(now), tokens)
    homes.record(home, ask, tokens)
    return home

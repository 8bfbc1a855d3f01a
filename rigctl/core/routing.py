"""Where a request goes: length, home, the first cluster, overflow, the line. Decides, does nothing.

Every decision says why in one sentence with its figures. The order is the owner's (mission.md):
a session stays where its prefix is cached, because moving it costs a cold prefill; short prompts
belong on the first, unstretched cluster; the others take what only fits there, and overflow.
"""

from __future__ import annotations

from collections.abc import Sequence

from rigctl.core.ask import Ask
from rigctl.core.clusters import Cluster, Count, Decision, Estimate, RoutePolicy, Send, Standing
from rigctl.core.costs import Price, cold_price, expected_wait
from rigctl.core.home import Found
from rigctl.core.ids import GroupName, Mono
from rigctl.core.lengths import Fit
from rigctl.core.refusals import crashed_alone, none_takes_it, response_gone, wait
from rigctl.core.route_case import Case, case_of, how_it_is, trusted
from rigctl.core.usual_route import cached_words, free_words, usual

__all__ = ["by_the_rules", "cold_price", "expected_wait", "route"]


def route(
    ask: Ask,
    estimate: Estimate,
    clusters: Sequence[Cluster],
    found: Found,
    policy: RoutePolicy,
    now: Mono,
    *,
    waited: float = 0.0,
    tried: frozenset[GroupName] = frozenset(),
    queue: int = 0,
    alone_in_prefill: bool = False,
    countable: bool = True,
    claimed: frozenset[GroupName] = frozenset(),
) -> Decision:
    """What to do with a request now. Total and deterministic; asked again when something changes.

    `waited`: seconds since it came. `tried`: clusters that failed it. `queue`: how many wait
    before it; for a new one, all that wait. `alone_in_prefill`: its prompt was the only one being
    read when its server crashed. `countable`: False after a `Count` that could not be answered.
    `claimed`: clusters that one before it in the line waits for (`Line.claimed`).
    """
    if not (tried or claimed or alone_in_prefill):
        at_once = usual(ask, estimate, clusters, found, policy)
        if at_once is not None:
            return at_once
    return by_the_rules(
        case_of(
            ask,
            estimate,
            clusters,
            found,
            policy,
            now,
            waited,
            tried,
            queue,
            alone_in_prefill,
            countable,
            claimed,
        )
    )


def by_the_rules(case: Case) -> Decision:
    """Every rule in its order, with the whole case laid out."""
    ask = case.ask
    if not ask.endpoint.generates:
        return _side(case)
    if ask.previous_response:
        return _pinned(case)
    if case.alone_in_prefill and case.tried:
        refused = crashed_alone(case)
        if refused is not None:
            return refused
    if not case.usable:
        return none_takes_it(case)
    home, given_up = _home(case)
    if home is not None:
        return _at_home(case, home)
    return _new(case, given_up)


# ---- those that need no place --------------------------------------------------------------


def _side(case: Case) -> Decision:
    """Counting and the like takes no slot and no session, and fits anywhere (C47)."""
    takers = trusted([each for each in case.clusters if case.admits(each)])
    if not takers:
        return none_takes_it(case, any_length=True)
    to = takers[0]
    return Send(to.name, case.why("side", f"takes no slot; `{to.name}` answers it"))


def _pinned(case: Case) -> Decision:
    """Only the cluster that gave a response can continue it (C48)."""
    if case.found.pinned is None:
        return response_gone(case, "no cluster that runs now gave it, as far as is known here")
    name, run = case.found.pinned
    cluster = case.named(name)
    if cluster is None:
        return response_gone(case, f"`{name}`, which gave it, is not there any more")
    if cluster.name in case.tried:
        return response_gone(case, f"`{name}`, which gave it, failed while it went on")
    if cluster.run != run:
        return response_gone(case, f"`{name}`, which gave it, was started anew since")
    if cluster.standing is Standing.DOWN or cluster.untried:
        return wait(
            case, (cluster,), "starting", f"{how_it_is(cluster)}; only it knows the response"
        )
    if not cluster.admits:
        return response_gone(case, f"{how_it_is(cluster)}, and only it knows the response")
    full = case.full(cluster, at_home=True)
    if full:
        return wait(case, (cluster,), "queue", f"only `{name}` knows the response, and {full}")
    return Send(cluster.name, case.why("pinned", f"`{name}` gave the response that it continues"))


# ---- home ----------------------------------------------------------------------------------


def _home(case: Case) -> tuple[Cluster | None, str]:
    """The cluster that has its prefix, or why it has no such cluster any more."""
    home = case.found.home
    if home is None:
        return None, ""
    cluster = case.named(home.cluster)
    if cluster is None:
        return None, f"its home `{home.cluster}` is not there any more"
    if cluster.name in case.tried:
        return None, f"its home `{cluster.name}` lost it"
    if not cluster.admits:
        return None, f"its home {how_it_is(cluster)}"
    if case.fit(cluster) is Fit.NO:
        return None, (
            f"it has outgrown its home `{cluster.name}`: {case.size}, "
            f"and {cluster.limit:,} fit there"
        )
    if cluster.run != home.run:
        return None, f"its home `{cluster.name}` was started anew and has nothing of it cached"
    if home.cold:
        return None, f"its cache on `{cluster.name}` is gone: {home.cold}"
    if cluster.pool > 0 and case.found.newer + home.tokens > cluster.pool:
        return None, (
            f"its cache on `{cluster.name}` is most likely gone: other sessions brought "
            f"{case.found.newer:,} tokens to its pool of {cluster.pool:,} since"
        )
    return cluster, ""


def _at_home(case: Case, home: Cluster) -> Decision:
    """There if there is room; else whatever is expected to answer first: a slot there, or a cold
    prefill elsewhere."""
    if case.fit(home) is Fit.NEAR and case.counts:
        return _count(case, home)
    cached = cached_words(case.found, home)
    full = case.full(home, at_home=True)
    if not full:
        return Send(home.name, case.why("home", cached))
    wait_there = _patience(case, home)
    best: tuple[float, Cluster, Price] | None = None
    with_room: tuple[float, Cluster, Price] | None = None
    for each in case.trusted:
        if each is home or (case.fit(each) is Fit.NEAR and case.counts):
            continue
        price = cold_price(case.found.tokens, each, case.policy)
        if not case.full(each):
            if with_room is None or price.seconds < with_room[0]:
                with_room = (price.seconds, each, price)
        else:
            there = expected_wait(each, case.queue, case.policy).seconds + price.seconds
            if best is None or there < best[0]:
                best = (there, each, price)
    if with_room is not None:
        _, other, price = with_room
        figures = (
            f"{full}; waiting there takes {wait_there.say}, "
            f"reading it cold on `{other.name}` {price.say}"
        )
        if wait_there.seconds > price.seconds:
            return Send(other.name, case.why("moved", figures))
        if case.queue >= case.policy.queue_limit:
            return Send(other.name, case.why("moved", f"{figures}; but the line is full"))
        return wait(case, (home,), "queue", f"{cached}; {figures}", wait_there.seconds)
    on: tuple[Cluster, ...] = (home,)
    say = f"{cached}; {full}; a slot there takes {wait_there.say}"
    if best is not None and best[0] < wait_there.seconds:
        on = (home, best[1])
        say += f", on `{best[1].name}` with a cold prefill about {best[0]:,.0f} s"
    return wait(case, on, "queue", say, wait_there.seconds)


def _patience(case: Case, home: Cluster) -> Price:
    """What waiting at home is expected to take. Who has waited longer than that has shown the
    expectation wrong, and expects as much again: so nobody waits much more than twice the price
    of leaving."""
    expected = expected_wait(home, case.queue, case.policy)
    if case.waited > expected.seconds:
        return Price(case.waited, measured=True)
    return expected


# ---- a new session, or one that lost its home ------------------------------------------------


def _new(case: Case, given_up: str) -> Decision:
    """The first cluster while it has room, else overflow, else the line."""
    takers = case.trusted
    for each in takers:
        if case.fit(each) is Fit.NEAR and case.counts:
            return _count(case, each)
        if not case.full(each):
            return _send(case, each, given_up)
    full = "; ".join(case.full(each) for each in takers)
    if case.queue >= case.policy.queue_limit:
        for each in case.usable:
            if each not in takers and not case.full(each):
                return _send(case, each, given_up)
    return wait(case, takers, "queue", f"{given_up}; {full}" if given_up else full)


def _send(case: Case, to: Cluster, given_up: str) -> Send:
    free = free_words(to)
    if case.tried:
        lost = ", ".join(f"`{name}`" for name in sorted(case.tried))
        return Send(to.name, case.why("retry", f"{lost} lost it before a byte; {free}"))
    if given_up:
        home = case.found.home
        stays = home is not None and home.cluster == to.name
        rule = "home" if stays else "moved"
        say = f"{given_up}; {free}" if stays else f"{given_up}; it moves to `{to.name}`: {free}"
        return Send(to.name, case.why(rule, say))
    if not case.short and to is not case.first:
        first = case.first
        limit = 0 if first is None else first.limit
        say = f"{case.size}: more than the {limit:,} of the first cluster; {free}"
        return Send(to.name, case.why("length", say))
    if case.overflows(to):
        first = case.first
        full = "" if first is None else case.full(first)
        return Send(to.name, case.why("overflow", f"{full}; {free}"))
    others = [each for each in case.clusters if each is not to and each.admits]
    if not others and len(case.clusters) > 1:
        off = ", ".join(how_it_is(each) for each in case.clusters if each is not to)
        return Send(to.name, case.why("only", f"{off}; {free}"))
    if to is not case.first and case.first is not None:
        return Send(to.name, case.why("only", f"{how_it_is(case.first)}; {free}"))
    return Send(to.name, case.why("free", free))


def _count(case: Case, at: Cluster) -> Count:
    say = f"{case.size} is too near the {at.limit:,} of `{at.name}` to guess"
    return Count(at.name, case.why("length", say))

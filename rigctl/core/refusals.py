"""What a request gets that nothing can take now: a place in the line, or a refusal with its cause.

Held requests are better than refused ones: an agent burns its retries in seconds, a model loads in
a minute (C41). A refusal never rests on a guess that the engine could settle.
"""

from __future__ import annotations

from math import ceil

from rigctl.core.clusters import Cluster, Count, Decision, Refuse, Wait
from rigctl.core.costs import expected_wait
from rigctl.core.dialect import too_long
from rigctl.core.ids import Mono
from rigctl.core.lengths import LEAST_ROOM
from rigctl.core.reading import known
from rigctl.core.route_case import Case, comes, how_it_is, trusted

LONGEST_RETRY = 60
"""Seconds: older SDKs ignore more, newer ones give up."""
_STARTS_IN = 30.0
"""Seconds until a cluster comes whose time nobody knows."""
_AFTER_LOSS = 5.0


def retry_after(seconds: float) -> int:
    """Whole seconds from 1 to 60 (C41)."""
    return max(1, min(LONGEST_RETRY, ceil(seconds)))


def wait(
    case: Case, on: tuple[Cluster, ...], rule: str, say: str, expected: float | None = None
) -> Wait | Refuse:
    """A place in the line, if the line has one."""
    until: Mono | None = None
    if rule == "starting":
        until = Mono(case.now + case.policy.hold - case.waited)
        if expected is None:
            expected = min(max(0.0, known(each.eta, _STARTS_IN)) for each in on)
        if case.waited >= case.policy.hold:
            say += f"; held for {case.waited:,.0f} s, longer than the {case.policy.hold:,.0f} s set"
            return Refuse(503, "cluster_starting", retry_after(expected), case.why("starting", say))
    if expected is None:
        share = max(1, len(on))
        expected = min(expected_wait(each, case.queue // share, case.policy).seconds for each in on)
    if case.queue >= case.policy.queue_limit:
        say = f"{case.queue} requests wait already, as many as may; {say}"
        return Refuse(503, "queue_full", retry_after(expected), case.why("full", say))
    # Where it would only overflow it has no claim: those who fit nowhere else go before it.
    claims = tuple(each.name for each in on if rule == "queue" and not case.overflows(each))
    names = tuple(each.name for each in on)
    return Wait(names, expected, until, case.why(rule, say), claims)


def none_takes_it(case: Case, *, any_length: bool = False) -> Decision:
    """No cluster that is long enough may be sent to. `any_length`: all are long enough."""
    able = case.clusters if any_length else case.able
    coming = tuple(each for each in able if comes(each) and each.name not in case.tried)
    if not any_length and not coming:
        counted = _count_first(case)
        if counted is not None:
            return counted
    if coming:
        return wait(case, coming, "starting", "; ".join(how_it_is(each) for each in coming))
    if not able and case.clusters:
        return _too_long(case)
    lost = [each for each in able if each.name in case.tried]
    if lost:
        names = ", ".join(f"`{each.name}`" for each in lost)
        say = f"{names} lost it before a byte of answer, and no other cluster can take it"
        return Refuse(503, "cluster_lost", retry_after(_AFTER_LOSS), case.why("retry", say))
    working = [each for each in case.clusters if case.admits(each)]
    if working:
        return _only_off(case, able, working)
    if not case.clusters:
        say = "no cluster is configured; add a [[group]] to rig.toml"
    else:
        causes = "; ".join(how_it_is(each) for each in case.clusters)
        say = f"no cluster takes requests: {causes}; `rigctl status` shows them"
    return Refuse(503, "no_cluster", LONGEST_RETRY, case.why("off", say))


def _count_first(case: Case) -> Count | None:
    """A refusal for length is not made on a guess: the largest that works counts."""
    if not case.counts:
        return None
    takers = [
        each
        for each in trusted([each for each in case.clusters if case.admits(each)])
        if case.estimate.low + max(case.output, LEAST_ROOM) <= each.limit
    ]
    if not takers:
        return None
    at = max(takers, key=lambda each: each.limit)
    say = f"{case.size} would be refused; `{at.name}` counts before that"
    return Count(at.name, case.why("length", say))


def _too_long(case: Case) -> Refuse:
    """In the words agents compact on (C27)."""
    limit = max(each.limit for each in case.clusters)
    return _length_refusal(case, limit, "")


def _length_refusal(case: Case, limit: int, cause: str) -> Refuse:
    say = too_long(case.ask.dialect, case.estimate.likely, limit, case.output) + cause
    return Refuse(
        400,
        "context_length_exceeded",
        None,
        case.why("too-long", say),
        limit=limit,
        needed=case.needed,
    )


def _only_off(case: Case, able: tuple[Cluster, ...], working: list[Cluster]) -> Refuse:
    """Only a cluster that is off could take it (C28)."""
    limit = max(each.limit for each in working)
    causes = "; ".join(how_it_is(each) for each in able)
    if case.policy.off_answer == 400:
        return _length_refusal(case, limit, f" ({causes}.)")
    say = f"{case.size} need more than the {limit} tokens that work now; {causes}"
    return Refuse(
        503,
        "cluster_off",
        LONGEST_RETRY,
        case.why("off", say),
        limit=limit,
        needed=case.needed,
    )


def crashed_alone(case: Case) -> Refuse | None:
    """A prompt that was read alone when its server crashed may be why it crashed: the last
    healthy one is not risked for it."""
    healthy = [each for each in case.clusters if case.admits(each)]
    if len(healthy) != 1:
        return None
    lost = ", ".join(f"`{name}`" for name in sorted(case.tried))
    say = (
        f"its prompt was the only one being read when {lost} crashed; it is not sent to "
        f"`{healthy[0].name}`, the last healthy cluster"
    )
    return Refuse(503, "engine_crashed", None, case.why("crashed", say))


def response_gone(case: Case, why: str) -> Refuse:
    """A continued response whose cluster is gone is never sent to another (C48)."""
    say = f"The previous response cannot be continued: {why}. Send the whole conversation again."
    return Refuse(400, "previous_response_not_found", None, case.why("pinned", say))

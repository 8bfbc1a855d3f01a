"""Routing over any state of the rig: total, deterministic, and never into a wall."""

from __future__ import annotations

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support_routing import LONG, STANDARD, talk

from rigctl.core import lengths
from rigctl.core.ask import Endpoint
from rigctl.core.clusters import (
    Cluster,
    Count,
    Decision,
    Estimate,
    Refuse,
    RoutePolicy,
    Send,
    Standing,
    Wait,
)
from rigctl.core.home import Found, Home
from rigctl.core.ids import GroupName, Mono
from rigctl.core.lengths import Fit
from rigctl.core.reading import NOT_YET
from rigctl.core.routing import route

THIRD = GroupName("third")
NOW = Mono(5_000.0)

readings = st.just(NOT_YET) | st.floats(0.0, 1e6)
tokens = st.sampled_from([0, 10, 5_000, 100_000, 261_000, 262_144, 300_000, 523_000, 700_000])


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, ...]:
    """None to three clusters in whatever state, in whatever order."""
    names = draw(st.permutations([STANDARD, LONG, THIRD]))
    return tuple(
        Cluster(
            name,
            draw(st.sampled_from(list(Standing))),
            eta=draw(readings),
            window=draw(st.sampled_from([0, 8_192, 262_144, 524_288])),
            pool=draw(st.sampled_from([0, 4_096, 400_000, 800_000])),
            slots=draw(st.integers(0, 6)),
            in_flight=draw(st.integers(0, 8)),
            held_tokens=draw(st.sampled_from([0, 50_000, 390_000, 900_000])),
            prefill_left=draw(readings),
            prefill_rate=draw(readings),
            answer_seconds=draw(readings),
            run=draw(st.sampled_from(["1", "2"])),
            untried=draw(st.sampled_from([False, False, False, True])),
        )
        for name in names[: draw(st.integers(0, 3))]
    )


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, likely, high = sorted(draw(st.lists(tokens, min_size=3, max_size=3)))
    return (
        Estimate(low, high, likely, "learnt")
        if draw(st.booleans())
        else Estimate(likely, likely, likely, "counted")
    )


@st.composite
def founds(draw: st.DrawFn) -> Found:
    if draw(st.booleans()):
        return Found()
    name = draw(st.sampled_from([STANDARD, LONG, THIRD]))
    home = Home("0a1b2c3d", name, draw(st.sampled_from(["1", "2"])), draw(tokens), Mono(0), Mono(9))
    return Found(
        home,
        "chain",
        branch=draw(st.booleans()),
        tokens=draw(tokens),
        newer=draw(tokens),
        pinned=draw(st.none() | st.tuples(st.just(name), st.sampled_from(["1", "2"]))),
    )


policies = st.builds(
    RoutePolicy,
    order=st.sampled_from([(), (STANDARD, LONG), (LONG,), (GroupName("gone"), THIRD)]),
    reserve_slots=st.integers(0, 7),
    reserve_share=st.floats(0, 1),
    queue_limit=st.integers(0, 3),
    hold=st.floats(0, 200),
    off_answer=st.sampled_from([503, 400]),
)
asks = st.builds(
    lambda endpoint, output, previous, choices: talk(
        "q", endpoint=endpoint, output=output, previous=previous
    )._replace(choices=choices),
    st.sampled_from([Endpoint.CHAT, Endpoint.CHAT, Endpoint.RESPONSES, Endpoint.COUNT_TOKENS]),
    st.none() | st.integers(0, 40_000),
    st.sampled_from(["", "", "", "resp_1"]),
    st.integers(0, 4),
)
situations = st.fixed_dictionaries(
    {
        "ask": asks,
        "estimate": estimates(),
        "clusters": clusters(),
        "found": founds(),
        "policy": policies,
        "waited": st.floats(0, 500),
        "tried": st.frozensets(st.sampled_from([STANDARD, LONG]), max_size=2),
        "queue": st.integers(0, 4),
        "alone_in_prefill": st.booleans(),
        "countable": st.booleans(),
    }
)


def _decide(situation: dict[str, object]) -> Decision:
    return route(now=NOW, **situation)  # type: ignore[arg-type]


@seed(20261130)
@settings(max_examples=600, deadline=None)
@given(situations)
def test_total_deterministic_and_never_into_a_wall(situation: dict[str, object]) -> None:
    """Sent only where it is admitted, fits, has a slot and has not failed; every answer in form."""
    decision = _decide(situation)
    assert decision == _decide(situation)
    ask, policy = situation["ask"], situation["policy"]
    by_name = {each.name: each for each in situation["clusters"]}  # type: ignore[attr-defined]
    assert decision.why.say
    assert decision.why.rule
    match decision:
        case Send(to=to):
            to_it = by_name[to]
            assert to_it.admits
            assert to not in situation["tried"]  # type: ignore[operator]
            if ask.endpoint.generates:  # type: ignore[attr-defined]
                assert to_it.free_slots > 0
            if ask.endpoint.generates and not ask.previous_response:  # type: ignore[attr-defined]
                output = lengths.answer_room(ask.output, policy)  # type: ignore[attr-defined,arg-type]
                fit = lengths.fits(situation["estimate"], output, to_it)  # type: ignore[arg-type]
                if situation["countable"]:
                    assert fit in (Fit.YES, Fit.LIKELY)
                elif fit is Fit.NO:
                    low = situation["estimate"].low  # type: ignore[attr-defined]
                    assert low + output <= to_it.limit
        case Wait(on=on, expected=expected):
            assert on
            assert all(name in by_name for name in on)
            assert not set(on) & situation["tried"]  # type: ignore[operator]
            assert expected >= 0
            assert situation["queue"] < policy.queue_limit  # type: ignore[operator,attr-defined]
        case Count(at=at):
            assert situation["countable"]
            assert by_name[at].admits
            estimate = situation["estimate"]
            assert estimate.low < estimate.high  # type: ignore[attr-defined]
        case Refuse(status=status, retry_after=retry):
            assert status in (400, 503)
            assert retry is None or (isinstance(retry, int) and 1 <= retry <= 60)
            assert status != 503 or retry is not None or decision.code == "engine_crashed"


@seed(20261130)
@settings(max_examples=600, deadline=None)
@given(situations)
def test_nobody_is_refused_while_a_cluster_that_fits_has_room(
    situation: dict[str, object],
) -> None:
    """Free slot and pool beyond every reserve; a pinned response and a crasher apart."""
    decision = _decide(situation)
    ask, policy = situation["ask"], situation["policy"]
    if not isinstance(decision, Refuse) or ask.previous_response:  # type: ignore[attr-defined]
        return
    if decision.code == "engine_crashed":
        return
    output = lengths.answer_room(ask.output, policy)  # type: ignore[attr-defined,arg-type]
    estimate = situation["estimate"]
    need = lengths.held(estimate, ask.output, policy)  # type: ignore[arg-type,attr-defined]
    for each in situation["clusters"]:  # type: ignore[attr-defined]
        if not each.admits or each.name in situation["tried"]:  # type: ignore[operator]
            continue
        if lengths.fits(estimate, output, each) not in (Fit.YES, Fit.LIKELY):  # type: ignore[arg-type]
            continue
        wanted = min(max(1, ask.choices), max(1, each.slots))  # type: ignore[attr-defined]
        room = each.in_flight + wanted + policy.reserve_slots <= each.slots  # type: ignore[attr-defined]
        share = 1.0 - policy.reserve_share  # type: ignore[attr-defined]
        pool = each.pool == 0 or each.held_tokens + need <= int(each.pool * share)
        assert not (room and pool), (decision, each)


@seed(20261130)
@settings(max_examples=300, deadline=None)
@given(situations)
def test_a_refusal_for_length_is_proven(situation: dict[str, object]) -> None:
    """While it can be counted no 400 for length rests on a guess that a working engine settles."""
    decision = _decide(situation)
    if not isinstance(decision, Refuse) or decision.code != "context_length_exceeded":
        return
    estimate, ask = situation["estimate"], situation["ask"]
    output = lengths.answer_room(ask.output, situation["policy"])  # type: ignore[attr-defined,arg-type]
    if not situation["countable"]:
        return
    for each in situation["clusters"]:  # type: ignore[attr-defined]
        if each.admits and each.name not in situation["tried"]:  # type: ignore[operator]
            fit = lengths.fits(estimate._replace(likely=estimate.low), output, each)  # type: ignore[type-var,arg-type]
            assert lengths.exact(estimate) or fit is Fit.NO  # type: ignore[arg-type]

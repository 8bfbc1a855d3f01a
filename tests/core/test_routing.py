"""Where a request goes, rule by rule, and why: the owner's order, length, the line, losses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_routing import (
    LONG,
    NOW,
    POLICY,
    STANDARD,
    Rig,
    exactly,
    go,
    home_on,
    long,
    refused_with,
    sent,
    standard,
    talk,
)

from rigctl.core import lengths
from rigctl.core.ask import Endpoint
from rigctl.core.clusters import Count, Estimate, Send, Standing, Wait
from rigctl.core.home import Found
from rigctl.core.ids import GroupName
from rigctl.core.reading import NOT_YET
from rigctl.core.routing import route

# ---- the order -----------------------------------------------------------------------------


def test_ten_short_requests_at_once_six_and_four() -> None:
    """The owner's measurement: none waits, one slot of `long` stays free for what only fits it."""
    rig = Rig()
    rules = []
    for n in range(11):
        decision, _ = rig.ask(talk(f"q{n}"))
        rules.append(
            (decision.to, decision.why.rule) if isinstance(decision, Send) else (decision, "")
        )
    assert rules[:10] == [(STANDARD, "free")] * 6 + [(LONG, "overflow")] * 4
    assert rules[10] == (LONG, "overflow")
    decision, _ = rig.ask(talk("q11"))
    assert isinstance(decision, Wait)
    assert decision.on == (STANDARD, LONG)
    assert sent(go(*rig.clusters.values(), tokens=300_000), LONG, "length")


def test_a_short_request_prefers_the_first_cluster_of_the_policy_not_of_the_list() -> None:
    """The order is the owner's, however the clusters come."""
    sent(go(long(), standard()), STANDARD, "free")
    sent(go(policy=replace(POLICY, order=(LONG, STANDARD))), LONG, "free")


@pytest.mark.parametrize(
    ("changes", "overflows"),
    [
        ({"in_flight": 4}, True),
        ({"in_flight": 5}, False),
        ({"in_flight": 1, "held_tokens": 310_000}, True),
        ({"in_flight": 1, "held_tokens": 325_000}, False),
    ],
)
def test_overflow_leaves_the_reserve(changes: dict[str, int], overflows: bool) -> None:
    """Slots and share of the pool, each on its own."""
    full = standard(in_flight=6)
    decision = go(full, long(**changes))
    if overflows:
        assert "6 slots of `standard` are taken" in sent(decision, LONG, "overflow")
    else:
        assert isinstance(decision, Wait)
    # What only fits there may use the reserve.
    assert isinstance(go(full, long(in_flight=5), tokens=300_000), Send)


def test_with_the_first_cluster_gone_everything_short_goes_to_the_other() -> None:
    """Then it is no overflow and has no reserve."""
    for gone in (Standing.OFF, Standing.DOWN, Standing.LENT, Standing.STARTING, Standing.DRAINING):
        decision = go(standard(standing=gone), long(in_flight=5))
        assert gone.value in sent(decision, LONG, "only")
    sent(go(standard(), long(standing=Standing.OFF)), STANDARD, "only")


def test_the_pool_is_a_ceiling_of_its_own() -> None:
    """Four sessions of 200,000 fill the pool of `standard` with two slots free."""
    packed = standard(in_flight=4, held_tokens=790_000)
    sent(go(packed, long(), tokens=100_000), LONG, "overflow")
    assert isinstance(go(packed, long(standing=Standing.OFF), tokens=100_000), Wait)
    alone = standard(pool=100_000, held_tokens=99_000)
    assert isinstance(go(alone, tokens=50_000), Send)


def test_a_large_request_is_not_starved_by_small_ones() -> None:
    """It waits for the pool with slots free; those behind it do not slip in, but may go elsewhere.
    One that would only overflow claims nothing of those who fit nowhere else."""
    packed = standard(in_flight=4, held_tokens=700_000)
    off = long(standing=Standing.OFF)
    large = go(packed, off, tokens=200_000)
    assert isinstance(large, Wait)
    assert large.claims == (STANDARD,)
    claimed = frozenset(large.claims)
    assert isinstance(go(packed, off, claimed=claimed), Wait)
    sent(go(packed, long(), claimed=claimed), LONG, "overflow")
    short = go(standard(in_flight=6), long(in_flight=5))
    assert isinstance(short, Wait)
    assert short.claims == (STANDARD,)


def test_several_choices_take_several_slots() -> None:
    """`n: 3` runs as three requests in the engine."""
    ask = talk("q")._replace(choices=3)
    sent(go(standard(in_flight=3), long(), ask=ask), STANDARD, "free")
    sent(go(standard(in_flight=4), long(), ask=ask), LONG, "overflow")
    many = talk("q")._replace(choices=50)
    sent(go(ask=many), STANDARD, "free")


def test_suspect_takes_new_sessions_only_when_nothing_else_can() -> None:
    """Not even when the sound one is full; but rather than nobody."""
    shaky = standard(standing=Standing.SUSPECT)
    assert isinstance(go(shaky, long()), Send)
    sent(go(shaky, long()), LONG, "only")
    waits = go(shaky, long(in_flight=6))
    assert isinstance(waits, Wait)
    assert waits.on == (LONG,)
    assert isinstance(go(shaky, long(standing=Standing.OFF)), Send)
    assert isinstance(go(shaky, long(in_flight=6), queue=64), Send)


@pytest.mark.case("C91")
def test_after_a_suspend_nothing_is_sent_before_a_look_has_passed() -> None:
    """Held for that moment, not refused; a suspicion of another kind lets work through."""
    asleep = {"standing": Standing.SUSPECT, "say": "the machine slept", "untried": True}
    held = go(standard(**asleep), long(**asleep), found=home_on())
    assert isinstance(held, Wait)
    assert "slept" in held.why.say
    sent(go(standard(**asleep), long()), LONG, "only")
    assert isinstance(go(standard(standing=Standing.SUSPECT), long(**asleep)), Send)


def test_the_line_promises_the_shortest_wait() -> None:
    """Both full: whichever is expected to have a slot first."""
    slow, fast = standard(in_flight=6, answer_seconds=600.0), long(in_flight=6, answer_seconds=12.0)
    waits = go(slow, fast)
    assert isinstance(waits, Wait)
    assert (waits.on, waits.expected) == ((STANDARD, LONG), 2.0)


# ---- length --------------------------------------------------------------------------------


@pytest.mark.case("C27")
def test_the_answer_counts_too() -> None:
    """261,936 + 8,192 is more than 262,144, although the prompt alone fits."""
    ask = talk("q")._replace(output=8_192)
    assert "8,192 of answer" in sent(go(tokens=261_936, ask=ask), LONG, "length")
    sent(go(tokens=261_936, ask=ask._replace(output=208)), STANDARD, "free")
    sent(go(tokens=261_936, ask=ask._replace(output=209)), LONG, "length")
    sent(go(tokens=258_048, ask=ask._replace(output=None)), STANDARD, "free")
    sent(go(tokens=258_049, ask=ask._replace(output=None)), LONG, "length")


@pytest.mark.case("C27")
def test_too_long_for_all_is_a_400_that_agents_compact_on() -> None:
    """With the largest limit, in OpenAI's words, and no invitation to try again."""
    refused = refused_with(go(tokens=600_000), 400, "context_length_exceeded")
    assert "maximum context length is 524288 tokens" in refused.why.say
    assert (refused.limit, refused.needed, refused.retry_after) == (524_288, 601_000, None)
    small = long(pool=400_000)
    assert refused_with(
        go(standard(), small, tokens=450_000), 400, "context_length_exceeded"
    ).limit == (400_000)


def test_near_a_limit_the_engine_counts_and_only_where_it_decides() -> None:
    """Asked at the cluster in question; not asked when the home is `long` anyway."""
    near = Estimate(90_000, 800_000, 255_000, "learnt")
    counted = go(guess=near)
    assert isinstance(counted, Count)
    assert counted.at == STANDARD
    sent(go(guess=near, found=home_on(LONG, "l1")), LONG, "home")
    at_home = go(guess=near, found=home_on())
    assert isinstance(at_home, Count)
    sent(go(guess=near, countable=False), STANDARD, "free")
    over = Estimate(90_000, 800_000, 265_000, "learnt")
    sent(go(guess=over, countable=False), LONG, "length")


def test_no_refusal_for_length_rests_on_a_guess() -> None:
    """It is counted first; where that cannot be, the engine judges itself."""
    guess = Estimate(90_000, 2_000_000, 700_000, "bytes")
    counted = go(guess=guess)
    assert isinstance(counted, Count)
    assert counted.at == LONG
    sent(go(guess=guess, countable=False), LONG, "length")
    alone = go(standard(), long(standing=Standing.OFF), guess=guess._replace(likely=400_000))
    assert isinstance(alone, Count)
    assert alone.at == STANDARD
    proven = guess._replace(low=600_000)
    refused_with(go(guess=proven), 400, "context_length_exceeded")


@pytest.mark.case("C28")
@pytest.mark.parametrize("state", [Standing.OFF, Standing.LENT, Standing.DRAINING])
def test_too_long_only_because_long_is_off(state: Standing) -> None:
    """503 with the cause and the limit that works now, the same each time; or 400 by choice."""
    clusters = (standard(), long(standing=state, say="lent to “training”"))
    refused = refused_with(go(*clusters, tokens=300_000), 503, "cluster_off")
    assert refused == go(*clusters, tokens=300_000)
    assert "lent to “training”" in refused.why.say
    assert "262144" in refused.why.say
    assert refused.retry_after is not None
    as_400 = go(*clusters, tokens=300_000, policy=replace(POLICY, off_answer=400))
    refused = refused_with(as_400, 400, "context_length_exceeded")
    assert refused.limit == 262_144
    assert "lent to “training”" in refused.why.say
    sent(go(*clusters), STANDARD, "only")


@pytest.mark.case("C28", "C41")
def test_a_cluster_that_starts_is_waited_for_and_not_for_ever() -> None:
    """Held up to the limit, then 503 with whole seconds up to 60; also with off_answer 400."""
    starting = long(standing=Standing.STARTING, say="loads weights", eta=90.0)
    for policy in (POLICY, replace(POLICY, off_answer=400)):
        held = go(standard(), starting, tokens=300_000, policy=policy, waited=20.0)
        assert isinstance(held, Wait)
        assert (held.on, held.expected, held.until) == ((LONG,), 90.0, NOW + 100.0)
        late = go(standard(), starting, tokens=300_000, policy=policy, waited=120.0)
        refused = refused_with(late, 503, "cluster_starting")
        assert refused.retry_after == 60
        assert "loads weights" in refused.why.say


@pytest.mark.case("C41")
@pytest.mark.parametrize("eta", [0.0, 0.2, 70.0, 4_000.0, NOT_YET])
def test_all_starting_holds_then_says_when(eta: object) -> None:
    """Whatever is known of the time: a wait, then 1 to 60 whole seconds."""
    clusters = [
        each(standing=Standing.STARTING, eta=eta, window=0, pool=0) for each in (standard, long)
    ]
    assert isinstance(go(*clusters), Wait)
    refused = refused_with(go(*clusters, waited=500.0), 503, "cluster_starting")
    assert isinstance(refused.retry_after, int)
    full = refused_with(go(*clusters, queue=64), 503, "queue_full")
    assert isinstance(full.retry_after, int)


def test_a_restart_is_waited_for_and_a_stop_is_not() -> None:
    """A drain that tells when the cluster comes back is a restart."""
    gone = standard(standing=Standing.OFF)
    back = long(standing=Standing.DRAINING, eta=200.0)
    assert isinstance(go(gone, back), Wait)
    refused_with(go(gone, long(standing=Standing.DRAINING)), 503, "no_cluster")
    refused_with(route(talk("q"), exactly(9), (), Found(), POLICY, NOW), 503, "no_cluster")


# ---- the line ------------------------------------------------------------------------------


def test_a_full_line_refuses_with_seconds_from_the_expected_wait() -> None:
    """503 queue_full; the place in line decides how long is promised."""
    busy = {"in_flight": 6, "answer_seconds": 60.0}
    waits = go(standard(**busy), long(**busy), queue=63)
    assert isinstance(waits, Wait)
    assert waits.expected > 0
    refused = refused_with(go(standard(**busy), long(**busy), queue=64), 503, "queue_full")
    assert refused.retry_after == 60
    brief = {"in_flight": 6, "answer_seconds": 0.1}
    assert refused_with(go(standard(**brief), long(**brief), queue=64), 503, "queue_full") == (
        go(standard(**brief), long(**brief), queue=64)
    )


# ---- after a loss --------------------------------------------------------------------------


def test_a_lost_request_goes_to_the_other_once() -> None:
    """Once per cluster, then an honest 503."""
    tried = frozenset({STANDARD})
    sent(go(tried=tried), LONG, "retry")
    sent(go(tried=tried, found=home_on()), LONG, "retry")
    refused_with(go(tried=frozenset({STANDARD, LONG})), 503, "cluster_lost")
    starting = long(standing=Standing.STARTING, eta=20.0)
    assert isinstance(go(standard(), starting, tried=tried), Wait)


def test_a_prompt_that_was_read_alone_is_not_sent_to_the_last_healthy_cluster() -> None:
    """It may be why the other crashed. With two healthy ones left it may go on."""
    tried = frozenset({STANDARD})
    down = standard(standing=Standing.DOWN)
    refused = refused_with(
        go(down, long(), tried=tried, alone_in_prefill=True), 503, "engine_crashed"
    )
    assert refused.retry_after is None
    assert "last healthy" in refused.why.say
    third = long()._replace(name=GroupName("third"))
    sent(go(down, long(), third, tried=tried, alone_in_prefill=True), LONG, "retry")
    sent(go(alone_in_prefill=True), STANDARD, "free")


# ---- pinned and side -----------------------------------------------------------------------


@pytest.mark.case("C48")
def test_a_continued_response_goes_to_its_cluster_or_nowhere() -> None:
    """Waits for a slot there; gone is a 400 with its reason, never another cluster."""
    ask = talk("go on", previous="resp_1", endpoint=Endpoint.RESPONSES)
    pinned = Found(pinned=(LONG, "l1"))
    sent(go(ask=ask, found=pinned), LONG, "pinned")
    waits = go(standard(), long(in_flight=6), ask=ask, found=pinned)
    assert isinstance(waits, Wait)
    assert waits.on == (LONG,)
    for clusters, said in (
        ((standard(), long(run="l2")), "anew"),
        ((standard(), long(standing=Standing.LENT, say="lent to x")), "lent to x"),
        ((standard(),), "not there"),
    ):
        refused = refused_with(
            go(*clusters, ask=ask, found=pinned), 400, "previous_response_not_found"
        )
        assert said in refused.why.say
    refused_with(go(ask=ask), 400, "previous_response_not_found")
    refused_with(
        go(ask=ask, found=pinned, tried=frozenset({LONG})), 400, "previous_response_not_found"
    )


@pytest.mark.case("C47")
@pytest.mark.parametrize("endpoint", [each for each in Endpoint if not each.generates])
def test_side_calls_take_no_slot_and_fit_anywhere(endpoint: Endpoint) -> None:
    """However full or long; only a cluster that admits none is passed over."""
    ask = talk("q", endpoint=endpoint)
    sent(go(standard(in_flight=6), long(), tokens=900_000, ask=ask, queue=99), STANDARD, "side")
    sent(go(standard(standing=Standing.OFF), long(), ask=ask), LONG, "side")
    sent(go(standard(standing=Standing.SUSPECT), long(), ask=ask), LONG, "side")
    off = (standard(standing=Standing.OFF), long(standing=Standing.OFF))
    refused_with(go(*off, ask=ask), 503, "no_cluster")


def test_every_decision_carries_what_the_headers_show() -> None:
    """Source, tokens and how they were estimated."""
    guess = lengths.estimate(talk("q").size, 3.5, POLICY)
    why = go(guess=guess, found=home_on(LONG, "l1")).why
    assert (why.source, why.tokens, why.how) == ("chain", guess.likely, "learnt")

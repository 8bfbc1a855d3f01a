"""What is decided at once is what the rules decide: word for word, in every situation."""

from __future__ import annotations

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support_routing import LONG, STANDARD, talk

from rigctl.core.clusters import Cluster, Estimate, RoutePolicy, Standing
from rigctl.core.home import Found, Home
from rigctl.core.ids import Mono
from rigctl.core.route_case import case_of
from rigctl.core.routing import by_the_rules
from rigctl.core.usual_route import usual

NOW = Mono(5_000.0)
RARELY = st.sampled_from([False] * 7 + [True])


def cluster(draw: st.DrawFn, name: str) -> Cluster:
    odd = draw(RARELY)
    return Cluster(
        STANDARD if name == "standard" else LONG,
        draw(st.sampled_from(list(Standing) if odd else [Standing.UP, Standing.BUSY])),
        window=draw(st.sampled_from([0, 8_192, 262_144])),
        pool=draw(st.sampled_from([0, 4_096, 400_000])),
        slots=draw(st.integers(0, 6)),
        in_flight=draw(st.integers(0, 3)),
        held_tokens=draw(st.sampled_from([0, 0, 3_000, 390_000])),
        run=draw(st.sampled_from(["1", "1", "2"])),
        untried=draw(RARELY),
    )


@st.composite
def situations(
    draw: st.DrawFn,
) -> tuple[Estimate, tuple[Cluster, ...], Found, RoutePolicy, int | None, int]:
    odd = draw(RARELY)
    low, likely, high = sorted(
        draw(
            st.lists(
                st.sampled_from([0, 10, 900, 5_000, 7_000] + [300_000] * odd),
                min_size=3,
                max_size=3,
            )
        )
    )
    both = tuple(cluster(draw, name) for name in draw(st.permutations(["standard", "long"])))
    kept = both[: draw(st.sampled_from([2, 2, 2, 1, 0]))]
    found = Found()
    if draw(st.booleans()):
        home = Home(
            "0a1b2c3d",
            draw(st.sampled_from([each.name for each in (*kept, *kept[:1]) or both])),
            draw(st.sampled_from(["1", "1", "2"])),
            draw(st.sampled_from([10, 5_000])),
            Mono(0),
            Mono(9),
            cold=draw(st.sampled_from(["", "", "", "it was started anew"])),
        )
        found = Found(
            home,
            "chain",
            branch=draw(st.booleans()),
            tokens=draw(st.integers(0, 9_000)),
            newer=draw(st.sampled_from([0, 5_000, 399_000])),
        )
    policy = RoutePolicy(
        order=draw(
            st.sampled_from([tuple(each.name for each in kept)] * 4 + [(STANDARD, LONG), ()])
        ),
        reserve_slots=draw(st.integers(0, 3)),
        reserve_share=draw(st.floats(0, 1)),
    )
    output = draw(st.none() | st.integers(-5, 9_000 if odd else 900))
    guess = Estimate(low, high, likely, draw(st.sampled_from(["bytes", "counted"])))
    return guess, kept, found, policy, output, draw(st.integers(0, 2))


decided = {"at once": 0, "at home": 0}


@seed(20261130)
@settings(max_examples=3_000, deadline=None)
@given(situations())
def test_at_once_and_by_the_rules_are_one_decision(
    situation: tuple[Estimate, tuple[Cluster, ...], Found, RoutePolicy, int | None, int],
) -> None:
    """The sentence and its figures too."""
    guess, clusters, found, policy, output, choices = situation
    ask = talk("q", output=output)._replace(choices=choices)
    at_once = usual(ask, guess, clusters, found, policy)
    if at_once is None:
        return
    decided["at home" if at_once.why.rule == "home" else "at once"] += 1
    assert at_once == by_the_rules(
        case_of(
            ask,
            guess,
            clusters,
            found,
            policy,
            NOW,
            waited=0.0,
            tried=frozenset(),
            queue=0,
            alone_in_prefill=False,
            countable=True,
            claimed=frozenset(),
        )
    )


def test_both_kinds_were_decided() -> None:
    """Else the property above held for nothing."""
    assert min(decided.values()) > 20, decided

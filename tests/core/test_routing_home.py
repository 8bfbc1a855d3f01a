"""A session stays where its prefix is cached, until waiting there is dearer than leaving."""

from __future__ import annotations

import pytest
from support_routing import (
    LONG,
    STANDARD,
    go,
    home_on,
    long,
    sent,
    standard,
)

from rigctl.core.clusters import Cluster, Standing, Wait

# ---- home ----------------------------------------------------------------------------------


def test_a_known_session_goes_home_and_not_to_the_free_one() -> None:
    """Also to `long`, also on a suspect cluster: moving costs a cold prefill."""
    sent(go(found=home_on(LONG, "l1")), LONG, "home")
    sent(go(standard(in_flight=5), found=home_on()), STANDARD, "home")
    sent(go(standard(standing=Standing.SUSPECT), long(), found=home_on()), STANDARD, "home")


def test_home_full_waits_until_that_is_dearer_than_a_cold_prefill_elsewhere() -> None:
    """Both numbers are said, measured and assumed told apart."""
    full = standard(in_flight=6, answer_seconds=30.0)
    other = long(prefill_rate=1_000.0)
    waits = go(full, other, found=home_on(tokens=100_000))
    assert isinstance(waits, Wait)
    assert waits.on == (STANDARD,)
    assert "about 5 s" in waits.why.say
    assert "about 100 s" in waits.why.say
    assert "assumed" not in waits.why.say
    slow = standard(in_flight=6, answer_seconds=900.0)
    say = sent(go(slow, long(), found=home_on(tokens=100_000)), LONG, "moved")
    assert "about 150 s," in say
    assert "about 100 s (assumed)" in say
    reading = standard(in_flight=6, answer_seconds=30.0, prefill_left=136_000.0, prefill_rate=1e3)
    sent(go(reading, other, found=home_on(tokens=100_000)), LONG, "moved")


def test_who_has_waited_longer_than_expected_expects_as_much_again() -> None:
    """So a wrong expectation costs at most about twice the price of leaving."""
    full = standard(in_flight=6, answer_seconds=30.0)
    found = home_on(tokens=100_000)
    assert isinstance(go(full, long(prefill_rate=1_000.0), found=found, waited=99.0), Wait)
    sent(go(full, long(prefill_rate=1_000.0), found=found, waited=101.0), LONG, "moved")


def test_a_full_line_moves_a_session_rather_than_refusing_it() -> None:
    """A cold prefill is better than a 503."""
    full = standard(in_flight=6, answer_seconds=6.0)
    sent(go(full, long(), found=home_on(), queue=64), LONG, "moved")


@pytest.mark.parametrize(
    ("home", "said"),
    [
        (standard(standing=Standing.OFF, say="stopped by z"), "stopped by z"),
        (standard(standing=Standing.DRAINING), "is draining"),
        (standard(standing=Standing.LENT, say="lent to x"), "lent to x"),
        (standard(standing=Standing.DOWN), "is down"),
        (standard(window=50_000), "outgrown"),
    ],
)
def test_a_home_that_cannot_take_it_is_given_up_and_that_is_said(home: Cluster, said: str) -> None:
    """Off, draining, lent, down or outgrown."""
    decision = go(home, long(), tokens=100_000, found=home_on())
    assert said in sent(decision, LONG, "moved")


def test_a_home_with_an_empty_cache_is_no_reason_to_stay() -> None:
    """Started anew, said to be cold, or most likely evicted: a short session goes to `standard`."""
    for found in (
        home_on(LONG, "an earlier run"),
        home_on(LONG, "l1", cold="restarted"),
        home_on(LONG, "l1")._replace(newer=600_000),
    ):
        say = sent(go(found=found), STANDARD, "moved")
        assert "gone" in say or "anew" in say
    sent(go(found=home_on(LONG, "l1")._replace(newer=500_000)), LONG, "home")
    sent(go(found=home_on(STANDARD, "an earlier run")), STANDARD, "home")
    sent(go(found=home_on(LONG, "an earlier run"), tokens=300_000), LONG, "home")

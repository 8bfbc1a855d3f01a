"""The two prices: waiting for a slot, and reading a prefix cold elsewhere; assumed ones say so."""

from __future__ import annotations

import pytest
from support_routing import POLICY, long, standard

from rigctl.core.costs import cold_price, expected_wait, prefill_rate
from rigctl.core.reading import NOT_YET


def test_a_free_slot_is_no_wait() -> None:
    """Also for the second in line, where two are free."""
    assert expected_wait(standard(in_flight=4), 1, POLICY).seconds == 0
    assert expected_wait(standard(in_flight=4, answer_seconds=60.0), 2, POLICY).seconds == 10


def test_slots_come_free_at_the_pace_of_answers_and_none_while_a_prompt_is_read() -> None:
    """Six answers of a minute: one slot each ten seconds, after the prefill that stalls them."""
    full = {"in_flight": 6, "answer_seconds": 60.0}
    assert expected_wait(standard(**full), 0, POLICY).seconds == 10
    assert expected_wait(standard(**full), 5, POLICY).seconds == 60
    reading = standard(**full, prefill_left=90_000.0, prefill_rate=900.0)
    assert expected_wait(reading, 0, POLICY).seconds == 110


def test_a_cold_prefill_is_priced_by_the_clusters_own_rate() -> None:
    """The two groups are not equally fast; what is being read there is read first."""
    assert cold_price(80_000, long(prefill_rate=1_000.0), POLICY).seconds == 80
    assert cold_price(80_000, long(prefill_rate=500.0), POLICY).seconds == 160
    busy = long(prefill_rate=1_000.0, prefill_left=20_000.0)
    assert cold_price(80_000, busy, POLICY).seconds == 100


def test_what_is_assumed_is_said_to_be() -> None:
    """Nothing measured on this cluster: the policy's figures, and the word."""
    assert cold_price(100_000, long(), POLICY).say == "about 100 s (assumed)"
    assert cold_price(100_000, long(prefill_rate=1_000.0), POLICY).say == "about 100 s"
    assert expected_wait(standard(in_flight=6), 0, POLICY).say == "about 3 s (assumed)"
    assert expected_wait(standard(in_flight=0), 0, POLICY).say == "under 1 s"


@pytest.mark.parametrize("rate", [NOT_YET, 0.0, -5.0, 1e-300])
def test_a_rate_that_no_engine_has_is_none(rate: object) -> None:
    """A counter that stood still is not a speed to divide by."""
    assert prefill_rate(long(prefill_rate=rate), POLICY) == (POLICY.prefill_prior, False)

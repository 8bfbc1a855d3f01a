"""The load parser: three shapes of `/v1/loads`, the older list, and rubbish."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rigctl.core.ids import Wall
from rigctl.core.reading import Missing
from rigctl.parse.loads import Loads, parse

DATA = Path(__file__).parents[1] / "data" / "metrics"
NOW = Wall(1795982566.25)


def loads_of(version: str) -> Loads:
    found = parse((DATA / f"sglang-{version}.loads.json").read_text(), NOW)
    assert found is not None
    return found


@pytest.mark.parametrize("version", ["0.5.9", "0.5.15", "0.5.18", "0.5.20", "0.5.23"])
def test_every_shape_gives_the_same_core(version: str) -> None:
    """Running, queued, used, size and limit are in all three shapes."""
    found = loads_of(version)
    assert (found.running, found.queued) == (3, 1)
    assert (found.used_tokens, found.pool_total, found.slots) == (112_000, 800_000, 6)
    assert found.version.startswith(version)


@pytest.mark.parametrize("version", ["0.5.18", "0.5.20", "0.5.23"])
def test_today_s_shape_tells_all(version: str) -> None:
    """From 0.5.17 on the publication's age, the prefill time and the waiting tokens are told."""
    found = loads_of(version)
    assert found.age == 1.0
    assert found.waiting_tokens == 46_401
    assert found.prefill_busy_seconds == pytest.approx(160.211)
    assert found.accept_length == 3.9


def test_the_time_of_asking_is_no_age() -> None:
    """Older shapes carry only the time of the answer: how old the load is stays unknown."""
    assert isinstance(loads_of("0.5.9").age, Missing)
    assert isinstance(loads_of("0.5.15").age, Missing)
    assert isinstance(loads_of("0.5.9").waiting_tokens, Missing)
    assert loads_of("0.5.15").waiting_tokens == 46_401


def test_a_wall_clock_that_stepped_back_makes_no_negative_age() -> None:
    """A publication from the future is fresh, not minus one hour old."""
    text = (DATA / "sglang-0.5.23.loads.json").read_text()
    found = parse(text, Wall(NOW - 3600))
    assert found is not None
    assert found.age == 0


def test_the_captured_answer_of_a_real_server() -> None:
    """A recorded idle server: zeros are zeros, the absent speculative section is absent."""
    found = parse((DATA / "captured-0.5.23-cpu.loads.json").read_bytes(), NOW)
    assert found is not None
    assert (found.running, found.queued, found.waiting_tokens) == (0, 0, 0)
    assert found.pool_total == 4096
    assert found.prefill_busy_seconds == pytest.approx(0.030596)
    assert isinstance(found.accept_length, Missing)


def test_get_load_counts_running_without_the_waiting() -> None:
    """The old list has all requests and the waiting ones; its clock is not the wall's."""
    text = json.dumps(
        [{"dp_rank": 0, "num_reqs": 4, "num_waiting_reqs": 1, "num_tokens": 9, "ts_tic": 5.0}]
    )
    found = parse(text, NOW)
    assert found is not None
    assert (found.running, found.queued) == (3, 1)
    assert isinstance(found.age, Missing)


def test_only_data_parallel_rank_zero_is_read() -> None:
    """Another rank's load is never taken for the first one's."""
    text = json.dumps(
        {
            "loads": [
                {"dp_rank": 1, "num_running_reqs": 9},
                {"dp_rank": 0, "num_running_reqs": 2},
            ]
        }
    )
    found = parse(text, NOW)
    assert found is not None
    assert found.running == 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "null", "3", '{"detail":"Not Found"}', '{"loads":{}}', '{"loads":[]}',
     b"\xff\xfe", '{"loads":[3]}', "[" * 100_000],
)  # fmt: skip
def test_rubbish_is_no_answer(text: str | bytes) -> None:
    """An error page, a 404 body or a torn text gives None, never zeros."""
    assert parse(text, NOW) is None


@pytest.mark.parametrize(
    "value", ["null", "true", '"3"', "NaN", "Infinity", "[]", "1e308", "9" * 400]
)
def test_a_field_that_is_no_number_is_missing(value: str) -> None:
    """One bad field costs that field only."""
    found = parse(f'{{"loads":[{{"num_running_reqs":{value},"num_waiting_reqs":1}}]}}', NOW)
    assert found is not None
    assert isinstance(found.running, Missing)
    assert found.queued == 1

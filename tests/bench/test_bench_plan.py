"""The verdicts of the bench: a bar is met only when it was measured beside its peer and kept."""

from __future__ import annotations

import json

import pytest

from rigctl.bench.plan import ROWS, Figure, Result, judge, row
from rigctl.bench.report import as_json, table


def status(ours: float, python: float | None, supervisorctl: float | None) -> Result:
    """The status row with those milliseconds."""
    peers = [Figure("python3 -c pass", python, "ms")] if python is not None else []
    if supervisorctl is not None:
        peers.append(Figure("supervisorctl status", supervisorctl, "ms"))
    return Result(row("status"), (Figure("rigctl status", ours, "ms"),), tuple(peers))


def test_a_kept_promise_is_met_and_its_ratio_shown() -> None:
    """Under every bar with the peers measured: met, and the deciding ratios stand beside it."""
    verdict = judge(status(40, 12, 90))
    assert verdict.met
    assert verdict.ratios == ("3.33 × python3 -c pass", "0.44 × supervisorctl status")


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (status(49, 12, 90), "4.08 × python3 -c pass is over 4"),
        (status(40, 12, 40), "1.00 × supervisorctl status is over 1"),
        (status(40, 12, None), "peer not in this run: supervisorctl"),
        (status(40, None, 90), "peer not in this run: python3 -c pass"),
        (Result(row("status"), missing="supervisorctl is not installed"), "not installed"),
    ],
)
def test_a_missed_bar_or_a_missing_peer_is_not_met(result: Result, why: str) -> None:
    """Over a bar, not below one that says below, or without its peer: not met, and why."""
    verdict = judge(result)
    assert not verdict.met
    assert why in verdict.why


def test_every_row_needs_a_peer() -> None:
    """No row can be met by our own figure alone."""
    for each in ROWS:
        ours = tuple(Figure(bar.figure, 0.0, "s") for bar in each.bars)
        assert not judge(Result(each, ours)).met


def test_table_and_json_agree() -> None:
    """What a person reads and what a program reads give the same verdicts."""
    results = [status(40, 12, 90), status(400, 12, 90)]
    text = table(results)
    rows = json.loads(as_json(results, {}))["rows"]
    assert [line[:7].strip() for line in text.splitlines() if "rigctl status --json" in line] == [
        "met",
        "not met",
    ]
    assert [each["met"] for each in rows] == [True, False]
    assert "1 of 2 bars met" in text

"""`doctor --probe`: an engine's own words against the config, and no key among them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from rigctl.cli.probe_engines import budget_variable, facts
from rigctl.config.schema import GroupConfig
from rigctl.core.doctor_finding import FAILURE, OK, SKIPPED, WARNING
from rigctl.core.ids import GroupName
from rigctl.core.probe import EngineFacts, probe
from rigctl.parse import metrics

WELL = EngineFacts(
    "long",
    version="0.5.23",
    wants_draft=True,
    algorithm="DFLASH",
    accept_length=3.9,
    wants_budget=5000,
    strict_thinking=True,
    reasoning_parser="qwen3",
    grammar_backend="xgrammar",
    budget_variable="5000",
    state_slots=30.0,
    weights_gb=7.6,
    tokens_gb=9.1,
    start_gb=21.2,
)

GROUP = GroupConfig(
    GroupName("long"), (), 30000, "m", draft_model="d", think_budget=5000, reasoning_parser="qwen3"
)


def test_an_engine_as_configured_is_clean() -> None:
    """Every finding of an engine that does what rig.toml says is ok."""
    assert {finding.severity for finding in probe(WELL)} == {OK}
    assert [finding.id for finding in probe(WELL)] == [
        "probe-answer",
        "probe-drafting",
        "probe-states",
        "probe-memory",
        "probe-think-budget",
    ]


@pytest.mark.parametrize(
    ("changes", "name", "severity"),
    [
        ({"algorithm": ""}, "probe-drafting", FAILURE),
        ({"algorithm": "", "wants_draft": False}, "probe-drafting", SKIPPED),
        ({"accept_length": None}, "probe-drafting", SKIPPED),
        ({"accept_length": 1.02}, "probe-drafting", WARNING),
        ({"state_slots": None}, "probe-states", SKIPPED),
        ({"start_gb": 17.0}, "probe-memory", WARNING),
        ({"weights_gb": None}, "probe-memory", SKIPPED),
        ({"weights_gb": -0.0}, "probe-memory", SKIPPED),
        ({"strict_thinking": False}, "probe-think-budget", FAILURE),
        ({"reasoning_parser": ""}, "probe-think-budget", FAILURE),
        ({"grammar_backend": "none"}, "probe-think-budget", FAILURE),
        ({"budget_variable": ""}, "probe-think-budget", FAILURE),
        ({"budget_variable": "7000"}, "probe-think-budget", FAILURE),
        ({"budget_variable": None}, "probe-think-budget", SKIPPED),
        ({"wants_budget": None}, "probe-think-budget", SKIPPED),
        ({"wants_sleep": True}, "probe-sleep", WARNING),
        ({"memory_saver": True}, "probe-memory-saver", WARNING),
        ({"error": "HTTP 401 from /server_info"}, "probe-answer", WARNING),
    ],
)
def test_each_difference_is_found(changes, name: str, severity: str) -> None:
    """One difference, one finding of the right weight; what is wrong has a cure."""
    found = {finding.id: finding for finding in probe(replace(WELL, **changes))}
    assert found[name].severity == severity
    if severity in (WARNING, FAILURE):
        assert found[name].fix


def test_no_key_leaves_the_answer() -> None:
    """/server_info has the keys in clear text in three places; none is in the facts."""
    told = {
        "api_key": "sk-one",
        "launch_command": "--api-key sk-one",
        "version": "0.5.23",
        "speculative_algorithm": "DFLASH",
        "internal_states": [
            {
                "admin_api_key": "sk-two",
                "avg_spec_accept_length": 3.9,
                "memory_usage": {"weight": 7.62, "kvcache": 9.1, "startup_available": 21.25},
            }
        ],
    }
    series = metrics.parse(
        'sglang:mamba_used_tokens{tp_rank="0"} 10\n'
        'sglang:mamba_evictable_tokens{tp_rank="0"} 5\n'
        'sglang:mamba_available_tokens{tp_rank="0"} 15\n'
    )
    engine = facts(GROUP, told, series, "5000")
    assert "sk-" not in repr(engine)
    assert (engine.accept_length, engine.state_slots) == (3.9, 30.0)
    assert (engine.weights_gb, engine.tokens_gb, engine.start_gb) == (7.62, 9.1, 21.25)


def test_the_accept_length_of_the_metrics_serves_too() -> None:
    """Where /server_info has none, the gauge of /metrics is what was measured last."""
    series = metrics.parse('sglang:spec_accept_length{tp_rank="0"} 3.7\n')
    assert facts(GROUP, {}, series, None).accept_length == 3.7
    idle = metrics.parse('sglang:spec_accept_length{tp_rank="0"} 0.0\n')
    assert facts(GROUP, {}, idle, None).accept_length is None


def test_an_absent_series_is_not_zero() -> None:
    """No mamba series means no statement, not a pool of size 0."""
    engine = facts(GROUP, {}, metrics.parse(""), None)
    assert engine.state_slots is None
    assert engine.accept_length is None


def test_the_budget_is_read_where_the_process_has_it() -> None:
    """Unset is empty, a process that is not there or not ours is unknown."""
    env = {**os.environ, "SGLANG_MAX_THINK_TOKENS": "5000"}
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert budget_variable(process.pid) == "5000"
        process.communicate(b"\n")
    assert budget_variable(os.getpid()) == os.environ.get("SGLANG_MAX_THINK_TOKENS", "")
    assert budget_variable(None) is None
    assert budget_variable(2**22 + 1) is None

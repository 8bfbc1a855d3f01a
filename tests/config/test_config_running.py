"""Servers that already run, read from /proc, become groups that would start them again."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from config_kit import make_card

from rigctl.config.diff import differences
from rigctl.config.flags import launches_sglang
from rigctl.config.init import write_new
from rigctl.config.load import load
from rigctl.config.plan import launch_plan
from rigctl.config.running import RunningServer, draft_group, find_servers
from rigctl.config.schema import Config, LaunchPlan
from rigctl.config.secrets import write_key_file
from rigctl.core.cards import CardProcess
from rigctl.core.reading import Missing, Why

CARDS = tuple(make_card(number) for number in range(8))

YARN = (
    '{"text_config": {"rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],'
    ' "rope_type": "yarn", "rope_theta": 10000000, "partial_rotary_factor": 0.25, "factor": 2.0,'
    ' "original_max_position_embeddings": 262144}}}'
)
YARN_AND_MORE = (
    '{"rope_scaling": {"rope_type": "yarn", "factor": 2.0, '
    '"original_max_position_embeddings": 100}, "x": 1}'
)
ALWAYS = [
    "--enable-metrics",
    "--enable-cache-report",
    "--uvicorn-access-log-exclude-prefixes",
    "/metrics",
    "/v1/loads",
    "/ready",
]

LINES: dict[str, tuple[list[str], dict[str, str]]] = {
    "plain": (["--model", "m", "--port", "31000"], {}),
    "defaults": (["--model-path=m"], {}),
    "four cards": (
        ["--model", "m", "--tp", "4", "--context-length", "256Ki", "--sleep-on-idle"],
        {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ),
    "by base id": (["--model", "m", "--tp", "4", "--base-gpu-id", "4"], {}),
    "thinking": (
        ["--model", "m", "--reasoning-parser", "qwen3", "--enable-strict-thinking"],
        {"SGLANG_MAX_THINK_TOKENS": "5000"},
    ),
    "strict without budget": (
        ["--model", "m", "--reasoning-parser", "qwen3", "--enable-strict-thinking"],
        {},
    ),
    "yarn": (
        ["--model", "m", "--context-length", "524288", "--json-model-override-args", YARN],
        {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
    ),
    "another override": (
        ["--model", "m", "--json-model-override-args", '{"x": 1}', "--context-length", "9"],
        {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1", "NCCL_DEBUG": "INFO"},
    ),
    "yarn and more": (
        ["--model", "m", "--context-length", "150", "--json-model-override-args", YARN_AND_MORE],
        {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
    ),
    "draft": (
        [
            *("--model", "m", "--speculative-algorithm", "DFLASH", "--speculative-draft-model"),
            *("d", "--speculative-num-draft-tokens", "8", "--grammar-backend", "xgrammar"),
        ],
        {},
    ),
    "ngram": (["--model", "m", "--speculative-algorithm", "NGRAM"], {}),
    "many": (
        [
            *("--model", "m", "--host", "0.0.0.0", "--served-model-name", "a b", "--tp-size", "2"),
            *("--max-total-tokens", "800k", "--max-running-requests", "6", "--tool-call-parser"),
            *("qwen3_coder", "--mem-fraction-static=0.85", "--numa-node", "0", "1"),
            *("--random-seed=-1", "--enable-mixed-chunk"),
        ],
        {"CUDA_VISIBLE_DEVICES": "3,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ),
}


def server(argv: list[str], env: dict[str, str], pid: int = 4000) -> RunningServer:
    """A main process as /proc would show it."""
    program = ["/opt/v/bin/python", "-m", "sglang.launch_server"]
    return RunningServer(pid, (*program, *argv), env, "/", frozenset({pid, pid + 1}))


def again(folder: Path, running: RunningServer) -> tuple[Config, LaunchPlan]:
    """Written to a file, read back, planned."""
    path = folder / "rig.toml"
    write_new(path, [draft_group(running, CARDS)])
    config = load(path)
    group = config.groups[0]
    return config, launch_plan(group, config, CARDS, {}, group.sleep_on_idle, folder)


@pytest.mark.parametrize(("argv", "env"), LINES.values(), ids=LINES.keys())
def test_the_group_starts_the_same_server(
    tmp_path: Path, argv: list[str], env: dict[str, str]
) -> None:
    """Through the file and the plan, nothing differs but what rigctl always sets."""
    running = server([*argv, *ALWAYS], env)
    _, plan = again(tmp_path, running)
    found = differences(plan.argv, running.argv, plan.env, running.env)
    # What is always there for cards, a default that is written out, and a flag that the group's
    # own cards make needless.
    allowed = (
        "CUDA_",
        "SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES 1: planned",
        "--base-gpu-id",
        "--grammar-backend xgrammar: planned",
    )
    assert [line for line in found if not line.startswith(allowed)] == []


def test_typed_keys_are_typed(tmp_path: Path) -> None:
    """What has a key of its own stands there, not among the flags."""
    argv, env = LINES["yarn"]
    config, _ = again(tmp_path, server([*argv, "--mem-fraction-static=0.8", "--tp", "1"], env))
    group = config.groups[0]
    assert (group.yarn_factor, group.yarn_original, group.context_length) == (2.0, 262144, 524288)
    assert group.flags == ("--mem-fraction-static", "0.8")
    assert group.env == {}
    assert group.name == "port-30000"


@pytest.mark.parametrize(
    ("name", "numbers"), [("four cards", range(4, 8)), ("by base id", range(4, 8))]
)
def test_cards_come_from_the_variables(tmp_path: Path, name: str, numbers: range) -> None:
    """By UUID, so that they stay."""
    config, plan = again(tmp_path, server(*LINES[name]))
    assert plan.cards == tuple(CARDS[number].uuid for number in numbers)
    assert {card.kind for card in config.groups[0].cards} == {"uuid"}
    noted = "count CUDA's way" in (tmp_path / "rig.toml").read_text()
    assert noted is (name == "by base id")


def test_cards_come_from_nvml_where_it_knows(tmp_path: Path) -> None:
    """What holds memory on a card is stronger than a variable that may mean another order."""
    running = server(*LINES["four cards"])
    held = [
        dataclasses.replace(card, processes=(CardProcess(4001, 1.0),) if n < 4 else ())
        for n, card in enumerate(CARDS)
    ]
    draft = draft_group(
        running, [*held[:7], dataclasses.replace(held[7], processes=Missing(Why.LOST))]
    )
    assert draft.cards == tuple(held[:4])
    assert draft.config.tensor_parallel is None


def test_keys_leave_the_command_line(tmp_path: Path) -> None:
    """They go to files of their own, and the next start hands them over unseen."""
    running = server(["--model", "m", "--api-key", "sk-1234567", "--admin-api-key=ad-1234567"], {})
    config, plan = again(tmp_path, running)
    for text in (
        (tmp_path / "rig.toml").read_text(),
        " ".join(plan.argv),
        repr(draft_group(running, ())),
    ):
        assert "sk-1234567" not in text
        assert "ad-1234567" not in text
    path = write_key_file(config.groups[0], {}, tmp_path)
    assert path is not None
    assert json.loads(path.read_text()) == {"api-key": "sk-1234567", "admin-api-key": "ad-1234567"}


def test_secret_variables_are_named_and_not_copied(tmp_path: Path) -> None:
    """A token belongs in no config file."""
    again(tmp_path, server(["--model", "m"], {"HF_TOKEN": "hf_secret", "HF_HOME": "/h"}))
    text = (tmp_path / "rig.toml").read_text()
    assert "hf_secret" not in text
    assert "HF_TOKEN was set and is not written here" in text
    assert 'env = { HF_HOME = "/h" }' in text


def test_a_budget_without_effect_is_left_out(tmp_path: Path) -> None:
    """It would be refused, since it did nothing."""
    config, _ = again(tmp_path, server(["--model", "m"], {"SGLANG_MAX_THINK_TOKENS": "5000"}))
    assert config.groups[0].think_budget is None
    assert "had no effect" in (tmp_path / "rig.toml").read_text()


@pytest.mark.parametrize(
    ("argv", "launches"),
    [
        ("python -m sglang.launch_server --model m", True),
        ("/v/bin/python3.12 -W ignore -m sglang.launch_server", True),
        ("sglang serve m", True),
        ("/v/bin/python /v/bin/sglang serve m", True),
        ("python -m sglang.launch_server_other", False),
        ("python -m sglang.bench_serving", False),
        ("sglang version", False),
        ("grep -r sglang.launch_server", False),
        ("docker run img python -m sglang.launch_server", False),
        ("python wrapper.py -m sglang.launch_server", False),
        ("vim sglang serve", False),
        ("sglang::scheduler_TP0", False),
        ("", False),
    ],
)
def test_only_a_server_is_taken_for_one(argv: str, launches: bool) -> None:
    """A wrapper, an editor or a search that names SGLang is not one."""
    assert launches_sglang(argv.split()) is launches


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real process that looks like a server, with a worker forked from it."""
    package = tmp_path / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(
        "import os, sys, time\nos.fork()\nprint('up', flush=True)\ntime.sleep(60)\n"
    )
    (tmp_path / "model").mkdir()
    env = {**os.environ, "NCCL_DEBUG": "WARN", "PYTHONPATH": str(tmp_path)}
    started = subprocess.Popen(
        [sys.executable, "-m", "sglang.launch_server", "--model", "model", "--port", "31234"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert started.stdout is not None
    started.stdout.readline()
    yield started
    os.killpg(started.pid, 9)
    started.wait()
    started.stdout.close()


def test_a_real_process_is_found(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    """Its command line, variables, folder and workers, once."""
    deadline = time.monotonic() + 10
    found: list[RunningServer] = []
    while time.monotonic() < deadline and not (found and len(found[0].pids) == 2):
        found = [one for one in find_servers() if "31234" in one.argv]
        time.sleep(0.02)
    (one,) = found
    assert one.pid == process.pid
    assert len(one.pids) == 2
    assert one.env["NCCL_DEBUG"] == "WARN"
    draft = draft_group(one, ())
    assert draft.config.model == str(tmp_path / "model")
    assert draft.config.engine == (sys.executable, "-m", "sglang.launch_server")
    assert draft.config.port == 31234
    assert draft.config.env == {"NCCL_DEBUG": "WARN"}

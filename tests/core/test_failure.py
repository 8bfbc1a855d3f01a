"""A death is explained by its cause, with the engine's own words and the next command."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.core.failure import classify, exit_text
from rigctl.core.failure_patterns import PATTERNS, Cause

LOGS = Path(__file__).parents[1] / "data" / "logs"
AT = "[2026-11-29 21:14:03 TP0] "


def tail_of(name: str) -> list[str]:
    return (LOGS / name).read_text().splitlines()


@pytest.mark.parametrize(
    ("log", "code", "kind", "cause", "config_error", "words"),
    [
        ("fail-bad-path.log", 1, "bad-model", Cause.CONFIG, True, "'/nope'"),
        ("fail-context-too-long.log", 1, "context-too-long", Cause.CONFIG, True, "(999999)"),
        ("fail-dflash-on-cpu.log", 1, "bad-setting", Cause.CONFIG, True, "DFLASH"),
        ("fail-no-memory.log", 137, "memory-share", Cause.MEMORY, True, "mem-fraction-static"),
        ("fail-port-used.log", -9, "port-taken", Cause.HOST, True, "31052"),
        ("run-cpu-scheduler-killed.log", -9, "killed", Cause.HOST, False, "scheduler_0"),
    ],
)
def test_recorded_deaths(
    log: str, code: int, kind: str, cause: Cause, config_error: bool, words: str
) -> None:
    """Real logs of real failures get their true cause and quote the line that says it."""
    failure = classify("long", code, tail_of(log), "init")
    assert (failure.kind, failure.cause, failure.config_error) == (kind, cause, config_error)
    assert words in failure.words
    assert failure.advice


@pytest.mark.parametrize(
    ("line", "kind", "cause", "config_error"),
    [
        pytest.param(
            "ValueError: invalid literal for int() with base 10: 'GPU-aaaa'",
            "card-names",
            Cause.CONFIG,
            True,
            marks=pytest.mark.case("C14"),
        ),
        (
            "launch_server.py: error: unrecognized arguments: --prefil-max-requests 2",
            "bad-flag",
            Cause.CONFIG,
            True,
        ),
        (
            "launch_server.py: error: argument --tp-size: invalid int value: 'x'",
            "bad-flag",
            Cause.CONFIG,
            True,
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has",
            "gpu-memory",
            Cause.MEMORY,
            False,
        ),
        (
            f"{AT}Decode out of memory. Try to lower your batch size.",
            "pool-full",
            Cause.MEMORY,
            False,
        ),
        (
            f"{AT}Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9",
            "host-memory",
            Cause.HOST,
            False,
        ),
        (
            "[rank2]:[E1129] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(",
            "nccl",
            Cause.CARD,
            False,
        ),
        ("torch.distributed.DistBackendError: NCCL error in: x", "nccl", Cause.CARD, False),
        (
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "illegal-access",
            Cause.CARD,
            False,
        ),
        ("RuntimeError: CUDA error: unknown error", "card-lost", Cause.CARD, False),
        ("NVRM: Xid (PCI:0000:0c:00): 79, GPU has fallen off the bus.", "card-lost", Cause.CARD,
         False),
        ("RuntimeError: No CUDA GPUs are available", "card-missing", Cause.CARD, True),
        ("RuntimeError: CUDA error: invalid device ordinal", "card-missing", Cause.CARD, True),
        (
            f"{AT}Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            "watchdog",
            Cause.ENGINE,
            False,
        ),
        ("OSError: [Errno 28] No space left on device", "disk-full", Cause.HOST, False),
        ("/usr/bin/python3: No module named sglang", "no-program", Cause.CONFIG, True),
        ("python3: Error while finding it (ModuleNotFoundError: No module named 'sglang')",
         "no-program", Cause.CONFIG, True),
        ("Failed to initialize NVML: Driver/library version mismatch", "driver-mismatch",
         Cause.HOST, True),
        (f"{AT}Initialization failed. warmup error: timeout", "warm-up", Cause.ENGINE, False),
        ("RuntimeError: The server socket has failed to listen on any local network address.",
         "nccl-port", Cause.HOST, False),
    ],
)  # fmt: skip
def test_single_lines(line: str, kind: str, cause: Cause, config_error: bool) -> None:
    """Each cause by the words its source prints; memory, card, host and config told apart."""
    failure = classify("long", 1, ["Traceback (most recent call last):", line], "init")
    assert (failure.kind, failure.cause, failure.config_error) == (kind, cause, config_error)


def test_every_pattern_has_advice_and_words() -> None:
    """Nobody is told what broke without the next command."""
    for pattern in PATTERNS:
        assert pattern.say
        assert pattern.advice


def test_the_root_stands_before_what_it_drags_along() -> None:
    """A lost card ends in NCCL errors on the other ranks: the card is named."""
    tail = [
        "torch.distributed.DistBackendError: NCCL error in: x",
        "RuntimeError: CUDA error: unknown error",
        f"{AT}Subprocess scheduler_0 (pid=1) crashed with exit code -9. Triggering SIGQUIT",
    ]
    assert classify("long", -9, tail).kind == "card-lost"


@pytest.mark.case("C08")
def test_an_exit_nobody_asked_for_is_told_with_its_code() -> None:
    """Exit 0 is no success when nobody asked: it says so, with the last line."""
    failure = classify("long", 0, [f"{AT}Finished server process [1]"])
    assert failure.line == "exit 0: not requested: Finished server process [1]"
    assert not failure.config_error


@pytest.mark.case("C58")
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit 0"),
        (1, "exit 1"),
        (143, "exit 143 (SIGTERM)"),
        (-15, "exit 143 (SIGTERM)"),
        (137, "exit 137 (SIGKILL)"),
        (-9, "exit 137 (SIGKILL)"),
        (-11, "exit 139 (SIGSEGV)"),
        (-35, "exit 163 (signal 35)"),
        (255, "exit 255"),
        (None, "exit code unknown"),
    ],
)
def test_exit_texts(code: int | None, text: str) -> None:
    """A signal reads the same whether a shell or the parent told of it."""
    assert exit_text(code) == text


def test_silent_sigkill_is_another_hand() -> None:
    """SGLang announces its own SIGKILL; one that nothing announces came from outside."""
    outside = classify("long", -9, [f"{AT}Load weight begin. avail mem=23.1 GB"], "weights")
    assert (outside.kind, outside.cause) == ("killed", Cause.HOST)
    assert outside.exit == "exit 137 (SIGKILL) in weights"
    announced = classify(
        "long", -9, [f"{AT}kill_process_tree called: parent_pid=1, include_parent=True, pid=1"]
    )
    assert announced.kind == "unknown"


def test_an_unknown_fault_keeps_the_engine_s_words() -> None:
    """What no pattern knows is quoted: the last exception, not the last line."""
    failure = classify("long", 1, ["KeyError: 'x'", "something: RuntimeError no", "bye"])
    assert (failure.kind, failure.cause) == ("engine-error", Cause.ENGINE)
    assert failure.words == "KeyError: 'x'"


def test_nothing_said_at_all() -> None:
    """An empty log gives an honest unknown."""
    failure = classify("long", 1, [])
    assert (failure.kind, failure.cause, failure.words) == ("unknown", Cause.UNKNOWN, "")
    assert failure.advice == "rigctl logs long"


def test_flags_and_optional_modules_are_no_causes() -> None:
    """The start line holds every flag's name and the import noise every module's."""
    tail = [
        f"{AT}server_args={{'x': 'CUDA out of memory', 'nccl': 'NCCL error'}}",
        f"{AT}Ignore import error when loading x: No module named 'sglang'",
        "    raise HFValidationError: quoted source",
    ]
    assert classify("long", 1, tail).kind == "unknown"


def test_no_secret_in_the_words() -> None:
    """The quoted line is redacted and cut to one readable length."""
    failure = classify("long", 2, [f"usage: x --api-key sekrit {'y' * 900}"], "init")
    assert failure.kind == "bad-flag"
    assert "sekrit" not in failure.line
    assert len(failure.words) <= 240

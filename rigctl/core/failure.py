"""Why an engine died: its exit code and last log lines in, one cause in words out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rigctl.core.failure_patterns import PATTERNS, Cause, Pattern
from rigctl.core.redact import redact

_LONGEST = 240
_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[^\]]*\] ?")
_NOISE = re.compile(r"server_args=|Ignore import error|nanobind: |^\s*- leaked ")
"""Lines that hold any word at all (every flag, every optional module) and tell no cause."""
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt): \S")
_SETTINGS = re.compile(r'File "[^"]*(?:/arg_groups/|server_args\.py")|in prepare_server_args')
_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS",
            8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}  # fmt: skip
_SELF_KILL = re.compile(r"kill_process_tree called: .*include_parent=True")


@dataclass(frozen=True, slots=True)
class Failure:
    """One death, explained as far as it can be."""

    kind: str
    """A stable word: `gpu-memory`, `port-taken`, `killed`, `unknown` …"""
    cause: Cause
    config_error: bool
    """A restart cannot mend it: no restart loop."""
    say: str
    """What happened, in a person's words: `out of GPU memory`."""
    words: str
    """The engine's own line, redacted and cut; empty when it said nothing."""
    exit: str
    """`exit 137 (SIGKILL)`, or `exit code unknown` for an adopted engine."""
    advice: str
    """The next command, or empty."""

    @property
    def line(self) -> str:
        """All of it in one line: exit, cause, and the engine's words."""
        head = f"{self.exit}: {self.say}"
        return f"{head}: {self.words}" if self.words else head


class Asked(Enum):
    """Who wanted the exit; an exit nobody asked for is a crash whatever its code (C08)."""

    NOBODY = "not requested"
    US = "requested"


def exit_text(code: int | None) -> str:
    """The exit code as a person reads it; a shell's 128+N and Popen's -N are the same signal."""
    if code is None:
        return "exit code unknown"
    number = _signal(code)
    if number is None:
        return f"exit {code}"
    return f"exit {128 + number} ({_SIGNALS.get(number, f'signal {number}')})"


def classify(
    group: str, code: int | None, tail: Sequence[str], during: str = "", restarted: bool = True
) -> Failure:
    """Name the cause of an exit nobody asked for.

    `tail` is the end of the log of this run; `during` the start phase it died in, empty once it
    served; `restarted` whether the advice may assume that rigctl starts it again by itself.
    """
    lines = [_PREFIX.sub("", line.rstrip()) for line in tail if not _NOISE.search(line)]
    exit_said = exit_text(code)
    where = f" in {during}" if during else ""
    for pattern in PATTERNS:
        for line in lines:
            # Indented lines are source code in a traceback: they quote exceptions, they are none.
            if line[:2] != "  " and pattern.match.search(line):
                return _of(pattern, group, exit_said + where, line)
    words = _last_exception(lines)
    if words and any(_SETTINGS.search(line) for line in lines):
        return Failure(
            "bad-setting",
            Cause.CONFIG,
            True,
            "the engine refuses its settings",
            _cut(words),
            exit_said + where,
            f"rigctl group show {group}",
        )
    if code in (126, 127):
        return Failure(
            "no-program",
            Cause.CONFIG,
            True,
            "the engine program cannot be run",
            _cut(words or _last(lines)),
            exit_said + where,
            "rigctl config check",
        )
    if code == 2 and during:
        return Failure(
            "bad-flag",
            Cause.CONFIG,
            True,
            "the command line was refused",
            _cut(_last(lines)),
            exit_said + where,
            f"rigctl group show {group}",
        )
    if _signal(code) == 9 and not any(_SELF_KILL.search(line) for line in lines):
        # SGLang ends itself by SIGKILL too, but says so first. Silence means another hand.
        return Failure(
            "killed",
            Cause.HOST,
            False,
            "killed from outside, by a person or the kernel out of host memory",
            "",
            exit_said + where,
            "journalctl -k --grep 'out of memory|oom-kill' --since -1h",
        )
    advice = f"rigctl logs {group}" if restarted else f"rigctl start {group}"
    if words:
        return Failure(
            "engine-error", Cause.ENGINE, False, "the engine failed", _cut(words),
            exit_said + where, advice,
        )  # fmt: skip
    return Failure(
        "left" if code == 0 or _signal(code) == 15 else "unknown",
        Cause.UNKNOWN,
        False,
        Asked.NOBODY.value,
        _cut(_last(lines)),
        exit_said + where,
        advice,
    )


def _of(pattern: Pattern, group: str, exit_said: str, line: str) -> Failure:
    advice = pattern.advice.replace("{group}", group)
    return Failure(
        pattern.kind,
        pattern.cause,
        pattern.config_error,
        pattern.say,
        _cut(line),
        exit_said,
        advice,
    )


def _signal(code: int | None) -> int | None:
    if code is None:
        return None
    if code < 0:
        return -code
    return code - 128 if 128 < code < 160 else None


def _last_exception(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        if _EXCEPTION.match(line):
            return line
    return ""


def _last(lines: Sequence[str]) -> str:
    return next((line for line in reversed(lines) if line.strip()), "")


def _cut(line: str) -> str:
    line = " ".join(redact(line).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"

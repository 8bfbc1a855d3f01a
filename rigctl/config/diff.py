"""What two starts of one engine have otherwise, in words, whatever the order and spelling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from rigctl.config.flags import MASK, human_number, secret_name, split_command

_ENGINE_VARIABLES = ("SGLANG_", "SGL_", "CUDA_", "NCCL_")
"""Variables that change what an engine does, looked for on the running side too."""

_DEFAULTS = {"--host": "127.0.0.1", "--port": "30000", "--tp-size": "1"}
"""What SGLang takes where the flag is not written."""


def differences(
    planned: Sequence[str],
    running: Sequence[str],
    planned_env: Mapping[str, str] | None = None,
    running_env: Mapping[str, str] | None = None,
    words: tuple[str, str] = ("planned", "running"),
) -> tuple[str, ...]:
    """One line a difference, none where both sides mean the same.

    `planned_env` is what the planned engine would see of SGLang's and CUDA's variables (the
    inherited ones included), `running_env` what the running one was started with; without both,
    variables are not compared. `words` name the two sides: the journal says `now` and `before`.
    Values of secrets are never shown.
    """
    ours, theirs = split_command(planned), split_command(running)
    lines: list[str] = []
    if not _same_program(ours.program, theirs.program):
        lines.append(_line("program", " ".join(ours.program), " ".join(theirs.program), words))
    left, right = _settled(ours.values()), _settled(theirs.values())
    for flag in dict.fromkeys((*left, *right)):
        if _same_values(left.get(flag), right.get(flag)):
            continue
        shown = [_flag_value(flag, side.get(flag)) for side in (left, right)]
        lines.append(_line(flag, shown[0], shown[1], words))
    if planned_env is not None and running_env is not None:
        lines += _variables(planned_env, running_env, words)
    return tuple(lines)


def _variables(
    planned: Mapping[str, str], running: Mapping[str, str], words: tuple[str, str]
) -> list[str]:
    names = [name for name in (*planned, *running) if name.startswith(_ENGINE_VARIABLES)]
    lines: list[str] = []
    for name in sorted(set(names)):
        left, right = planned.get(name), running.get(name)
        if left == right:
            continue
        if secret_name(name):
            left, right = (None if side is None else MASK for side in (left, right))
        lines.append(_line(name, left, right, words))
    return lines


def _line(what: str, planned: str | None, running: str | None, words: tuple[str, str]) -> str:
    """`--port: 30001 planned, 30000 running`; `--sleep-on-idle: planned, not running`."""
    if planned is None:
        return f"{what}{_with(running)} {words[1]}, not {words[0]}"
    if running is None:
        return f"{what}{_with(planned)} {words[0]}, not {words[1]}"
    if planned == running == MASK:
        return f"{what}: another secret {words[0]} than {words[1]}"
    return f"{what}: {planned or 'set'} {words[0]}, {running or 'set'} {words[1]}"


def _with(value: str | None) -> str:
    return f" {value}:" if value else ":"


def _settled(flags: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Flags with SGLang's own defaults, so that writing one out is no difference."""
    settled = dict(flags)
    for flag, value in _DEFAULTS.items():
        settled.setdefault(flag, (value,))
    if "--model-path" in settled:
        settled.setdefault("--served-model-name", settled["--model-path"])
    return settled


def _same_program(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether both start SGLang the same way; a bare name is what PATH made of it."""
    left, right = _without_interpreter(one), _without_interpreter(other)
    if left[1:] != right[1:]:
        return False
    if not left or not right:
        return left == right
    bare = "/" not in left[0] or "/" not in right[0]
    return PurePath(left[0]).name == PurePath(right[0]).name if bare else left[0] == right[0]


def _without_interpreter(program: Sequence[str]) -> tuple[str, ...]:
    """A script's `#!` puts the interpreter before it: `python /venv/bin/sglang serve`."""
    script = len(program) > 1 and not program[1].startswith("-")
    if script and PurePath(program[0]).name.startswith("python"):
        return tuple(program[1:])
    return tuple(program)


def _same_values(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> bool:
    if one is None or other is None:
        return one == other
    return [_plain(value) for value in one] == [_plain(value) for value in other]


def _plain(value: str) -> object:
    """A value in one spelling: `256k` is 256000, JSON has no order of keys."""
    number = human_number(value)
    if number is not None:
        return number
    try:
        return json.loads(value) if value[:1] in '{["' else value
    except ValueError:
        return value


def _flag_value(flag: str, values: tuple[str, ...] | None) -> str | None:
    if values is None:
        return None
    return MASK if secret_name(flag) and values else " ".join(values)

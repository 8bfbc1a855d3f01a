"""Which flags the installed engine knows, asked of the engine itself (C77)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from rigctl.config.faults import nearest
from rigctl.config.flags import is_flag
from rigctl.config.schema import ConfigError

_OPTION = re.compile(r"(?<![\w-])--[A-Za-z0-9][A-Za-z0-9_-]*")

HELP_SECONDS = 120.0
"""How long the engine may take to print its help: it imports all of torch first (11 s on disk)."""


def ask_engine(
    engine: Sequence[str], environ: Mapping[str, str], seconds: float = HELP_SECONDS
) -> frozenset[str]:
    """The flags that the program behind `engine` takes, by its own `--help`.

    Blocks. ConfigError when the program is absent, fails or answers nothing in time.
    """
    shown = " ".join(engine)
    # Without cards: help needs none, and an engine at work must not be disturbed.
    env = {**environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "400"}
    try:
        done = subprocess.run(
            [*engine, "--help"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError(f"engine program {engine[0]!r} is not found: check `engine`") from error
    except OSError as error:
        raise ConfigError(f"`{shown}` cannot be run: {os.strerror(error.errno or 0)}") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"`{shown} --help` gave no answer in {seconds:.0f} s") from error
    known = flags_in_help(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0 or not known:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = lines[-1] if lines else "nothing"
        raise ConfigError(f"`{shown} --help` ended with {done.returncode} and said: {said}")
    return known


def flags_in_help(text: str) -> frozenset[str]:
    """Every flag that an argparse help text names."""
    return frozenset(_OPTION.findall(text))


def unknown_flags(argv: Sequence[str], known: frozenset[str]) -> tuple[str, ...]:
    """One line for each flag of the command line that the engine does not take.

    argparse takes any unambiguous beginning, so a beginning of a known flag counts as known.
    """
    lines: list[str] = []
    for word in argv:
        flag = word.split("=", 1)[0]
        if not (is_flag(word) and flag.startswith("--")):
            continue
        if flag in known or any(name.startswith(flag) for name in known):
            continue
        near = nearest(flag, known)
        advice = f"did you mean {near}?" if near else "remove it, or install a version that has it"
        lines.append(f"the installed engine does not know {flag}: {advice}")
    return tuple(dict.fromkeys(lines))

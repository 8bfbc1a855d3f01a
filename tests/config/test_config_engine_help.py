"""A flag that the installed engine does not know is found before a server is stopped for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from config_kit import GROUP, ConfigKit

from rigctl.config.check_world import engine_faults
from rigctl.config.engine_help import ask_engine, flags_in_help, unknown_flags
from rigctl.config.schema import ConfigError

OLD_ENGINE = """\
import argparse, os, sys
if os.environ.get("CUDA_VISIBLE_DEVICES") != "":
    sys.exit("asking for help must not touch the cards of an engine at work")
parser = argparse.ArgumentParser()
for flag in ("--model-path", "--host", "--port", "--mem-fraction-static"):
    parser.add_argument(flag)
for flag in ("--enable-metrics", "--enable-cache-report", "--skip-server-warmup"):
    parser.add_argument(flag, action="store_true")
parser.add_argument("--uvicorn-access-log-exclude-prefixes", nargs="*")
parser.parse_args()
"""
"""An engine of before `--sleep-on-idle`: a real argparse program."""


def engine(tmp_path: Path, text: str) -> tuple[str, ...]:
    """A program on disk."""
    path = tmp_path / "engine.py"
    path.write_text(text)
    return (sys.executable, str(path))


@pytest.mark.case("C77")
def test_a_flag_that_the_engine_does_not_know_is_named(tmp_path: Path, rig_file: ConfigKit) -> None:
    """By file and line, so that the toggle is refused and the running server stays."""
    program = engine(tmp_path, OLD_ENGINE)
    text = GROUP.replace("[0]", "[]") + f"engine = {list(program)!r}\n".replace("'", '"')
    assert engine_faults(rig_file.load(text), os.environ) == ()
    wished = text + 'sleep_on_idle = true\nflags = ["--mem-fraction-statik", "0.8", "--mem=1"]\n'
    first, second = engine_faults(rig_file.load(wished), os.environ)
    assert first.startswith(f"{rig_file.path}:8: group 'standard': ")
    assert "does not know --sleep-on-idle: remove it, or install a version that has it" in first
    assert "does not know --mem-fraction-statik: did you mean --mem-fraction-static?" in second


@pytest.mark.case("C77")
@pytest.mark.sglang
def test_the_real_engine_names_its_flags() -> None:
    """SGLang's own help holds every flag that a plan can have, and not a misspelt one."""
    from rigctl.config.flags import ALWAYS, KEY_OF_FLAG, SOMETIMES

    python = f"{os.environ['RIGCTL_REAL_SGLANG']}/venv/bin/python"
    environ = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "PYTHONWARNINGS": "ignore"}
    known = ask_engine((python, "-m", "sglang.launch_server"), environ)
    wanted = (*KEY_OF_FLAG, *ALWAYS, *SOMETIMES)
    assert unknown_flags(wanted, known) == ()
    assert unknown_flags(("--sleep-on-idel", "-1", "x"), known) == (
        "the installed engine does not know --sleep-on-idel: did you mean --sleep-on-idle?",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import sys; sys.exit('no module named torch')", "ended with 1 and said: no module named"),
        ("print('usage: nothing')", "ended with 0 and said: nothing"),
        ("import time; time.sleep(60)", "gave no answer in 1 s"),
    ],
)
def test_an_engine_that_cannot_be_asked_says_why(tmp_path: Path, text: str, says: str) -> None:
    """Its own last words, or that there were none."""
    with pytest.raises(ConfigError, match=says):
        ask_engine(engine(tmp_path, text), os.environ, seconds=1)


def test_an_engine_that_is_absent_is_named(tmp_path: Path) -> None:
    """With the key to check."""
    with pytest.raises(ConfigError, match="is not found: check `engine`"):
        ask_engine((str(tmp_path / "none"),), os.environ)
    (tmp_path / "plain").write_text("")
    with pytest.raises(ConfigError, match="cannot be run: Permission denied"):
        ask_engine((str(tmp_path / "plain"),), os.environ)


def test_flags_are_read_out_of_a_help_text() -> None:
    """Also from brackets and commas; a dash inside a word is none."""
    text = "usage: x [-h] [--a-b {x,--y}]\n  --tp-size T, --tp T  see well--known --end."
    assert flags_in_help(text) == {"--a-b", "--y", "--tp-size", "--tp", "--end"}

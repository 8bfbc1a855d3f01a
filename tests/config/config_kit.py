"""For the tests of the config: a rig file on disk, cards to find, and SGLang's real parser."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rigctl.config.load import load
from rigctl.config.schema import Config, ConfigError
from rigctl.core.cards import CardSample
from rigctl.core.ids import CardId

PARSER = Path(__file__).parents[1] / "real" / "parse_sglang_args.py"

GROUP = """\
[[group]]
name = "standard"
cards = [0]
port = 30001
model = "/models/tiny"
"""
"""The smallest group there can be; five lines, so a key added to it stands on line 6."""


class ConfigKit:
    """Writes a rig.toml and reads it back."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rig.toml"

    def write(self, text: str) -> Path:
        """Put the text on disk."""
        self.path.write_text(text, encoding="utf-8")
        return self.path

    def load(self, text: str) -> Config:
        """The config of this text."""
        return load(self.write(text))

    def faults(self, text: str) -> list[str]:
        """Every fault of this text, without the folder before the file's name."""
        with pytest.raises(ConfigError) as caught:
            self.load(text)
        return str(caught.value).replace(f"{self.path.parent}/", "").splitlines()


def make_card(number: int, index: int | None = None, lost: str = "") -> CardSample:
    """Card `number` of the rig: its UUID and address stay, its index may have moved up."""
    uuid = CardId(f"GPU-{number:08x}-0000-4000-8000-00000000000{number}")
    place = number if index is None else index
    return CardSample(uuid, place, f"0000:0{number + 1}:00.0", "NVIDIA RTX", lost)


class RealParser:
    """SGLang's argument parser, kept running: one command line in, what it parsed out."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(PARSER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def parse(self, flags: Sequence[str]) -> dict[str, Any]:
        """`{"parsed": …}` or `{"refused": …}` for the flags of one command line."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(list(flags)) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        return answer

    def close(self) -> int:
        """End it by the end of its input."""
        self._process.communicate(timeout=30)
        return self._process.returncode


def sglang_python() -> str:
    """An interpreter that has SGLang, or empty: as told, else the real engine's own."""
    folder = os.environ.get("RIGCTL_REAL_SGLANG", "")
    own = os.environ.get("RIGCTL_SGLANG_PYTHON", "")
    return own or (f"{folder}/venv/bin/python" if folder else "")

"""Fixtures of the config's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from config_kit import ConfigKit, RealParser, make_card, sglang_python

from rigctl.core.cards import CardSample


@pytest.fixture
def rig_file(tmp_path: Path) -> ConfigKit:
    """A rig.toml in a folder of its own."""
    return ConfigKit(tmp_path)


@pytest.fixture
def eight_cards() -> tuple[CardSample, ...]:
    """A rig in which every card is there."""
    return tuple(make_card(number) for number in range(8))


@pytest.fixture(scope="session")
def real_parser() -> Iterator[Callable[[Sequence[str]], dict[str, Any]]]:
    """The real parser; skips where there is none (a failure under RIGCTL_REQUIRE)."""
    python = sglang_python()
    if not python:
        pytest.skip("no SGLang to parse with: set RIGCTL_SGLANG_PYTHON to a python that has it")
    parser = RealParser(python)
    yield parser.parse
    assert parser.close() == 0

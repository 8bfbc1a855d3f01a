"""Skips a test whose machine lacks what it needs; with RIGCTL_REQUIRE any skip is a failure.

`RIGCTL_REQUIRE=tmux,cc,sglang` says what this machine is meant to have. A run that says so has
no excuse to skip anything, so every skip, whoever asked for it, is reported as a failure. Where
only some needs are named, a test marked with one of the others may still skip for that.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

NEEDS = ("tmux", "cc", "sglang", "extras")

EXTRAS = ("nvitop", "supervisor")
"""Packages of the optional extra `bench`."""

REAL_FIXTURES = {"real_sglang", "real_servers", "real_parser", "real_run"}
"""Fixtures that start or read a real SGLang."""


def required() -> tuple[str, ...]:
    """What RIGCTL_REQUIRE names; UsageError for a word that no test can need."""
    names = tuple(n.strip() for n in os.environ.get("RIGCTL_REQUIRE", "").split(",") if n.strip())
    unknown = sorted(set(names) - set(NEEDS))
    if unknown:
        raise pytest.UsageError(f"RIGCTL_REQUIRE names {unknown}; known are {list(NEEDS)}")
    return names


def missing(need: str) -> str:
    """Why this machine cannot run a test that needs it, with the cure; empty when it can."""
    if need == "tmux":
        return "" if shutil.which("tmux") else "tmux is not installed (apt install tmux)"
    if need == "extras":
        absent = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
        return f"no {', '.join(absent)}: pip install 'rigctl[dev]'" if absent else ""
    if need == "cc":
        return "" if shutil.which("cc") else "no C compiler (apt install gcc)"
    folder = os.environ.get("RIGCTL_REAL_SGLANG", "")
    if not folder:
        return "no real SGLang: tests/real/install.sh DIR, then RIGCTL_REAL_SGLANG=DIR"
    whole = (Path(folder) / "venv/bin/python", Path(folder) / "tiny-qwen3/config.json")
    if not all(path.exists() for path in whole):
        return f"RIGCTL_REAL_SGLANG={folder} is not whole: tests/real/install.sh {folder}"
    return ""


def pytest_configure() -> None:
    """A misspelt RIGCTL_REQUIRE ends the run before it can pass for the wrong reason."""
    required()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marker `tmux`, `cc` or `sglang` is a need of that name."""
    for need in NEEDS:
        if item.get_closest_marker(need) is not None:
            why = missing(need)
            if why:
                pytest.skip(why)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return str(report.longrepr or "no reason given")


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    # An expected failure is reported as skipped too; it carries `wasxfail` and stays.
    if report.skipped and not hasattr(report, "wasxfail") and required():
        names = ",".join(required())
        report.outcome = "failed"
        report.longrepr = f"RIGCTL_REQUIRE={names} makes a skip a failure. {_reason(report)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one."""
    report = yield
    if not _excused(item):
        _fail_if_skipped(report)
    return report


def _excused(item: pytest.Item) -> bool:
    """Whether the test is marked with a need that is missing and that nobody requires."""
    return any(
        item.get_closest_marker(need) is not None and missing(need)
        for need in NEEDS
        if need not in required()
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for the real SGLang by a fixture bears its marker too."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        params = getattr(getattr(item, "callspec", None), "params", {})
        if names & REAL_FIXTURES or "real" in params.values():
            item.add_marker("sglang")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that skipped itself into a failed one."""
    report = yield
    _fail_if_skipped(report)
    return report

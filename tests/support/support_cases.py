"""The table of public bug cases: which test holds which case, and why some cannot be held here."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

REGISTER = Path(__file__).parent.parent / "house" / "cases.toml"
"""The numbers that must be held, their titles, and reasons for those that cannot be."""

_tests: dict[str, dict[str, str]] = defaultdict(dict)
"""case number -> test id -> outcome"""

_numbers = pytest.StashKey[tuple[str, ...]]()


def register() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The listed cases with their titles, and the reasons of those not possible here."""
    table = tomllib.loads(REGISTER.read_text(encoding="utf-8"))
    return table["listed"], table["not_possible_here"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--case-report`: print the table and fail on a listed case without test or reason."""
    parser.addoption(
        "--case-report",
        action="store_true",
        help="print every public case against its tests; a listed case with neither test nor "
        "reason fails the run",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note the cases of a test; a marker without a number is a mistake in the test."""
    numbers: list[str] = []
    for mark in item.iter_markers("case"):
        if not mark.args or not all(isinstance(number, str) for number in mark.args):
            raise pytest.UsageError(f'{item.nodeid}: write @pytest.mark.case("C57")')
        numbers.extend(mark.args)
    item.stash[_numbers] = tuple(numbers)
    for number in numbers:
        _tests[number][item.nodeid] = "not run"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the worst outcome of the three phases of each test."""
    report = yield
    for number in item.stash[_numbers]:
        held = _tests[number]
        if report.outcome != "passed":
            held[item.nodeid] = report.outcome
        elif report.when == "call" and held[item.nodeid] == "not run":
            held[item.nodeid] = "passed"
    return report


def _function(nodeid: str) -> str:
    """A parametrised test counts once in the table."""
    return nodeid.partition("[")[0]


def table() -> tuple[list[str], list[str]]:
    """The lines of the table, and the listed cases that have neither test nor reason."""
    listed, impossible = register()
    lines: list[str] = []
    bare: list[str] = []
    for number in sorted({*listed, *_tests}, key=lambda name: int(name.lstrip("C"))):
        outcomes: dict[str, set[str]] = defaultdict(set)
        for nodeid, outcome in _tests.get(number, {}).items():
            outcomes[_function(nodeid)].add(outcome)
        lines.append(f"{number:<5} {listed.get(number, '(beyond the list)')}")
        lines.extend(
            f"      {'/'.join(sorted(found)):<8} {function}"
            for function, found in sorted(outcomes.items())
        )
        if number in impossible:
            lines.append(f"      not possible here: {impossible[number]}")
        if number in listed and not outcomes and number not in impossible:
            lines.append("      NO TEST AND NO REASON")
            bare.append(number)
    return lines, bare


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table above pytest's closing line."""
    if terminalreporter.config.getoption("case_report"):
        lines, bare = table()
        terminalreporter.section("public cases")
        for line in lines:
            terminalreporter.write_line(line)
        held = sum(1 for number in register()[0] if _tests.get(number))
        terminalreporter.write_line(
            f"{held} of {len(register()[0])} listed cases held by tests, {len(bare)} by nothing"
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A listed case that nothing holds fails the run that asked for the table."""
    asked = session.config.getoption("case_report")
    if asked and exitstatus == pytest.ExitCode.OK and table()[1]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

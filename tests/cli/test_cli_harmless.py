"""What an engine, a process or a colleague wrote reaches a terminal as text, never as an order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cli_rig import ends, refuse, serving
from cli_views import rig

from rigctl.adapters.journal import Journal
from rigctl.core.snapshot import JournalEntry

EVIL = "\x1b]0;pwned\x07\x1b[2J\x9b31mred\x7f"
"""Sets the window's title, clears the screen; C1 and DEL, which JSON leaves as they are."""
SIGNS = ("\x1b", "\x07", "\x9b", "\x7f", "\r")


def clean(text: str) -> bool:
    """Whether a terminal would take it all for text."""
    return not any(sign in text for sign in SIGNS)


@pytest.mark.parametrize("daemon", [True, False])
def test_log_and_journal_give_no_orders(home, rigctl, daemon: bool) -> None:
    """From the daemon and from the files: an engine may print what it likes."""
    logs = home / "logs"
    logs.mkdir()
    (logs / "long.log").write_text(f"before {EVIL} after\n")
    entry = JournalEntry(1, 1.0, "long", "freed", f"lent to {EVIL}")
    if daemon:
        with serving(home, rig()) as served:
            served.logs = {("long", 0): logs / "long.log"}
            served.entries = [entry]
            shown = [rigctl("logs", "long").stdout, rigctl("journal").stdout]
    else:
        (home / "state").mkdir()
        Journal(home / "state" / "journal.jsonl").write(1.0, "long", "freed", entry.say)
        shown = [rigctl("logs", "long").stdout, rigctl("journal").stdout]
    for text in shown:
        assert "pwned" in text
        assert clean(text)


@pytest.mark.parametrize("verb", [("status",), ("status", "--json"), ("status", "--check")])
def test_the_status_gives_no_orders(home, rigctl, verb: tuple[str, ...]) -> None:
    """Whatever stands in a snapshot, also where it is printed as the daemon sent it."""
    view = rig()
    groups = tuple(replace(group, say=f"freed for {EVIL}") for group in view.groups)
    with serving(home, replace(view, rig=EVIL, nvml=EVIL, groups=groups)):
        done = rigctl(*verb)
    assert "pwned" in done.stdout + done.stderr
    assert clean(done.stdout + done.stderr)


@pytest.mark.parametrize("script", [refuse(f"lent to {EVIL}"), ends("failed", f"held by {EVIL}")])
def test_the_daemons_words_give_no_orders(home, rigctl, script) -> None:
    """A refusal and an outcome name holders and processes."""
    with serving(home, rig(), script):
        done = rigctl("free", "long", "--yes")
    assert "pwned" in done.stderr
    assert clean(done.stdout + done.stderr)


def test_our_own_colours_stay(home, terminal) -> None:
    """On a terminal the page keeps the colours that we put into it."""
    with serving(home, rig()):
        shown = terminal("status")
        shown.expect("\x1b[1m")
        shown.expect("\x1b[0m")


def test_a_holder_is_a_short_line(home, rigctl) -> None:
    """A name stands in rows, notices and the state file: one line, and not a novel."""
    with serving(home, rig()) as served:
        rigctl("free", "long", "--yes", "--holder", f"anna\nb{EVIL}" + "x" * 5000)
    holder = served.asked[0].holder
    assert holder.startswith("anna b")
    assert clean(holder)
    assert "\n" not in holder
    assert len(holder) <= 200

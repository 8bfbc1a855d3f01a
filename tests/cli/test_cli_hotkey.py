"""The keyboard shortcut: `free --notify` never asks and tells where the person looks."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_rig import ends, refuse, serving, until
from cli_views import group, rig

from rigctl.adapters.notify import notify, run_on_event
from rigctl.core.commands import FreeGroup

DONE = ends("done", "4 of 4 cards free, 94.9 GiB, 7.9 s")


def program(folder: Path, name: str, body: str) -> None:
    """A small program on a PATH of its own."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session bus address and a notify-send that notes what it was told, one file a call."""
    notes = tmp_path / "notes"
    notes.mkdir()
    program(
        tmp_path / "bin",
        "notify-send",
        f"n=$(ls {notes} | wc -l); printf '%s\\n' \"$@\" > {notes}/$n",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    return notes


def told(notes: Path) -> list[str]:
    """What was shown, oldest first, summary and text."""
    files = sorted(notes.iterdir(), key=lambda file: int(file.name))
    return [": ".join(file.read_text().split("--\n")[-1].splitlines()) for file in files]


def test_the_first_press_frees_and_tells_both_ends(home, rigctl, desktop) -> None:
    """No question, no terminal: one notice that it began, one with the outcome; toggle is sent."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("free", "--notify")
        assert served.commands(FreeGroup)[0].toggle
    assert done.returncode == 0, done.stderr
    began, freed = told(desktop)
    assert began == "rigctl: free long: free accepted. Press again to cancel."
    assert freed == "rigctl: long freed: 4 of 4 cards free, 94.9 GiB, 7.9 s"
    assert done.stdout == ""


def test_the_second_press_cancels(home, rigctl, desktop) -> None:
    """Pressed again while draining: the daemon cancels, and that is what the person reads."""
    with serving(home, rig(), ends("cancelled", "cancelled by a second press")):
        done = rigctl("free", "--notify")
    assert done.returncode == 1
    assert told(desktop)[-1] == "rigctl: long cancelled: cancelled by a second press"


def test_a_refusal_is_notified(home, rigctl, desktop) -> None:
    """What the daemon refuses reaches the person who pressed the key."""
    with serving(home, rig(), refuse("long is already lent to training")):
        done = rigctl("free", "--notify")
    assert done.returncode == 1
    assert told(desktop) == ["rigctl: free failed: long is already lent to training"]


def test_without_a_desktop_it_says_so_and_still_frees(home, rigctl) -> None:
    """No bus, no tmux: the cards are freed and stderr says why nobody was notified."""
    with serving(home, rig(groups=(group(), group("long"))), DONE):
        done = rigctl("free", "--notify")
    assert done.returncode == 0
    assert "no notification: no desktop session" in done.stderr
    assert "4 of 4 cards free" in done.stderr


def test_a_failing_bus_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bus with no notification service: its words are passed on."""
    program(tmp_path / "bin", "notify-send", "echo 'no such service' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    assert notify("a", "b") == "notify-send: no such service"


def test_gdbus_is_the_second_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without notify-send gdbus is called, quotes and line ends kept from breaking its text."""
    seen = tmp_path / "seen"
    program(tmp_path / "bin", "gdbus", f"printf '%s\\n' \"$@\" > {seen}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    # The script needs no PATH: sh builtins only.
    assert notify('say "hi"', "one\ntwo", urgent=True) == ""
    words = seen.read_text().splitlines()
    assert '"say \\"hi\\""' in words
    assert '"one\\ntwo"' in words
    assert "{'urgency': <byte 2>}" in words


@pytest.mark.tmux
def test_in_tmux_the_key_works_and_the_status_line_tells(home, tmp_path, rigctl, terminal) -> None:
    """The binding that `rigctl shortcut tmux` prints, pressed in a real tmux, frees the cards."""
    binding = tmp_path / "tmux.conf"
    binding.write_text(rigctl("shortcut", "tmux").stdout)
    tmux = ("tmux", "-S", str(tmp_path / "t"), "-f", str(binding))
    with serving(home, rig(), DONE) as served:
        screen = terminal("new-session", "echo shell-is-up; sleep 60", argv=tmux)
        try:
            screen.expect("shell-is-up")
            screen.type("\x02")
            time.sleep(0.1)  # tmux takes keys within a millisecond for a paste
            screen.type("F")
            until(lambda: bool(served.commands(FreeGroup)), "the free")
            screen.expect("long freed: 4 of 4 cards free")
        finally:
            subprocess.run([*tmux, "kill-server"], check=True)
            screen.wait()


async def test_on_event_gets_its_facts_and_no_terminal(tmp_path: Path) -> None:
    """The owner's command runs in its own session, with RIGCTL_* set and its output dropped."""
    seen = tmp_path / "seen"
    body = (
        f"import os; file = open({str(seen)!r}, 'w')\n"
        "file.write(os.environ['RIGCTL_EVENT'] + str(os.getsid(0) == os.getpid()))\n"
        "print('x')"
    )
    problem = await run_on_event([sys.executable, "-c", body], {"event": "crashed"})
    assert problem == ""
    assert seen.read_text() == "crashedTrue"


async def test_on_event_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """Past its time the whole session goes, and what happened is said."""
    pid = tmp_path / "pid"
    began = time.monotonic()
    problem = await run_on_event(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], {}, 0.5)
    assert "ended after" in problem
    assert time.monotonic() - began < 30
    child = int(pid.read_text())
    until(lambda: not os.path.exists(f"/proc/{child}") or is_zombie(child), "the child's end")


def is_zombie(pid: int) -> bool:
    """Dead and not yet collected by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_on_event_says_what_went_wrong() -> None:
    """A missing program and a failing one are reported, not raised."""
    assert "No such file" in await run_on_event(["/nowhere/x"], {})
    assert "ended with 3" in await run_on_event(["sh", "-c", "exit 3"], {})


async def test_a_zero_byte_in_a_fact_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No argument or variable can carry one; a holder's name may come with one."""
    seen = tmp_path / "seen"
    program(tmp_path / "bin", "notify-send", f"printf '%s\\n' \"$@\" > {seen}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    assert notify("free", "lent to a\0b\x1b[2J") == ""
    assert seen.read_text().splitlines()[-1] == "lent to a\ufffdb"
    said = f'printf %s "$RIGCTL_SAY" > {seen}'
    assert await run_on_event(["sh", "-c", said], {"say": "a\0b"}) == ""
    assert seen.read_text() == "a\ufffdb"

"""`rigctl logs` and `rigctl journal`: from the daemon, and from the files without one."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from cli_rig import serving, until
from cli_views import rig

from rigctl.adapters.journal import Journal
from rigctl.core.snapshot import JournalEntry


def follow(*args: str) -> subprocess.Popen[str]:
    """A following verb, its output line by line."""
    return subprocess.Popen(
        [sys.executable, "-m", "rigctl", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_logs_come_from_the_daemon(home, rigctl, tmp_path) -> None:
    """The daemon names the file; --lines, --grep and --previous choose."""
    now, before = tmp_path / "a.log", tmp_path / "b.log"
    now.write_text("".join(f"line {n}\n" for n in range(300)))
    before.write_text("the run before\n")
    with serving(home, rig()) as served:
        served.logs = {("long", 0): now, ("long", 1): before}
        tail = rigctl("logs", "long", "-n", "3").stdout
        found = rigctl("logs", "long", "-g", "LINE 29[0-2]").stdout
        previous = rigctl("logs", "long", "--previous").stdout
        wrong = rigctl("logs", "lnog")
    assert tail == "line 297\nline 298\nline 299\n"
    assert found == "line 290\nline 291\nline 292\n"
    assert previous == "the run before\n"
    assert wrong.returncode == 2
    assert "no group `lnog`" in wrong.stderr


def test_logs_without_a_daemon_come_from_the_file_redacted(home, rigctl) -> None:
    """No daemon: the file itself, keys masked, repeats folded, none started."""
    logs = home / "logs"
    logs.mkdir()
    (logs / "long.log").write_text("api_key='sk-secret'\nsame\nsame\nsame\n")
    (logs / "long.1.log").write_text("the run before\n")
    done = rigctl("logs", "long", env={"LANG": "C.UTF-8"})
    assert done.stdout == "api_key='***'\nsame\n  … and the same again x 2\n"
    assert rigctl("logs", "long", "--previous", "1").stdout == "the run before\n"
    missing = rigctl("logs", "standard")
    assert missing.returncode == 1
    assert "there is a log of long" in missing.stderr
    assert not (home / "state").exists()


def test_the_daemons_own_log_has_a_name(home, rigctl) -> None:
    """`rigctl logs daemon` works while a daemon runs and after it has died."""
    (home / "logs").mkdir()
    (home / "logs" / "daemon.log").write_text("boom\n")
    assert rigctl("logs", "daemon").stdout == "boom\n"
    with serving(home, rig()):
        assert rigctl("logs", "daemon").stdout == "boom\n"


def test_a_followed_log_survives_the_daemon(home) -> None:
    """`logs -f` goes on with the file when the daemon goes."""
    log = home / "logs" / "long.log"
    log.parent.mkdir()
    log.write_text("one\n")
    with serving(home, rig()) as served:
        served.logs = {("long", 0): log}
        process = follow("logs", "-f", "long")
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        with log.open("a") as file:
            file.write("two\n")
        assert process.stdout.readline() == "two\n"
    with log.open("a") as file:
        time.sleep(0.5)
        file.write("three\n")
    assert process.stdout.readline() == "three\n"
    process.terminate()
    _, talk = process.communicate(timeout=10)
    assert "Following the file instead" in talk


def test_a_broken_pattern_is_usage(rigctl) -> None:
    """A pattern that is none says so, with exit code 2."""
    done = rigctl("logs", "long", "-g", "(")
    assert done.returncode == 2
    assert "not a pattern" in done.stderr


ENTRIES = [
    JournalEntry(1, time.time() - 7200, "long", "freed", "long freed in 7.9 s"),
    JournalEntry(2, time.time() - 60, "standard", "stall", "prefill stall 136 s", {"seconds": 136}),
    JournalEntry(3, time.time() - 30, "long", "reclaimed", "long taken back"),
]


@pytest.mark.parametrize("daemon", [True, False])
def test_the_journal_is_the_same_with_and_without_a_daemon(home, rigctl, daemon: bool) -> None:
    """--group, --since, --lines and --json choose alike from the socket and from the file."""
    if daemon:
        with serving(home, rig()) as served:
            served.entries = list(ENTRIES)
            outputs = look(rigctl)
    else:
        (home / "state").mkdir()
        journal = Journal(home / "state" / "journal.jsonl")
        for entry in ENTRIES:
            journal.write(entry.wall, entry.group, entry.kind, entry.say, entry.figures)
        outputs = look(rigctl)
    everything, last, of_long, recent, as_json = outputs
    assert [line.split("  ", 1)[1].split()[0] for line in everything] == [
        "long",
        "standard",
        "long",
    ]
    assert everything[0].startswith(time.strftime("%Y-%m-%d ", time.localtime(ENTRIES[0].wall)))
    assert len(last) == 1
    assert "taken back" in last[0]
    assert ["stall" in line for line in of_long] == [False, False]
    assert ["freed" in line for line in recent] == [False, False]
    assert json.loads(as_json[1])["figures"] == {"seconds": 136.0}


def look(rigctl) -> list[list[str]]:
    """The journal by five different questions."""
    return [
        rigctl("journal", *args).stdout.splitlines()
        for args in (
            (),
            ("-n", "1"),
            ("--group", "long"),
            ("--since", "1h"),
            ("--json",),
        )
    ]


def test_a_followed_journal_survives_a_restart_and_misses_nothing(home) -> None:
    """`journal -f` shows what happens, and after a daemon restart what happened meanwhile."""
    with serving(home, rig()) as served:
        served.entries = ENTRIES[:1]
        process = follow("journal", "-f")
        assert process.stdout is not None
        assert "7.9 s" in process.stdout.readline()
        until(lambda: bool(served.broadcast._followers), "the follower")
        served.soon(lambda: served.broadcast.note(ENTRIES[1]))
        assert "stall" in process.stdout.readline()
    with serving(home, rig()) as served:
        served.entries = list(ENTRIES)
        assert "taken back" in process.stdout.readline()
    process.terminate()
    process.communicate(timeout=10)


def test_a_followed_journal_without_a_daemon_says_nothing_comes(home, rigctl) -> None:
    """`journal -f` with nobody to write it ends with 3 and a word."""
    done = rigctl("journal", "-f")
    assert done.returncode == 3
    assert "nothing new will come" in done.stderr


def test_a_moment_nobody_understands_is_usage(rigctl) -> None:
    """--since takes a length, a time or a date; anything else is exit code 2."""
    assert rigctl("journal", "--since", "yesterday-ish").returncode == 2
    for text in ("08:00", "2026-11-29", "2026-11-29 08:00", "2h"):
        assert rigctl("journal", "--since", text).returncode == 0


def test_an_empty_journal_says_why(home, rigctl) -> None:
    """Nothing yet, or nothing of that group: stdout stays empty, a word stands on stderr."""
    with serving(home, rig()) as served:
        bare = rigctl("journal")
        served.entries.append(JournalEntry(1, 1_764_000_000.0, "long", "ready", "ready"))
        other = rigctl("journal", "--group", "nope")
        as_json = rigctl("journal", "--group", "nope", "--json")
    assert (bare.returncode, bare.stdout) == (0, "")
    assert "nothing has happened" in bare.stderr
    assert "no entry of nope" in other.stderr
    assert (as_json.stdout, as_json.stderr) == ("", "")

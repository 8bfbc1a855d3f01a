"""The journal numbers events, survives torn lines and full disks, and stays bounded."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support_disk import no_room, small_disk

from rigctl.adapters.journal import KEPT_IN_MEMORY, Journal


def test_entries_are_numbered_across_restarts(tmp_path: Path) -> None:
    """What was written is there after a restart, and the numbers go on."""
    path = tmp_path / "journal.jsonl"
    first = Journal(path)
    first.write(1.0, "long", "freed", "long freed in 7.9 s", {"total_seconds": 7.9})
    first.write(2.0, "", "started", "grüße")
    assert path.stat().st_mode & 0o777 == 0o600
    second = Journal(path)
    assert second.tail(10) == first.tail(10)
    assert second.write(3.0, "long", "ready", "ready").seq == 3
    assert [entry.seq for entry in second.after(1, 10)] == [2, 3]
    assert [entry.seq for entry in second.after(0, 2)] == [2, 3]
    assert second.after(3, 10) == second.tail(0) == ()


def test_a_figure_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    """Every line is JSON that any reader takes."""
    path = tmp_path / "journal.jsonl"
    written = Journal(path).write(1.0, "", "a", "b", {"x": math.inf, "y": math.nan, "z": 1.0})
    assert written.figures == {"z": 1.0}
    assert b"NaN" not in path.read_bytes()


@pytest.mark.parametrize("torn", [b'{"seq":2,"wa', b"\0\0\0\0", b'{"seq":', b"\xff\xfe"])
def test_a_torn_last_line_costs_only_itself(tmp_path: Path, torn: bytes) -> None:
    """A crash in mid-line: the entries before and after it are read."""
    path = tmp_path / "journal.jsonl"
    Journal(path).write(1.0, "", "a", "before")
    with path.open("ab") as file:
        file.write(torn)
    Journal(path).write(2.0, "", "b", "after")
    assert [entry.say for entry in Journal(path).tail(9)] == ["before", "after"]


def test_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    """Lines that are not entries (an editor's, another schema's) do not stop the daemon."""
    path = tmp_path / "journal.jsonl"
    path.write_text('{}\n[]\nhello\n{"seq": "x"}\n{"seq":1,"wall":1,"group":"","kind":"k"}\n')
    assert Journal(path).last_seq == 0


def test_the_journal_stays_bounded(tmp_path: Path) -> None:
    """Two files of the limit at most; the oldest entries go, the numbers never start again."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, limit_bytes=4000)
    for number in range(1000):
        journal.write(float(number), "long", "stall", "x" * 50)
    files = list(tmp_path.iterdir())
    assert {file.name for file in files} == {"journal.jsonl", "journal.jsonl.1"}
    assert all(file.stat().st_size <= 4000 for file in files)
    again = Journal(path, limit_bytes=4000)
    assert again.last_seq == 1000
    held = [entry.seq for entry in again.tail(1000)]
    assert held == list(range(held[0], 1001))
    assert len(held) > 30


def test_older_entries_come_from_the_disk(tmp_path: Path) -> None:
    """What no longer fits into memory is still answered for."""
    journal = Journal(tmp_path / "journal.jsonl")
    for number in range(KEPT_IN_MEMORY + 50):
        journal.write(float(number), "", "k", "s")
    assert [entry.seq for entry in journal.after(0, 10_000)] == list(range(1, KEPT_IN_MEMORY + 51))


@pytest.mark.case("C68")
def test_a_full_disk_costs_entries_on_disk_and_is_said(tmp_path: Path) -> None:
    """No room: the entry is kept in memory, counted, said; later ones are written again."""
    folder = tmp_path / "disk"
    with small_disk(folder):
        path = folder / "journal.jsonl"
        journal = Journal(path)
        journal.write(1.0, "", "a", "first")
        size = path.stat().st_size
        with no_room(folder, limit=size):
            for number in range(200):
                journal.write(2.0, "", "b", f"lost {number} " + "x" * 300)
            assert journal.dropped > 0
            assert "journal.jsonl" in journal.trouble
            assert "full" in journal.trouble or "limit" in journal.trouble
            assert journal.tail(1)[0].say.startswith("lost 199")
        journal.write(3.0, "", "c", "last")
        assert journal.trouble == ""
        lines = path.read_bytes().split(b"\n")
        assert all(line.startswith(b"{") and line.endswith(b"}") for line in lines[:-1])
        assert Journal(path).tail(1)[0].say == "last"
        assert Journal(path).last_seq == 202


@pytest.mark.case("C68")
def test_a_folder_that_is_gone_does_not_stop_anybody(tmp_path: Path) -> None:
    """The journal never raises for the disk."""
    journal = Journal(tmp_path / "none" / "journal.jsonl")
    assert journal.write(1.0, "", "a", "b").seq == 1
    assert journal.dropped == 1
    assert journal.trouble

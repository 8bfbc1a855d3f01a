"""Logs of running engines stay bounded and writable, and the engine never notices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_disk import fill, small_disk

from rigctl.adapters import diskspace
from rigctl.adapters.logfile import SCARCE_BYTES, LogFiles
from rigctl.adapters.tail import Tail, last_lines


@pytest.fixture
def files(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path, cap=1_000_000, keep=400_000, reserve=64 * 1024, runs=3)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    with small_disk(folder, kib=1024) as mounted:
        if not mounted:
            pytest.skip("needs the right to mount a small disk")
        yield folder


class Engine:
    """Holds its log open and appends, as a server does for days."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        self.lines = 0

    def print(self, count: int) -> None:
        """Lines of 100 bytes; OSError where one does not fit whole."""
        for _ in range(count):
            line = f"line {self.lines}".ljust(99).encode() + b"\n"
            if os.write(self._descriptor, line) != len(line):
                raise OSError(28, "half a line")
            self.lines += 1

    def close(self) -> None:
        os.close(self._descriptor)


def blocks(path: Path) -> int:
    """Bytes the file takes on the disk."""
    return path.stat().st_blocks * 512


def numbers(lines: list[str] | tuple[str, ...]) -> list[int]:
    return [int(line.split()[1]) for line in lines]


def test_each_run_has_its_own_log(files: LogFiles, tmp_path: Path) -> None:
    """The present one has the plain name, earlier ones a number; the oldest goes."""
    for run in range(5):
        path = files.begin("standard")
        assert path == tmp_path / "standard.log"
        assert path.read_bytes() == b""
        path.write_text(f"run {run}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [files.path("standard", back).read_text() for back in range(3)] == [
        "run 4\n",
        "run 3\n",
        "run 2\n",
    ]
    assert len(list(tmp_path.iterdir())) == 3
    files.begin("standard")
    files.begin("standard")
    assert files.path("standard", 1).read_text() == "run 4\n", "an empty log is no run"


@pytest.mark.case("C68")
def test_a_flood_stays_under_the_cap_while_the_engine_writes(files: LogFiles) -> None:
    """10 MB through a log of 1 MB: bounded on the disk, and a follower sees every line."""
    path = files.begin("standard")
    engine = Engine(path)
    tail = Tail(path)
    seen: list[int] = []
    for _ in range(100):
        engine.print(1000)
        while lines := tail.read():
            seen += numbers(lines)
        assert files.tidy() == ""
        assert blocks(path) <= 1_000_000 + 2 * 64 * 1024
    assert seen == list(range(100_000))
    assert tail.restarts == 0
    assert numbers(last_lines(path, 5).lines) == list(range(99_995, 100_000))
    tail.close()
    engine.close()


def test_a_finished_log_becomes_a_plain_file(files: LogFiles) -> None:
    """Stepped back, it has no hole before its text: `less` shows text from the first byte."""
    path = files.begin("standard")
    engine = Engine(path)
    engine.print(15_000)
    files.tidy()
    engine.close()
    assert path.read_bytes()[:1] == b"\0"
    files.begin("standard")
    old = files.path("standard", 1)
    text = old.read_bytes()
    assert b"\0" not in text
    assert numbers(text.decode().splitlines())[-1] == 14_999
    assert 390_000 < len(text) < 410_000
    assert old.stat().st_mode & 0o777 == 0o600
    assert blocks(old) < 500_000


@pytest.mark.case("C68")
def test_where_holes_are_impossible_the_log_is_copied_and_cut(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that cannot punch: the newest part stays, the engine's handle stays good."""

    def cannot(*_: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(diskspace, "punch", cannot)
    monkeypatch.setattr(diskspace, "reserve", cannot)
    path = files.begin("standard")
    engine = Engine(path)
    engine.print(15_000)
    assert files.tidy() == ""
    assert path.stat().st_size <= 400_000
    engine.print(10)
    lines = path.read_text().splitlines()
    assert numbers(lines)[-4000:] == list(range(15_010 - len(lines), 15_010))[-4000:]
    assert len(lines) > 3900
    engine.close()


@pytest.mark.case("C68")
def test_a_full_disk_does_not_reach_the_engine(disk: Path) -> None:
    """Somebody fills the disk: the engine prints on from the reserve, its old lines make room."""
    files = LogFiles(disk, cap=600_000, keep=300_000, reserve=64 * 1024)
    path = files.begin("standard")
    engine = Engine(path)
    engine.print(4000)
    assert files.tidy() == ""
    filler = fill(disk)
    with pytest.raises(OSError, match="No space"):
        (disk / "other").write_bytes(b"x" * 100_000)
    troubles = set()
    for _ in range(100):
        engine.print(300)  # 30 kB between two looks; without reserve the first would raise
        troubles.add(files.tidy())
    said = [trouble for trouble in troubles if trouble]
    assert said
    assert all("disk is full" in trouble for trouble in said)
    assert blocks(path) <= 700_000
    tail = last_lines(path, 9999)
    assert numbers(tail.lines)[-1] == 33_999
    assert len(tail.lines) > SCARCE_BYTES // 100 - 100
    filler.unlink()
    assert files.tidy() == ""
    engine.close()


@pytest.mark.case("C68")
def test_without_the_reserve_a_full_disk_would_reach_the_engine(disk: Path) -> None:
    """What the reserve is for: a plain file on a full disk takes no line."""
    path = disk / "plain.log"
    path.touch()
    engine = Engine(path)
    filler = fill(disk)
    with pytest.raises(OSError):
        engine.print(300)
    filler.unlink()
    engine.close()


def test_a_folder_that_is_gone_is_said_by_the_spawn(tmp_path: Path) -> None:
    """Log upkeep never raises: a start that cannot open its log says so itself."""
    files = LogFiles(tmp_path / "none")
    assert files.begin("standard") == tmp_path / "none" / "standard.log"
    assert files.tidy() == ""


def test_a_group_may_be_called_by_a_number(files: LogFiles, tmp_path: Path) -> None:
    """`3.log` is a present log, kept under its cap; only a number after a dot is an earlier run."""
    engine = Engine(files.begin("3"))
    engine.print(15_000)
    assert files.tidy() == ""
    engine.close()
    assert blocks(tmp_path / "3.log") <= 1_000_000

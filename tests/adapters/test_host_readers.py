"""The host is read as it is, and a last boot is called cut only on evidence."""

from __future__ import annotations

import os
import struct
import threading
import time
from pathlib import Path

import pytest

from rigctl.adapters import lastboot
from rigctl.adapters.clock import MonotonicClock, SleepWatch, suspended_seconds
from rigctl.adapters.host import Host, memory
from rigctl.core.reading import Missing


def record(kind: int, user: str, seconds: int) -> bytes:
    """One line of wtmp as glibc writes it."""
    made = struct.pack(
        "=hxxi32s4s32s256shhiii16s20s",
        kind, 0, b"~", b"~~", user.encode(), b"6.8.0", 0, 0, 0, seconds, 0, b"", b"",
    )  # fmt: skip
    assert len(made) == 384
    return made


BOOT = record(2, "reboot", 1)
SHUTDOWN = record(1, "shutdown", 2)
LEVEL = record(1, "runlevel", 3)
LOGIN = record(7, "anna", 4)


@pytest.mark.case("C09")
@pytest.mark.parametrize(
    ("raw", "verdict"),
    [
        (BOOT + LEVEL + LOGIN + SHUTDOWN + BOOT + LEVEL, lastboot.CLEAN),
        (BOOT + LEVEL + LOGIN + BOOT + LEVEL + LOGIN, lastboot.CUT),
        (BOOT + SHUTDOWN + BOOT + BOOT, lastboot.CUT),
        (BOOT + SHUTDOWN + BOOT + SHUTDOWN, lastboot.CLEAN),
        (BOOT + LEVEL, ""),
        (b"", ""),
        (LOGIN, ""),
        (BOOT + BOOT + SHUTDOWN[:100], lastboot.CUT),
    ],
)
def test_a_boot_without_a_shutdown_before_it_was_cut(
    tmp_path: Path, raw: bytes, verdict: str
) -> None:
    """Two boots with no shutdown between: the rig lost power; one boot alone tells nothing."""
    wtmp = tmp_path / "wtmp"
    wtmp.write_bytes(raw)
    assert lastboot.judge(lastboot.marks(raw)) == verdict
    if verdict:
        assert lastboot.last_boot(wtmp) == verdict


@pytest.mark.case("C09")
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Started cron.\nReached target Power-Off.\nShutting down.\nJournal stopped\n", "clean"),
        ("Started Session 4 of User anna.\n", lastboot.CUT),
        ("Journal stopped\nJournal started\nStarted cron.\n", lastboot.CUT),
        ("", ""),
    ],
)
def test_the_journal_ends_with_a_shutdown_or_just_ends(text: str, verdict: str) -> None:
    """Where no wtmp is kept: an ordinary last line means cut, no line at all means unknown."""
    assert lastboot.judge_journal(text) == verdict


def test_the_host_is_read(tmp_path: Path) -> None:
    """Load, memory and the disk under a log folder that does not exist yet."""
    view = Host(tmp_path / "not" / "yet").sample()
    assert view.cores == os.cpu_count()
    for reading in (view.load, view.memory_used, view.memory_total, view.disk_free):
        assert not isinstance(reading, Missing)
    assert not isinstance(view.memory_used, Missing)
    assert not isinstance(view.memory_total, Missing)
    assert 0 < view.memory_used < view.memory_total
    disk = os.statvfs(tmp_path)
    assert view.disk_total == disk.f_blocks * disk.f_frsize
    assert view.last_boot in ("", lastboot.CLEAN, lastboot.CUT)


def test_a_slow_journal_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict on the last boot is asked for once, and comes when it comes."""
    asked: list[int] = []
    ready = threading.Event()

    def slow() -> str:
        asked.append(1)
        ready.wait(10)
        return lastboot.CUT

    monkeypatch.setattr("rigctl.adapters.host.last_boot", slow)
    host = Host(tmp_path)
    assert host.sample().last_boot == ""
    assert host.sample().last_boot == ""
    ready.set()
    end = time.monotonic() + 10
    while host.sample().last_boot != lastboot.CUT:
        assert time.monotonic() < end
        time.sleep(0.005)
    assert asked == [1]


def test_cache_that_can_be_given_back_is_not_in_use(tmp_path: Path) -> None:
    """Used is total less available; a kernel that does not say gives a reason, not a number."""
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\nHugePages: x\n")
    assert memory(file) == (400 * 1024.0, 1000 * 1024.0)
    file.write_text("MemTotal: 1000 kB\n")
    assert all(isinstance(reading, Missing) for reading in memory(file))
    assert all(isinstance(reading, Missing) for reading in memory(tmp_path / "none"))


@pytest.mark.case("C91")
def test_a_suspend_is_said_once_with_its_length() -> None:
    """CLOCK_BOOTTIME runs ahead by 8 h: 28,800 s, once; noise is nothing; small ones add up."""
    suspended = 100.0

    def read() -> float:
        return suspended

    watch = SleepWatch(read)
    assert watch.slept() == 0.0
    suspended += 28_800
    assert watch.slept() == 28_800
    assert watch.slept() == 0.0
    suspended += 0.6
    assert watch.slept() == 0.0
    suspended += 0.6
    assert watch.slept() == pytest.approx(1.2)


def test_the_clocks_run() -> None:
    """Monotonic for decisions, wall for people; awake, the two monotonic clocks keep step."""
    clock = MonotonicClock()
    first = clock.now()
    assert clock.now() >= first
    assert abs(clock.wall() - time.time()) < 5
    assert abs(suspended_seconds() - suspended_seconds()) < 0.5
    assert SleepWatch().slept() == 0.0

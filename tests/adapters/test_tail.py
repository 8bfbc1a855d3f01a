"""Following a log neither misses nor doubles a line, whatever is done to the file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from rigctl.adapters import diskspace
from rigctl.adapters.logfold import Fold
from rigctl.adapters.tail import LINE_BYTES, Tail, last_lines


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "standard.log"


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_half_a_line_is_held_until_it_is_whole(log: Path) -> None:
    """A line written in two parts is one line; the offset points at its beginning until then."""
    tail = Tail(log)
    assert tail.read() == []
    append(log, b"one\ntw")
    assert tail.read() == ["one"]
    assert tail.offset == 4
    append(log, b"o\n\n")
    assert tail.read() == ["two", ""]
    assert tail.read() == []
    tail.close()
    append(log, b"three\n")
    again = Tail(log, tail.offset)
    assert again.read() == ["three"]
    again.close()


def test_progress_bars_give_a_line_a_step(log: Path) -> None:
    r"""`\r` ends a line, `\r\n` ends one line, also when they arrive apart."""
    tail = Tail(log)
    append(log, b"\rLoading 1/3\rLoading 2/3\r")
    assert tail.read() == ["Loading 1/3", "Loading 2/3"]
    append(log, b"\nnext\r\nlast\n")
    assert tail.read() == ["next", "last"]
    tail.close()


def test_bytes_that_are_no_text_are_replaced(log: Path) -> None:
    """Invalid UTF-8 and NULs do not stop the reader; a character cut by a read is whole."""
    tail = Tail(log)
    append(log, b"\xff\xfe bad\ngr\xc3")
    assert tail.read() == ["\ufffd\ufffd bad"]
    append(log, b"\xbc\xc3\x9fe\0\n")
    assert tail.read() == ["grüße"]
    tail.close()


def test_one_call_takes_a_bounded_part(log: Path) -> None:
    """A flood is read in portions; a line without end is given out before it fills the memory."""
    append(log, b"x" * 99 + b"\n")
    append(log, (b"y" * 99 + b"\n") * 99)
    tail = Tail(log)
    assert len(tail.read(limit=1000)) == 10
    assert len(tail.read()) == 90
    append(log, b"z" * (LINE_BYTES + 10))
    assert len(tail.read()) == 1
    append(log, b"\n")
    assert tail.read() == [""]
    tail.close()


def test_a_cut_file_is_read_from_its_start(log: Path) -> None:
    """Copy and truncate: what is written after the cut is read, nothing of before comes again."""
    append(log, b"one\ntwo\nhal")
    tail = Tail(log)
    assert tail.read() == ["one", "two"]
    os.truncate(log, 0)
    append(log, b"three\n")
    assert tail.read() == ["three"]
    assert tail.restarts == 1
    tail.close()


def test_a_replaced_file_is_read_to_its_end_first(log: Path) -> None:
    """Rotation by rename: the rest of the old file, its unfinished last line, then the new one."""
    append(log, b"one\n")
    tail = Tail(log)
    assert tail.read() == ["one"]
    append(log, b"two\nlast words")
    log.rename(log.with_suffix(".1"))
    assert tail.read() == ["two"]
    append(log, b"new\n")
    assert tail.read() == ["last words", "new"]
    tail.close()


def test_a_punched_out_part_is_passed_over(log: Path) -> None:
    """A follower that lags behind the hole goes on with the text after it, without NULs."""
    append(log, b"a" * 8191 + b"\n" + b"b" * 8191 + b"\nlast\n")
    with log.open("r+b") as file:
        diskspace.punch(file.fileno(), 0, 8192)
    tail = Tail(log)
    assert tail.read() == ["b" * 8191, "last"]
    tail.close()
    assert last_lines(log, 9).lines[-1] == "last"
    os.truncate(log, 1 << 40)  # an empty terabyte, as after months of a chatty engine
    append(log, b"\nmuch later\n")
    tail = Tail(log, 16_000)
    lines = [line for _ in range(3) for line in tail.read() if line]
    assert lines[-2:] == ["last", "much later"]
    tail.close()


def test_starting_at_the_end_shows_only_what_comes(log: Path) -> None:
    """With no offset given out, the past is left alone."""
    append(log, b"old\n")
    tail = Tail(log, None)
    append(log, b"new\n")
    assert tail.read() == ["new"]
    tail.close()


def test_the_last_lines_and_what_follows_meet(log: Path) -> None:
    """The unfinished end is told apart, and a Tail from the offset completes it."""
    append(log, b"".join(b"%d\n" % number for number in range(1000)) + b"hal")
    end = last_lines(log, 3)
    assert (end.lines, end.rest) == (("997", "998", "999"), "hal")
    append(log, b"f\n")
    tail = Tail(log, end.offset)
    assert tail.read() == ["half"]
    tail.close()
    assert last_lines(log, 0).lines == ()
    assert last_lines(log, 9999, limit=20).lines == ("997", "998", "999", "half")


@pytest.mark.case("C68")
def test_a_flood_is_folded_into_a_count() -> None:
    """The same line 20,114 times, times of day aside, is one line and one count."""
    fold = Fold()
    shown = []
    for number in range(20_114):
        stamp = f"[2026-11-29 23:{number // 60 % 60:02}:{number % 60:02}]"
        shown += fold.feed(f"{stamp} MQLLMEngine is already dead")
    assert len(shown) == 1
    shown += fold.feed("something else")
    assert shown[1:] == ["  … and the same again x 20113", "something else"]
    assert fold.flush() == []
    assert fold.feed("") + fold.feed("") == ["", ""]


PIECES = st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r", b"\r\n", b"\xc3", b"\xbc", b"c\n"]))


@seed(36)
@settings(max_examples=150, deadline=None)
@given(PIECES, st.lists(st.integers(1, 5), min_size=1))
def test_how_the_bytes_arrive_makes_no_difference(pieces: list[bytes], sizes: list[int]) -> None:
    """Any cutting of the same bytes into reads gives the same lines."""
    data = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.write_bytes(data + b"\nend\n")
        whole = Tail(log)
        expected = whole.read()
        whole.close()
        tail = Tail(log)
        lines: list[str] = []
        turn = 0
        while tail.offset < log.stat().st_size:
            lines += tail.read(limit=sizes[turn % len(sizes)])
            turn += 1
        tail.close()
    assert [line for line in lines if line] == [line for line in expected if line]
    assert lines[-1] == expected[-1] == "end"


class Rotated(RuleBasedStateMachine):
    """Writes numbered lines, rotates and reads in any order: each number is seen exactly once."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "log"
        self.log.touch()
        self.tail = Tail(self.log)
        self.written = 0
        self.seen: list[str] = []
        self.renamed = 0

    @rule(count=st.integers(1, 5))
    def write(self, count: int) -> None:
        for _ in range(count):
            append(self.log, b"%d\n" % self.written)
            self.written += 1

    @rule()
    def rotate(self) -> None:
        self.read()  # one rotation between two reads is what a follower is owed
        self.log.rename(f"{self.log}.{self.renamed}")
        self.renamed += 1
        self.log.touch()

    @rule()
    def cut(self) -> None:
        self.read()
        os.truncate(self.log, 0)
        self.read()

    @rule()
    def read(self) -> None:
        while lines := self.tail.read():
            self.seen += lines

    def teardown(self) -> None:
        self.read()
        self.tail.close()
        self.folder.cleanup()
        assert self.seen == [str(number) for number in range(self.written)]


def test_rotation_neither_loses_nor_doubles_a_line() -> None:
    """Held by a state machine over writes, renames, cuts and reads."""
    run_state_machine_as_test(
        Rotated,
        settings=settings(max_examples=60, stateful_step_count=25, deadline=None, derandomize=True),
    )

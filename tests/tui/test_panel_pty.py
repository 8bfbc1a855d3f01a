"""The panel in a pseudo-terminal: the terminal is usable again however the panel ends."""

from __future__ import annotations

import os
import signal
import termios
import time

import pytest
from terminals import Pty

from rigctl.tui.terminal import reset_sequence

pytestmark = pytest.mark.timeout(120)

RESTORED = (
    b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?1006l", b"\x1b[?2004l", b"\x1b[?1004l",
    b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[<u",
)  # fmt: skip
"""Mouse, paste, focus, alternate screen, cursor, Kitty keys."""


def restored(terminal: Pty) -> None:
    """The output ends with everything switched back, and echo is on."""
    tail = terminal.output[terminal.output.rindex(b"PREFILL STALL") :]
    for sequence in RESTORED:
        assert sequence in tail, sequence
        on = sequence.replace(b"l", b"h") if sequence.endswith(b"l") else sequence
        if on != sequence:
            assert tail.rfind(on) < tail.rfind(sequence)
    flags = termios.tcgetattr(terminal.master)[3]
    assert flags & termios.ECHO
    assert flags & termios.ICANON


@pytest.mark.case("C95")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_the_terminal_is_usable(number: signal.Signals) -> None:
    """Ended from outside: everything is switched back, the code is 128 and the number."""
    with Pty("picture") as terminal:
        terminal.until(b"PREFILL STALL")
        terminal.signal(number)
        assert terminal.wait() == 128 + number
        restored(terminal)


@pytest.mark.case("C95")
def test_quitting_leaves_nothing_behind() -> None:
    """q: code 0, terminal as it was."""
    with Pty("picture") as terminal:
        terminal.until(b"PREFILL STALL")
        terminal.write(b"q")
        assert terminal.wait() == 0
        restored(terminal)


@pytest.mark.case("C95")
def test_a_crash_leaves_the_terminal_usable_and_says_what_it_was() -> None:
    """A fault in a worker: terminal restored, the fault printed, code 1."""
    with Pty("picture", "--crash-on-send") as terminal:
        terminal.until(b"PREFILL STALL")
        terminal.write(b"r")
        terminal.until(b"again: ")
        time.sleep(1.0)
        terminal.write(b"r")
        assert terminal.wait() == 1
        assert b"a fault of the client" in terminal.output
        restored(terminal)


@pytest.mark.case("C95")
def test_a_dead_terminal_ends_it_without_a_busy_loop() -> None:
    """SSH drops: SIGHUP, reads and writes fail; the panel is gone soon, having burnt nothing."""
    with Pty("moving") as terminal:
        terminal.until(b"PREFILL STALL")
        before = os.times()
        terminal.hang_up()
        started = time.monotonic()
        assert terminal.wait() == 128 + signal.SIGHUP
        after = os.times()
        burnt = after.children_user + after.children_system
        burnt -= before.children_user + before.children_system
        # The children's times hold its whole life, start included, once it was waited for.
        assert burnt < 5.0 + 0.5 * (time.monotonic() - started)


@pytest.mark.case("C95")
def test_stopped_and_continued_it_draws_again() -> None:
    """SIGTSTP gives the terminal back, SIGCONT takes it and paints everything anew."""
    with Pty("picture") as terminal:
        terminal.until(b"PREFILL STALL")
        terminal.signal(signal.SIGTSTP)
        os.waitpid(terminal.pid, os.WUNTRACED)
        terminal.read(0.5)
        restored(terminal)
        terminal.output = b""
        terminal.signal(signal.SIGCONT)
        terminal.until(b"PREFILL STALL")
        terminal.write(b"q")
        assert terminal.wait() == 0


@pytest.mark.case("C95")
def test_after_kill_nine_the_reset_sequence_switches_everything_back() -> None:
    """kill -9 leaves modes on; the sequence of `rigctl reset-terminal` has the off of each."""
    with Pty("picture") as terminal:
        terminal.until(b"PREFILL STALL")
        terminal.signal(signal.SIGKILL)
        assert terminal.wait() == 137
        reset = reset_sequence().encode()
        switched_on = {part[: part.index(b"h")] for part in terminal.output.split(b"\x1b[?")[1:]
                       if part[:5].split(b"h")[0].isdigit()}  # fmt: skip
        assert {b"1000", b"1003", b"1006", b"1049", b"2004"} <= switched_on
        for mode in switched_on:
            assert b"\x1b[?" + mode + b"l" in reset, mode
        for sequence in RESTORED:
            assert sequence in reset


@pytest.mark.case("C96")
@pytest.mark.parametrize("size", [(0, 0), (1, 1), (20, 5)])
def test_odd_first_sizes_do_not_end_it(size: tuple[int, int]) -> None:
    """Opened at 0x0 (some pseudo-terminals) or far too small: it runs, and quits by its key."""
    with Pty("picture", size=size) as terminal:
        terminal.until(
            b"PREFILL STALL" if size == (0, 0) else b"small" if size[0] > 1 else b"1049h"
        )
        time.sleep(0.3)
        terminal.write(b"q")
        assert terminal.wait() == 0


@pytest.mark.case("C98")
def test_an_ascii_stream_is_no_trouble() -> None:
    """LC_ALL=POSIX and PYTHONIOENCODING=ascii: no UnicodeEncodeError, only ASCII on the wire."""
    with Pty("picture", LC_ALL="POSIX", PYTHONIOENCODING="ascii") as terminal:
        terminal.until(b"PREFILL STALL")
        terminal.write(b"q")
        assert terminal.wait() == 0
        assert terminal.output.isascii()
        assert b"Error" not in terminal.output


@pytest.mark.case("C97")
def test_sixteen_colours_are_sixteen() -> None:
    """TERM=linux without COLORTERM: only the codes of the sixteen are sent."""
    with Pty("picture", TERM="linux", COLORTERM="") as terminal:
        terminal.until(b"PREFILL STALL")
        assert b"38;2;" not in terminal.output
        assert b"38;5;" not in terminal.output
        terminal.write(b"q")
        assert terminal.wait() == 0

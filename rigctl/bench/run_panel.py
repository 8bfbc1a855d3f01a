"""What the panel costs in a real terminal, beside nvitop on the same cards."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rigctl.bench import cost
from rigctl.bench.peers import Nvitop
from rigctl.bench.plan import Figure, Result, Row, row
from rigctl.bench.rig import Rig, Watcher, command
from rigctl.bench.terminal import Attached, TmuxError, attached

SETTLE = 6.0
"""Seconds before counting: the first frames, and nvitop's first look at the processes."""

STILL = 8.0
"""Seconds without a change on the screen that count as nothing changing."""

STILL_WITHIN = 150.0
"""Seconds for an idle rig's temperatures and plots to settle."""

_CLOCK = re.compile(r"\b\d\d:\d\d\b|\d+[dhms]\b")
"""Times of day and lengths of time go on while nothing changes."""

STARTS = 5
"""First frames measured; odd, so that the median is one of them."""


def busy(rig: Rig, peer: Nvitop, folder: Path, seconds: float) -> Result:
    """Everything changes once a second: CPU, bytes through the tmux client, nvitop beside it."""
    return _side_by_side(row("panel-busy"), rig, peer, folder, seconds, still=False)


def idle(rig: Rig, peer: Nvitop, folder: Path, seconds: float) -> Result:
    """Nothing changes: an idle rig, once its cards have settled and the screen stands still."""
    return _side_by_side(row("panel-idle"), rig, peer, folder, seconds, still=True)


def _words(rig: Rig) -> tuple[str, ...]:
    """What stands on the screen once the panel has drawn the rig."""
    return tuple(group["name"] for group in rig.snapshot()["groups"])


def _await_stillness(panel: Attached, follow: Callable[[], None]) -> None:
    """Wait until the screen has shown the same for a while; TmuxError when it never does."""
    since, before = time.monotonic(), ""
    deadline = since + STILL_WITHIN
    while time.monotonic() - since < STILL:
        follow()
        time.sleep(0.2)
        shown = _CLOCK.sub("", panel.screen())
        if shown != before:
            since, before = time.monotonic(), shown
        if time.monotonic() > deadline:
            raise TmuxError(f"the screen of an idle rig still changes after {STILL_WITHIN:.0f} s")


def _side_by_side(
    what: Row, rig: Rig, peer: Nvitop, folder: Path, seconds: float, *, still: bool
) -> Result:
    watcher = Watcher(rig)
    shown = 0

    def follow() -> None:
        nonlocal shown
        watcher.take()
        panel.drain()
        other.drain()
        if watcher.seen != shown:
            shown = watcher.seen
            peer.show(watcher.newest)

    peer.show(rig.snapshot())
    try:
        with (
            attached(command(), folder / "ours", rig.env) as panel,
            attached(peer.argv, folder / "peer", peer.env) as other,
        ):
            panel.await_text(_words(rig), 20)
            other.await_text(("NVITOP",), 20)
            cost.measure((panel.pid,), SETTLE, follow)
            if still:
                _await_stillness(panel, follow)
            bytes_before, peer_bytes = panel.received, other.received
            peer_before, began = cost.cpu_seconds(other.pid), time.monotonic()
            used = cost.measure((panel.pid,), seconds, follow)
            elapsed = time.monotonic() - began
            peer_cpu = (cost.cpu_seconds(other.pid) - peer_before) / elapsed * 100
            return Result(
                what,
                (
                    Figure("panel cpu", used.cpu, "%"),
                    Figure("panel output", (panel.received - bytes_before) / elapsed / 1e3, "kB/s"),
                    Figure("panel memory", used.memory, "MB"),
                ),
                (
                    Figure("nvitop cpu", peer_cpu, "%"),
                    Figure("nvitop output", (other.received - peer_bytes) / elapsed / 1e3, "kB/s"),
                    Figure("nvitop memory", cost.memory_mb(other.pid), "MB"),
                ),
                details={"seconds": elapsed},
            )
    finally:
        watcher.close()


def first_frame(rig: Rig, peer: Nvitop, folder: Path) -> Result:
    """From the start of the program until the rig stands on the screen, page cache warm."""
    peer.show(rig.snapshot())
    words = _words(rig)
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(STARTS + 1):
        mine = _start(command(), words, folder / f"first{turn}", rig.env)
        other = _start(peer.argv, ("NVITOP",), folder / f"peer{turn}", peer.env)
        if turn:  # the first pair warms the page cache
            ours.append(mine)
            theirs.append(other)
    return Result(
        row("first-frame"),
        (Figure("panel", statistics.median(ours), "s"),),
        (Figure("nvitop", statistics.median(theirs), "s"),),
        details={"runs": STARTS, "slowest": max(ours)},
    )


def _start(argv: Sequence[str], words: Sequence[str], folder: Path, env: dict[str, str]) -> float:
    with attached(argv, folder, env) as terminal:
        return terminal.await_text(words, 20)

"""The routing table: the rig's state as far as the proxy routes by it, and nothing secret."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_endpoint import LONG, Endpoint, endpoint
from support_rig import rig_state

from rigctl.core.commands import FreeGroup
from rigctl.core.facts import EngineExited
from rigctl.core.ids import Mono
from rigctl.core.link_words import Table, TableGroup
from rigctl.core.table import essence, lasting, table


def made(rig: Endpoint) -> Table:
    """The table now."""
    found = table(rig.state, Mono(rig.now), 3, True)
    assert found is not None
    return found


def test_the_table_follows_the_engine_and_counts_down_without_being_sent_again() -> None:
    """Gate, drain number, deadline and run are of the state; time alone changes none of it."""
    rig = endpoint()

    def long() -> TableGroup:
        return made(rig).groups[1]

    ready = long()
    assert (ready.gate, ready.drain, ready.state, ready.say) == ("open", 0, "ready", "")
    assert (ready.host, ready.port, ready.window, ready.pool) == ("127.0.0.1", 30000, 8192, 10_000)
    assert ready.run
    before = essence(made(rig))
    rig.tick(1.0)
    assert essence(made(rig)) == before
    rig.accepted(FreeGroup(LONG, "training", drain_seconds=60.0))
    drains = long()
    assert (drains.gate, drains.drain, drains.lent) == ("finish", 1, True)
    assert drains.deadline == rig.now + 60.0
    before = essence(made(rig))
    rig.tick(1.0)
    assert essence(made(rig)) == before
    rig.gate("long", 1, 0)
    rig.quiet("long")
    assert long().gate == "closed"
    rig.vanish("long", rig.group("long").process)
    off = long()
    assert (off.state, off.say, off.run) == ("off", "lent to “training”", "")


def test_the_table_reads_the_running_command_line_and_never_holds_a_key() -> None:
    """Flags and variables of the engine that runs, not of a file that was edited since."""
    rig = endpoint()
    group = replace(
        rig.group("long"),
        command=(
            *("sglang", "serve", "--host", "0.0.0.0", "--port=31000"),
            *("--enable-strict-thinking", "--enable-session-radix-cache"),
        ),
        last_env={"SGLANG_MAX_THINK_TOKENS": "5000", "SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES": "1"},
    )
    state = replace(rig.state, groups=(rig.state.groups[0], group))
    read = table(state, Mono(rig.now), 1, False)
    assert read is not None
    long = read.groups[1]
    assert (long.host, long.port) == ("127.0.0.1", 31000)
    assert (long.session_radix, long.strict_thinking, long.header_rid) == (True, True, True)
    assert long.think_budget == 5000
    rig.sample("long", active=0.0, slots=4.0, context_length=4096.0)
    later = made(rig)
    assert (later.groups[1].slots, later.groups[1].window) == (4, 4096), "the engine's own word"
    assert read.groups[0].think_budget is None


def test_only_a_lasting_change_is_written_to_disk() -> None:
    """A start's words change every second; the file would be written as often."""
    rig = endpoint()
    one = made(rig)
    group = replace(one.groups[0], say="weights, 12 s", eta=3.0)
    two = replace(one, seq=9, at=Mono(50.0), watched=False, groups=(group, one.groups[1]))
    assert lasting(two) == lasting(one)
    assert essence(two) != essence(one)
    assert table(rig_state(), Mono(0.0), 1, True) is None


@pytest.mark.parametrize(
    ("code", "tail", "named"),
    [
        (-9, (), False),
        (None, ("[2026-11-30 06:00:00] Decode batch, #running-req: 1",), False),
        (-9, ("Subprocess scheduler_0 (pid=5) crashed with exit code -9.",), False),
        (-9, ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",), True),
        (1, ("RuntimeError: CUDA error: an illegal memory access was encountered",), True),
    ],
)
def test_it_says_whether_a_prompt_may_have_killed_an_engine(
    code: int | None, tail: tuple[str, ...], named: bool
) -> None:
    """One that was ended from outside is no prompt's doing; the proxy sends it elsewhere then."""
    rig = endpoint()
    process = rig.group("long").process
    assert process is not None
    assert made(rig).groups[1].fault == ""
    rig.feed(EngineExited(LONG, process, code, tail))
    row = made(rig).groups[1]
    assert row.state not in ("ready", "draining")
    assert bool(row.fault) is named

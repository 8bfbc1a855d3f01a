"""What must outlive the daemon is in its file, and read back it means the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_rig import Rig, identity, rig_state

from rigctl.core.durable import lasting, recall_then, remember
from rigctl.core.engine_states import (
    After,
    Draining,
    Engine,
    Ready,
    Stage,
    Stopping,
    ThenCrash,
    ThenOff,
    ThenStart,
)
from rigctl.core.ids import Mono, Wall
from rigctl.core.state import with_group


@pytest.mark.parametrize(
    "then", [ThenOff("asked"), ThenStart("restart"), ThenCrash("out of memory", final=True)]
)
def test_what_was_to_follow_an_end_is_read_back(then: After) -> None:
    """Off, start or crash: the next daemon goes on to the same end."""
    state = rig_state()
    process = identity(7)
    for engine in (
        Stopping(Mono(1.0), Mono(2.0), process, Stage.TERM, then),
        Draining(Mono(1.0), Mono(9.0), process, then, ready_since=Mono(0.5)),
    ):
        group = replace(state.groups[0], engine=Engine(engine))
        record = remember(with_group(state, group), Mono(1.0))["groups"][group.spec.name]
        assert recall_then(record) == then


def test_an_end_that_nobody_began_has_nothing_to_follow() -> None:
    """A serving engine's record names none."""
    state = rig_state()
    group = replace(state.groups[0], engine=Engine(Ready(Mono(1.0), identity(7))))
    record = remember(with_group(state, group), Mono(1.0))["groups"][group.spec.name]
    assert recall_then(record) is None


@pytest.mark.case("C80")
def test_the_days_energy_is_written_now_and_then_though_nothing_else_changes() -> None:
    """A daemon killed in the evening does not take the day's kWh with it."""
    rig = Rig()
    before = lasting(rig.state)
    assert lasting(replace(rig.state, wall=Wall(rig.state.wall + 1))) == before
    assert lasting(replace(rig.state, wall=Wall(rig.state.wall + 700))) != before


def test_the_start_token_is_kept_while_its_engine_lives() -> None:
    """Orphans of a leader that died unwatched are told from strangers by it."""
    rig = Rig()
    rig.start("long")
    record = remember(rig.state, Mono(rig.now))["groups"]["long"]
    assert record["token"].startswith("tag.long.")

"""What outlives the daemon: written before orders are carried out, read back by later versions."""

from __future__ import annotations

import json
from pathlib import Path

from support_rig import Rig, rig_state

from rigctl.core.commands import FreeGroup, StartGroup
from rigctl.core.durable import SCHEMA, lasting, recall_group, recall_rig, remember
from rigctl.core.engine_states import Failed, Off
from rigctl.core.ids import GroupName, Mono, Wall
from rigctl.core.state import fresh_group

DATA = Path(__file__).parent.parent / "data" / "state"


def test_every_released_state_file_still_loads() -> None:
    """A file that an earlier version wrote is taken as it is, wishes and leases included."""
    for number in range(1, SCHEMA + 1):
        saved = json.loads((DATA / f"schema-{number}.json").read_text())
        state = rig_state()
        groups = {
            group.spec.name: recall_group(
                fresh_group(group.spec, Mono(0.0)),
                saved["groups"][group.spec.name],
                Mono(50.0),
                Wall(1_000_300.0),
            )
            for group in state.groups
        }
        lease = groups[GroupName("long")].lease
        assert lease is not None
        assert lease.holder == "training"
        assert lease.bring_back
        assert groups[GroupName("standard")].wanted
        assert groups[GroupName("standard")].last_command
        rig = recall_rig(state, saved, Mono(50.0), Wall(1_000_300.0))
        assert [each.kind for each in rig.operations] == ["start", "start", "free"]
        assert rig.next_operation == 4


def test_times_survive_a_reboot_as_wall_times() -> None:
    """Monotonic time begins anew at boot; ages and leases do not."""
    rig = Rig()
    rig.start("long")
    rig.accepted(FreeGroup(GroupName("long"), "training", 600.0))
    saved = json.loads(json.dumps(remember(rig.state, Mono(rig.now))))
    after = Mono(3.0)
    wall = Wall(rig.state.wall + 120.0)
    back = recall_rig(rig_state(), saved, after, wall)
    asked = back.operations[-1]
    assert round(after - asked.since) == 120


def test_a_failed_group_is_not_tried_again_by_a_new_daemon() -> None:
    """A crash loop that was given up stays given up until a person starts it."""
    rig = Rig()
    process = rig.start("long")
    rig.exit("long", process, 2, "error: unrecognized arguments: --nope")
    rig.members("long", process, ())
    rig.release("long")
    assert isinstance(rig.engine("long"), Failed)
    saved = remember(rig.state, Mono(rig.now))["groups"]["long"]
    fresh = fresh_group(rig.group("long").spec, Mono(0.0))
    assert isinstance(recall_group(fresh, saved, Mono(1.0), Wall(9e5)).engine.state, Failed)


def test_what_must_be_written_changes_the_cheap_key() -> None:
    """`lasting` is compared at every fact in place of encoding: it must not miss a change."""
    rig = Rig()
    before = lasting(rig.state)
    rig.tick(1.0)
    assert lasting(rig.state) == before, "time alone writes nothing"
    rig.accepted(StartGroup(GroupName("long")))
    started = lasting(rig.state)
    assert started != before
    assert isinstance(rig.engine("standard"), Off)
    rig.spawn("long")
    assert lasting(rig.state) != started

"""The daemon's side of the endpoint: gates in drains, orphans, evidence, aborts, and its words."""

from __future__ import annotations

from dataclasses import replace

from support_endpoint import LONG, SPEC, STANDARD, Endpoint, endpoint
from support_rig import identity, rig_state

from rigctl.core.commands import AbortAnswer, FreeGroup, ReclaimGroup, RestartEndpoint, StopGroup
from rigctl.core.durable import lasting, remember
from rigctl.core.endpoint_states import Failed, Serving
from rigctl.core.engine_states import Draining, Ready, Stopping
from rigctl.core.facts import (
    EndpointExited,
    EndpointRead,
    EndpointRefused,
    EndpointSaid,
    EndpointSpawned,
    EndpointSpawnFailed,
    EndpointUnlinked,
    EngineCounted,
)
from rigctl.core.flow import ClusterRow, FlowRows
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import (
    Aborted,
    AbortRequest,
    Evidence,
    Flow,
    GateState,
)
from rigctl.core.orders import (
    AbortOrphans,
    CloseAddress,
    LookNow,
    SignalEndpoint,
    SpawnEndpoint,
    TellEndpoint,
    WriteJournal,
)
from rigctl.core.table import table
from rigctl.core.view import view


def stop(rig: Endpoint, name: GroupName) -> int:
    """Ask for a stop; the drain's number."""
    rig.tick(5.0)  # the last sample is too old to count for the drain
    rig.accepted(StopGroup(name, 100.0))
    return rig.group(name).drains


def test_a_drain_ends_on_the_gate_and_on_the_engines_counters() -> None:
    """Neither witness alone ends it, in whatever order they come."""
    rig = endpoint()
    number = stop(rig, LONG)
    rig.quiet("long")
    assert isinstance(rig.engine("long"), Draining), "the gate has not answered yet"
    rig.gate("long", number, 2)
    assert isinstance(rig.engine("long"), Draining)
    rig.gate("long", number, 0)
    assert isinstance(rig.engine("long"), Stopping)

    other = stop(rig, STANDARD)
    rig.gate("standard", other, 0)
    assert isinstance(rig.engine("standard"), Draining), "somebody may have gone past the endpoint"
    rig.feed(EngineCounted(STANDARD, 1.0))
    rig.quiet("standard")
    assert isinstance(rig.engine("standard"), Stopping)


def test_only_this_drains_number_counts() -> None:
    """A gate's word about an earlier drain, or of an open gate, ends none."""
    rig = endpoint()
    rig.tick(5.0)
    rig.accepted(FreeGroup(LONG, "training"))
    rig.gate("long", 1, 1)
    rig.accepted(ReclaimGroup(LONG))
    assert isinstance(rig.engine("long"), Ready)
    number = stop(rig, LONG)
    assert number == 2
    rig.quiet("long")
    rig.gate("long", 1, 0)
    rig.gate("long", 0, 0, "open")
    assert isinstance(rig.engine("long"), Draining)
    rig.gate("long", 2, 0)
    assert isinstance(rig.engine("long"), Stopping)


def test_two_groups_drain_independently() -> None:
    """One gate says nothing of the other."""
    rig = endpoint()
    first, second = stop(rig, LONG), stop(rig, STANDARD)
    rig.quiet("long")
    rig.quiet("standard")
    rig.gate("standard", second, 0)
    assert isinstance(rig.engine("standard"), Stopping)
    assert isinstance(rig.engine("long"), Draining)
    rig.gate("long", first, 0)
    assert isinstance(rig.engine("long"), Stopping)


def test_without_the_link_the_engines_counters_decide_and_that_is_said() -> None:
    """A lost link must not hold a drain until its deadline; a new one is asked again."""
    rig = endpoint()
    stop(rig, LONG)
    rig.feed(EndpointUnlinked(rig.proxy.pid))
    shown = view(rig.state, Mono(rig.now), (), "0", 1)
    assert "by the engine's counters alone" in shown.groups[1].say
    rig.link(rig.proxy.pid)
    rig.quiet("long")
    assert isinstance(rig.engine("long"), Draining), "linked again: its gate must answer"
    rig.feed(EndpointUnlinked(rig.proxy.pid))
    assert isinstance(rig.engine("long"), Stopping)


def test_no_drain_waits_where_none_was_asked_for() -> None:
    """`--drain 0` goes past the gate; the table that closes it goes out with the same fact."""
    rig = endpoint()
    rig.gate("long", 0, 3, "open")
    rig.accepted(StopGroup(LONG, 0.0))
    assert isinstance(rig.engine("long"), Stopping)
    made = table(rig.state, Mono(rig.now), 1, True)
    assert made is not None
    assert [each.gate for each in made.groups] == ["open", "closed"]


def test_a_dead_proxys_requests_are_ended_on_every_engine_that_serves() -> None:
    """By the beginning of their ids, which carries the dead one's epoch; engines go on."""
    rig = endpoint()
    dead = rig.proxy
    before = len(rig.orders)
    rig.feed(EndpointExited(dead, -9, ""))
    orders = rig.orders[before:]
    assert [each for each in orders if isinstance(each, AbortOrphans)] == [
        AbortOrphans(name, f"rig-{dead.pid:08x}-") for name in (STANDARD, LONG)
    ]
    assert any(isinstance(each, SpawnEndpoint) for each in orders)
    assert not any(isinstance(each, CloseAddress) for each in orders)
    assert "killed by signal 9; its streams are lost" in rig.said()
    rig.serve(7001)
    assert rig.shown() == ("up", "serving")
    shown = view(rig.state, Mono(rig.now), (), "0", 1).endpoint
    assert (shown.url, shown.pid, shown.crashes) == ("http://127.0.0.1:8000", 7001, 1)
    assert isinstance(rig.engine("long"), Ready)


def test_a_restart_is_done_when_the_new_one_serves_and_the_old_one_leaves_with_a_word() -> None:
    """The operation follows the hand-over; a new one that dies first fails it and harms nobody."""
    rig = endpoint()
    old = rig.proxy
    number = rig.accepted(RestartEndpoint())
    assert rig.refused(RestartEndpoint()).code == "busy"
    rig.feed(EndpointSpawned(identity(7001)))
    rig.feed(EndpointExited(identity(7001), 1, "ModuleNotFoundError: uvloop"))
    assert rig.operation(number).state == "failed"
    assert "ModuleNotFoundError" in rig.operation(number).say
    assert rig.shown() == ("up", "serving")
    number = rig.accepted(RestartEndpoint())
    rig.serve(7002)
    assert rig.operation(number).state == "done"
    tells = [each for each in rig.orders if isinstance(each, TellEndpoint)]
    assert [each.pid for each in tells] == [old.pid]
    rig.feed(EndpointExited(old, 0, ""))
    assert "has left after" in rig.said()


def test_evidence_is_looked_into_at_once_and_told_once_a_minute() -> None:
    """It changes no verdict; a flood of it is one line with its number."""
    rig = endpoint()
    before = len(rig.orders)
    for _ in range(50):
        rig.says(Evidence(LONG, "reset", "long broke an answer off"))
    notes = [each for each in rig.orders[before:] if isinstance(each, WriteJournal)]
    looks = [each for each in rig.orders[before:] if isinstance(each, LookNow)]
    assert (len(notes), looks) == (1, [LookNow(LONG)])
    assert isinstance(rig.engine("long"), Ready)
    rig.tick(61.0)
    rig.says(Evidence(LONG, "reset", "long broke an answer off"))
    assert "(49 more since the last word of it)" in rig.said()
    rig.says(Evidence(LONG, "refused", "no connection"))  # another kind has a line of its own
    assert rig.kinds().count("endpoint-evidence") == 3


def test_an_abort_asks_every_proxy_that_may_have_it_and_does_not_wait_for_ever() -> None:
    """The old one of a hand-over has it, or nobody says so within ten seconds."""
    rig = endpoint()
    old = rig.proxy
    rig.accepted(RestartEndpoint())
    rig.serve(7001)
    number = rig.accepted(AbortAnswer("rig-1"))
    asked = [each for each in rig.orders if isinstance(each, TellEndpoint)][-2:]
    assert {each.pid for each in asked} == {old.pid, 7001}
    assert all(each.message == AbortRequest("rig-1") for each in asked)
    rig.says(Aborted("rig-1", False))
    assert rig.operation(number).running
    rig.feed(EndpointSaid(old.pid, Aborted("rig-1", True, "ended by anna")))
    assert (rig.operation(number).state, rig.operation(number).say) == ("done", "ended by anna")
    number = rig.accepted(AbortAnswer("rig-2"))
    rig.tick(9.0)
    assert rig.operation(number).running
    rig.tick(1.1)
    assert rig.operation(number).state == "failed"


def test_without_an_endpoint_its_commands_are_refused_in_words() -> None:
    """No [proxy], or none that hears us."""
    rig = Endpoint()
    assert "no [proxy]" in rig.refused(AbortAnswer("x")).say
    assert "no [proxy]" in rig.refused(RestartEndpoint()).say
    rig = endpoint()
    rig.feed(EndpointUnlinked(rig.proxy.pid))
    assert "not linked" in rig.refused(AbortAnswer("x")).say


def test_a_taken_port_is_tried_again_and_a_program_that_is_not_there_is_not() -> None:
    """What may pass is waited for; both are said with the next step."""
    rig = Endpoint()
    rig.feed(EndpointRead(SPEC))
    rig.feed(EndpointSpawnFailed("127.0.0.1:8000 is taken by pid 5 (nginx)", final=False))
    assert "taken by pid 5" in rig.notices()["endpoint-down"]
    rig.tick(6.0)
    assert len(rig.of(SpawnEndpoint)) == 2
    rig.feed(EndpointSpawnFailed("no such program", final=True))
    assert isinstance(rig.state.endpoint.keeper.phase, Failed)
    assert "`rigctl endpoint restart`" in rig.notices()["endpoint-down"]
    assert rig.of(CloseAddress), "nobody may wait in a backlog that nobody serves"
    rig.accepted(RestartEndpoint())
    rig.serve()
    assert rig.shown()[0] == "up"


def test_a_refused_address_ends_a_proxy_that_served_there() -> None:
    """The last key was removed while the address was open to others: it is closed."""
    rig = endpoint()
    rig.feed(EndpointRead(replace(SPEC, refused="no client has a key: `rigctl keys add NAME`")))
    ends = rig.of(SignalEndpoint)
    assert [(each.process, each.number) for each in ends] == [(rig.proxy, 15)]
    assert "rigctl keys add" in rig.notices()["endpoint-keys"]
    assert rig.shown()[0] == "leaving"
    rig.feed(EndpointExited(rig.proxy, 0, ""))
    assert rig.shown()[0] == "off"


def test_another_protocol_is_a_notice_until_one_of_the_two_is_new() -> None:
    """Said once to the journal, shown while it is so."""
    rig = endpoint()
    rig.feed(EndpointUnlinked(rig.proxy.pid))
    for _ in range(3):
        rig.feed(EndpointRefused(rig.proxy.pid, "the proxy is older; `rigctl endpoint restart`"))
    assert rig.kinds().count("endpoint-version") == 1
    assert rig.notices()["endpoint-version"].startswith("the proxy is older")
    rig.link(rig.proxy.pid)
    assert "endpoint-version" not in rig.notices()


def test_a_new_proxy_of_another_protocol_serves_and_is_not_ended_for_it() -> None:
    """It said hello, so it accepts clients: the daemon's patience with its start is over."""
    rig = Endpoint()
    rig.feed(EndpointRead(SPEC))
    rig.feed(EndpointSpawned(identity(7000)))
    rig.feed(EndpointRefused(7000, "the daemon is older; `rigctl daemon stop`"))
    before = len(rig.orders)
    rig.tick(100.0)
    assert rig.orders[before:] == []
    assert rig.shown() == ("lost", "the daemon is older; `rigctl daemon stop`")
    number = rig.accepted(RestartEndpoint())
    rig.feed(EndpointSpawned(identity(7001)))
    rig.feed(EndpointRefused(7001, "the daemon is older; `rigctl daemon stop`"))
    assert rig.operation(number).state == "partly"
    assert [(each.process.pid, each.number) for each in rig.of(SignalEndpoint)] == [(7000, 15)]


def test_the_stall_line_names_who_is_read_and_who_waits() -> None:
    """While the watch sees waiting answers; a flow of long ago names nobody."""
    rig = endpoint()
    rows = (ClusterRow("long", "busy", culprit="a1b2c3d4", waiting_behind=("e5", "f6", "07")),)
    for _ in range(4):
        rig.now += 1.0
        rig.sample("long", active=4.0, running=3.0, waiting_tokens=90_000.0, decode_tokens=5.0)
    rig.says(Flow(FlowRows(rig.now, clusters=rows)))
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups[1].flow
    assert shown.state in ("prefilling", "stalled")
    assert shown.say.endswith("a1b2c3d4 is read, e5, f6 and 07 wait for it")
    later = view(rig.state, Mono(rig.now + 10), (), "0", 1).groups[1].flow
    assert "a1b2c3d4" not in later.say


def test_in_flight_is_the_larger_of_both_counts() -> None:
    """Gauges lag behind the endpoint, and some clients go past it."""
    rig = endpoint()
    rig.gate("long", 0, 4, "open")
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups
    assert [each.in_flight for each in shown] == [0.0, 4.0]
    rig.sample("long", active=6.0)
    assert view(rig.state, Mono(rig.now), (), "0", 1).groups[1].in_flight == 6.0


def test_what_an_old_proxy_says_is_not_taken_for_the_new_ones() -> None:
    """Its gates and traffic are of its own; a new one tells everything anew."""
    rig = endpoint()
    old = rig.proxy
    rig.gate("long", 0, 5, "open")
    rig.accepted(RestartEndpoint())
    rig.serve(7001)
    assert rig.state.endpoint.gates == ()
    rig.feed(EndpointSaid(old.pid, GateState(LONG, 0, "open", 9)))
    rig.feed(EndpointSaid(old.pid, Flow(FlowRows(rig.now))))
    assert rig.state.endpoint.gates == ()
    assert rig.state.endpoint.flow is None


def test_a_spawn_is_on_disk_before_it_is_carried_out() -> None:
    """The next daemon finds a child whose record was lost by the token written first."""
    rig = Endpoint()
    before = lasting(rig.state)
    rig.feed(EndpointRead(SPEC))
    assert lasting(rig.state) != before
    saved = remember(rig.state, Mono(rig.now))["endpoint"]
    (order,) = rig.of(SpawnEndpoint)
    assert isinstance(order, SpawnEndpoint)
    assert (saved["spawning"], saved["token"]) == (True, order.token)
    assert order.token.startswith("tag.@proxy.")
    rig.serve()
    saved = remember(rig.state, Mono(rig.now))["endpoint"]
    assert saved["serving"]["pid"] == rig.proxy.pid
    assert saved["epochs"] == [[rig.proxy.pid, f"{rig.proxy.pid:08x}"]]
    known = lasting(rig.state)
    rig.says(Flow(FlowRows(rig.now)))
    rig.gate("long", 0, 4, "open")
    assert lasting(rig.state) == known, "traffic costs no writing"


def test_an_unconfirmed_rig_starts_no_proxy() -> None:
    """After an unreadable state file nothing is started or signalled until a person has looked."""
    rig = Endpoint(replace(rig_state(), confirmed=False))
    rig.feed(EndpointRead(SPEC))
    rig.tick(10.0)
    assert rig.of(SpawnEndpoint) == []
    from rigctl.core.commands import ConfirmState

    rig.accepted(ConfirmState())
    assert len(rig.of(SpawnEndpoint)) == 1


def test_an_adopted_and_linked_proxy_keeps_its_place() -> None:
    """Reading the same file again starts nothing."""
    rig = endpoint()
    rig.feed(EndpointRead(SPEC))
    rig.feed(EndpointRead(replace(SPEC, policy=replace(SPEC.policy, hold=9.0))))
    assert len(rig.of(SpawnEndpoint)) == 1
    assert isinstance(rig.state.endpoint.keeper.phase, Serving)

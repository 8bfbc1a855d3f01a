"""The whole rig driven by people and by accidents: laws that hold under any order of both."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support_endpoint import SPEC
from support_rig import GIB, Card, Rig, identity

from rigctl.core.cards import CardProcess
from rigctl.core.commands import (
    EndLeftovers,
    FreeGroup,
    LendStarted,
    ReclaimGroup,
    RestartEndpoint,
    RestartGroup,
    SetSleepOnIdle,
    StartGroup,
    StopGroup,
)
from rigctl.core.durable import lasting, recall_group, recall_rig, remember
from rigctl.core.endpoint_states import followed
from rigctl.core.engine_states import Draining, Ready, Stopping
from rigctl.core.facts import (
    EndpointExited,
    EndpointLinked,
    EndpointRead,
    EndpointSaid,
    EndpointSpawned,
    EndpointSpawnFailed,
    EndpointUnlinked,
    EngineExited,
    EngineReady,
    EngineSpawned,
    EngineSpawnFailed,
    EngineWatched,
    HolderGone,
)
from rigctl.core.ids import GroupName, Mono, ProcessIdentity, Wall
from rigctl.core.link_words import GateState, Hello
from rigctl.core.orders import (
    EndWorker,
    SignalEndpoint,
    SignalMain,
    SignalWhole,
    SpawnEndpoint,
    SpawnEngine,
)
from rigctl.core.state import fresh_group, next_wake
from rigctl.core.table import table
from rigctl.core.view import view

GROUPS = st.sampled_from([GroupName("standard"), GroupName("long")])
FOREIGN = 9001


class World(RuleBasedStateMachine):
    """Two groups, engines with children, cards that free memory late, strangers on cards."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.seen = 0
        self.alive: dict[ProcessIdentity, set[int]] = {}
        self.leader_dead: set[ProcessIdentity] = set()
        self.group_of: dict[ProcessIdentity, GroupName] = {}
        self.memory: dict[GroupName, ProcessIdentity] = {}
        """Whose memory the group's cards show."""
        self.pending: list[GroupName] = []
        self.foreign: set[int] = set()
        self.workers: set[ProcessIdentity] = set()
        self.next_pid = 1000
        self.proxies: dict[ProcessIdentity, bool] = {}
        """Living proxies, and whether each is linked."""
        self.proxy_spawns = 0
        self.rig.feed(EndpointRead(SPEC))
        self._obey()

    def _obey(self) -> None:
        """Take in the orders that came since the last look, checking each."""
        for order in self.rig.orders[self.seen :]:
            match order:
                case SpawnEngine(group=group, token=token):
                    assert token
                    assert group not in self.pending, "two spawns in flight for one group"
                    assert group not in self.memory, "spawned over its own old memory"
                    held = {index for index in self.foreign if self._owner(index) == group}
                    assert not held, "spawned over somebody else's memory"
                    self.pending.append(group)
                case SignalMain(process=process) | SignalWhole(process=process):
                    assert process in self.group_of, "signalled a process we never started"
                    if order.number == 9:
                        self._kill(process)
                case EndWorker(process=process):
                    assert process in self.workers
                case SpawnEndpoint(token=token):
                    assert token
                    assert self.proxy_spawns == 0, "two proxies being started at once"
                    self.proxy_spawns += 1
                case SignalEndpoint(process=process, number=number):
                    assert number == 15 or process in self.proxies
        self.seen = len(self.rig.orders)

    @staticmethod
    def _owner(index: int) -> GroupName:
        return GroupName("standard" if index < 4 else "long")

    def _kill(self, process: ProcessIdentity) -> None:
        if process in self.alive:
            self.alive[process] = set()

    def _cards(self) -> None:
        for index in range(8):
            group = self._owner(index)
            if index in self.foreign:
                stranger = CardProcess(FOREIGN, 9 * GIB, "train.py", "ben")
                self.rig.cards[index] = Card(9 * GIB, (stranger,))
            elif group in self.memory:
                owner = self.memory[group]
                listed = tuple(
                    CardProcess(pid, 20 * GIB, "sglang", "anna")
                    for pid in sorted(self.alive.get(owner, set()))[:1]
                )
                self.rig.cards[index] = Card(20 * GIB, listed)
            else:
                self.rig.cards[index] = Card()

    # ---- people ------------------------------------------------------------------------

    @rule(group=GROUPS)
    def start(self, group: GroupName) -> None:
        self.rig.ask(StartGroup(group))
        self._obey()

    @rule(group=GROUPS, drain=st.sampled_from([None, 0.0]))
    def stop(self, group: GroupName, drain: float | None) -> None:
        self.rig.ask(StopGroup(group, drain))
        self._obey()

    @rule(group=GROUPS)
    def restart(self, group: GroupName) -> None:
        self.rig.ask(RestartGroup(group))
        self._obey()

    @rule(group=GROUPS, seconds=st.sampled_from([None, 60.0]), toggle=st.booleans())
    def free(self, group: GroupName, seconds: float | None, toggle: bool) -> None:
        holder = identity(500)
        command = FreeGroup(group, "train", seconds, holder_pid=500, toggle=toggle)
        self.rig.ask(command, holder)
        self._obey()

    @rule(group=GROUPS, kill=st.booleans())
    def lend_started(self, group: GroupName, kill: bool) -> None:
        worker = identity(501)
        self.workers.add(worker)
        self.rig.ask(LendStarted(group, 501, kill), worker)
        self._obey()

    @rule(group=GROUPS, begin=st.booleans())
    def reclaim(self, group: GroupName, begin: bool) -> None:
        self.rig.ask(ReclaimGroup(group, begin))
        self._obey()

    @rule(group=GROUPS, on=st.booleans())
    def sleep(self, group: GroupName, on: bool) -> None:
        self.rig.ask(SetSleepOnIdle(group, on))
        self._obey()

    @rule(group=GROUPS)
    def end_leftovers(self, group: GroupName) -> None:
        self.rig.ask(EndLeftovers(group))
        self._obey()

    @rule()
    def restart_endpoint(self) -> None:
        self.rig.ask(RestartEndpoint())
        self._obey()

    @rule(there=st.booleans())
    def edit_proxy(self, there: bool) -> None:
        self.rig.feed(EndpointRead(SPEC if there else None))
        self._obey()

    # ---- the endpoint ------------------------------------------------------------------

    @precondition(lambda self: self.proxy_spawns)
    @rule(ok=st.integers(0, 3))
    def proxy_spawn_answers(self, ok: int) -> None:
        self.proxy_spawns -= 1
        if ok == 0:
            self.rig.feed(EndpointSpawnFailed("port taken", final=False))
        else:
            process = identity(self.next_pid)
            self.next_pid += 10
            self.proxies[process] = False
            self.rig.feed(EndpointSpawned(process))
        self._obey()

    @precondition(lambda self: self.proxies)
    @rule(data=st.data(), up=st.booleans())
    def proxy_links(self, data: st.DataObject, up: bool) -> None:
        process = data.draw(st.sampled_from(sorted(self.proxies, key=lambda each: each.pid)))
        self.proxies[process] = up
        hello = Hello(1, "0", process.pid, f"{process.pid:08x}", "127.0.0.1:8000")
        fact = EndpointLinked(process.pid, hello) if up else EndpointUnlinked(process.pid)
        self.rig.feed(fact)
        self._obey()

    @precondition(lambda self: self.proxies)
    @rule(data=st.data(), code=st.sampled_from([0, 1, -9, None]))
    def proxy_ends(self, data: st.DataObject, code: int | None) -> None:
        process = data.draw(st.sampled_from(sorted(self.proxies, key=lambda each: each.pid)))
        del self.proxies[process]
        self.rig.feed(EndpointUnlinked(process.pid))
        self.rig.feed(EndpointExited(process, code, ""))
        self._obey()

    @precondition(lambda self: any(self.proxies.values()))
    @rule(data=st.data(), group=GROUPS, count=st.integers(0, 2), late=st.integers(0, 1))
    def gate_answers(self, data: st.DataObject, group: GroupName, count: int, late: int) -> None:
        linked = sorted(each.pid for each, up in self.proxies.items() if up)
        pid = data.draw(st.sampled_from(linked))
        found = self.rig.group(group)
        before = self.rig.engine(group)
        gate = "finish" if isinstance(before, Draining) else "open"
        drain = found.drains - late if gate == "finish" else 0
        self.rig.feed(EndpointSaid(pid, GateState(group, drain, gate, count)))
        after = self.rig.engine(group)
        if isinstance(before, Draining) and isinstance(after, Stopping):
            serving = self.rig.state.endpoint.serving
            assert serving is not None
            assert (late, count, pid) == (0, 0, serving.process.pid)
        self._obey()

    # ---- the world ---------------------------------------------------------------------

    @precondition(lambda self: self.pending)
    @rule(ok=st.integers(0, 4))
    def spawn_answers(self, ok: int) -> None:
        group = self.pending.pop(0)
        if ok == 0:
            self.rig.feed(EngineSpawnFailed(group, "no such program", final=True))
        else:
            process = identity(self.next_pid)
            self.next_pid += 10
            self.alive[process] = set(range(process.pid, process.pid + 3))
            self.group_of[process] = group
            self.memory[group] = process
            self.rig.feed(EngineSpawned(group, process, ("sglang",), ()))
        self._obey()

    @rule(group=GROUPS)
    def ready(self, group: GroupName) -> None:
        process = self.rig.group(group).process
        if process is not None and self.alive.get(process):
            self.rig.feed(EngineReady(group, process))
        self._obey()

    @rule(group=GROUPS, active=st.sampled_from([0.0, 0.0, 2.0]))
    def sampled(self, group: GroupName, active: float) -> None:
        if self.rig.group(group).process is not None:
            self.rig.sample(group, active=active)
        self._obey()

    @rule(group=GROUPS, whole=st.booleans())
    def dies(self, group: GroupName, whole: bool) -> None:
        process = self.memory.get(group)
        if process is None or process.pid not in self.alive.get(process, set()):
            return
        self.alive[process] = set() if whole else self.alive[process] - {process.pid}

    @rule(group=GROUPS, code=st.sampled_from([0, 1, -9, None]))
    def exit_is_told(self, group: GroupName, code: int | None) -> None:
        process = self.memory.get(group)
        if process is None or process in self.leader_dead:
            return
        if process.pid not in self.alive[process]:
            self.leader_dead.add(process)
            self.rig.feed(EngineExited(group, process, code, ()))
        self._obey()

    @rule(group=GROUPS)
    def looked_at(self, group: GroupName) -> None:
        process = self.rig.group(group).process
        if process is not None:
            pids = tuple(sorted(self.alive.get(process, set())))
            self.rig.feed(EngineWatched(group, process, pids, ("python", "", "")[: len(pids)]))
        self._obey()

    @rule(group=GROUPS)
    def memory_is_freed(self, group: GroupName) -> None:
        process = self.memory.get(group)
        if process is not None and not self.alive[process] and process in self.leader_dead:
            del self.memory[group]
        self._sweep()

    @rule(index=st.integers(0, 7), here=st.booleans())
    def stranger(self, index: int, here: bool) -> None:
        if here and self._owner(index) not in self.memory:
            self.foreign.add(index)
        else:
            self.foreign.discard(index)
        self._sweep()

    def _sweep(self) -> None:
        self._cards()
        self.rig.sweep()
        self._obey()

    @rule(which=st.sampled_from([500, 501]), group=GROUPS)
    def holder_ends(self, which: int, group: GroupName) -> None:
        self.rig.feed(HolderGone(group, identity(which)))
        self._obey()

    @rule(seconds=st.sampled_from([0.5, 11.0, 61.0, 200.0]))
    def time(self, seconds: float) -> None:
        self._cards()
        self.rig.tick(seconds)
        self._obey()

    # ---- laws --------------------------------------------------------------------------

    @invariant()
    def a_living_engine_is_followed(self) -> None:
        """No engine of ours lives outside the daemon's sight."""
        for process, pids in self.alive.items():
            if process.pid in pids:
                assert self.rig.group(self.group_of[process]).process == process

    @invariant()
    def no_timer_is_due_and_dead(self) -> None:
        """A timer that is due changes something, else the loop would spin."""
        due = next_wake(self.rig.state, Mono(self.rig.now))
        if due is not None and due <= self.rig.now:
            before = self.rig.state
            self.rig.tick(0.0)
            self._obey()
            again = next_wake(self.rig.state, Mono(self.rig.now))
            assert again is None or again > self.rig.now or self.rig.state != before

    @invariant()
    def a_living_proxy_is_followed(self) -> None:
        """No proxy of ours lives outside the daemon's sight, and one at most serves."""
        pids = {each.pid for each in followed(self.rig.state.endpoint.keeper)}
        assert {each.pid for each in self.proxies} <= pids

    @invariant()
    def the_table_says_where_work_may_go(self) -> None:
        """Open is the gate of a serving engine alone; a drain's carries its number."""
        made = table(self.rig.state, Mono(self.rig.now), 1, True)
        for group in () if made is None else made.groups:
            engine = self.rig.engine(group.name)
            assert (group.gate == "open") == isinstance(engine, Ready)
            assert (group.gate == "finish") == isinstance(engine, Draining)
            assert (group.drain > 0) == (group.gate == "finish")

    @invariant()
    def operations_are_bounded_and_one_a_group_runs(self) -> None:
        """A later act ends an earlier one of its group: nobody waits for a forgotten outcome."""
        running = [each for each in self.rig.state.operations if each.running]
        for name in ("standard", "long"):
            assert len([each for each in running if each.group == name]) <= 1
        assert len(self.rig.state.operations) <= 30

    @invariant()
    def a_lent_group_has_no_engine_on_its_way_up(self) -> None:
        """Cards that are somebody else's get no engine."""
        for name in (GroupName("standard"), GroupName("long")):
            group = self.rig.group(name)
            assert not (group.lease is not None and group.wanted)

    @invariant()
    def every_state_can_be_shown_and_written(self) -> None:
        """A snapshot and a state file can be made of anything that can happen, and read back."""
        shown = view(self.rig.state, Mono(self.rig.now), (), "0", 1)
        assert len(shown.groups) == 2
        now, wall = Mono(self.rig.now), Wall(self.rig.state.wall)
        saved = remember(self.rig.state, now)
        for group in self.rig.state.groups:
            fresh = fresh_group(group.spec, now)
            back = recall_group(fresh, saved["groups"][group.spec.name], now, wall)
            assert (back.lease, back.wanted, back.usual) == (group.lease, group.wanted, group.usual)
        recalled = recall_rig(self.rig.state, saved, now, wall)
        assert [each.id for each in recalled.operations] == [
            each.id for each in self.rig.state.operations
        ]
        assert lasting(self.rig.state) == lasting(self.rig.state)
        left = saved["endpoint"]
        known = [left["serving"], left["opening"], *left["leaving"]]
        assert {each["pid"] for each in known if each} == {
            each.pid for each in followed(self.rig.state.endpoint.keeper)
        }


class TestRigMachine(World.TestCase):  # type: ignore[misc]
    """The rig's laws hold whatever people and accidents do."""

    settings = settings(max_examples=150, stateful_step_count=50, deadline=None, derandomize=True)

"""The keeper of the proxy's process, driven as the shell would: any order of what can happen."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rigctl.core.endpoint import step
from rigctl.core.endpoint_states import (
    Absent,
    Event,
    Exited,
    Failed,
    HandOver,
    Keeper,
    Kill,
    Linked,
    Patience,
    ReleaseSocket,
    RestartAsked,
    Serving,
    Spawn,
    Spawned,
    SpawnFailed,
    Spawning,
    Terminate,
    Tick,
    Unlinked,
    Unwanted,
    Wanted,
    deadline_of,
    followed,
    serving,
)
from rigctl.core.ids import Mono, ProcessIdentity

PATIENCE = Patience()


class Shell(RuleBasedStateMachine):
    """A model of the outside: processes that open, link, crash, drain and leave."""

    def __init__(self) -> None:
        super().__init__()
        self.now = Mono(0.0)
        self.keeper = Keeper(Absent(self.now, "new"))
        self.spawns = 0
        self.next_pid = 100
        self.living: dict[int, ProcessIdentity] = {}
        self.asked_to_leave: dict[int, float] = {}
        self.linked: set[int] = set()
        self.socket = False

    def feed(self, event: Event) -> None:
        self.keeper, orders = step(self.keeper, event, self.now, PATIENCE)
        for order in orders:
            match order:
                case Spawn():
                    assert self.spawns == 0, "two spawns in flight"
                    self.spawns += 1
                    self.socket = True
                case HandOver(process, linked):
                    successor = serving(self.keeper.phase)
                    assert successor is not None
                    assert successor.linked, "handed over to nobody"
                    assert linked == (process.pid in self.linked)
                    self.asked_to_leave[process.pid] = self.now
                case Terminate(process):
                    assert process.pid in self.asked_to_leave or process.pid < self.next_pid
                    self.asked_to_leave.setdefault(process.pid, self.now)
                case Kill(process):
                    asked = self.asked_to_leave[process.pid]
                    assert self.now - asked >= PATIENCE.leave, "killed before its time"
                    self.living.pop(process.pid, None)
                    self.linked.discard(process.pid)
                case ReleaseSocket():
                    assert isinstance(self.keeper.phase, Absent | Failed)
                    self.socket = False

    @rule()
    def wanted(self) -> None:
        self.feed(Wanted())

    @rule()
    def unwanted(self) -> None:
        self.feed(Unwanted("[proxy] is gone"))

    @rule()
    def restart(self) -> None:
        self.feed(RestartAsked())

    @precondition(lambda self: self.spawns)
    @rule(ok=st.integers(0, 5), final=st.booleans())
    def spawn_answers(self, ok: int, final: bool) -> None:
        self.spawns -= 1
        if ok == 0:
            self.feed(SpawnFailed("port taken", final))
            return
        process = ProcessIdentity(self.next_pid, self.next_pid * 7, "boot", self.next_pid, "")
        self.next_pid += 1
        self.living[process.pid] = process
        self.feed(Spawned(process))

    @precondition(lambda self: self.living)
    @rule(data=st.data(), up=st.booleans())
    def link(self, data: st.DataObject, up: bool) -> None:
        pid = data.draw(st.sampled_from(sorted(self.living)))
        (self.linked.add if up else self.linked.discard)(pid)
        self.feed(Linked(pid) if up else Unlinked(pid))

    @precondition(lambda self: followed(self.keeper))
    @rule(data=st.data())
    def exits(self, data: st.DataObject) -> None:
        process = data.draw(st.sampled_from(followed(self.keeper)))
        self.living.pop(process.pid, None)
        self.linked.discard(process.pid)
        self.feed(Exited(process, "exit 1"))

    @rule(seconds=st.sampled_from([0.0, 1.0, 6.0, 31.0, 61.0, 200.0]))
    def time(self, seconds: float) -> None:
        self.now = Mono(self.now + seconds)
        self.feed(Tick())

    @invariant()
    def every_living_process_is_followed(self) -> None:
        """No proxy lives outside the daemon's sight."""
        assert {each.pid for each in self.living.values()} <= {
            each.pid for each in followed(self.keeper)
        }

    @invariant()
    def who_serves_was_not_asked_to_leave(self) -> None:
        """A restart never leaves the address without a server that could be there."""
        current = serving(self.keeper.phase)
        if current is not None:
            assert current.process.pid not in self.asked_to_leave

    @invariant()
    def a_spawn_is_in_flight_exactly_while_spawning(self) -> None:
        """No spawn is forgotten, and none is waited for that was not ordered."""
        assert (self.spawns == 1) == isinstance(self.keeper.phase, Spawning)

    @invariant()
    def whoever_serves_or_will_has_the_socket(self) -> None:
        """Between two proxies the backlog stays."""
        if not isinstance(self.keeper.phase, Absent | Failed):
            assert self.socket

    @invariant()
    def no_timer_is_due_and_dead(self) -> None:
        """A timer that is due changes something, else the loop would spin."""
        due = deadline_of(self.keeper)
        if due is not None and due <= self.now:
            before = self.keeper
            self.feed(Tick())
            assert self.keeper != before


class TestKeeper(Shell.TestCase):  # type: ignore[misc]
    """The keeper's laws hold whatever comes in whatever order."""

    settings = settings(max_examples=200, stateful_step_count=50, deadline=None, derandomize=True)


def test_a_serving_proxy_stays_where_its_successor_never_opens() -> None:
    """A restart whose new process is stuck costs nobody anything."""
    old = ProcessIdentity(1, 1, "boot", 1, "")
    new = ProcessIdentity(2, 2, "boot", 2, "")
    keeper = Keeper(Serving(Mono(0.0), old, True))
    keeper, orders = step(keeper, RestartAsked(), Mono(1.0), PATIENCE)
    assert orders == (Spawn(),)
    keeper, _ = step(keeper, Spawned(new), Mono(2.0), PATIENCE)
    keeper, orders = step(keeper, Tick(), Mono(40.0), PATIENCE)
    assert keeper.phase == Serving(Mono(0.0), old, True)
    assert orders == (Terminate(new),)


def test_a_first_crash_is_answered_at_once_and_a_loop_of_them_ends() -> None:
    """The socket's backlog is short of patience; a proxy that cannot live is not tried for ever."""
    keeper, now = Keeper(Absent(Mono(0.0), "")), 0.0
    keeper, _ = step(keeper, Wanted(), Mono(now), PATIENCE)
    waits = []
    for pid in range(1, 10):
        process = ProcessIdentity(pid, pid, "boot", pid, "")
        keeper, _ = step(keeper, Spawned(process), Mono(now), PATIENCE)
        keeper, _ = step(keeper, Linked(pid), Mono(now), PATIENCE)
        keeper, orders = step(keeper, Exited(process, "signal 9"), Mono(now), PATIENCE)
        if isinstance(keeper.phase, Failed):
            break
        if Spawn() not in orders:
            due = deadline_of(keeper)
            assert due is not None
            waits.append(due - now)
            now = due
            keeper, _ = step(keeper, Tick(), Mono(now), PATIENCE)
    assert isinstance(keeper.phase, Failed)
    assert waits == [1.0, 5.0, 20.0, 60.0]

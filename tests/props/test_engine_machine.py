"""The engine machine, driven as the shell would: only facts that can happen, in any order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rigctl.core.engine import step
from rigctl.core.engine_states import (
    SIGKILL,
    AbortRequests,
    CardsSeen,
    Engine,
    Event,
    Exited,
    GateSeen,
    Hopeless,
    InFlight,
    MembersSeen,
    Off,
    Policy,
    Ready,
    ReadySeen,
    SignalLeader,
    SignalSession,
    Spawn,
    Spawned,
    SpawnFailed,
    StartAsked,
    StopAsked,
    StopCancelled,
    Stuck,
    Tick,
    deadline_of,
    process_of,
)
from rigctl.core.ids import Mono, ProcessIdentity
from rigctl.core.reading import OFF

POLICY = Policy()


def _identity(pid: int) -> ProcessIdentity:
    return ProcessIdentity(pid, pid * 7, "boot", pid, "")


class Shell(RuleBasedStateMachine):
    """A model of the outside: processes with children, cards that free memory late."""

    def __init__(self) -> None:
        super().__init__()
        self.now = Mono(0.0)
        self.engine = Engine(Off(self.now, "never started"))
        self.spawns_in_flight = 0
        self.next_pid = 100
        self.leaders: set[int] = set()
        self.children: dict[int, set[int]] = {}
        """Session to its living children; a session stays until its memory is seen free."""
        self.unfreed: set[int] = set()
        """Sessions whose memory NVML still shows."""
        self.ended_by_us: set[int] = set()
        self.reported: set[int] = set()

    def feed(self, event: Event) -> None:
        self.engine, orders = step(self.engine, event, self.now, POLICY)
        for order in orders:
            match order:
                case Spawn():
                    assert not self.unfreed, "spawned while old memory is on the cards"
                    self.spawns_in_flight += 1
                case SignalLeader(process, _):
                    assert process.pid in self.children, "signalled a process we never started"
                    self.ended_by_us.add(process.pid)
                case SignalSession(process, number):
                    assert process.pid in self.children, "signalled a session we never started"
                    self.ended_by_us.add(process.pid)
                    if number == SIGKILL:
                        self.children[process.pid] = set()
                        self.leaders.discard(process.pid)
                case AbortRequests():
                    assert process_of(self.engine.state) is not None

    @rule()
    def start(self) -> None:
        self.feed(StartAsked())

    @rule(drain=st.sampled_from([0.0, 30.0, 180.0]), restart=st.booleans())
    def stop(self, drain: float, restart: bool) -> None:
        self.feed(StopAsked("asked", drain, restart))

    @rule()
    def cancel(self) -> None:
        self.feed(StopCancelled())

    @rule(willing=st.booleans())
    def gate(self, willing: bool) -> None:
        self.feed(GateSeen(willing and not self.unfreed, "cards held"))

    @precondition(lambda self: self.spawns_in_flight > 0)
    @rule(ok=st.booleans(), children=st.integers(0, 5), final=st.booleans())
    def spawn_answers(self, ok: bool, children: int, final: bool) -> None:
        self.spawns_in_flight -= 1
        if not ok:
            self.feed(SpawnFailed("no such file", final))
            return
        pid = self.next_pid
        self.next_pid += 10
        self.leaders.add(pid)
        self.children[pid] = set(range(pid + 1, pid + 1 + children))
        self.unfreed.add(pid)
        self.feed(Spawned(_identity(pid)))

    @rule()
    def ready(self) -> None:
        self.feed(ReadySeen())

    @rule()
    def stuck(self) -> None:
        self.feed(Stuck("NCCL init"))

    @rule()
    def hopeless(self) -> None:
        self.feed(Hopeless("card lost"))

    @rule(count=st.sampled_from([0, 0, 1, 3, OFF]))
    def in_flight(self, count: float) -> None:
        self.feed(InFlight(count))

    @precondition(lambda self: self.leaders)
    @rule()
    def leader_dies(self) -> None:
        self.leaders.discard(min(self.leaders))

    @precondition(lambda self: self.unfreed - self.leaders - self.reported)
    @rule(final=st.booleans())
    def exit_is_reported(self, final: bool) -> None:
        pid = min(self.unfreed - self.leaders - self.reported)
        self.reported.add(pid)
        self.feed(Exited(_identity(pid), "exit 1", final))

    @precondition(lambda self: self.unfreed)
    @rule()
    def a_child_leaves(self) -> None:
        for pid in sorted(self.unfreed):
            if self.children[pid]:
                self.children[pid].pop()
                return

    @precondition(lambda self: self.unfreed)
    @rule()
    def members(self) -> None:
        pid = min(self.unfreed)
        leader = {pid} & self.leaders
        self.feed(MembersSeen(_identity(pid), tuple(sorted(self.children[pid] | leader))))

    @precondition(lambda self: self.unfreed)
    @rule()
    def memory_is_freed(self) -> None:
        for pid in sorted(self.unfreed):
            gone = pid not in self.leaders and not self.children[pid] and pid in self.reported
            process = process_of(self.engine.state)
            if gone and (process is None or process.pid == pid):
                self.unfreed.discard(pid)
        self.feed(CardsSeen(not self.unfreed))

    @rule(seconds=st.sampled_from([0.5, 5.0, 61.0, 400.0]))
    def time(self, seconds: float) -> None:
        self.now = Mono(self.now + seconds)
        self.feed(Tick())

    @invariant()
    def at_most_one_engine_or_spawn(self) -> None:
        assert len(self.leaders) + self.spawns_in_flight <= 1

    @invariant()
    def a_living_process_is_followed(self) -> None:
        """No process of ours lives outside the machine's sight."""
        process = process_of(self.engine.state)
        for pid in self.leaders:
            assert process is not None
            assert process.pid == pid

    @invariant()
    def timers_lie_ahead_or_fire(self) -> None:
        due = deadline_of(self.engine.state)
        if due is not None and due <= self.now:
            before = self.engine
            self.feed(Tick())
            assert self.engine != before, "a timer that is due changes nothing: it would spin"

    @invariant()
    def crash_memory_is_bounded(self) -> None:
        assert len(self.engine.crashes) <= POLICY.crash_limit + 1


class TestEngineMachine(Shell.TestCase):  # type: ignore[misc]
    """Rules of the machine hold under any order of events."""

    settings = settings(max_examples=400, stateful_step_count=50, deadline=None, derandomize=True)


def _run(*events: Event, start: Engine | None = None) -> Engine:
    engine = start or Engine(Off(Mono(0), ""))
    for event in events:
        engine, _ = step(engine, event, Mono(1), POLICY)
    return engine


def test_stop_then_start_while_spawning_keeps_the_one_process() -> None:
    """Start, stop, start before the spawn answers: one process, and it is kept."""
    engine = _run(
        StartAsked(), GateSeen(True, ""), StopAsked("asked", 0), StartAsked(), Spawned(_identity(9))
    )
    assert process_of(engine.state) == _identity(9)
    engine = _run(ReadySeen(), start=engine)
    assert isinstance(engine.state, Ready)


def test_cancelled_drain_is_ready_again() -> None:
    """A reclaim while a free still drains keeps the engine serving."""
    engine = _run(StartAsked(), GateSeen(True, ""), Spawned(_identity(9)), ReadySeen())
    engine = _run(StopAsked("freed", 180), StopCancelled(), start=engine)
    assert isinstance(engine.state, Ready)

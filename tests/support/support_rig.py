"""A rig held in the hand: the real reducer, and a world that answers its orders when told to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rigctl.core.cards import CardProcess, CardSample, GpuSweep
from rigctl.core.commands import Accepted, Answer, Command, Refused
from rigctl.core.energy import Moment
from rigctl.core.engine_sample import EngineSample
from rigctl.core.engine_states import Policy, State
from rigctl.core.facts import (
    CardsSampled,
    CommandAsked,
    EngineExited,
    EngineReady,
    EngineSampled,
    EngineSpawned,
    EngineWatched,
    Fact,
    Ticked,
)
from rigctl.core.ids import CardId, GroupName, Mono, ProcessIdentity, Wall
from rigctl.core.operations import Operation
from rigctl.core.orders import Order, SignalWhole, SpawnEngine, WriteJournal
from rigctl.core.phases import PhasePolicy
from rigctl.core.reduce import reduce
from rigctl.core.spec import GroupSpec, RigSpec
from rigctl.core.state import GroupState, RigState, fresh_group
from rigctl.core.watch_facts import WatchPolicy

MIB = 1024.0**2
GIB = 1024.0**3


def card_id(index: int) -> CardId:
    """The UUID of the rig's card at this index."""
    return CardId(f"GPU-{index:08x}-0000-4000-8000-000000000000")


def identity(pid: int) -> ProcessIdentity:
    """A process as the launcher would identify it."""
    return ProcessIdentity(pid, pid * 10, "boot", pid, "")


def group_spec(name: str, indexes: range, power_limit: float | None = None) -> GroupSpec:
    """One group of the example rig."""
    return GroupSpec(
        name=GroupName(name),
        cards=tuple(card_id(index) for index in indexes),
        missing=(),
        url="http://127.0.0.1:30000",
        model="m",
        window=8192,
        stretched="",
        slots=6,
        pool=10_000,
        sleep_on_idle=False,
        drain=180.0,
        policy=Policy(grace=30.0),
        power_limit=power_limit,
        start_with_daemon=False,
        ranks=len(indexes) or 1,
        log="/tmp/x.log",
    )


def rig_state(*specs: GroupSpec) -> RigState:
    """A rig of these groups, everything off; two groups of four cards by default."""
    found = specs or (group_spec("standard", range(4)), group_spec("long", range(4, 8)))
    spec = RigSpec(
        name="rig",
        free_group=found[-1].name,
        price_per_kwh=0.3,
        currency="EUR",
        stagger=10.0,
        free_drain=180.0,
        watch=WatchPolicy(),
        phases=PhasePolicy(),
        simulated=True,
        home="/tmp/rig",
        tag="tag",
    )
    groups = tuple(fresh_group(each, Mono(0.0)) for each in found)
    return RigState(spec, groups, "epoch", wall=Wall(1_000_000.0))


@dataclass
class Card:
    """What one card holds: by which pid, and whether NVML lists it."""

    used: float = 5 * MIB
    processes: tuple[CardProcess, ...] | None = ()
    lost: str = ""
    watts: float = 20.0


@dataclass
class Rig:
    """The reducer with its orders recorded, and the world's answers one call each."""

    state: RigState = field(default_factory=rig_state)
    now: float = 100.0
    orders: list[Order] = field(default_factory=list)
    cards: dict[int, Card] = field(default_factory=lambda: {i: Card() for i in range(8)})
    nvml_error: str = ""
    next_pid: int = 1000

    def __post_init__(self) -> None:
        self.sweep()

    def feed(self, fact: Fact) -> Answer | None:
        """One fact; its orders are appended."""
        wall = Wall(1_000_000.0 + self.now)
        reduced = reduce(self.state, fact, Mono(self.now), wall)
        self.state = reduced.state
        self.orders.extend(reduced.orders)
        return reduced.answer

    def ask(self, command: Command, holder: ProcessIdentity | None = None) -> Answer:
        """A command by anna."""
        fact = CommandAsked(self.state.next_operation, command, "anna", holder)
        answer = self.feed(fact)
        assert answer is not None
        return answer

    def accepted(self, command: Command, holder: ProcessIdentity | None = None) -> int:
        """A command that must be taken; its operation."""
        answer = self.ask(command, holder)
        assert isinstance(answer, Accepted), answer
        return answer.operation

    def refused(self, command: Command) -> Refused:
        """A command that must not be taken; why."""
        answer = self.ask(command)
        assert isinstance(answer, Refused), answer
        return answer

    def group(self, name: str) -> GroupState:
        found = self.state.group(name)
        assert found is not None
        return found

    def engine(self, name: str) -> State:
        return self.group(name).engine.state

    def operation(self, number: int) -> Operation:
        return next(each for each in self.state.operations if each.id == number)

    def said(self) -> str:
        """Everything written to the journal so far."""
        return "\n".join(each.say for each in self.orders if isinstance(each, WriteJournal))

    def kinds(self) -> list[str]:
        """The journal's stable words so far."""
        return [each.kind for each in self.orders if isinstance(each, WriteJournal)]

    def of(self, kind: type[Order]) -> list[Order]:
        """Orders of one kind so far."""
        return [each for each in self.orders if isinstance(each, kind)]

    # ---- the world ---------------------------------------------------------------------

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.feed(Ticked())

    def sweep(self, answered: bool = True) -> None:
        """NVML is read."""
        samples = tuple(self._sample(index, card) for index, card in sorted(self.cards.items()))
        sweep = GpuSweep(
            Mono(self.now),
            samples,
            error=self.nvml_error,
            reboot_needed="reboot needed" in self.nvml_error,
            answered=answered,
        )
        self.feed(CardsSampled(sweep, Moment("2026-11-29", self.now, self.now, "boot")))

    @staticmethod
    def _sample(index: int, card: Card) -> CardSample:
        sample = CardSample(card_id(index), index, f"0000:{index:02X}:00.0", "RTX 3090")
        if card.lost:
            return replace(sample, lost=card.lost)
        sample = replace(
            sample,
            watts=card.watts,
            limit_watts=350.0,
            default_limit_watts=350.0,
            max_limit_watts=350.0,
            memory_used=card.used,
            memory_reserved=0.0,
            memory_total=24 * GIB,
            pstate=8.0,
        )
        return sample if card.processes is None else replace(sample, processes=card.processes)

    def spawn(self, name: str) -> ProcessIdentity:
        """The spawn that was ordered succeeds."""
        order = [each for each in self.orders if isinstance(each, SpawnEngine)][-1]
        assert order.group == name
        process = identity(self.next_pid)
        self.next_pid += 100
        self.feed(EngineSpawned(GroupName(name), process, ("sglang", "serve"), ()))
        return process

    def occupy(self, name: str, process: ProcessIdentity) -> None:
        """The engine's schedulers hold their cards, and are seen in its session."""
        spec = self.group(name).spec
        pids = [process.pid + 1 + position for position in range(len(spec.cards))]
        for position, card in enumerate(spec.cards):
            index = int(card[4:12], 16)
            holder = CardProcess(pids[position], 22 * GIB, "sglang::schedul", "anna")
            self.cards[index] = Card(22 * GIB, (holder,))
        self.members(name, process, (process.pid, *pids))
        self.sweep()

    def members(
        self, name: str, process: ProcessIdentity, pids: tuple[int, ...], titles: str = ""
    ) -> None:
        """The engine's session is looked at."""
        ranks = tuple(f"sglang::scheduler_TP{rank}" for rank in range(len(pids) - 1))
        shown = tuple(titles.split()) if titles else ("python", *ranks)
        self.feed(EngineWatched(GroupName(name), process, pids, shown[: len(pids)]))

    def start(self, name: str) -> ProcessIdentity:
        """All the way to serving."""
        from rigctl.core.commands import StartGroup

        self.accepted(StartGroup(GroupName(name)))
        self.tick(11.0)
        process = self.spawn(name)
        self.occupy(name, process)
        self.feed(EngineReady(GroupName(name), process))
        return process

    def sample(self, name: str, active: float, **more: float) -> None:
        """The engine's counters are read."""
        sample = EngineSample(GroupName(name), Mono(self.now), active=active, **more)
        self.feed(EngineSampled(sample))

    def exit(self, name: str, process: ProcessIdentity, code: int | None, *tail: str) -> None:
        """The main process ends."""
        self.feed(EngineExited(GroupName(name), process, code, tail))

    def vanish(self, name: str, process: ProcessIdentity, code: int | None = 0) -> None:
        """It ends with all its children, and the driver frees the memory."""
        self.exit(name, process, code)
        self.members(name, process, ())
        self.release(name)

    def release(self, name: str) -> None:
        """The cards of a group show free."""
        for card in self.group(name).spec.cards:
            self.cards[int(card[4:12], 16)] = Card()
        self.sweep()

    def killed(self) -> list[int]:
        """Sessions that were signalled as a whole."""
        return [each.process.pid for each in self.orders if isinstance(each, SignalWhole)]

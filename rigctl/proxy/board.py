"""The clusters as this process knows them: the daemon's rows, its own counts, its own judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from rigctl.adapters.http1 import HttpClient
from rigctl.core.clusters import Cluster, RoutePolicy, Standing
from rigctl.core.evidence import ClusterWatch, Evidence, Told
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import GateState, Progress, Table, TableGroup, TablePolicy
from rigctl.core.reading import NOT_YET, Missing, Reading
from rigctl.core.standing import good_until, observe, standing, watch
from rigctl.proxy.upstream import Upstream

SMOOTH = 0.2
"""Weight of the newest answer in a running mean."""
PROGRESS_HOLDS = 5.0
"""Seconds for which the daemon's word on an engine's progress counts."""


class Record:
    """One cluster."""

    def __init__(self, row: TableGroup, http: HttpClient) -> None:
        self.row = row
        self.upstream = Upstream(row, http)
        self.watch = ClusterWatch()
        self.progress: tuple[Mono, Progress] | None = None
        self.in_flight = 0
        self.slots_taken = 0
        """By those requests: one a choice."""
        self.held_tokens = 0
        self.unread: dict[str, int] = {}
        """Prompt tokens, those not cached, of requests that had no byte yet, by request."""
        self.answer_seconds: Reading = NOT_YET
        self.prefill_rate: Reading = NOT_YET
        self.event_tokens: Reading = NOT_YET
        """Tokens in one event of an answer: several where the engine speculates."""
        self.sent = self.overflow = self.failed = self.resent = 0
        self.slots = max(1, row.slots)
        self.efforts: dict[str, str] = {}
        self.probed = False
        """Whether `efforts` is what this very engine's template takes."""
        self.header_rid = row.header_rid
        self.told: GateState | None = None
        self.lost_at = Mono(-1e9)
        """When a request was last lost here before a byte."""
        self.stands: Stands | None = None
        """Its standing, as long as nothing changes it."""

    @property
    def name(self) -> GroupName:
        return self.row.name

    def took(self, seconds: float) -> None:
        """An answer held its slot for so long."""
        self.answer_seconds = _mean(self.answer_seconds, seconds)

    def read(self, tokens: int, seconds: float) -> None:
        """A prompt that nobody disturbed was read: so many tokens not cached, in so long."""
        if seconds > 0:
            self.prefill_rate = _mean(self.prefill_rate, tokens / seconds)

    def wrote(self, tokens: int, events: int) -> None:
        """An answer of so many tokens came in so many events with content."""
        self.event_tokens = _mean(self.event_tokens, tokens / events)


class Stands(NamedTuple):
    """A standing, and what it was found by."""

    watch: ClusterWatch
    row: TableGroup
    until: float
    """When time alone changes it."""
    found: tuple[Standing, Mono | None, str]


def _mean(before: Reading, value: float) -> float:
    return value if isinstance(before, Missing) else before + SMOOTH * (value - before)


class Board:
    """All clusters, in the order of preference."""

    def __init__(self, http: HttpClient, now: Callable[[], Mono]) -> None:
        self._http = http
        self._now = now
        self.table = Table("", 0, Mono(0.0), (), policy=TablePolicy())
        self.policy = RoutePolicy()
        self._records: dict[GroupName, Record] = {}
        self.restarted: Callable[[Record], None] = lambda record: None
        """Called where an engine is another one than before: its cache is empty."""

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def get(self, name: GroupName | None) -> Record | None:
        """The cluster of that name, also one that the table no longer has while it is used."""
        return None if name is None else self._records.get(name)

    def take(self, table: Table) -> bool:
        """A table came; whether it counts. An older one of the same daemon does not."""
        if table.epoch == self.table.epoch and table.seq < self.table.seq:
            return False
        self.table = table
        self.policy = policy_of(table)
        now = self._now()
        kept: dict[GroupName, Record] = {}
        for row in self._ordered(table):
            record = self._records.pop(row.name, None)
            if record is None:
                record = Record(row, self._http)
                self.restarted(record)
            else:
                self._renew(record, row)
            record.watch = watch(row.run, now, record.watch)
            kept[row.name] = record
        for name, record in self._records.items():
            if record.in_flight:  # its answers run on; nothing new goes there
                kept[name] = record
                record.row = replace(record.row, gate="finish", say="it is no longer in rig.toml")
        self._records = kept
        return True

    def _renew(self, record: Record, row: TableGroup) -> None:
        before, record.row = record.row, row
        where = (row.host, row.port, row.key, row.admin_key)
        if where != (before.host, before.port, before.key, before.admin_key):
            record.upstream = Upstream(row, self._http)
        if row.slots:
            record.slots = row.slots
        if row.run and row.run != before.run:
            record.probed = False
            record.event_tokens = NOT_YET  # it may speculate otherwise
            record.header_rid = row.header_rid
            record.progress = None
            self.restarted(record)
        elif row.state == "ready" and before.state != "ready":
            self.restarted(record)

    @staticmethod
    def _ordered(table: Table) -> list[TableGroup]:
        wanted = {name: place for place, name in enumerate(table.policy.order)}
        return sorted(table.groups, key=lambda row: wanted.get(row.name, len(wanted)))

    def hear(self, progress: Progress) -> None:
        """The daemon tells of an engine's progress."""
        record = self._records.get(progress.group)
        if record is not None:
            now = self._now()
            record.progress = (now, progress)
            record.watch = observe(record.watch, Told(progress), now)
            self.standing(record)

    def observe(self, record: Record, evidence: Evidence) -> None:
        """Something was learnt about a cluster by its answers, or by their absence."""
        record.watch = observe(record.watch, evidence, self._now())
        self.standing(record)  # found now, so that no request waits for it

    def standing(self, record: Record) -> tuple[Standing, Mono | None, str]:
        """How it stands now, since when, and by what evidence."""
        now, kept = self._now(), record.stands
        same = kept is not None and kept.watch is record.watch and kept.row is record.row
        if kept is None or not same or now >= kept.until:
            found = standing(record.watch, record.row, now)
            until = good_until(record.watch, now)
            kept = record.stands = Stands(record.watch, record.row, until, found)
        return kept.found

    def clusters(self) -> tuple[Cluster, ...]:
        """What the rules decide by."""
        now = self._now()
        return tuple([self._cluster(record, now) for record in self._records.values()])

    def _cluster(self, record: Record, now: Mono) -> Cluster:
        row = record.row
        word, _, say = self.standing(record)
        eta: Reading = row.eta
        if not isinstance(eta, Missing):
            eta = max(0.0, eta - (now - self.table.at))
        left: Reading = float(sum(record.unread.values()))
        rate = record.prefill_rate
        if record.progress is not None and now - record.progress[0] <= PROGRESS_HOLDS:
            told = record.progress[1]
            left = left if isinstance(told.tokens_left, Missing) else told.tokens_left
            rate = rate if isinstance(told.prefill_rate, Missing) else told.prefill_rate
        return Cluster(
            name=row.name,
            standing=word,
            untried=record.watch.untried,
            say=say,
            eta=eta,
            window=row.window,
            pool=row.pool,
            slots=record.slots,
            in_flight=record.slots_taken,
            held_tokens=record.held_tokens,
            prefill_left=left,
            prefill_rate=rate,
            answer_seconds=record.answer_seconds,
            run=row.run,
        )

    def gate(self, record: Record, waiting: int) -> GateState:
        """The gate as it is, by what is under way."""
        row = record.row
        gate = row.gate
        if gate == "finish" and record.in_flight == 0:
            gate = "closed"
        drain = row.drain if row.gate != "open" else 0
        return GateState(row.name, drain, gate, record.in_flight, waiting)


def policy_of(table: Table) -> RoutePolicy:
    """The rules' own part of the policy."""
    policy = table.policy
    return RoutePolicy(
        order=policy.order,
        reserve_slots=policy.reserve_slots,
        reserve_share=policy.reserve_share,
        picture_tokens=policy.picture_tokens,
        default_output=policy.default_output,
        queue_limit=policy.queue_limit,
        hold=policy.hold,
        off_answer=policy.off_answer,
        session_rule=policy.session_rule,
    )

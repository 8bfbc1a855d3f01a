"""Snapshots with an endpoint: sessions in every state, a crowd, an endpoint that is away."""

from __future__ import annotations

from dataclasses import replace

from sample_parts import LONG, STANDARD, WALL, card, group, snapshot

from rigctl.core.engine_sample import TokenPool
from rigctl.core.flow import ClientRow, ClusterRow, FlowRows, RouteRecord, SessionRow
from rigctl.core.reading import NOT_YET
from rigctl.core.snapshot import EndpointView, Flow, GroupView, Notice, Rates, Slots, Snapshot

CULPRIT, BEHIND, THIRD = "a1b2c3d4", "99ff0011", "5c6d7e8f"
NAMES = f"{CULPRIT} is read, {BEHIND} and {THIRD} wait for it"
"""As the daemon puts it into the flow's own words."""
URL = "http://127.0.0.1:8000"


def row(session: str, state: str, seconds: float, **changes: object) -> SessionRow:
    """A request of anna's on standard."""
    made = SessionRow(
        request="" if state == "resting" else f"rig-3f0c-{session}",
        session=session,
        client="anna",
        cluster=STANDARD,
        state=state,
        seconds=seconds,
        context=46_000.0,
        cached=44_000.0,
        produced=0 if state in {"queued", "held", "prefilling"} else 412,
        rate=38.0 if state in {"thinking", "answering"} else NOT_YET,
        waited=0.1,
        first_byte=NOT_YET if state in {"queued", "held", "prefilling"} else 0.9,
        pool_share=0.0575,
        rule="home",
        turn=7,
        endpoint="/v1/chat/completions",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


SESSIONS = (
    row(CULPRIT, "prefilling", 41.0, context=122_000.0, cached=0.0, pool_share=0.15, rule="free",
        turn=1),
    row("77aa88bb", "resting", 720.0, client="", flags=("all-thought",)),
    row(BEHIND, "stalled", 41.0, client="bob", behind=CULPRIT, rate=0.0,
        say=f"stalled 41 s behind {CULPRIT}"),
    row("0badcafe", "queued", 12.0, client="bob", cluster="", rule="", waited=12.0,
        say="place 2 of 2, about 40 s", pool_share=NOT_YET),
    row(THIRD, "stalled", 39.0, behind=CULPRIT, rate=0.0, say=f"stalled 39 s behind {CULPRIT}"),
    row("12ab34cd", "answering", 8.0, client="claude-code", cluster=LONG, rule="overflow",
        flags=("repeats",), rate=61.0, context=301_000.0, pool_share=0.46, turn=31),
    row("deadbeef", "held", 30.0, client="cron", cluster="", rule="", waited=30.0,
        say="long starts, about 50 s", pool_share=NOT_YET),
    row("44556677", "thinking", 5.0, cluster=LONG, flags=("resent", "moved")),
    row("feedf00d", "resting", 95.0, client="", say="standard was started anew: cold"),
)  # fmt: skip

CLIENTS = (
    ClientRow("anna", 3, 4, 1_170, 2, 3, 2_140_000, 1_980_000, 88_000, 41_000),
    ClientRow("bob", 1, 2, 96, 0, 0, 310_000, 120_000, 9_400, 0, 3),
    ClientRow("claude-code", 1, None, 12, 0, 1, 3_600_000, 3_300_000, 21_000, 4_000),
    ClientRow("cron", 0, 1, 4, 1, 0, 12_000, 0, 900, 900),
)

CLUSTERS = (
    ClusterRow(STANDARD, "busy", 41.0, "reads a prompt", in_flight=3, slots=6, waiting=1, homes=5,
               sent=1_100, overflow=0, failed=2, resent=1, culprit=CULPRIT,
               waiting_behind=(BEHIND, THIRD)),
    ClusterRow(LONG, "up", 800.0, in_flight=2, slots=4, waiting=1, homes=2, sent=180, overflow=22),
)  # fmt: skip

ROWS = FlowRows(
    1000.0, SESSIONS, 0, CLIENTS, CLUSTERS, queued=2, oldest_wait=30.0, connections=9,
    off=("/v1/messages: no thinking budget, this SGLang has no field for it",),
    totals={"requests": 1_282.0},
)  # fmt: skip
UP = EndpointView(
    "up", 90_000.0, "", "", URL, "Qwen3.8-27B", 4600, keys=True, age=0.4, rows=ROWS
)  # fmt: skip


ROUTES = (
    RouteRecord(1, WALL - 90, "rig-3f0c-earlier", CULPRIT, "anna", "/v1/chat/completions", STANDARD,
                "home", "its home has a free slot", "chain", 80_000, "learnt", 0.0, 200),
    RouteRecord(2, WALL - 41, f"rig-3f0c-{CULPRIT}", CULPRIT, "anna", "/v1/chat/completions",
                STANDARD, "free", "standard has a free slot: 3 of 6 busy", "", 122_000, "counted",
                0.1, 0),
    RouteRecord(3, WALL - 12, "rig-3f0c-0badcafe", "0badcafe", "bob", "/v1/messages", "", "queue",
                "both are full", "turns", 46_000, "learnt", 0.0, 0),
)  # fmt: skip


def stalled_group() -> GroupView:
    """Standard, whose answers wait for a prompt."""
    return group(
        STANDARD,
        kv=TokenPool(800_000.0, 310_000.0, 124_000.0, 366_000.0, 0.39),
        slots=Slots(6.0, 6.0, 2.0, 0.0, 3.0),
        rates=Rates(0.0, 903.0, 3.9, 0.9),
        flow=Flow(
            "stalled",
            41.0,
            f"2 answers wait: {NAMES}",
            2.0,
            46_000.0,
            122_000.0,
            50.0,
            2.1,
        ),
    )


def _shot(endpoint: EndpointView, *groups: GroupView) -> Snapshot:
    shown = groups or (stalled_group(), group(LONG, in_flight=2.0))
    return snapshot(shown, tuple(card(index) for index in range(8)), endpoint=endpoint)


def traffic() -> Snapshot:
    """One cold prompt on standard, two answers behind it, one queued, one held, others run."""
    return _shot(UP)


def quiet_endpoint() -> Snapshot:
    """The endpoint is up and nobody has asked anything."""
    clusters = (ClusterRow(STANDARD, "up", slots=6), ClusterRow(LONG, "up", slots=4))
    return _shot(replace(UP, rows=FlowRows(1000.0, clusters=clusters)), group(), group(LONG))


def suspect() -> Snapshot:
    """The endpoint distrusts long, whose engine seems well."""
    doubted = replace(CLUSTERS[1], standing="suspect", seconds=7.0,
                      say="reset 2 of the last 3 requests")  # fmt: skip
    rows = replace(ROWS, clusters=(CLUSTERS[0], doubted))
    return _shot(replace(UP, rows=rows))


def endpoint_failed() -> Snapshot:
    """It could not be brought up."""
    down = EndpointView(
        "failed", 12.0, "exit 1 three times: 127.0.0.1:8000 is taken by pid 812 (nginx)",
        "rigctl endpoint restart", URL, crashes=3,
    )  # fmt: skip
    say = f"the endpoint is down: {down.say}; `rigctl endpoint restart` tries it again"
    return replace(_shot(down), notices=(Notice("endpoint-down", "error", say),))


def endpoint_lost() -> Snapshot:
    """Its process runs, its link does not: what it told is old."""
    return _shot(
        replace(UP, state="lost", age=52.0, say="no word from pid 4600 for 52 s",
                advice="rigctl endpoint restart")
    )  # fmt: skip


def crowd(step: int = 0) -> Snapshot:
    """64 rows, and with each step every running one moves: the measure of what a table costs."""
    rows = []
    for place in range(64):
        session = f"{place * 2_654_435_761 % 2**32:08x}"
        if place < 12:
            rows.append(row(session, "answering", 5.0 + step, rate=30.0 + (step * 7 + place) % 40,
                            context=46_000.0 + 1_100 * step, produced=40 * step,
                            cluster=STANDARD if place % 2 else LONG,
                            pool_share=0.05 + step % 20 / 100))  # fmt: skip
        elif place < 28:
            say = f"place {28 - place} of 16, about {40 + (step * 3 + place) % 60} s"
            rows.append(row(session, "queued", 3.0 * place + step, cluster="", say=say,
                            waited=3.0 * place + step))  # fmt: skip
        else:
            rows.append(row(session, "resting", 30.0 * place + step, client=f"agent-{place % 9}"))
    clients = tuple(
        ClientRow(f"agent-{at}", at % 3, 4, 100 + at + step, 0, 0, 9_000 * step, 8_000 * step)
        for at in range(9)
    )
    flow = replace(ROWS, sessions=tuple(rows), more_sessions=11, clients=clients, queued=16,
                   oldest_wait=84.0 + step, at=1000.0 + step)  # fmt: skip
    made = _shot(replace(UP, rows=flow))
    return replace(made, seq=step + 1, at=made.at + step, wall=made.wall + step)


ALL = {
    "traffic": traffic,
    "quiet_endpoint": quiet_endpoint,
    "suspect": suspect,
    "endpoint_failed": endpoint_failed,
    "endpoint_lost": endpoint_lost,
    "crowd": crowd,
}

"""Snapshots for the command line's tests, made from the types the daemon sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rigctl.core.cards import CardProcess
from rigctl.core.engine_sample import TokenPool
from rigctl.core.flow import ClientRow, ClusterRow, FlowRows, SessionRow
from rigctl.core.reading import Missing, Total, Why
from rigctl.core.snapshot import (
    CardView,
    EndpointView,
    Flow,
    GroupView,
    HostView,
    Lease,
    PowerView,
    Rates,
    SleepOnIdle,
    Slots,
    Snapshot,
)

WALL = 1_790_000_000.0


def uuid(index: int) -> str:
    """The UUID of the card with that number."""
    return f"GPU-{index:04x}0000-1111-2222-3333-444455556666"


def card(index: int, **changes: Any) -> CardView:
    """A card under load."""
    made = CardView(
        uuid=uuid(index),
        index=index,
        pci=f"0000:{index + 1:02X}:00.0",
        name="NVIDIA GeForce RTX 3090",
        short=f"{index:04x}",
        group="standard" if index < 4 else "long",
        use="engine",
        lost="",
        watts=112.0,
        limit_watts=350.0,
        wanted_limit=350.0,
        default_limit_watts=350.0,
        pstate=2.0,
        utilisation=97.0,
        memory_used=22.1 * 2**30,
        memory_reserved=0.3 * 2**30,
        memory_total=24.0 * 2**30,
        celsius=67.0,
        fan=61.0,
        clock_mhz=1695.0,
        memory_clock_mhz=9501.0,
        throttle=(),
        pcie_rx=0.0,
        pcie_tx=0.0,
        pcie_generation=4.0,
        pcie_width=16.0,
        persistence=1.0,
        kwh_today=0.6,
        pstate_share={"P2": 1.0},
        processes=(CardProcess(4711, 22.0 * 2**30, "sglang", "anna"),),
        age=0.3,
    )
    return replace(made, **changes)


def group(name: str = "standard", **changes: Any) -> GroupView:
    """A ready group with three answers in the making."""
    first = 0 if name == "standard" else 4
    made = GroupView(
        name=name,
        cards=tuple(uuid(first + place) for place in range(4)),
        state="ready",
        seconds=273_600.0,
        say="",
        advice="",
        url=f"http://127.0.0.1:{30000 + first}",
        model="Qwen3.8-27B-FP8",
        window=262_144,
        stretched="",
        wanted=True,
        watched=False,
        adopted=False,
        start_estimate=74.0,
        pid=4711 + first,
        process_count=9,
        up_seconds=273_600.0,
        in_flight=3.0,
        kv=TokenPool(800_000.0, 120_000.0, 314_000.0, 366_000.0, 0.15),
        slots=Slots(6.0, 6.0, 3.0, 1.0, 3.0, ""),
        rates=Rates(118.0, 903.0, 3.9, 0.9),
        flow=Flow("decoding", 3.0),
        sleep=SleepOnIdle(False, False, "off"),
        power=PowerView(Total(448.0, 4, 4), Total(1400.0, 4, 4), 2.5, 0.75),
        engine_version="0.5.23",
        drain_limit=120.0,
    )
    return replace(made, **changes)


def lease(**changes: Any) -> Lease:
    """Lent to a training for two hours."""
    made = Lease("training", WALL - 4320, WALL + 2880, False, None, "", Total(0.0, 4, 4))
    return replace(made, **changes)


def rig(**changes: Any) -> Snapshot:
    """The rig, all well."""
    made = Snapshot(
        seq=1,
        epoch="e1",
        rigctl="0.1.0",
        at=100.0,
        wall=WALL,
        rig="rig",
        free_means="long",
        currency="EUR",
        price_per_kwh=0.3,
        power=PowerView(Total(896.0, 8, 8), Total(2800.0, 8, 8), 5.1, 1.53),
        pool=TokenPool(1_450_000.0, 240_000.0, 194_000.0, 1_016_000.0, 0.2),
        pool_total_configured=1_450_000,
        groups=(group(), group("long")),
        cards=tuple(card(index) for index in range(8)),
        host=HostView(),
        operations=(),
        notices=(),
        journal=(),
        nvml="",
        driver="560.35.03",
        home="",
        simulated=False,
        free_drain_limit=180.0,
    )
    return replace(made, **changes)


LOST = Missing(Why.LOST, "GPU is lost")


def session(number: int = 1, **changes: Any) -> SessionRow:
    """An answer in the making, of anna's, on standard."""
    made = SessionRow(
        request=f"rig-e1-0000000{number}",
        session=f"s{number}bbbbbbb",
        client="anna",
        cluster="standard",
        state="answering",
        seconds=12.0,
        context=101_000.0,
        cached=90_000.0,
        produced=740,
        rate=61.2,
        waited=0.4,
        first_byte=1.9,
        pool_share=0.126,
        rule="home",
        turn=9,
        endpoint="/v1/chat/completions",
    )
    return replace(made, **changes)


def cluster(name: str = "standard", **changes: Any) -> ClusterRow:
    """A cluster that is up, with three requests of ours."""
    made = ClusterRow(name, "up", 600.0, in_flight=3, slots=6, homes=4, sent=212, overflow=9)
    return replace(made, **changes)


def endpoint(*sessions: SessionRow, **changes: Any) -> EndpointView:
    """An endpoint that is up, with these sessions; two clients have keys."""
    rows = FlowRows(
        100.0,
        sessions=sessions,
        clients=(
            ClientRow("anna", 2, 3, 120, 1, 4, 9_000_000, 8_100_000, 310_000, 120_000, 2),
            ClientRow("ben", 0, None, 7),
        ),
        clusters=(cluster(), cluster("long", in_flight=1, homes=2, sent=31, overflow=22)),
        queued=2,
        oldest_wait=41.0,
        connections=9,
        off=("/v1/messages: a thinking budget has no effect there.",),
        totals={"requests": 243.0, "resent": 1.0},
    )
    made = EndpointView(
        state="up",
        seconds=273_600.0,
        say="serving",
        url="http://127.0.0.1:8000",
        model="qwen3.8-27b",
        pid=5001,
        keys=True,
        age=0.4,
        rows=rows,
    )
    return replace(made, **changes)

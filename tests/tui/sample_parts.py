"""The parts that sample snapshots are made of: a working card, a ready group, a whole rig."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core.cards import CardProcess
from rigctl.core.engine_sample import TokenPool
from rigctl.core.reading import NOT_YET, OFF, Missing, Reading, Total, total
from rigctl.core.snapshot import (
    CardView,
    Flow,
    GroupView,
    HostView,
    JournalEntry,
    PowerView,
    Rates,
    SleepOnIdle,
    Slots,
    Snapshot,
)

GIB = 1024.0**3
WALL = 1_795_896_840.0
"""One fixed moment; tests set the time zone to UTC, where it is 20:14."""
SHORTS = ("c2f1", "09ab", "7d10", "e4c8", "11f0", "5b2e", "a9d3", "62c7")
STANDARD, LONG = "standard", "long"


def uuid(index: int) -> str:
    """The card's full name."""
    return f"GPU-{SHORTS[index]}0000-0000-4000-8000-00000000000{index}"


def card(index: int, **changes: object) -> CardView:
    """A working card."""
    made = CardView(
        uuid=uuid(index),
        index=index,
        pci=f"0000:{index + 1:02X}:00.0",
        name="NVIDIA GeForce RTX 3090",
        short=SHORTS[index],
        group=STANDARD if index < 4 else LONG,
        use="engine",
        lost="",
        watts=281.0 - 6 * index,
        limit_watts=350.0,
        wanted_limit=NOT_YET,
        default_limit_watts=350.0,
        pstate=2.0,
        utilisation=97.0 - index,
        memory_used=22.1 * GIB,
        memory_reserved=0.3 * GIB,
        memory_total=24.0 * GIB,
        celsius=67.0 + index % 3,
        fan=61.0,
        clock_mhz=1695.0,
        memory_clock_mhz=9501.0,
        throttle=(),
        pcie_rx=2.1e9,
        pcie_tx=1.4e9,
        pcie_generation=4.0,
        pcie_width=16.0,
        persistence=1.0,
        kwh_today=0.64,
        pstate_share={"P8": 0.41, "P2": 0.59},
        processes=(CardProcess(4711 + index, 21.8 * GIB, "sglang::schedul", "rig"),),
        age=0.4,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def idle_card(index: int, **changes: object) -> CardView:
    """A card whose engine sleeps."""
    return card(
        index,
        **{
            "watts": 31.0 + index % 3,
            "pstate": 8.0,
            "utilisation": 0.0,
            "celsius": 38.0 + index % 4,
            "fan": 30.0,
            "clock_mhz": 210.0,
            **changes,
        },
    )


def group(name: str = STANDARD, **changes: object) -> GroupView:
    """A ready engine at work."""
    standard = name == STANDARD
    pool = 800_000.0 if standard else 650_000.0
    made = GroupView(
        name=name,
        cards=tuple(uuid(index) for index in (range(4) if standard else range(4, 8))),
        state="ready",
        seconds=273_600.0,
        say="",
        advice="",
        url=f"http://127.0.0.1:{30001 if standard else 30002}",
        model="Qwen3.8-27B-FP8",
        window=262_144 if standard else 524_288,
        stretched="" if standard else "YaRN 2",
        wanted=True,
        watched=False,
        adopted=False,
        start_estimate=74.0,
        pid=4700 if standard else 5700,
        process_count=7,
        up_seconds=273_600.0,
        in_flight=3.0,
        kv=TokenPool(pool, 310_000.0, 124_000.0, pool - 434_000.0, 0.39),
        mamba=TokenPool(usage=0.2),
        window_share=0.33 if standard else 0.81,
        slots=Slots(6.0, 6.0, 3.0, 0.0, 3.0),
        rates=Rates(118.0, 167.0, 3.9, 0.9),
        flow=Flow("decoding", 12.0, fresh=0.4),
        sleep=SleepOnIdle(False, False, "off"),
        power=PowerView(Total(1088, 4, 4), Total(1400, 4, 4), 2.5, 0.75),
        scheduler_cpu=0.96,
        cpu=5.1,
        memory=18.2 * GIB,
        engine_version="0.5.20",
        command=(
            "python3",
            "-m",
            "sglang.launch_server",
            "--model-path",
            "/models/Qwen3.8-27B-FP8",
            "--port",
            "30001",
            "--tp-size",
            "4",
            "--context-length",
            "262144",
            "--api-key",
            "***",
            "--enable-metrics",
            "--enable-cache-report",
        ),
        log=f"/srv/rig/logs/{name}.log",
        sample_age=0.6,
        drain_limit=180.0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def event(seq: int, ago: float, name: str, kind: str, say: str) -> JournalEntry:
    """Something that happened so many seconds ago."""
    return JournalEntry(seq, WALL - ago, name, kind, say)


JOURNAL = (
    event(1, 12_600, STANDARD, "sleep", "sleep-on-idle on: idle 515 W → 128 W"),
    event(2, 4_400, LONG, "drain", "2 answers finished, none broken"),
    event(3, 4_389, LONG, "freed", "freed in 7.9 s, lent to training until 21:02"),
    event(4, 900, STANDARD, "stall", "prefill stall of 136 s ended: 122k cold prompt"),
    event(5, 41, STANDARD, "stall", "prefill stall began: 122k cold prompt, 3 answers wait"),
)


def snapshot(
    groups: tuple[GroupView, ...], cards: tuple[CardView, ...], **changes: object
) -> Snapshot:
    """A whole rig of these groups and cards."""
    watts = total(one.watts for one in cards)
    limit = total(one.limit_watts for one in cards)
    running = [view for view in groups if view.state == "ready"]
    made = Snapshot(
        seq=1,
        epoch="e1",
        rigctl="0.1.0",
        at=1000.0,
        wall=WALL,
        rig="rig",
        free_means=groups[-1].name if groups else "",
        currency="EUR",
        price_per_kwh=0.30,
        power=PowerView(watts, limit, 5.1, 1.53),
        pool=TokenPool(
            _sum([view.kv.total for view in running]),
            _sum([view.kv.used for view in running]),
            _sum([view.kv.cached for view in running]),
            _sum([view.kv.free for view in running]),
        ),
        pool_total_configured=1_450_000,
        groups=groups,
        cards=cards,
        host=HostView(2.1, 16, 40 * GIB, 128 * GIB, 200 * GIB, 900 * GIB, "clean"),
        operations=(),
        notices=(),
        journal=JOURNAL,
        nvml="",
        driver="570.86",
        home="/srv/rig",
        simulated=False,
        free_drain_limit=180.0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def _sum(parts: list[Reading]) -> Reading:
    known = [part for part in parts if not isinstance(part, Missing)]
    return sum(known) if known else OFF

"""A whole rig as a snapshot: two groups, eight cards, every kind of value in it."""

from __future__ import annotations

from rigctl.core.cards import CardProcess
from rigctl.core.engine_sample import TokenPool
from rigctl.core.reading import OFF, UNSUPPORTED, Missing, Total, Why
from rigctl.core.snapshot import (
    CardView,
    Flow,
    GroupView,
    HostView,
    JournalEntry,
    Lease,
    Notice,
    OperationView,
    Phase,
    PowerView,
    Rates,
    SleepOnIdle,
    Slots,
    Snapshot,
)

SCHEDULER = "sglang::scheduler_TP"


def card(index: int) -> CardView:
    """One card under load; card 6 has lost its fan reading, card 7 has fallen off the bus."""
    lost = "GPU is lost (Xid 79?)" if index == 7 else ""
    gone = Missing(Why.LOST, "GPU is lost")
    return CardView(
        uuid=f"GPU-c2f1a{index}42-1111-2222-3333-444455556666",
        index=index,
        pci=f"0000:0{index}:00.0",
        name="NVIDIA GeForce RTX 3090",
        short="c2f1",
        group="standard" if index < 4 else "long",
        use="lost" if lost else "engine",
        lost=lost,
        watts=gone if lost else 281.254 + index,
        limit_watts=350.0,
        wanted_limit=280.0,
        default_limit_watts=350.0,
        pstate=2.0,
        utilisation=97.0,
        memory_used=23_723_245_568.0,
        memory_reserved=UNSUPPORTED,
        memory_total=25_769_803_776.0,
        celsius=67.0,
        fan=Missing(Why.FAILED, "Unknown Error") if index == 6 else 61.0,
        clock_mhz=1695.0,
        memory_clock_mhz=9751.0,
        throttle=("power cap", "thermal"),
        pcie_rx=1_202_000_000.0,
        pcie_tx=1_198_000_000.0,
        pcie_generation=4.0,
        pcie_width=16.0,
        persistence=1.0,
        kwh_today=0.812,
        pstate_share={"P8": 0.91, "P2": 0.09},
        processes=(CardProcess(4100 + index, 23_000_000_000.0, SCHEDULER, "anna"),),
        age=0.4,
    )


def group(name: str) -> GroupView:
    """A busy group with everything filled in; `long` is lent."""
    lent = name == "long"
    return GroupView(
        name=name,
        cards=tuple(f"GPU-c2f1a{index}42-1111-2222-3333-444455556666" for index in range(4)),
        state="off" if lent else "ready",
        seconds=273_621.2,
        say='lent to "training"' if lent else "ready",
        advice="rigctl reclaim long" if lent else "",
        url="http://127.0.0.1:30000",
        model="Qwen3.8-27B-FP8",
        window=524_288 if lent else 262_144,
        stretched="YaRN 2" if lent else "",
        wanted=not lent,
        watched=False,
        adopted=True,
        phases=tuple(
            Phase(phase, 12.5, 11.0, True)
            for phase in ("init", "weights", "kv pool", "graphs", "warm-up")
        ),
        start_estimate=67.0,
        pid=None if lent else 4100,
        process_count=6,
        up_seconds=OFF if lent else 273_621.2,
        in_flight=3.0,
        crashes=1,
        last_exit="exit 137 in Capture graphs: out of memory",
        lease=Lease("training", 1.76e9, None, False, 9999, "python train.py", Total(0.0, 3, 4))
        if lent
        else None,
        kv=TokenPool(800_000.0, 120_000.0, 314_000.0, 366_000.0, 0.15),
        mamba=TokenPool(12.0, 3.0, 5.0, 4.0, 0.25),
        window_share=0.33,
        slots=Slots(6.0, 6.0, 3.0, 1.0, 4.0, "capped to 6 by the mamba pool"),
        rates=Rates(118.4, 1050.0, 3.9, 0.9),
        flow=Flow("stalled", 41.0, "3 answers wait", 3.0, 46_000.0, 122_000.0, 50.0, 2.2),
        sleep=SleepOnIdle(True, False, "on (after restart)"),
        power=PowerView(Total(843.0, 3, 4), Total(1400.0, 4, 4), 2.5, 0.75, True),
        scheduler_cpu=0.96,
        cpu=4.4,
        memory=18_000_000_000.0,
        engine_version="0.5.23",
        command=("python3", "-m", "sglang.launch_server", "--model-path", "/models/x")
        + ("-f",) * 30,
        differs=("--context-length: runs with 262144, would start with 524288",),
        log=f"/home/anna/.local/state/rigctl/logs/{name}.log",
        sample_age=0.8,
        leftovers=(4102, 4103),
    )


def rig() -> Snapshot:
    """The whole of it."""
    return Snapshot(
        seq=4711,
        epoch="5f2a",
        rigctl="0.1.0",
        at=123_456.789,
        wall=1.76e9,
        rig="rig",
        free_means="long",
        currency="EUR",
        price_per_kwh=0.3,
        power=PowerView(Total(2041.5, 7, 8), Total(2800.0, 8, 8), 5.1, 1.53),
        pool=TokenPool(1_450_000.0, 434_000.0, 314_000.0, 702_000.0, 0.3),
        pool_total_configured=1_450_000,
        groups=(group("standard"), group("long")),
        cards=tuple(card(index) for index in range(8)),
        host=HostView(3.2, 32, 60e9, 128e9, 500e9, 2000e9, "clean"),
        operations=tuple(
            OperationView(number, "free", "long", "anna", 7.9, "done", "4 of 4 cards free",
                          {"total_seconds": 7.9, "watts_before": 560.0})
            for number in range(4)
        ),
        notices=(
            Notice("idle-but-hot", "warning", 'standard idles at 520 W: "sleep" `rigctl sleep`'),
            Notice("disk-full", "error", 'a text with "read_only":false in it', "long"),
        ),
        journal=tuple(
            JournalEntry(number, 1.76e9, "standard", "stall", "prefill stall 136 s, 3 waited",
                         {"seconds": 136.0})
            for number in range(12)
        ),
        nvml="",
        driver="595.71",
        home="/home/anna/.local/state/rigctl",
        simulated=False,
    )  # fmt: skip

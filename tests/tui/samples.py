"""Snapshots of a rig in every mood, made by hand: what the panel is shown in tests and pictures."""

from __future__ import annotations

import math
from dataclasses import replace

import sample_traffic
from sample_parts import (
    GIB,
    JOURNAL,
    LONG,
    STANDARD,
    WALL,
    card,
    event,
    group,
    idle_card,
    snapshot,
    uuid,
)

from rigctl.core.cards import CardProcess
from rigctl.core.engine_sample import TokenPool
from rigctl.core.reading import NOT_YET, OFF, UNSUPPORTED, Missing, Total, Why
from rigctl.core.snapshot import (
    Flow,
    HostView,
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


def calm() -> Snapshot:
    """Both engines ready and asleep: nobody asks anything."""
    quiet = {
        "slots": Slots(6.0, 6.0, 0.0, 0.0, 0.0),
        "rates": Rates(0.0, 0.0, NOT_YET, 0.9),
        "flow": Flow("idle", 840.0, fresh=840.0),
        "sleep": SleepOnIdle(True, True, "on"),
        "power": PowerView(Total(128, 4, 4), Total(1400, 4, 4), 2.5, 0.75),
        "scheduler_cpu": 0.01,
        "in_flight": 0.0,
    }
    pool = TokenPool(800_000.0, 0.0, 310_000.0, 490_000.0, 0.0)
    cards = tuple(idle_card(index) for index in range(8))
    return snapshot(
        (
            group(STANDARD, **quiet, kv=pool),
            group(LONG, **quiet, kv=replace(pool, total=650_000.0)),
        ),
        cards,
        journal=JOURNAL[:4],
    )


def busy() -> Snapshot:
    """Both engines decode."""
    return snapshot((group(STANDARD), group(LONG)), tuple(card(index) for index in range(8)))


def picture() -> Snapshot:
    """The one on the box: standard stalls in a prefill with three waiting, long is lent."""
    stalled = group(
        STANDARD,
        kv=TokenPool(800_000.0, 310_000.0, 124_000.0, 366_000.0, 0.39),
        slots=Slots(6.0, 6.0, 3.0, 1.0, 4.0),
        rates=Rates(0.0, 903.0, 3.9, 0.9),
        flow=Flow("stalled", 41.0, "3 answers wait", 3.0, 46_000.0, 122_000.0, 50.0, 2.1),
    )
    lent = group(
        LONG,
        state="off",
        seconds=4_389.0,
        say="freed in 7.9 s",
        pid=None,
        process_count=0,
        up_seconds=OFF,
        in_flight=OFF,
        wanted=False,
        lease=Lease(
            "training",
            WALL - 4_389,
            WALL + 2_880,
            False,
            48213,
            "python train.py",
            Total(81.2 * GIB, 4, 4),
        ),
        kv=TokenPool(OFF, OFF, OFF, OFF, OFF),
        mamba=TokenPool(OFF, OFF, OFF, OFF, OFF),
        slots=Slots(OFF, 6.0, OFF, OFF, OFF),
        rates=Rates(OFF, OFF, OFF, OFF),
        flow=Flow("unknown"),
        power=PowerView(Total(910, 4, 4), Total(1120, 4, 4), 1.9, 0.57),
        sleep=SleepOnIdle(False, None, "off"),
    )
    cards = [card(index) for index in range(4)]
    cards[3] = card(3, watts=96.0, celsius=84.0, throttle=("thermal",))
    cards += [
        card(
            index,
            use="lent",
            limit_watts=280.0,
            watts=221.0 + 9 * (index % 3),
            memory_used=20.3 * GIB,
            utilisation=71.0 + 5 * (index % 4),
            celsius=63.0 + index % 2,
            fan=52.0,
            clock_mhz=1545.0,
        )
        for index in range(4, 8)
    ]
    return snapshot((stalled, lent), tuple(cards))


def starting() -> Snapshot:
    """Long comes up, in its KV pool phase, and the operation that asked for it runs."""
    phases = (
        Phase("init", 6.0, 6.0, True),
        Phase("weights", 31.0, 30.0, True),
        Phase("kv pool", 4.0, 5.0, False),
        Phase("graphs", 0.0, 22.0, False),
        Phase("warm-up", 0.0, 11.0, False),
    )
    coming = group(
        LONG,
        state="starting",
        seconds=41.0,
        say="loading",
        phases=phases,
        up_seconds=OFF,
        kv=TokenPool(),
        mamba=TokenPool(),
        slots=Slots(OFF, 6.0, OFF, OFF, OFF),
        rates=Rates(OFF, OFF, OFF, OFF),
        flow=Flow(),
        in_flight=OFF,
    )
    running = OperationView(7, "start", LONG, "anna", 41.0, "running", "kv pool, ~33 s left")
    return snapshot(
        (group(STANDARD), coming), tuple(card(index) for index in range(8)), operations=(running,)
    )


def failed() -> Snapshot:
    """Long could not be brought up."""
    down = group(
        LONG,
        state="failed",
        seconds=340.0,
        say="exit 137 in Capture graphs: out of memory on card 5 (asked 812 MiB, free 203 MiB)",
        advice="rigctl logs long, then rigctl start long",
        crashes=3,
        pid=None,
        process_count=0,
        up_seconds=OFF,
        in_flight=OFF,
        kv=TokenPool(OFF, OFF, OFF, OFF, OFF),
        last_exit="exit 137",
        slots=Slots(OFF, 6.0, OFF, OFF, OFF),
        rates=Rates(OFF, OFF, OFF, OFF),
        flow=Flow(),
    )
    notice = Notice(
        "failed", "error", "long failed three times: out of memory; see `rigctl logs long`", LONG
    )
    return snapshot(
        (group(STANDARD), down),
        (
            *(card(index) for index in range(4)),
            *(idle_card(index, use="free") for index in range(4, 8)),
        ),
        notices=(notice,),
        journal=(
            *JOURNAL[:4],
            event(6, 340, LONG, "failed", "exit 137 in Capture graphs: out of memory"),
        ),
    )


def one_lost() -> Snapshot:
    """Card 3 fell off the bus: everything it told is gone, the others are not."""
    gone = Missing(Why.LOST, "GPU is lost")
    fields = (
        "watts",
        "limit_watts",
        "default_limit_watts",
        "pstate",
        "utilisation",
        "memory_used",
        "memory_reserved",
        "memory_total",
        "celsius",
        "fan",
        "clock_mhz",
        "memory_clock_mhz",
        "throttle",
        "pcie_rx",
        "pcie_tx",
        "pcie_generation",
        "pcie_width",
        "persistence",
        "processes",
    )
    lost = card(3, use="lost", lost="GPU is lost (Xid 79?)", **dict.fromkeys(fields, gone))
    broken = group(
        STANDARD,
        flow=Flow("broken", 12.0, "scheduler process 4712 is gone"),
        power=PowerView(Total(820, 3, 4), Total(1050, 3, 4), 2.5, 0.75),
    )
    cards = [card(index) for index in range(8)]
    cards[3] = lost
    notice = Notice(
        "card-lost",
        "error",
        "card 3 (e4c8) has fallen off the bus (Xid 79); reset it: rigctl nvml release, "
        "then nvidia-smi --gpu-reset",
        card=uuid(3),
    )
    return snapshot((broken, group(LONG)), tuple(cards), notices=(notice,))


def nvml_silent() -> Snapshot:
    """NVML does not answer: old card figures, said so."""
    stale = Missing(Why.STALE, "the NVML worker did not answer for 12 s")
    cards = tuple(card(index, age=12.0, watts=stale, utilisation=stale) for index in range(8))
    say = "NVML has not answered for 12 s; the worker is started anew; see `rigctl doctor`"
    return snapshot(
        (group(STANDARD), group(LONG)),
        cards,
        nvml="not answering for 12 s",
        notices=(Notice("nvml-silent", "warning", say),),
    )


def everything_missing() -> Snapshot:
    """A young daemon on a rig without NVML: nothing has been told yet."""
    bare = {
        "state": "off",
        "seconds": 3.0,
        "pid": None,
        "process_count": 0,
        "start_estimate": NOT_YET,
        "up_seconds": NOT_YET,
        "in_flight": NOT_YET,
        "kv": TokenPool(),
        "mamba": TokenPool(),
        "window_share": NOT_YET,
        "slots": Slots(NOT_YET, NOT_YET, NOT_YET, NOT_YET, NOT_YET),
        "rates": Rates(NOT_YET, NOT_YET, NOT_YET, NOT_YET),
        "flow": Flow(),
        "sleep": SleepOnIdle(False, None),
        "power": PowerView(Total(0, 0, 4), Total(0, 0, 4), NOT_YET, NOT_YET),
        "scheduler_cpu": NOT_YET,
        "cpu": NOT_YET,
        "memory": NOT_YET,
        "engine_version": "",
        "command": (),
        "sample_age": NOT_YET,
        "drain_limit": NOT_YET,
    }
    return snapshot(
        (group(STANDARD, **bare), group(LONG, **bare)),
        (),
        power=PowerView(Total(0, 0, 8), Total(0, 0, 8), NOT_YET, NOT_YET),
        pool=TokenPool(),
        host=HostView(),
        journal=(),
        nvml="libnvidia-ml.so.1 was not found: is the NVIDIA driver installed?",
        free_drain_limit=NOT_YET,
    )


def partly_counted() -> Snapshot:
    """Four of eight cards do not tell their watts (C78)."""
    cards = tuple(
        card(index, watts=102.5 if index % 2 else UNSUPPORTED, celsius=UNSUPPORTED)
        for index in range(8)
    )
    return snapshot((group(STANDARD), group(LONG)), cards)


def foreign() -> Snapshot:
    """Long is off and somebody else's process holds card 5."""
    theirs = (CardProcess(48213, 2.1 * GIB, "python", "anna"),)
    cards = [card(index) for index in range(4)]
    cards += [
        idle_card(index, use="free", processes=(), memory_used=0.4 * GIB) for index in range(4, 8)
    ]
    cards[5] = idle_card(5, use="foreign", processes=theirs, memory_used=2.5 * GIB)
    off = replace(picture().groups[1], lease=None, say="stopped by anna", seconds=600.0)
    return snapshot((group(STANDARD), off), tuple(cards))


def leftovers() -> Snapshot:
    """A dead engine of ours left two processes on the cards of long."""
    view = group(
        LONG,
        state="off",
        seconds=30.0,
        pid=None,
        say="killed from outside: signal 9",
        leftovers=(5711, 5712),
        up_seconds=OFF,
        in_flight=OFF,
        kv=TokenPool(OFF, OFF, OFF, OFF, OFF),
        slots=Slots(OFF, 6.0, OFF, OFF, OFF),
        rates=Rates(OFF, OFF, OFF, OFF),
        flow=Flow(),
        advice="rigctl start long ends them first",
    )
    cards = [card(index) for index in range(4)]
    cards += [idle_card(index, use="leftover", watts=110.0, pstate=2.0) for index in range(4, 8)]
    return snapshot((group(STANDARD), view), tuple(cards))


def moving(step: int) -> Snapshot:
    """Everything changes with every step: the measure of what a repaint costs."""
    wave = math.sin(step / 3.0)
    cards = tuple(
        card(
            index,
            watts=200.0 + 80 * math.sin(step / 3.0 + index) + step % 7,
            utilisation=50.0 + (step * 7 + index * 13) % 50,
            memory_used=(18.0 + (step + index) % 40 / 10) * GIB,
            celsius=60.0 + (step + index) % 15,
            fan=40.0 + (step * 3 + index) % 40,
            clock_mhz=1500.0 + (step * 15 + index) % 300,
        )
        for index in range(8)
    )
    groups = tuple(
        replace(
            view,
            kv=TokenPool(800_000.0, 300_000 + 3_000.0 * (step % 60), 120_000.0, 300_000.0, 0.4),
            rates=Rates(118 + 9 * wave + step % 5, 160.0 + step % 50, 3.5 + step % 7 / 10, 0.9),
            flow=Flow(
                "stalled",
                10.0 + step % 110,
                "3 answers wait",
                3.0,
                float(122_000 - 900 * (step % 120)),
                122_000.0,
                120.0 - step % 120,
                1.0,
            ),
            power=PowerView(Total(1000 + 50 * wave + step % 9, 4, 4), Total(1400, 4, 4), 2.5, 0.75),
        )
        for view in (group(STANDARD), group(LONG))
    )
    made = snapshot(groups, cards)
    newest = event(100 + step, -step, STANDARD, "note", f"something happened for the {step}th time")
    return replace(
        made, seq=step + 1, at=made.at + step, wall=made.wall + step, journal=(*JOURNAL, newest)
    )


ALL = {
    "calm": calm,
    "busy": busy,
    "picture": picture,
    "starting": starting,
    "failed": failed,
    "one_lost": one_lost,
    "nvml_silent": nvml_silent,
    "everything_missing": everything_missing,
    "partly_counted": partly_counted,
    "foreign": foreign,
    "leftovers": leftovers,
    **sample_traffic.ALL,
}

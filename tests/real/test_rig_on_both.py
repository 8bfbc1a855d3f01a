"""Two SGLang servers, simulated and real: rigctl's numbers, its hands, what a client notices."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from stream_client import Asker, Stream
from two_engines import (
    DAEMON,
    GROUPS,
    TwoEngines,
    cpu_wanted,
    metric,
    number,
    scheduler_of,
    session_of,
)

pytestmark = pytest.mark.timeout(900)

EXIT = 60.0
"""Seconds that a real engine may take to leave on busy cores; 5 to 12 are usual."""


def get(rig: TwoEngines, name: str, path: str) -> str:
    """What the server itself says at a path."""
    with urllib.request.urlopen(f"http://127.0.0.1:{rig.ports[name]}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def test_pool_and_slots_are_the_servers_own(rig: TwoEngines) -> None:
    """`rigctl status --json` shows the pool and slots that each server reports itself."""
    with_answers = [Stream(rig.ports[name], name, 40) for name in GROUPS]
    for answer in with_answers:
        answer.complete()
    rig.wait_for(
        lambda: all(rig.group(n)["slots"]["running"] == 0 for n in GROUPS), 30, "both to be idle"
    )
    rig.wait_for(lambda: _agree(rig), 30, "pool and slots as the servers say")
    shown = json.loads(rig.rigctl("status", "--json"))
    assert shown["schema"] == 1
    for group in shown["groups"]:
        text = get(rig, group["name"], "/metrics")
        assert number(group["kv"]["total"]) == metric(text, "sglang:max_total_num_tokens") == 4096
        assert number(group["kv"]["cached"]) == metric(text, "sglang:kv_evictable_tokens") > 0
        assert number(group["kv"]["free"]) == metric(text, "sglang:kv_available_tokens")
        loads = json.loads(get(rig, group["name"], "/v1/loads"))
        assert number(group["slots"]["effective"]) == loads["loads"][0]["max_running_requests"]
        assert group["engine_version"] == loads["version"] == rig.engines.version
    assert number(shown["pool"]["total"]) == 2 * 4096


def _agree(rig: TwoEngines) -> bool:
    """Whether both groups' used tokens are the server's own; they settle after an answer."""
    for name in GROUPS:
        loads = json.loads(get(rig, name, "/v1/loads"))["loads"][0]
        text = get(rig, name, "/metrics")
        group = rig.group(name)
        theirs = (loads["num_used_tokens"], metric(text, "sglang:kv_evictable_tokens"))
        if (group["kv"]["used"], group["kv"]["cached"]) != theirs:
            return False
        if group["slots"]["queued"] != loads["num_waiting_reqs"]:
            return False
    return True


def test_freeing_one_group_does_not_touch_the_others_stream(rig: TwoEngines) -> None:
    """Four cards are freed while the other group streams: no gap, no lost byte, cards free.

    A busy machine makes gaps of its own; one that a free makes comes back each time.
    """
    for _ in range(2):
        if _free_beside_a_stream(rig):
            break
        rig.bring_up()
    else:
        assert _free_beside_a_stream(rig), "a gap at each of three frees"
    rig.rigctl("reclaim", "long", "--yes")
    rig.wait_for(lambda: rig.state("long") in ("starting", "ready"), 30, "long to come back")


def _free_beside_a_stream(rig: TwoEngines) -> bool:
    """Free one group beside the other's stream; whether that ran without a gap of its own."""
    undisturbed = Stream(rig.ports["standard"], "standard", 600)
    undisturbed.complete()
    engine = session_of(rig.group("long")["pid"])
    assert len(engine) >= 3
    client = Asker(rig.ports["standard"], "standard", 600)
    client.await_pieces(20)
    said = rig.rigctl("free", "long", "--yes", "--wait", "--json")
    calm = client.complete() <= max(3 * undisturbed.longest_gap, 0.25)
    assert not [pid for pid in engine if Path(f"/proc/{pid}/status").exists()]
    outcome = json.loads(said.splitlines()[-1])
    assert outcome["operation"]["state"] == "done"
    shown = rig.snapshot()
    cards = [card for card in shown["cards"] if card["group"] == "long"]
    assert [card["memory_used"] for card in cards] == [0, 0, 0, 0]
    assert rig.group("long")["lease"]["holder"]
    return calm


@pytest.mark.case("C07", "C08")
def test_a_killed_scheduler_is_broken_then_restarted(rig: TwoEngines) -> None:
    """kill -9 of the scheduler: broken within two seconds, a crash in the journal, a new start."""
    group = rig.group("long")
    before = group["crashes"]
    os.kill(scheduler_of(group["pid"]), signal.SIGKILL)
    seen: set[str] = set()

    def noticed() -> bool:
        view = rig.group("long")
        seen.update((view["flow"]["state"], view["state"]))
        return "broken" in seen or view["state"] != "ready"

    # Two seconds are the daemon's; one more is this test's own way over the socket.
    rig.wait_for(noticed, 3, "the missing scheduler to be noticed")
    rig.wait_for(lambda: rig.group("long")["crashes"] == before + 1, EXIT, "the crash to count")
    rig.wait_for(lambda: rig.state("long") == "ready", 300, "long to be ready again")
    assert rig.group("long")["pid"] != group["pid"]
    assert not session_of(group["pid"])
    journal = rig.rigctl("journal", "--group", "long", "--json")
    assert '"crashed"' in journal


@pytest.mark.case("C01")
def test_a_killed_launcher_leaves_no_process_behind(rig: TwoEngines) -> None:
    """kill -9 of the main process: its children go too before the next start, and it starts."""
    leader = rig.group("long")["pid"]
    before = rig.group("long")["crashes"]
    os.kill(leader, signal.SIGKILL)
    rig.wait_for(lambda: rig.group("long")["crashes"] == before + 1, EXIT, "the crash to count")
    rig.wait_for(lambda: rig.group("long")["pid"] not in (None, leader), EXIT, "a new start")
    assert not session_of(leader), "the next engine was started beside the last one's processes"
    rig.wait_for(lambda: rig.state("long") == "ready", 300, "long to be ready again")


@pytest.mark.case("C65")
def test_a_killed_daemon_costs_no_token(rig: TwoEngines) -> None:
    """kill -9 of the daemon: the stream goes on, the next daemon adopts both engines."""
    before = {name: rig.group(name) for name in GROUPS}
    streaming = Stream(rig.ports["standard"], "standard", 1200)
    streaming.await_pieces(50)
    rig.kill_daemon()
    pieces = len(streaming.arrivals)
    streaming.await_pieces(pieces + 100)
    rig.rigctl("status", code=3)
    rig.start_daemon()
    rig.wait_for(lambda: all(rig.state(name) == "ready" for name in GROUPS), 30, "adoption")
    streaming.complete()
    for name in GROUPS:
        group = rig.group(name)
        assert group["pid"] == before[name]["pid"]
        assert group["adopted"]
        assert group["crashes"] == before[name]["crashes"]


def test_a_second_daemon_refuses(rig: TwoEngines) -> None:
    """A home has one daemon: a second one says so and touches nothing."""
    before = {name: rig.group(name)["pid"] for name in GROUPS}
    second = subprocess.run(
        [*DAEMON, "--home", str(rig.home)], capture_output=True, text=True, timeout=30, check=False
    )
    assert second.returncode != 0
    assert str(rig.daemon_pid) in second.stderr
    assert {name: rig.group(name)["pid"] for name in GROUPS} == before


@pytest.mark.case("C77")
def test_sleep_on_idle_is_seen_in_the_schedulers_cpu(rig: TwoEngines) -> None:
    """The toggle restarts the engine, and an idle scheduler goes from a spinning core to none."""
    rig.rigctl("sleep", "long", "off", "--yes", "--wait")
    rig.wait_for(lambda: rig.state("long") == "ready", 300, "long to be ready")
    spinning = cpu_wanted(scheduler_of(rig.group("long")["pid"]), 5)
    view = rig.group("long")
    assert (view["sleep"]["wanted"], view["sleep"]["running"]) == (False, False)
    said = rig.rigctl("sleep", "long", "on", "--yes", "--wait", "--json")
    rig.wait_for(lambda: rig.state("long") == "ready", 300, "long to be ready")
    rig.wait_for(
        lambda: cpu_wanted(scheduler_of(rig.group("long")["pid"]), 2) < 0.02, 60, "warm-up to end"
    )
    sleeping = cpu_wanted(scheduler_of(rig.group("long")["pid"]), 5)
    assert "--sleep-on-idle" in Path(f"/proc/{rig.group('long')['pid']}/cmdline").read_text()
    assert spinning > rig.engines.spins
    assert sleeping < 0.03
    figures = json.loads(said.splitlines()[-1])["operation"]["figures"]
    assert figures["scheduler_cpu_before"] > figures["scheduler_cpu_after"]

"""World, engines and their end, through real processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rigctl.config.paths import find_home
from rigctl.sim import cardfile
from rigctl.sim.demo import FIRST_LINE, DemoError, DemoRig
from rigctl.sim.lifeline import gone
from rigctl.sim.scenes import SCENES

HOLDER = """
import subprocess, sys, tomllib, time
from rigctl.sim.demo import DemoRig
rig = DemoRig(speed=20.0, load_seconds=20.0)
paths = rig.prepare()
rig.start_world()
group = tomllib.loads(paths.places.config.read_text())["group"][1]
import os
env = {**os.environ, **group["env"], "CUDA_VISIBLE_DEVICES": "4,5,6,7"}
flags = ["--model-path", group["model"], "--tp-size", "4", "--port", str(paths.ports[1])]
engine = subprocess.Popen([*group["engine"], *flags], env=env, start_new_session=True,
                          stdout=subprocess.DEVNULL)
print(paths.home, paths.world, engine.pid, flush=True)
time.sleep(100)
"""


def wait_for(what: Callable[[], object], say: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds} s: {say}"
        time.sleep(0.05)


def living(session: int) -> list[int]:
    """Pids of that session that are no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[3]) == session and fields[0] not in "ZX":
                    found.append(int(entry.name))
    return found


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoRig]:
    """A demo rig with its world, in a home of its own."""
    monkeypatch.delenv("RIGCTL_HOME", raising=False)
    it = DemoRig(speed=20.0, load_seconds=20.0)
    it.prepare()
    it.start_world()
    yield it
    it.stop()


def start_engine(rig: DemoRig, group: int, **env: str) -> subprocess.Popen[bytes]:
    """One of the demo's engines, started as a daemon would."""
    table = tomllib.loads(rig.paths.places.config.read_text())["group"][group]
    cards = ",".join(str(4 * group + n) for n in range(4))
    flags = ["--model-path", table["model"], "--tp-size", "4", "--port", str(table["port"])]
    log = Path(rig.paths.home) / "engine.log"
    with log.open("wb") as output:
        engine = subprocess.Popen(
            [*table["engine"], *flags, "--max-total-tokens", "1000"],
            env={**os.environ, **table["env"], "CUDA_VISIBLE_DEVICES": cards, **env},
            stdout=output,
            start_new_session=True,
        )
    wait_for(lambda: b"fired up" in log.read_bytes(), "a ready engine")
    return engine


def held(rig: DemoRig) -> list[int]:
    """GiB held on each card."""
    table = cardfile.read(Path(rig.paths.cardfile))
    return [sum(h.used_bytes for h in card.processes) >> 30 for card in table.cards]


def test_cards_follow_an_engine(rig: DemoRig) -> None:
    """Its four cards get processes, memory and watts; after a kill they are let go."""
    engine = start_engine(rig, 1)
    wait_for(lambda: held(rig)[4:] == [22] * 4, "memory of a loaded engine")
    assert held(rig)[:4] == [0] * 4
    table = cardfile.read(Path(rig.paths.cardfile))
    pids = {card.processes[0].pid for card in table.cards[4:]}
    assert pids < set(living(engine.pid))
    assert len(pids) == 4
    engine.kill()
    engine.wait()
    wait_for(lambda: held(rig) == [0] * 8, "cards let go")


def test_a_lost_card_takes_its_engine_along(rig: DemoRig) -> None:
    """The card answers with the error, its engine dies, the neighbours stay in the table."""
    engine = start_engine(rig, 0)
    say = json.dumps({"do": "lose", "card": 1, "code": 15}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(rig.paths.world)
        line.sendall(say)
        wait_for(lambda: cardfile.read(Path(rig.paths.cardfile)).cards[1].lost, "a lost card")
    assert engine.wait(30) == -signal.SIGKILL
    assert [c.lost for c in cardfile.read(Path(rig.paths.cardfile)).cards] == [0, 15] + [0] * 6


@pytest.mark.case("C01")
def test_a_leftover_outlives_its_session(rig: DemoRig) -> None:
    """One scheduler leaves the session: killing all of it leaves that one on its card."""
    engine = start_engine(rig, 1, SIM_LEFTOVER="1")
    wait_for(lambda: held(rig)[4:] == [22] * 4, "a loaded engine")
    wait_for(lambda: len(living(engine.pid)) == 5, "one process gone its own way")
    for pid in living(engine.pid):
        os.kill(pid, signal.SIGKILL)
    engine.wait()
    wait_for(lambda: sorted(held(rig)) == [0] * 7 + [22], "one card still held")
    time.sleep(1.5)
    assert held(rig)[6] == 22


def test_everything_ends_with_a_demo_killed_by_9(monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 of whoever holds the rig: world, engine, its children and the folder are gone."""
    monkeypatch.delenv("RIGCTL_HOME", raising=False)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    home, world, pid = holder.stdout.readline().decode().split()
    engine = int(pid)
    cards = Path(home) / "cards.json"
    wait_for(lambda: cardfile.read(cards).cards[7].processes, "a loading engine")
    assert len(living(engine)) == 6
    os.kill(living(engine)[-1], signal.SIGSTOP)  # even one that cannot run its own end
    holder.kill()
    holder.wait()
    holder.stdout.close()
    wait_for(lambda: not living(engine), "the engine's end")
    wait_for(lambda: not os.path.exists(world), "the world's end")
    wait_for(lambda: not os.path.exists(home), "the folder's end")


def test_a_world_ends_without_a_word(tmp_path: Path) -> None:
    """Peers are still connected when it ends: nobody's terminal gets a trace for it."""
    sock = tmp_path / "world.sock"
    command = [sys.executable, "-m", "rigctl.sim.rig", str(tmp_path / "cards.json"), str(sock)]
    world = subprocess.Popen(command, stderr=subprocess.PIPE)
    wait_for(sock.exists, "the world's socket")
    peers = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for peer in peers:
        peer.connect(str(sock))
        peer.sendall(b'{"do": "foreign", "card": 0, "pid": 1, "bytes": 1}\n')
    wait_for(lambda: cardfile.read(tmp_path / "cards.json").cards[0].processes, "a peer's word")
    world.terminate()
    assert world.communicate(timeout=20)[1] == b""
    assert world.returncode == 0
    for peer in peers:
        peer.close()


async def test_the_lifeline_returns_when_the_world_is_gone(rig: DemoRig) -> None:
    """What the daemon waits on; a world that was never there counts as gone."""
    import asyncio

    task = asyncio.create_task(gone(rig.paths.world))
    await asyncio.sleep(0.3)
    assert not task.done()
    rig.stop()
    await asyncio.wait_for(task, 10)
    await asyncio.wait_for(gone(rig.paths.world), 5)


def test_an_owners_rig_is_not_overwritten(tmp_path: Path) -> None:
    """A RIGCTL_HOME with somebody's own rig.toml is refused; a demo's own is used again."""
    (tmp_path / "rig.toml").write_text("# mine\n")
    with pytest.raises(DemoError, match="not a demo's"):
        DemoRig(environ={"RIGCTL_HOME": str(tmp_path)}).prepare()
    (tmp_path / "rig.toml").write_text(FIRST_LINE)
    paths = DemoRig(environ={"RIGCTL_HOME": str(tmp_path)}).prepare()
    assert paths.home == str(tmp_path)
    assert not (tmp_path / ".made-by-rigctl-demo").exists()
    with pytest.raises(DemoError, match="shorter"):
        DemoRig(home=str(tmp_path / ("x" * 100))).prepare()


def test_the_demo_config_is_a_valid_one(tmp_path: Path) -> None:
    """What the demo writes is read back by the project's own loader."""
    from rigctl.config.load import load

    paths = DemoRig(home=str(tmp_path)).prepare()
    config = load(paths.places.config)
    assert [group.name for group in config.groups] == ["standard", "long"]
    assert config.free_group == "long"


def test_every_scene_is_there() -> None:
    """The scenes that the command line offers, each with a line to say."""
    names = {"quiet", "team", "wall", "collapse", "crash", "lost-card", "leftover"}
    names |= {"burst", "long-context"}
    assert set(SCENES) == names
    assert all(scene.say for scene in SCENES.values())


def test_a_demo_begins_anew_on_the_folder_of_the_last(tmp_path: Path) -> None:
    """What the last demo's daemon remembered is of engines that are gone; its folder is reused."""
    rig = DemoRig(home=str(tmp_path))
    places = rig.prepare().places
    places.state_file.write_text("{}")
    keys = places.clients.read_bytes()
    DemoRig(home=str(tmp_path)).prepare()
    assert not places.state_file.exists()
    assert places.clients.read_bytes() != keys


def test_a_running_demo_is_not_disturbed_by_a_second(tmp_path: Path) -> None:
    """Its daemon holds the lock: the second says so and touches nothing."""
    places = DemoRig(home=str(tmp_path)).prepare().places
    keys = places.clients.read_bytes()
    with places.lock.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DemoError, match="already"):
            DemoRig(home=str(tmp_path)).prepare()
    assert places.clients.read_bytes() == keys


def test_the_state_of_a_rig_without_its_file_is_left_alone(tmp_path: Path) -> None:
    """A real rig whose rig.toml was moved away for a moment: its engines are in that state."""
    places = find_home(str(tmp_path))
    places.state.mkdir()
    places.state_file.write_text("{}")
    for _ in range(2):
        with pytest.raises(DemoError, match="may be a real rig's"):
            DemoRig(home=str(tmp_path)).prepare()
    assert places.state_file.read_text() == "{}"
    assert not places.config.exists()


def test_a_file_in_another_encoding_is_no_demos(tmp_path: Path) -> None:
    """Whatever bytes an owner's file has: refused in words."""
    (tmp_path / "rig.toml").write_bytes(b"# gr\xfc\xdfe\n")
    with pytest.raises(DemoError, match="not a demo's"):
        DemoRig(home=str(tmp_path)).prepare()

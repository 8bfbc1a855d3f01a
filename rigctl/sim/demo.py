"""A whole simulated rig in a folder: config, cards, world and load, ending with this process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from rigctl.config.clients import hash_key, new_key, write_clients
from rigctl.config.paths import Home, find_home
from rigctl.config.schema import ClientConfig
from rigctl.config.secrets import replace_file
from rigctl.sim.cardfile import rtx_3090s
from rigctl.sim.rig import MADE_BY_DEMO
from rigctl.sim.scenes import SCENES

CARDS = 8
CLIENTS = ("anna", "ben", "chris", "dora", "emil")
"""Five developers, each with two or three agents."""
POOLS = {"standard": 800_000, "long": 650_000}
FIRST_LINE = "# Made by `rigctl demo` for a simulated rig; a demo writes it anew at each start.\n"
WORLD_SECONDS = 10.0
"""How long the world may take to come up."""


class DemoError(Exception):
    """The demo cannot begin: says what, why and what to do."""


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Where the demo rig lies."""

    home: str
    """What `--home` and RIGCTL_HOME take."""
    places: Home
    cardfile: str
    world: str
    """The world's socket: the lifeline of everything simulated."""
    ports: tuple[int, ...]
    """Of the engines, by group."""
    endpoint: int
    """Port of the one address in front of them."""

    @property
    def url(self) -> str:
        """Where agents ask."""
        return f"http://127.0.0.1:{self.endpoint}"

    @property
    def keys(self) -> Path:
        """The clients' keys as lines `CLIENT KEY`: the demo plays all of its clients itself."""
        return Path(self.home) / "clients.keys"


def free_ports(count: int) -> tuple[int, ...]:
    """Ports of the loopback nobody listens on now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return tuple(sock.getsockname()[1] for sock in held)
    finally:
        for sock in held:
            sock.close()


def rig_table(
    ports: tuple[int, ...], endpoint: int, world: str, speed: float, load: float
) -> dict[str, object]:
    """The demo's rig.toml as a table: the owner's rig, its engines simulated."""
    cards = [card.uuid for card in rtx_3090s(CARDS).cards]
    env = {
        "SIM_WORLD": world,
        "SIM_SPEED": str(speed),
        "SIM_LOAD_SECONDS": str(load),
    }
    common: dict[str, object] = {
        "model": "Qwen/Qwen3.8-27B-FP8",
        "served_name": "qwen3.8-27b",
        "max_running_requests": 6,
        "draft_model": "incoai/Qwen3.8-27B-DFlash2",
        "draft_tokens": 8,
        "reasoning_parser": "qwen3",
        "tool_call_parser": "qwen3_coder",
        "grammar_backend": "xgrammar",
        "think_budget": 5_000,
        "flags": ["--enable-session-radix-cache"],
        "start_with_daemon": True,
        "engine": [sys.executable, "-m", "rigctl.sim.sglang"],
        "env": env,
    }
    standard = {
        "name": "standard",
        "cards": cards[:4],
        "port": ports[0],
        "context_length": 262_144,
        "max_total_tokens": POOLS["standard"],
        "sleep_on_idle": True,
        **common,
    }
    long = {
        "name": "long",
        "cards": cards[4:],
        "port": ports[1],
        "context_length": 524_288,
        "yarn_factor": 2.0,
        "yarn_original": 262_144,
        "max_total_tokens": POOLS["long"],
        "sleep_on_idle": False,
        **common,
    }
    rig = {
        "name": "demo rig",
        "free_group": "long",
        "price_per_kwh": 0.30,
        "currency": "EUR",
        "stagger": max(0.2, min(10.0, 4.0 / speed)),
    }
    proxy = {"port": endpoint}
    return {"schema_version": 1, "rig": rig, "proxy": proxy, "group": [standard, long]}


def _forget_last(places: Home) -> None:
    """An earlier demo's engines are gone; its state would have a new daemon call them crashed."""
    if places.lock.exists():
        with places.lock.open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DemoError(
                    f"a demo runs on {places.config.parent} already: `rigctl` looks into it"
                ) from None
    for folder in (places.state, places.logs):
        shutil.rmtree(folder, ignore_errors=True)


class DemoRig:
    """Prepare, start the world, start a load, stop. Everything ends with this process, -9 too."""

    def __init__(
        self,
        speed: float = 1.0,
        load_seconds: float = 20.0,
        home: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.speed = speed
        self.paths: DemoPaths
        self._load_seconds = load_seconds
        env = os.environ if environ is None else environ
        self._home = home or env.get("RIGCTL_HOME") or ""
        self._own_home = not self._home
        self._world: subprocess.Popen[bytes] | None = None
        self._load: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def prepare(self) -> DemoPaths:
        """Make the folder with its rig.toml. DemoError when it holds somebody's own rig."""
        # Sockets have paths of 107 bytes at most: the folder is short, wherever TMPDIR points.
        folder = self._home or tempfile.mkdtemp(prefix="rigctl-demo-", dir="/tmp")
        places = find_home(folder)
        base = places.config.parent
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if places.config.exists():
            if not places.config.read_bytes().startswith(FIRST_LINE.encode()):
                raise DemoError(
                    f"{places.config} is not a demo's: set RIGCTL_HOME to another folder, or unset "
                    "it so that the demo makes one of its own"
                )
            _forget_last(places)
        elif places.state.exists():
            # The next demo would take it for the last one's and remove it.
            raise DemoError(
                f"{places.state} is there without a rig.toml: it may be a real rig's, so set "
                "RIGCTL_HOME to another folder, or unset it so that the demo makes one of its own"
            )
        elif self._own_home:
            (base / MADE_BY_DEMO).touch()
        world = str(base / "world.sock")
        if len(os.fsencode(world)) > 100:
            raise DemoError(f"{base} is too long a path for a socket: set RIGCTL_HOME to a shorter")
        *ports, endpoint = free_ports(3)
        self.paths = DemoPaths(
            str(base), places, str(base / "cards.json"), world, tuple(ports), endpoint
        )
        # A new world is a new driver: limits set through an earlier one are gone (C09).
        Path(f"{self.paths.cardfile}.limits").unlink(missing_ok=True)
        table = rig_table(self.paths.ports, endpoint, world, self.speed, self._load_seconds)
        places.config.write_text(FIRST_LINE + tomli_w.dumps(table), encoding="utf-8")
        self._make_keys()
        return self.paths

    def _make_keys(self) -> None:
        """Clients with names, so that the panel can tell who asks for what."""
        keys = {name: new_key() for name in CLIENTS}
        clients = [ClientConfig(name, hash_key(key)) for name, key in keys.items()]
        write_clients(self.paths.places.clients, clients)
        lines = "".join(f"{name} {key}\n" for name, key in keys.items())
        replace_file(self.paths.keys, lines.encode())

    def start_world(self) -> None:
        """Start the process that owns the cards. DemoError when it does not come up."""
        ours, self._pipe = os.pipe()
        os.set_inheritable(ours, True)
        sweep = ["--sweep", self.paths.home] if self._own_home else []
        command = [
            *(sys.executable, "-m", "rigctl.sim.rig", self.paths.cardfile, self.paths.world),
            *("--speed", str(self.speed), "--cards", str(CARDS), "--held-by", str(ours)),
            *sweep,
        ]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.paths.world)
        # A session of its own: ctrl+c in the panel's terminal must reach the panel alone.
        self._world = subprocess.Popen(
            command, pass_fds=[ours], start_new_session=True, stdin=subprocess.DEVNULL
        )
        os.close(ours)
        end = time.monotonic() + WORLD_SECONDS
        while not os.path.exists(self.paths.world):
            if self._world.poll() is not None or time.monotonic() > end:
                raise DemoError("the simulated world did not come up: its words are above")
            time.sleep(0.02)

    def daemon_command(self) -> list[str]:
        """How a daemon for this rig is started; it ends with the world."""
        paths = self.paths
        return [
            *(sys.executable, "-m", "rigctl.daemon.main", "--home", paths.home),
            *("--simulated", paths.cardfile, "--lifeline", paths.world),
        ]

    def start_load(self, scene: str = "team") -> None:
        """Begin a scene; another one ends first. DemoError for a name that is none."""
        if scene not in SCENES:
            raise DemoError(f"there is no scene {scene!r}: one of {', '.join(sorted(SCENES))}")
        self._stop_load()
        command = [
            *(sys.executable, "-m", "rigctl.sim.agents", "--scene", scene),
            *("--speed", str(self.speed), "--world", self.paths.world),
            *("--endpoint", self.paths.url, "--keys", str(self.paths.keys)),
        ]
        self.paths.places.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.paths.places.logs / "agents.log").open("ab") as output:
            self._load = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _stop_load(self) -> None:
        if self._load is not None:
            self._load.send_signal(signal.SIGTERM)
            self._load.wait()
            self._load = None

    def stop(self) -> None:
        """End it all; returns when the world is gone and a folder of the demo's own removed."""
        self._stop_load()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._world is not None:
            self._world.wait()
            self._world = None
        if self._own_home and Path(self.paths.home, MADE_BY_DEMO).exists():
            shutil.rmtree(self.paths.home, ignore_errors=True)

    def __enter__(self) -> DemoRig:
        self.prepare()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

"""A rig on which every number changes with every snapshot: a captured one, shaken, on a socket.

No demo is this restless. What the panel costs at worst is measured on it, and what two hours of
snapshots leave in its memory.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rigctl.bench.rig import Rig
from rigctl.config.paths import find_home
from rigctl.control import PROTOCOL, address


class Churn:
    """Answers what a client asks, as a daemon would; snapshots come at `rate` a second."""

    def __init__(self, base: Mapping[str, Any], path: Path, rate: float) -> None:
        """`base` is any daemon's snapshot; two snapshots are one second of the rig's time apart."""
        self._base = dict(base)
        self._rate = rate
        self._random = random.Random(1)
        self._line = b""
        self._new = threading.Condition()
        self._stop = threading.Event()
        self._server = address.listen(path)
        self._server.setblocking(True)
        self.newest: dict[str, Any] = {}
        self.made = 0
        """Snapshots made so far."""
        self._make()
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._tick, self._accept)
        ]
        for thread in self._threads:
            thread.start()

    def _make(self) -> None:
        snapshot = copy.deepcopy(self._base)
        for part in ("groups", "cards", "power", "pool", "host"):
            snapshot[part] = self._shaken(snapshot[part], part)
        self.made += 1
        snapshot |= {
            "seq": self.made,
            "at": self._base["at"] + self.made,
            "wall": self._base["wall"] + self.made,
        }
        self.newest = snapshot
        self._line = json.dumps(snapshot).encode() + b"\n"

    def _shaken(self, value: Any, name: str) -> Any:
        """The same structure with every reading moved by up to a tenth."""
        if isinstance(value, dict):
            return {key: self._shaken(part, key) for key, part in value.items()}
        if isinstance(value, list):
            return [self._shaken(part, name) for part in value]
        if not isinstance(value, float):  # whole numbers name or count something
            return value
        if name == "pstate":
            return float(self._random.randint(0, 8))
        return value * self._random.uniform(0.9, 1.1)

    def _tick(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            due += 1 / self._rate
            self._stop.wait(max(0.0, due - time.monotonic()))
            with self._new:
                self._make()
                self._new.notify_all()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as questions, contextlib.suppress(OSError, ValueError):
            for raw in questions:
                self._answer(client, json.loads(raw))

    def _answer(self, client: socket.socket, question: Mapping[str, Any]) -> None:
        match question["do"]:
            case "snapshot":
                client.sendall(self._line)
            case "watch":
                self._watch(client)
            case "history":
                answer = {"kind": "history", "step": 2.0, "end": self._base["wall"], "series": {}}
                client.sendall(json.dumps(answer).encode() + b"\n")
            case "hello":
                answer = {"kind": "hello", "protocol": PROTOCOL, "rigctl": self._base["rigctl"]}
                answer |= {"epoch": self._base["epoch"], "read_only": False}
                client.sendall(json.dumps(answer).encode() + b"\n")
            case "journal" if question.get("follow"):
                self._stop.wait()
            case _:
                client.sendall(b'{"kind": "end"}\n')

    def _watch(self, client: socket.socket) -> None:
        """The newest snapshot first, then each new one; a slow reader misses some."""
        while not self._stop.is_set():
            client.sendall(self._line)
            with self._new:
                self._new.wait(1.0)

    def close(self) -> None:
        """Hang up on everybody."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._new:
            self._new.notify_all()
        for thread in self._threads:
            thread.join(5)


@contextlib.contextmanager
def churn(base: Mapping[str, Any], folder: Path, rate: float) -> Iterator[tuple[Rig, Churn]]:
    """A restless rig in `folder`; the rig's home is what a client is given."""
    places = find_home(str(folder))
    places.state.mkdir(parents=True, exist_ok=True)
    served = Churn(base, places.socket, rate)
    try:
        yield Rig.at(folder), served
    finally:
        served.close()

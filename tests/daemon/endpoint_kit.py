"""A rig whose endpoint is kept by a real daemon, asked over HTTP as clients ask it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from daemon_kit import Rig

from rigctl.adapters import proc
from rigctl.sim.demo import free_ports

HERE = str(Path(__file__).parent)


class EndpointRig(Rig):
    """As Rig, with `[proxy]` on a free port and `peer_proxy` as the proxy."""

    def __init__(self, home: str) -> None:
        super().__init__(home)
        (self.address,) = free_ports(1)
        self.environ = {**os.environ, "PYTHONPATH": HERE}
        self.configure(lambda table: table.update(proxy={"port": self.address}))

    def begin_daemon(self, log: str = "daemon-test.log") -> Rig:
        """The daemon of the test's own program."""
        command = [sys.executable, str(Path(HERE, "peer_daemon.py"))]
        command += self.demo.daemon_command()[3:]
        with open(self.home / log, "ab") as output:
            self.daemon = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True, env=self.environ
            )
        self.wait(lambda: self.snapshot() is not None, "the daemon to answer")
        return self

    def strays(self) -> list[int]:
        """The proxies too, which carry no mark of the world: by the home in their command line."""
        home = str(self.home).encode()
        found = super().strays()
        for pid in proc.scan():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if home in words and any(b"proxy" in word for word in words):
                    found.append(pid)
        return found

    def endpoint(self) -> dict[str, Any]:
        shown = self.snapshot()
        assert shown is not None
        found: dict[str, Any] = shown["endpoint"]
        return found

    def up(self, instead_of: int = 0) -> int:
        """Wait until a proxy serves and is linked, another one than that; its pid."""

        def serving() -> int:
            shown = self.endpoint()  # one look: the next may be of another state
            pid = int(shown["pid"] or 0)
            return pid if shown["state"] == "up" and pid != instead_of else 0

        return int(self.wait(serving, "the endpoint to be up"))

    def ask(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """One request of a client."""
        url = f"http://{host}:{self.address}{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    def operation(self, kind: str) -> dict[str, Any]:
        """The newest operation of a kind; its state is empty before it is shown."""
        shown = self.snapshot()
        assert shown is not None
        found = [each for each in shown["operations"] if each["kind"] == kind]
        newest: dict[str, Any] = found[-1] if found else {"state": ""}
        return newest


class Callers(threading.Thread):
    """Clients that connect one after the other without a pause; every failure is kept."""

    def __init__(self, rig: EndpointRig) -> None:
        super().__init__(daemon=True)
        self.rig = rig
        self.pids: list[int] = []
        self.errors: list[str] = []
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                self.pids.append(int(self.rig.ask()))
            except OSError as error:
                self.errors.append(str(error))
            time.sleep(0.005)

    def stop(self) -> None:
        self.over.set()
        self.join()

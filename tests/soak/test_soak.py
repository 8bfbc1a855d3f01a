"""Mixed load with a fault in every part of it: no byte lost, doubled or moved, nothing leaked.

`RIGCTL_SOAK_MINUTES` says how long (2); in a long run there is a fault every minute.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import support_served
from soak_load import PROMPTS, TOKENS, Kill, Load
from support_served import Endpoint, request
from support_served_link import DaemonsEnd
from support_served_stream import Stream

MINUTES = float(os.environ.get("RIGCTL_SOAK_MINUTES") or 2)
WORKERS = 6

pytestmark = pytest.mark.timeout(MINUTES * 60 + 400)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Endpoint]:
    """Simulated engines and a proxy of this test's own: all of them will die."""
    kind = support_served.simulated(tmp_path)
    with (
        support_served.running_engines(kind, tmp_path) as engines,
        support_served.endpoint(engines) as made,
    ):
        yield made


def known(rig: Endpoint) -> dict[str, str]:
    """What each prompt is answered, by an engine asked directly; both say the same."""
    found: dict[str, str] = {}
    for number in range(PROMPTS):
        text = f"soak {number}"
        said = [
            Stream(engine.port, text, TOKENS, ignore_eos=True).whole().text
            for engine in rig.engines.values()
        ]
        assert said[0] == said[1] != ""
        found[text] = said[0]
    return found


class Faults:
    """One of each kind."""

    def __init__(self, rig: Endpoint, load: Load) -> None:
        self._rig = rig
        self._load = load

    def every(self) -> tuple[Callable[[], None], ...]:
        """In turn."""
        return (
            self.engine_killed,
            self.vanishing_clients,
            self.proxy_killed,
            self.daemon_gone,
            self.slow_reader,
            self.full_queue,
            self.bad_bodies,
            self.endpoint_restarted,
            self.freed_and_reclaimed,
        )

    def engine_killed(self) -> None:
        """kill -9 of an engine; its next start is another one."""
        rig, engine = self._rig, self._rig.engines["standard"]
        self._load.kills.append(Kill("standard", time.monotonic()))
        engine.kill()
        rig.tell({"standard": {"state": "starting", "gate": "closed", "say": "it crashed"}})
        engine.start()
        engine.await_ready()
        rig.tell()

    def proxy_killed(self) -> None:
        """kill -9 of the proxy: its clients are cut, the next one has its socket."""
        assert self._rig.proxy is not None
        self._load.kills.append(Kill("proxy", time.monotonic()))
        self._rig.proxy.kill()
        self._rig.proxy.wait()
        self._rig.begin_proxy()

    def daemon_gone(self) -> None:
        """The link breaks for some seconds."""
        rig = self._rig
        assert rig.daemon is not None
        rig.daemon.close()
        time.sleep(3)
        rig.daemon = DaemonsEnd(rig.home.socket, rig.table)

    def vanishing_clients(self) -> None:
        """Eight clients leave in different phases, with and without a reset."""
        streams = [Stream(self._rig.port, f"leave {n}", 800, ignore_eos=True) for n in range(8)]
        time.sleep(1)
        for number, stream in enumerate(streams):
            if stream.is_alive() and stream._line.sock is not None:
                stream.leave("rst" if number % 2 else "fin")

    def slow_reader(self) -> None:
        """A client asks for much and reads nothing of it for a while."""
        body = b'{"model":"tiny","stream":true,"max_tokens":1500,"ignore_eos":true,'
        body += b'"messages":[{"role":"user","content":"slow"}]}'
        with socket.create_connection(("127.0.0.1", self._rig.port)) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
                b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            time.sleep(4)

    def full_queue(self) -> None:
        """More at once than slots and waiting places: some are told to come again."""
        self._load.full = True
        self._rig.tell(queue_limit=1)
        streams = [Stream(self._rig.port, f"crowd {n}", 120, ignore_eos=True) for n in range(24)]
        for stream in streams:
            stream.join(60)
            assert stream.status in (200, 503), (stream.status, stream.failure)
        self._rig.tell()
        time.sleep(1)
        self._load.full = False

    def bad_bodies(self) -> None:
        """Broken JSON, broken compression, wrong lengths: each its own 4xx."""
        for body, headers in (
            (b"{", {}),
            (b"not gzip", {"Content-Encoding": "gzip"}),
            (b"{}", {"Content-Encoding": "x-odd"}),
            (b'{"messages": 5}', {}),
        ):
            answer = request("POST", self._rig.port, "/v1/chat/completions", body, headers)
            assert 400 <= answer.status < 500, answer

    def endpoint_restarted(self) -> None:
        """A successor on the same socket; the old one finishes and leaves."""
        old = self._rig.proxy
        assert old is not None
        self._rig.begin_proxy()
        old.terminate()
        assert old.wait(60) == 0

    def freed_and_reclaimed(self) -> None:
        """The long cluster is lent for some seconds, then comes back."""
        closing = {"state": "draining", "gate": "finish", "drain": 3}
        self._rig.tell({"long": closing | {"deadline": time.monotonic() + 30}})
        time.sleep(2)
        self._rig.tell({"long": {"state": "off", "gate": "closed", "lent": True, "say": "lent"}})
        time.sleep(2)
        self._rig.tell()


def test_a_day_of_faults_loses_no_byte_and_leaks_nothing(rig: Endpoint) -> None:
    """Every stream that was not itself killed is whole, and nothing is left at the end."""
    load = Load(rig, known(rig))
    every = Faults(rig, load).every()
    pause = 60.0 if MINUTES >= 10 else MINUTES * 60 / len(every)
    end = time.monotonic() + MINUTES * 60
    log = rig.home.logs / "proxy.log"
    load.start(WORKERS)
    turn = 0
    while time.monotonic() < end:
        due = time.monotonic() + pause
        every[turn % len(every)]()
        turn += 1
        if load.faults:
            pytest.fail(f"fault {turn}: {load.faults[:5]}\n{_tracebacks(log)}")
        time.sleep(max(0.0, min(due, end) - time.monotonic()))
    load.stop()
    assert not load.faults, load.faults[:5]
    if _tracebacks(log):
        pytest.fail(f"the proxy failed by itself:\n{_tracebacks(log)}")
    rig.await_calm(60)
    rig.wait_for(lambda: rig.metric("rigctl_connections") <= 1, 20, "every client to be gone")
    assert rig.proxy is not None
    files = Path(f"/proc/{rig.proxy.pid}/fd")
    # Kept links to the engines are few and its own; a leak is one for each request.
    rig.wait_for(lambda: len(list(files.iterdir())) < 60, 60, "files to be closed")
    print(f"{turn} faults; {load.whole} whole, {load.cut} cut by a kill, {load.refused} refused")
    assert load.whole > 10 * turn


def _tracebacks(log: Path) -> str:
    """What the proxies wrote of their own failures."""
    said = log.read_text(errors="replace")
    at = said.find("Traceback")
    return said[at - 300 : at + 3000] if at >= 0 else ""

"""The daemon and its proxy as processes: who dies, who goes on, and what a client notices."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from daemon_kit import alive, end
from endpoint_kit import Callers, EndpointRig

from rigctl.sim.demo import free_ports


@pytest.fixture
def rig() -> Iterator[EndpointRig]:
    """A rig in a short folder, its daemon not yet started."""
    with tempfile.TemporaryDirectory(prefix="rig-", dir="/tmp") as home:
        made = EndpointRig(home)
        try:
            yield made
        finally:
            made.close()


def test_a_proxy_serves_on_both_loopbacks_by_a_table_without_keys(rig: EndpointRig) -> None:
    """It is started with the daemon, is told the table, and the table lies on disk for it."""

    key = rig.home / "key"
    key.write_text("sk-secret-of-the-engine")
    key.chmod(0o600)

    def keyed(table: dict[str, Any]) -> None:
        table["proxy"] = {"port": rig.address}
        table["group"][0]["api_key"] = {"file": str(key)}

    rig.configure(keyed)
    rig.begin()
    pid = rig.up()
    assert int(rig.ask()) == int(rig.ask(host="[::1]")) == pid
    table = json.loads(rig.ask("/table"))["body"]
    assert [each["gate"] for each in table["groups"]] == ["closed", "closed"]
    assert table["groups"][0]["key"] == {"source": "file", "where": str(key)}
    assert table["policy"]["model"] == "qwen3.8-27b"
    assert table["policy"]["order"] == ["standard", "long"]
    path = rig.paths.places.table
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["body"]["groups"] == table["groups"]
    rig.ask("/flow")
    rig.ask("/noise")  # what cannot be understood costs itself
    rig.wait(lambda: rig.endpoint()["rows"]["clients"], "the traffic to be shown")
    assert rig.endpoint()["rows"]["clients"][0]["requests"] == 7
    assert rig.notice("endpoint-off") == "no rid on /v1/messages"


def test_a_killed_proxy_is_followed_by_another_and_nobody_is_refused(rig: EndpointRig) -> None:
    """The daemon's copy of the socket keeps the backlog; the engines are not touched."""
    rig.begin()
    first = rig.up()
    callers = Callers(rig)
    rig.wait(lambda: callers.pids, "a caller")
    end(first)
    rig.wait(lambda: callers.pids[-1] != first, "the next proxy")
    callers.stop()
    refused = [each for each in callers.errors if "refused" in each]
    assert refused == []
    assert len(callers.errors) <= 1  # the one whose answer was being written when it died
    second = rig.up(instead_of=first)
    assert second != first
    assert rig.endpoint()["crashes"] == 1
    assert "killed by signal 9" in rig.journal()


def test_a_killed_daemon_finds_the_proxy_again_and_gets_its_socket(rig: EndpointRig) -> None:
    """Callers notice neither the daemon's death nor, afterwards, that of the adopted proxy."""
    rig.begin()
    first = rig.up()
    callers = Callers(rig)
    rig.kill_daemon()
    assert int(rig.ask()) == first
    rig.begin_daemon()
    assert rig.up() == first
    assert "taken over from an earlier daemon" in rig.journal()
    rig.wait(lambda: "GiveSocket" in rig.ask("/heard"), "the socket to be asked for")
    assert callers.errors == []
    end(first)
    rig.wait(lambda: callers.pids[-1] != first, "the next proxy")
    callers.stop()
    assert [each for each in callers.errors if "refused" in each] == []


def test_both_die_and_the_next_daemon_starts_a_proxy(rig: EndpointRig) -> None:
    """State, table and /proc are enough; the death is told."""
    rig.begin()
    first = rig.up()
    rig.kill_daemon()
    end(first)
    rig.wait(lambda: not alive(first), "its end")
    rig.begin_daemon()
    rig.up(instead_of=first)
    assert "died while no daemon watched" in rig.journal()


def test_a_restart_hands_over_without_a_gap_and_the_old_one_finishes(rig: EndpointRig) -> None:
    """The new proxy answers before the old one is asked to leave; what it has, it finishes."""
    rig.begin()
    first = rig.up()
    rig.ask("/hold/standard")
    callers = Callers(rig)
    rig.wait(lambda: callers.pids, "a caller")
    answer = rig.act("restart-endpoint")
    assert "accepted" in answer, answer
    rig.wait(lambda: rig.operation("endpoint-restart")["state"] == "done", "the hand-over")
    second = int(rig.endpoint()["pid"])
    assert second != first
    rig.wait(lambda: callers.pids[-1] == second, "callers to reach the new one")
    callers.stop()
    assert callers.errors == []
    assert alive(first)  # it still has an answer
    assert "finishes what it has" in rig.endpoint()["say"]
    os.kill(first, signal.SIGKILL)
    rig.wait(lambda: "finishes" not in rig.endpoint()["say"], "the old one's end")
    assert rig.up() == second


def test_taking_proxy_out_of_the_file_ends_it_and_putting_it_back_starts_one(
    rig: EndpointRig,
) -> None:
    """The file is followed within seconds, also for a port that somebody else has."""
    rig.begin()
    first = rig.up()
    rig.configure(lambda table: None)
    rig.wait(lambda: not alive(first), "the proxy to leave")
    rig.wait(lambda: rig.endpoint()["state"] == "none", "the endpoint to be none")
    with pytest.raises(OSError, match="refused"):
        rig.ask()
    assert not rig.paths.places.table.exists()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", rig.address))
        other.listen()
        rig.configure(lambda table: table.update(proxy={"port": rig.address}))
        rig.wait(lambda: rig.notice("endpoint-down"), "the notice")
        assert f"127.0.0.1:{rig.address} is taken by pid {os.getpid()}" in rig.notice(
            "endpoint-down"
        )
    rig.up()


def test_an_open_address_without_keys_is_refused_and_engines_run(rig: EndpointRig) -> None:
    """The sentence names both cures; the daemon and its engines are not kept from their work."""
    rig.configure(lambda t: t.update(proxy={"port": rig.address, "host": "0.0.0.0"}))
    rig.begin()
    assert "`rigctl keys add NAME`" in rig.notice("endpoint-keys")
    assert rig.endpoint()["state"] == "off"
    rig.start("standard")


def test_the_address_moves_at_a_restart_also_to_one_that_covers_it(rig: EndpointRig) -> None:
    """From loopback to every address with the same port, which the old proxy still serves."""
    rig.begin()
    first = rig.up()
    clients = rig.paths.places.clients
    clients.write_text(f'[client.anna]\nsha256 = "{"a" * 64}"\n')
    clients.chmod(0o600)
    rig.configure(lambda t: t.update(proxy={"port": rig.address, "host": "0.0.0.0"}))
    rig.wait(lambda: '"anna"' in rig.ask("/table"), "the client in the table")
    assert rig.up() == first
    callers = Callers(rig)
    assert "accepted" in rig.act("restart-endpoint")
    rig.wait(lambda: rig.operation("endpoint-restart")["state"] == "done", "the hand-over")
    rig.wait(lambda: not alive(first), "the old one to leave")
    callers.stop()
    # It is another socket: who waited in the old one's backlog may be cut off, nobody is refused.
    assert [each for each in callers.errors if "refused" in each] == []
    assert rig.endpoint()["keys"] is True
    assert int(rig.ask()) == int(rig.endpoint()["pid"]) != first


def test_a_restart_right_after_saving_means_what_was_saved(rig: EndpointRig) -> None:
    """The file is looked at every two seconds, and at every command: nobody waits to be sure."""
    rig.begin()
    first = rig.up()
    (rig.address,) = free_ports(1)
    rig.configure(lambda table: table.update(proxy={"port": rig.address}))
    assert "accepted" in rig.act("restart-endpoint")
    rig.wait(lambda: rig.operation("endpoint-restart")["state"] == "done", "the hand-over")
    assert rig.up(instead_of=first)
    assert rig.ask()


def test_a_proxy_of_another_protocol_serves_on_and_is_named(rig: EndpointRig) -> None:
    """Both keep running; the notice names the older one and the command that mends it."""
    rig.environ["PEER_PROTOCOL"] = "0"
    rig.begin()
    rig.wait(lambda: rig.notice("endpoint-version"), "the notice")
    assert "`rigctl endpoint restart`" in rig.notice("endpoint-version")
    assert rig.ask()


def test_daemon_stop_leaves_the_proxy_and_stop_engines_ends_it(rig: EndpointRig) -> None:
    """`daemon stop` is about the daemon; with the engines the endpoint goes too."""
    rig.begin()
    first = rig.up()
    assert "accepted" in rig.act("stop-daemon")
    assert rig.daemon is not None
    rig.daemon.wait(20)
    assert int(rig.ask()) == first
    rig.begin_daemon()
    assert rig.up() == first
    assert "accepted" in rig.act("stop-daemon", stop_engines=True)
    rig.daemon.wait(20)
    rig.wait(lambda: not alive(first), "the proxy to leave")


def test_a_free_waits_for_the_gate_and_a_cancelled_one_opens_it(rig: EndpointRig) -> None:
    """The engine is idle by its own counters; the endpoint still holds an answer for it."""
    rig.begin()
    rig.up()
    rig.start("long")
    rig.wait(lambda: '"open"' in rig.ask("/table"), "the gate to open")
    rig.ask("/hold/long")
    assert "accepted" in rig.act("free", group="long", holder="training")
    rig.wait(lambda: "at the endpoint" in rig.group("long")["say"], "the drain to wait for it")
    assert rig.group("long")["in_flight"] == 1.0
    assert "accepted" in rig.act("reclaim", group="long")
    rig.wait(lambda: rig.state("long") == "ready", "the drain to be cancelled")
    assert '"open"' in rig.ask("/table")
    assert "accepted" in rig.act("free", group="long", holder="training")
    assert json.loads(rig.ask("/table"))["body"]["groups"][1]["drain"] == 2
    rig.ask("/release/long")
    rig.wait(lambda: rig.operation("free")["state"] == "done", "the free")
    assert rig.operation("free")["figures"]["cards_free"] == 4.0


def test_an_abort_ends_with_the_endpoints_own_word(rig: EndpointRig) -> None:
    """Found, or not under way: the operation says which. Decisions are kept for explain."""
    rig.begin()
    rig.up()
    rig.ask("/hold/rig-1")
    rig.act("abort", request="rig-1")
    rig.wait(lambda: rig.operation("abort")["state"] == "done", "the abort")
    assert rig.operation("abort")["say"] == "ended by a person"
    rig.act("abort", request="rig-9")
    rig.wait(lambda: rig.operation("abort")["state"] == "failed", "the second one")
    assert "no request rig-9 is under way" in rig.operation("abort")["say"]
    rig.ask("/route/long")
    found = rig.wait(lambda: rig.talk({"do": "routes", "limit": 5})[:-1], "a route")
    assert found[0]["record"]["say"] == "it had a slot"

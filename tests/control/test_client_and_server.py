"""Client and server over a real socket: questions, rights, mistakes, lost daemons."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from rig_views import rig
from served_rig import FREE, Loop, until

from rigctl.control import wire
from rigctl.control.address import SocketTakenError, connect
from rigctl.control.client import LinkLost, RigError, SocketClient
from rigctl.core.commands import Accepted, Answer, Command, Refused
from rigctl.core.ids import OperationId
from rigctl.core.snapshot import Snapshot
from rigctl.daemon.server import ControlServer


async def test_hello_and_snapshot(client: SocketClient, loop: Loop) -> None:
    """A client learns whom it talks to and what the rig is, the snapshot equal to the daemon's."""
    hello = await client.hello("panel")
    assert hello == {
        "kind": "hello",
        "protocol": 1,
        "rigctl": "0.1.0",
        "epoch": "5f2a",
        "read_only": False,
    }
    loop.publish(1)
    assert await client.snapshot() == dataclasses.replace(rig(), seq=1)


async def test_a_snapshot_before_the_first_is_waited_for(client: SocketClient, loop: Loop) -> None:
    """Asked during the daemon's first sweep, the client waits, and the pollers know."""
    asked = asyncio.ensure_future(client.snapshot())
    await until(lambda: loop.broadcast.watchers == 1)
    loop.publish(1)
    assert (await asked).seq == 1
    assert loop.broadcast.watchers == 0


async def test_the_owner_acts(client: SocketClient, loop: Loop) -> None:
    """A command arrives as it was sent, with the uid the kernel vouches for."""
    assert await client.send(FREE) == Accepted(OperationId(1), "drains first")
    assert loop.asked == [(FREE, os.getuid())]


async def test_others_may_look_but_not_act(loop: Loop, tmp_path: Path) -> None:
    """The daemon refuses by the peer's uid; snapshot and hello say so before anybody tries."""
    server = ControlServer(loop, tmp_path / "s", allowed=[os.getuid() + 1])
    await server.start()
    async with SocketClient(tmp_path / "s") as client:
        answer = await client.send(FREE)
        assert isinstance(answer, Refused)
        assert answer.code == "not-allowed"
        assert "look, not act" in answer.say
        assert loop.asked == []
        loop.publish(1)
        assert (await client.hello())["read_only"] is True
        assert (await client.snapshot()).read_only
        stream = client.snapshots()
        assert (await anext(stream)).read_only
        await stream.aclose()
    await server.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello\n", "not JSON"),
        (b"[]\n", "one JSON object"),
        (b'{"do": "wach"}\n', "did you mean `watch`?"),
        (b"{}\n", "no question `None`"),
        (b'{"do": "act", "command": "fre"}\n', "did you mean `free`?"),
        (b'{"do": "journal", "after": -1}\n', "a number from 0"),
        (b'{"do": "log", "group": "long", "lines": 1e300}\n', "a number from 0"),
        (b'{"do": "history", "seconds": "x"}\n', "must be a number"),
        (b'{"do": "act", "command": "stop-daemon"}\n', "failed at this question"),
    ],
)
async def test_a_bad_question_is_answered_and_the_next_one_works(
    server: ControlServer, tmp_path: Path, line: bytes, words: str
) -> None:
    """A mistake costs one error line, not the connection; so does a fault of our own."""

    def talk() -> list[dict[str, Any]]:
        with connect(tmp_path / "s", 5.0) as raw, raw.makefile("rb") as lines:
            raw.sendall(line + b'{"do": "hello"}\n')
            return [json.loads(lines.readline()) for _ in range(2)]

    error, hello = await asyncio.to_thread(talk)
    assert error["kind"] == "error"
    assert words in error["say"]
    assert hello["kind"] == "hello"


async def test_a_loop_of_clients_is_turned_away(
    server: ControlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the limit a client of that user is told so; when one leaves there is room again."""
    monkeypatch.setattr("rigctl.daemon.server.CONNECTIONS", 2)
    client = SocketClient(tmp_path / "s")
    two = [connect(tmp_path / "s", 5.0) for _ in range(2)]
    with pytest.raises(RigError, match="too many clients"):
        await client.hello()
    for each in two:
        each.close()
    await until(lambda: not server._connections)
    assert (await client.hello())["epoch"] == "5f2a"


async def test_a_line_without_end_is_cut_off(server: ControlServer, tmp_path: Path) -> None:
    """A client cannot make the daemon collect more than a question's worth of bytes."""

    def talk() -> bytes:
        with connect(tmp_path / "s", 5.0) as raw:
            try:
                for _ in range(100):
                    raw.sendall(b"x" * 65536)
            except BrokenPipeError:
                pass
            try:
                return raw.recv(65536)
            except ConnectionResetError:
                return b"reset"

    answer = await asyncio.to_thread(talk)
    assert b"at most 65536 bytes" in answer or answer == b"reset"


async def test_a_flood_of_questions_is_not_collected(
    server: ControlServer, loop: Loop, tmp_path: Path
) -> None:
    """Who asks without end is cut off; nobody else waits, and nothing piles up."""

    def flood() -> int:
        sent = 0
        with connect(tmp_path / "s", 5.0) as raw:
            try:
                while sent < 64 * 1024 * 1024:
                    raw.sendall(b"x\n" * 32768)
                    sent += 65536
            except (BrokenPipeError, ConnectionResetError):
                pass
        return sent

    assert await asyncio.to_thread(flood) < 16 * 1024 * 1024
    await until(lambda: not server._connections)
    async with SocketClient(tmp_path / "s") as client:
        assert (await client.hello())["epoch"] == "5f2a"


async def test_a_client_that_closed_its_side_still_gets_its_answers(
    server: ControlServer, tmp_path: Path
) -> None:
    """`printf … | nc -U` closes after the question; the answers come, then the end."""

    def talk() -> bytes:
        with connect(tmp_path / "s", 5.0) as raw, raw.makefile("rb") as lines:
            raw.sendall(b'{"do": "hello"}\n{"do": "history"}\n')
            raw.shutdown(socket.SHUT_WR)
            return lines.read()

    answers = (await asyncio.to_thread(talk)).splitlines()
    assert [json.loads(line)["kind"] for line in answers] == ["hello", "history"]


async def test_a_lost_daemon_is_said_to_every_waiter(
    loop: Loop, tmp_path: Path, server: ControlServer
) -> None:
    """Streams under way end with LinkLost; later questions name the command that mends it."""
    client = SocketClient(tmp_path / "s")
    loop.publish(1)
    stream = client.snapshots()
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.02)
    await server.close()
    with pytest.raises(LinkLost, match="closed the connection"):
        await waiting
    with pytest.raises(LinkLost, match="rigctl daemon"):
        await client.send(FREE)
    assert not (tmp_path / "s").exists()


async def test_closing_lets_the_answer_out_and_waits_for_no_stuck_reader(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to `stop` reaches its asker; a watcher that never reads is dropped."""
    server = ControlServer(loop, tmp_path / "s")
    await server.start()

    async def slowly(command: Command, uid: int) -> Answer:
        await asyncio.sleep(0.05)
        return Accepted(OperationId(1), "ending")

    monkeypatch.setattr(loop, "command", slowly)
    with connect(tmp_path / "s", 5.0) as stuck:
        stuck.sendall(b'{"do": "watch"}\n')
        await until(lambda: loop.broadcast.watchers == 1)
        for seq in range(100):
            loop.publish(seq)
            await asyncio.sleep(0)
        asked = asyncio.ensure_future(SocketClient(tmp_path / "s").send(FREE))
        await asyncio.sleep(0.02)
        async with asyncio.timeout(5):
            await server.close()
        assert await asked == Accepted(OperationId(1), "ending")
    assert loop.broadcast.watchers == 0


async def test_closing_the_client_ends_its_streams(client: SocketClient, loop: Loop) -> None:
    """A panel that leaves in the middle of a wait is let go at once."""
    loop.publish(1)
    stream = client.snapshots()
    await anext(stream)

    async def next_one() -> Snapshot:
        return await anext(stream)

    waiting = asyncio.ensure_future(next_one())
    await asyncio.sleep(0.02)
    await client.close()
    with pytest.raises(LinkLost):
        await waiting


async def test_a_daemon_that_does_not_answer_is_held_to_be_gone(tmp_path: Path) -> None:
    """A question has a time limit; the panel shows a lost daemon instead of freezing."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        bound.listen(1)
        with pytest.raises(LinkLost, match="has not answered"):
            await SocketClient(tmp_path / "s", answer_seconds=0.05).hello()


async def test_a_word_left_by_a_daemon_that_hung_up_is_read(tmp_path: Path) -> None:
    """It closed before the question was sent: what it said first still reaches the person."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        bound.listen(1)

        def hang_up(path: Path, timeout: float) -> socket.socket:
            made = connect(path, timeout)
            served, _ = bound.accept()
            served.sendall(wire.error("too many clients", "busy"))
            served.close()
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rigctl.control.client.connect", hang_up)
            with pytest.raises(RigError, match="too many clients"):
                await SocketClient(tmp_path / "s").hello()


async def test_a_snapshot_of_another_version_is_a_lost_link(
    client: SocketClient, loop: Loop
) -> None:
    """The panel keeps waiting for a daemon it can read, and names the reason."""
    loop.broadcast.publish(b'{"seq": "x"}\n')
    with pytest.raises(LinkLost, match="another version"):
        await anext(client.snapshots())


async def test_a_second_server_on_the_same_socket_is_refused(
    server: ControlServer, loop: Loop, tmp_path: Path
) -> None:
    """And the first one goes on answering, its socket still there."""
    second = ControlServer(loop, tmp_path / "s")
    with pytest.raises(SocketTakenError):
        await second.start()
    await second.close()
    assert (await SocketClient(tmp_path / "s").hello())["epoch"] == "5f2a"


@pytest.mark.extras
def test_the_server_runs_on_uvloop_too(tmp_path: Path) -> None:
    """Rights and answers are the same on the faster loop."""
    uvloop = pytest.importorskip("uvloop")

    async def run() -> None:
        loop = Loop(tmp_path)
        server = ControlServer(loop, tmp_path / "s")
        await server.start()
        loop.publish(1)
        async with SocketClient(tmp_path / "s") as client:
            assert (await client.snapshot()).seq == 1
            assert await client.send(FREE) == Accepted(OperationId(1), "drains first")
        await server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())

"""Snapshots, journal, logs as streams: the newest wins, gaps are said, a slow one waits alone."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import resource
import socket
from pathlib import Path

import pytest
from rig_views import rig
from served_rig import Loop, until

from rigctl.control import wire
from rigctl.control.address import connect
from rigctl.control.client import RigError, SocketClient
from rigctl.core.snapshot import JournalEntry
from rigctl.daemon.mailbox import JOURNAL_QUEUE
from rigctl.daemon.server import ControlServer

STALE = 6
"""Snapshots of 14 kB that one who does not read finds before the newest."""


async def test_a_watcher_is_counted_while_it_looks(client: SocketClient, loop: Loop) -> None:
    """The pollers hurry while somebody looks, and learn when nobody does any more."""
    loop.publish(1)
    stream = client.snapshots()
    assert (await anext(stream)).seq == 1
    loop.publish(2)
    assert (await anext(stream)).seq == 2
    assert loop.watchers == [1]
    await stream.aclose()
    await until(lambda: loop.broadcast.watchers == 0)
    assert loop.watchers == [1, 0]


async def test_a_reader_that_sticks_holds_up_nobody(
    client: SocketClient, loop: Loop, tmp_path: Path
) -> None:
    """One client never reads: the other gets every snapshot; the stuck one then gets the newest."""
    with connect(tmp_path / "s", 5.0) as stuck:
        stuck.sendall(b'{"do": "watch"}\n')
        await until(lambda: loop.broadcast.watchers == 1)
        stream = client.snapshots()
        for seq in range(1, 301):
            loop.publish(seq)
            assert (await anext(stream)).seq == seq
        await stream.aclose()
        seen = await asyncio.to_thread(read_until, stuck, 300)
    # 300 snapshots are 4 MB. What had gone out before it stuck is old; the next is the newest.
    assert seen == [*range(1, len(seen)), 300]
    assert len(seen) <= STALE + 1


def read_until(link: socket.socket, seq: int) -> list[int]:
    """The numbers of the snapshots that lie in a watcher's connection, up to this one."""
    seen: list[int] = []
    with link.makefile("rb") as lines:
        while not seen or seen[-1] != seq:
            seen.append(json.loads(lines.readline())["seq"])
    return seen


async def test_what_waits_for_room_is_not_yet_chosen(
    server: ControlServer, loop: Loop, tmp_path: Path
) -> None:
    """While a client has no room no snapshot is set aside for it: the next one is the newest."""
    with connect(tmp_path / "s", 5.0) as stuck:
        stuck.sendall(b'{"do": "watch"}\n')
        await until(lambda: loop.broadcast.watchers == 1)
        (connection,) = server._connections
        full_at = 0
        for seq in range(1, 31):
            loop.publish(seq)
            await asyncio.sleep(0.002)
            if not full_at and not connection._writable.is_set():
                full_at = seq
        seen = await asyncio.to_thread(read_until, stuck, 30)
    assert seen == [*range(1, full_at + 1), 30]


async def test_a_slow_client_gets_the_newest(client: SocketClient, loop: Loop) -> None:
    """A panel that was busy for 5 snapshots draws the last one, not five."""
    loop.publish(1)
    stream = client.snapshots()
    assert (await anext(stream)).seq == 1
    for seq in range(2, 4):
        loop.publish(seq)
        await asyncio.sleep(0.02)  # each is on its way before the next
    assert (await anext(stream)).seq == 3
    await stream.aclose()


async def test_journal_and_history(client: SocketClient, loop: Loop) -> None:
    """A list ends; what follows goes on, in order and without doubles."""
    for seq in range(1, 6):
        loop.note(seq)
    listed = [entry.seq async for entry in client.journal(1, limit=3, follow=False)]
    assert listed == [3, 4, 5]
    stream = client.journal(3)
    assert [(await anext(stream)).seq for _ in range(2)] == [4, 5]
    loop.note(6)
    assert (await anext(stream)).say == "event 6"
    await stream.aclose()
    history = await client.history(900)
    assert history["series"] == {"rig.watts": [412.0, None]}


async def test_a_follower_that_sticks_is_told_what_it_missed(loop: Loop) -> None:
    """The queue is bounded; the newest entries stay and the number of the lost is said first."""
    queue = loop.broadcast.follow()
    for seq in range(1, JOURNAL_QUEUE + 13):
        loop.note(seq)
    assert await queue.take() == 12
    first = await queue.take()
    assert isinstance(first, JournalEntry)
    assert first.seq == 13
    loop.broadcast.unfollow(queue)


async def test_the_gap_reaches_the_client(client: SocketClient, loop: Loop) -> None:
    """On the client's side a gap is an entry that says how many were missed."""
    stream = client.journal(0)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.05)
    for seq in range(1, JOURNAL_QUEUE + 13):
        loop.note(seq)
    gap = await waiting
    assert (gap.kind, gap.figures) == ("gap", {"missed": 12})
    assert (await anext(stream)).seq == 13
    await stream.aclose()


async def test_a_log_is_shown_folded_and_without_secrets(client: SocketClient, loop: Loop) -> None:
    """The last lines, floods folded, each through the redactor, a dead program's last word too."""
    (loop.logs / "long.log").write_text("a\n" + "b\n" * 20_113 + "key sk-secret\nlast word")
    shown = [line async for line in client.log("long", 20_115, False, 0)]
    assert shown == ["a", "b", "  … and the same again x 20112", "key [key]", "last word"]
    (loop.logs / "long.1.log").write_text("old\n")
    assert [line async for line in client.log("long", 5, False, 1)] == ["old"]


async def test_a_log_is_followed(client: SocketClient, loop: Loop) -> None:
    """New lines come as they are written, half lines when they are whole."""
    log = loop.logs / "long.log"
    log.write_text("one\ntw")
    stream = client.log("long", 10, True, 0)
    assert await anext(stream) == "one"
    with log.open("a") as file:
        file.write("o\nthree\n")
    assert [await anext(stream) for _ in range(2)] == ["two", "three"]
    await stream.aclose()


@pytest.mark.parametrize(
    ("group", "previous", "code"), [("lang", 0, "no-group"), ("long", 3, "no-log")]
)
async def test_a_log_that_is_not_there_is_said(
    client: SocketClient, group: str, previous: int, code: str
) -> None:
    """An unknown group and a run that never was are told apart."""
    with pytest.raises(RigError) as caught:
        await anext(client.log(group, 10, False, previous))
    assert caught.value.code == code


@pytest.mark.parametrize("turns", range(5))
async def test_a_client_that_comes_while_the_daemon_ends_is_not_left_hanging(
    loop: Loop, tmp_path: Path, turns: int
) -> None:
    """Accepted or not yet, at whatever turn of the loop: its connection ends with the daemon."""
    server = ControlServer(loop, tmp_path / "s")
    await server.start()
    with connect(tmp_path / "s", 5.0) as late:
        late.sendall(b'{"do": "watch"}\n')
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.close()
        # The loop has nothing left to do here: what is open now would stay open for ever.
        late.settimeout(0.0)
        try:
            assert late.recv(1) == b""
        except ConnectionResetError:
            pass
    assert loop.broadcast.watchers == 0


def lowest_free() -> int:
    """The number the next opened file would get."""
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    return number


async def test_out_of_files_the_client_waits_and_the_loop_does_not_spin(
    client: SocketClient,
    server: ControlServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No descriptor left to take a client in: it is taken in when there is one again."""
    monkeypatch.setattr("rigctl.adapters.acceptor.AGAIN", 0.05)
    asked = asyncio.ensure_future(client.hello())
    await asyncio.sleep(0)  # it is connected now, and not yet taken in
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free(), hard))
    try:
        await asyncio.sleep(0.12)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (await asked)["epoch"] == "5f2a"
    said = [record.message for record in caplog.records]
    assert 1 <= len(said) <= 4
    assert all("too many open files" in line for line in said)


async def test_what_the_daemon_passes_on_gives_a_terminal_no_orders(
    client: SocketClient, loop: Loop, tmp_path: Path
) -> None:
    """Log lines, entries and snapshots are text for whoever shows them, C1 and DEL included."""
    evil = "\x1b]0;x\x07\x1b[2J\x9b\x7f\u202e"
    (tmp_path / "long.log").write_text(f"a {evil} b\n")
    loop.entries.append(JournalEntry(1, 1.0, "long", "freed", f"lent to {evil}"))
    loop.broadcast.publish(wire.encode_snapshot(dataclasses.replace(rig(), rig=evil)))
    lines = [line async for line in client.log("long", 5, False, 0)]
    entries = [entry.say async for entry in client.journal(follow=False)]
    watched = await anext(client.snapshots())
    texts = [*lines, *entries, (await client.snapshot()).rig, watched.rig]
    assert len(texts) == 4
    assert not [text for text in texts if any(sign in text for sign in "\x1b\x07\x9b\x7f\u202e")]

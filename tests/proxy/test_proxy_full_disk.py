"""A disk without room costs log lines and the memory of sessions, never an answer (C68)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from pathlib import Path

import pytest
from proxy_kit import CHAT, JSON, Engine, row, say, short
from support_disk import no_room, small_disk

from rigctl.adapters.http1 import HttpClient
from rigctl.config.paths import find_home
from rigctl.control import link_wire
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import Table, TablePolicy


@pytest.mark.case("C68")
@pytest.mark.timeout(60)
async def test_the_proxys_process_serves_on_without_room_for_a_line(tmp_path: Path) -> None:
    """Its log refuses every byte and its folder is full; a hundred answers, and an orderly end."""
    engine = Engine("standard", short)
    await engine.start()
    home = find_home(str(tmp_path))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    http = HttpClient()
    body = json.dumps(say(stream=False)).encode()
    with small_disk(home.state):
        policy = TablePolicy(model="qwen", order=(GroupName("standard"),))
        table = Table("daemon", 1, Mono(time.monotonic()), (row(engine),), policy)
        home.table.write_bytes(link_wire.encode(table))
        with no_room(home.state):
            full = os.open("/dev/full", os.O_WRONLY)
            fd = listening.fileno()
            command = ["-m", "rigctl.proxy.main", "--home", str(tmp_path), "--listen-fd", str(fd)]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, pass_fds=[fd], stdout=full, stderr=full
            )
            try:
                for _ in range(100):
                    got = await http.request(
                        "POST", "127.0.0.1", port, CHAT, JSON, body, timeout=30.0
                    )
                    assert got.status == 200
                await asyncio.sleep(1.2)  # over a saving of its sessions
                got = await http.request("POST", "127.0.0.1", port, CHAT, JSON, body, timeout=30.0)
                assert got.status == 200
                assert not home.homes.exists() or not home.homes.stat().st_size
            finally:
                process.terminate()
                code = await process.wait()
                os.close(full)
    assert code == 0
    listening.close()
    await http.close()
    await engine.stop()

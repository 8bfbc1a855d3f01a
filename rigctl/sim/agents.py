"""A small load of agents: sessions whose contexts grow, against the simulated engines.

`python -m rigctl.sim.agents --scene team --speed 1 PORT [PORT]`. Prompts travel as `tok:N:name`
marks, so a session of 100,000 tokens is a body of a few kilobytes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rigctl.adapters.http1 import HttpClient, HttpError
from rigctl.sim.scenes import SCENES, Mishap, Scene, Session

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Rig:
    """Where a load goes."""

    ports: tuple[int, ...]
    speed: float
    world: str
    """Socket of the world, empty without one."""

    async def wait(self, seconds: float) -> None:
        """Let simulated seconds pass."""
        await asyncio.sleep(seconds / self.speed)


async def ready(client: HttpClient, port: int) -> None:
    """Return once the engine takes work, however long that is."""
    while True:
        with contextlib.suppress(HttpError):
            if (await client.get("127.0.0.1", port, "/ready", timeout=5.0)).status == 200:
                return
        await asyncio.sleep(RETRY_SECONDS)


async def ask(client: HttpClient, port: int, messages: list[dict[str, str]], limit: int) -> str:
    """One streamed turn; the answer's text. HttpError when the engine fails."""
    body = {"messages": messages, "stream": True, "max_tokens": limit, "ignore_eos": True}
    kept: list[str] = []
    head = [(b"content-type", b"application/json")]
    data = json.dumps(body).encode()
    stream = await client.open("POST", "127.0.0.1", port, "/v1/chat/completions", head, data)
    async with stream:
        rest = b""
        async for part in stream:
            *frames, rest = (rest + part).split(b"\n\n")
            kept.extend(_content(frame) for frame in frames)
    if stream.status != 200:
        raise HttpError(f"the engine answered {stream.status}")
    return "".join(kept)


def _content(frame: bytes) -> str:
    if not frame.startswith(b"data: {"):
        return ""
    row: dict[str, Any] = json.loads(frame[6:])
    for choice in row.get("choices", ()):
        return choice.get("delta", {}).get("content") or ""
    return ""


async def work(rig: Rig, session: Session, name: str) -> None:
    """One agent: turn after turn, anew when its context is full or its engine was lost."""
    client = HttpClient()
    port = rig.ports[session.engine % len(rig.ports)]
    chance = random.Random(name)
    await ready(client, port)
    await rig.wait(session.after)
    life = 0
    while True:
        life += 1
        first = f"read these files tok:{session.context}:{name}.{life}"
        messages = [{"role": "user", "content": first}]
        size, turn = session.context, 0
        while size < session.full or turn == 0:
            turn += 1
            try:
                said = await ask(client, port, messages, session.answer)
            except HttpError:
                await asyncio.sleep(RETRY_SECONDS)
                await ready(client, port)
                continue
            if session.turns and turn >= session.turns:
                await client.close()
                return
            tool = f"tool said tok:{session.grows}:{name}.{life}.{turn}"
            messages += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": tool},
            ]
            size += session.grows + session.answer
            await rig.wait(session.pause * chance.uniform(0.6, 1.6))


async def mishap(rig: Rig, event: Mishap) -> None:
    """Tell the world what goes wrong, once every engine serves."""
    client = HttpClient()
    for port in rig.ports:
        await ready(client, port)
    await client.close()
    await rig.wait(event.after)
    await tell(rig.world, {"do": event.do, "card": event.card})


async def tell(world: str, row: dict[str, Any]) -> None:
    """One command to the world. OSError where it does not listen."""
    _, writer = await asyncio.open_unix_connection(world)
    writer.write(json.dumps(row).encode() + b"\n")
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def play(rig: Rig, scene: Scene) -> None:
    """Run a scene until it is over or the world is gone."""
    from rigctl.sim.lifeline import hold

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(work(rig, session, f"{scene.name}{number}"))
            for number, session in enumerate(scene.sessions)
        ]
        tasks += [group.create_task(mishap(rig, event)) for event in scene.mishaps]
        if rig.world:
            await hold(rig.world)
            for task in tasks:
                task.cancel()


def main(argv: Sequence[str] | None = None) -> int:
    """Play one scene against engines on these ports."""
    parser = argparse.ArgumentParser(prog="rigctl.sim.agents", description=__doc__)
    parser.add_argument("ports", type=int, nargs="+")
    parser.add_argument("--scene", choices=sorted(SCENES), default="team")
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--world", default="")
    args = parser.parse_args(argv)
    rig = Rig(tuple(args.ports), args.speed, args.world)
    asyncio.run(play(rig, SCENES[args.scene]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

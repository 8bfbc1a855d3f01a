"""A small load of agents: sessions whose contexts grow, at the endpoint or at the engines.

`python -m rigctl.sim.agents --scene team --endpoint http://127.0.0.1:8000 [--keys FILE]` asks one
address for everything, as real clients do: with their headers, the same long system prompt in
front, whole text in the body, and Retry-After honoured. `… PORT [PORT]` asks the engines themselves
instead; prompts then travel as `tok:N:name` marks, a session of 100,000 tokens as a few kilobytes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigctl.adapters.http1 import HttpError
from rigctl.sim.asking import (
    HABITS,
    Address,
    Asker,
    BusyError,
    Key,
    address_of,
    filler,
    read_keys,
    system_prompt,
)
from rigctl.sim.scenes import SCENES, Mishap, Scene, Session

RETRY_SECONDS = 1.0
SUB_TURNS = 2
"""Turns of a sub-agent, whose session id is its parent's."""
SUB_TOKENS = 4_000


@dataclass(frozen=True, slots=True)
class Rig:
    """Where a load goes."""

    ports: tuple[int, ...]
    """The engines' own; unused with an endpoint."""
    speed: float
    world: str
    """Socket of the world, empty without one."""
    endpoint: Address | None = None
    """The one address for all; None asks the engines."""
    keys: tuple[Key, ...] = ()

    async def wait(self, seconds: float) -> None:
        """Let simulated seconds pass."""
        await asyncio.sleep(seconds / self.speed)

    async def beat(self, every: float) -> None:
        """Wait for the next full beat, which is the same one for every session."""
        period = every / self.speed
        await asyncio.sleep(period - time.monotonic() % period)

    def asker(self, session: Session, number: int, name: str = "") -> Asker:
        """A client for a session, `name` where it speaks under another's session id."""
        if self.endpoint is None:
            where = Address("127.0.0.1", self.ports[session.engine % len(self.ports)])
            return Asker(where, "plain")
        key = self.keys[number % len(self.keys)] if self.keys else None
        return Asker(self.endpoint, session.habit or HABITS[number % len(HABITS)], key, name)

    def text(self, tokens: int, name: str) -> str:
        """A stretch of prompt: real text for the endpoint, a mark for an engine."""
        return f"tok:{tokens}:{name}" if self.endpoint is None else filler(tokens, name)

    def opening(self, session: Session, name: str) -> list[dict[str, Any]]:
        """The messages that a session begins with."""
        first = f"read these files {self.text(session.context, name)}"
        system = [{"role": "system", "content": system_prompt()}] if self.endpoint else []
        return [*system, {"role": "user", "content": first}]


async def ready(asker: Asker) -> None:
    """Return once the other side takes work, however long that is."""
    while True:
        with contextlib.suppress(HttpError):
            if await asker.ready():
                return
        await asyncio.sleep(RETRY_SECONDS)


async def turn(asker: Asker, messages: Sequence[dict[str, Any]], limit: int) -> str:
    """One turn, asked again for as long as it takes."""
    while True:
        try:
            return await asker.ask(messages, limit)
        except BusyError as busy:
            await asyncio.sleep(busy.seconds)
        except HttpError:
            await asyncio.sleep(RETRY_SECONDS)
            await ready(asker)


async def work(rig: Rig, session: Session, number: int, name: str) -> None:
    """One agent: turn after turn, anew when its context is full or its engine was lost."""
    chance = random.Random(name)
    helpers: set[asyncio.Task[None]] = set()
    await ready(rig.asker(session, number))
    await rig.wait(session.after)
    life = 0
    while True:
        life += 1
        asker = rig.asker(session, number)
        messages = rig.opening(session, f"{name}.{life}")
        size, done = session.context, 0
        while size < session.full or done == 0:
            if session.every:
                await rig.beat(session.every)
            done += 1
            said = await turn(asker, messages, session.answer)
            if session.turns and done >= session.turns:
                await asker.close()
                return
            if session.helpers and done % session.helpers == 0:
                task = sub_agent(rig, session, number, asker.session, f"{name}.{life}.{done}")
                helpers.add(job := asyncio.create_task(task))
                job.add_done_callback(helpers.discard)
            tool = f"tool said {rig.text(session.grows, f'{name}.{life}.{done}')}"
            messages += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": tool},
            ]
            size += session.grows + session.answer
            if not session.every:
                await rig.wait(session.pause * chance.uniform(0.6, 1.6))
        await asker.close()


async def sub_agent(rig: Rig, session: Session, number: int, parent: str, name: str) -> None:
    """A helper that an agent sends out: a context of its own under its parent's session id."""
    asker = rig.asker(session, number, parent)
    task = f"find where this is used {rig.text(SUB_TOKENS, name)}"
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for count in range(SUB_TURNS):
        said = await turn(asker, messages, session.answer // 2)
        more = rig.text(session.grows // 2, f"{name}.{count}")
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": more}]
    await asker.close()


async def mishap(rig: Rig, event: Mishap) -> None:
    """Tell the world what goes wrong, once everything serves."""
    places = [rig.endpoint] if rig.endpoint else [Address("127.0.0.1", port) for port in rig.ports]
    for place in places:
        asker = Asker(place, "plain")
        await ready(asker)
        await asker.close()
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
            group.create_task(work(rig, session, number, f"{scene.name}{number}"))
            for number, session in enumerate(scene.sessions)
        ]
        tasks += [group.create_task(mishap(rig, event)) for event in scene.mishaps]
        if rig.world:
            await hold(rig.world)
            for task in tasks:
                task.cancel()


def main(argv: Sequence[str] | None = None) -> int:
    """Play one scene against the endpoint, or against engines on these ports."""
    parser = argparse.ArgumentParser(prog="rigctl.sim.agents", description=__doc__)
    parser.add_argument("ports", type=int, nargs="*", help="engines, where there is no endpoint")
    parser.add_argument("--endpoint", default="", help="http://HOST:PORT of the proxy")
    parser.add_argument("--keys", type=Path, help="file of lines `CLIENT KEY`, shared out in turn")
    parser.add_argument("--scene", choices=sorted(SCENES), default="team")
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--world", default="")
    args = parser.parse_args(argv)
    if bool(args.ports) == bool(args.endpoint):
        parser.error("name either --endpoint URL or the engines' ports")
    try:
        endpoint = address_of(args.endpoint) if args.endpoint else None
        keys = read_keys(args.keys.read_text(encoding="utf-8")) if args.keys else ()
    except (OSError, ValueError) as wrong:
        parser.error(str(wrong))
    rig = Rig(tuple(args.ports), args.speed, args.world, endpoint, keys)
    asyncio.run(play(rig, SCENES[args.scene]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

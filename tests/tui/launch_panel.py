"""Opens the real panel on a sample rig in this terminal: `launch_panel.py SCENE [--option …]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace

import samples
from sample_rig import SampleClient, SampleRig
from sample_traffic import crowd

from rigctl.core import commands
from rigctl.core.commands import Command
from rigctl.tui.main import run_panel


class LiveRig(SampleRig):
    """Operations end after a moment, so that their outcome can be seen; scenes may move."""

    def __init__(self, scene: str) -> None:
        moving = {"moving": samples.moving, "still": samples.moving, "crowded": crowd}.get(scene)
        super().__init__(moving(0) if moving else samples.ALL[scene]())
        self._moving = moving
        self._scene = scene
        self._tasks: list[asyncio.Task[None]] = []

    def client(self) -> SampleClient:
        """The first one starts the scene."""
        if not self._tasks:
            play = self._play() if self._moving is not None else self._beat()
            self._tasks.append(asyncio.get_running_loop().create_task(play))
        return super().client()

    def carry_out(self, command: Command) -> commands.Answer:
        """End it a second later."""
        answer = super().carry_out(command)
        self._tasks.append(asyncio.get_running_loop().create_task(self._end()))
        return answer

    async def _end(self) -> None:
        await asyncio.sleep(1.0)
        self.finish("done", "4 of 4 cards free, 94.9 GiB")

    async def _beat(self) -> None:
        """A daemon speaks up also when nothing is new."""
        while True:
            await asyncio.sleep(5.0)
            self.show(self.snapshot)

    async def _play(self) -> None:
        step = 0
        while True:
            await asyncio.sleep(1.0)
            step += 1
            if self._scene != "still" and self._moving is not None:
                self.show(self._moving(step))
            else:
                now = self.snapshot
                groups = tuple(replace(view, seconds=view.seconds + 1) for view in now.groups)
                self.show(
                    replace(now, groups=groups, at=now.at + 1, wall=now.wall + (step % 30) / 1000)
                )


class CrashingClient(SampleClient):
    """A client with a fault of its own: not an OSError, so the panel goes down."""

    async def send(self, command: Command) -> commands.Answer:
        """Fail as a bug would."""
        raise RuntimeError("a fault of the client")


def main() -> int:
    """Parse, run, pass the code on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scene")
    parser.add_argument("--theme")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--no-mouse", action="store_true")
    parser.add_argument("--crash-on-send", action="store_true")
    options = parser.parse_args()
    rig = LiveRig(options.scene)

    def client() -> SampleClient:
        made = rig.client()
        return CrashingClient(rig) if options.crash_on_send else made

    return run_panel(
        client, read_only=options.read_only, theme=options.theme, no_mouse=options.no_mouse
    )


if __name__ == "__main__":
    sys.exit(main())

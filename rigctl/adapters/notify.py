"""Tells a person where they look: a desktop notification, and the owner's `on_event` command."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from rigctl.core.harmless import harmless

NOTIFY_PATIENCE = 5.0
"""Seconds: a bus with nobody behind it answers only after 25."""

EVENT_PATIENCE = 60.0
"""Seconds that the owner's `on_event` command may take before it is ended."""


def notify(summary: str, text: str, *, urgent: bool = False) -> str:
    """Show a notification; blocks for at most a few seconds. Empty, or why nobody saw it.

    Tried in turn: notify-send, gdbus, and the tmux client that a tmux key was pressed in.
    """
    env = _with_bus(os.environ)
    summary, text = harmless(summary), harmless(text)
    problems: list[str] = []
    for command in _ways(summary, text, urgent, env):
        problem = _try(command, env)
        if not problem:
            return ""
        problems.append(problem)
    return "; ".join(problems) or "no desktop session, and neither notify-send nor gdbus"


async def run_on_event(
    command: Sequence[str], facts: Mapping[str, str], patience: float = EVENT_PATIENCE
) -> str:
    """Run the owner's command with `RIGCTL_<FACT>` variables; empty, or what went wrong.

    It gets a session of its own and no terminal; its output is dropped, since it may print
    anything. Past `patience` seconds its whole session is ended.
    """
    variables = {f"RIGCTL_{name.upper()}": harmless(value) for name, value in facts.items()}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return f"on_event: cannot run {command[0]}: {error.strerror}"
    try:
        code = await asyncio.wait_for(process.wait(), patience)
    except TimeoutError:
        _end(process.pid)
        await process.wait()
        return f"on_event: {command[0]} was ended after {patience:.0f} s"
    except asyncio.CancelledError:
        _end(process.pid)
        raise
    return f"on_event: {command[0]} ended with {code}" if code else ""


def _end(leader: int) -> None:
    """End the session we made; its leader is our unreaped child, so the number is still its own."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _with_bus(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with the user's session bus, which cron, ssh and daemons are not told of."""
    env = dict(environ)
    bus = f"/run/user/{os.getuid()}/bus"
    if not env.get("DBUS_SESSION_BUS_ADDRESS") and os.path.exists(bus):
        env["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={bus}"
    return env


def _ways(summary: str, text: str, urgent: bool, env: Mapping[str, str]) -> list[tuple[str, ...]]:
    ways: list[tuple[str, ...]] = []
    if env.get("DBUS_SESSION_BUS_ADDRESS"):
        if shutil.which("notify-send"):
            ways.append(
                (
                    "notify-send",
                    "--app-name=rigctl",
                    f"--urgency={'critical' if urgent else 'normal'}",
                    # One slot on the screen: `freed` takes the place of `draining`.
                    "--hint=string:x-canonical-private-synchronous:rigctl",
                    "--",
                    summary,
                    text,
                )
            )
        elif shutil.which("gdbus"):
            ways.append(_gdbus(summary, text, urgent))
    if env.get("TMUX") and shutil.which("tmux"):
        # `#` starts a format in tmux; doubled it stands for itself.
        line = f"{summary}: {text}".replace("#", "##").replace("\n", " ")
        ways.append(("tmux", "display-message", "-d", "8000", line))
    return ways


def _gdbus(summary: str, text: str, urgent: bool) -> tuple[str, ...]:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    return (
        "gdbus",
        "call",
        "--session",
        "--timeout=4",
        "--dest=org.freedesktop.Notifications",
        "--object-path=/org/freedesktop/Notifications",
        "--method=org.freedesktop.Notifications.Notify",
        quoted("rigctl"),
        "0",
        quoted(""),
        quoted(summary),
        quoted(text),
        "[]",
        "{" + f"'urgency': <byte {2 if urgent else 1}>" + "}",
        "8000",
    )


def _try(command: Sequence[str], env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=NOTIFY_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not answer within {NOTIFY_PATIENCE:.0f} s"
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    if done.returncode == 0:
        return ""
    last = done.stderr.decode(errors="replace").strip().splitlines()
    return f"{command[0]}: {last[-1] if last else f'exit code {done.returncode}'}"

"""A small blocking client of the control socket, on the standard library alone.

The protocol is described in `rigctl.control`.
"""

from __future__ import annotations

import json
import os
import socket

from rigctl.cli.exits import FAILED, NOT_RUNNING, TIMED_OUT, USAGE, End
from rigctl.core.harmless import harmless_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LONGEST_ADDRESS = 107
"""Bytes that fit in `sockaddr_un.sun_path` beside its closing zero."""

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of one answer, as the daemon's own clients have it."""

PATIENCE = 10.0
"""Seconds that a daemon has for an answer; its loop never works that long."""


class NotRunning(End):
    """Nobody listens on the socket."""

    def __init__(self, path: str) -> None:
        super().__init__(
            NOT_RUNNING,
            f"no daemon runs for this rig (nobody listens on {path}).\n"
            "Start one with `rigctl daemon`, or any act or the panel does.",
        )


class Lost(End):
    """The daemon closed the connection in the middle of an answer."""

    def __init__(self) -> None:
        super().__init__(
            NOT_RUNNING,
            "the daemon went away while it was asked; engines go on without it.\n"
            "See its log with `rigctl logs daemon`, then `rigctl status`.",
        )


class NotOurs(End):
    """What answers on the socket speaks another language."""

    def __init__(self) -> None:
        super().__init__(FAILED, "what answers on the socket is not rigctl's daemon.")


def decoded(line: bytes) -> dict[str, Any]:
    """One line of JSON, which a daemon's answer is."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise NotOurs from None
    if not isinstance(answer, dict):
        raise NotOurs
    return answer


class Conversation:
    """One connection: asks, and reads JSON lines until it is closed."""

    def __init__(self, path: str) -> None:
        self._socket = _connect(path)
        self._rest = b""

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the socket; the daemon forgets the question."""
        self._socket.close()

    def ask(self, question: dict[str, Any]) -> None:
        """Send one question."""
        self._socket.settimeout(PATIENCE)
        try:
            self._socket.sendall(json.dumps(question).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            raise Lost from None

    def raw_line(self, patience: float | None = PATIENCE) -> bytes:
        """The next line, no end, no orders to a terminal. TimeoutError after `patience` seconds."""
        parts = [self._rest]
        self._socket.settimeout(patience)
        while b"\n" not in parts[-1]:
            try:
                more = self._socket.recv(1 << 18)
            except TimeoutError:
                self._rest = b"".join(parts)
                raise
            except ConnectionResetError:
                raise Lost from None
            if not more:
                raise Lost
            parts.append(more)
            if sum(map(len, parts)) > LONGEST_LINE and b"\n" not in more:
                raise NotOurs
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return harmless_json(line)

    def line(self, patience: float | None = PATIENCE) -> dict[str, Any]:
        """The next object; the daemon's `error` ends the verb with the daemon's words."""
        answer = decoded(self.raw_line(patience))
        if answer.get("kind") == "error":
            code = USAGE if answer.get("code") == "no-group" else FAILED
            raise End(code, str(answer.get("say", "")))
        return answer

    def lines(self) -> Iterator[dict[str, Any]]:
        """Objects until `end`, or for ever where the question follows something."""
        while True:
            answer = self.line(None)
            if answer.get("kind") == "end":
                return
            yield answer


def snapshot_line(path: str) -> bytes:
    """One snapshot as the daemon wrote it, one line of JSON."""
    with Conversation(path) as talk:
        talk.ask({"do": "snapshot"})
        try:
            return talk.raw_line()
        except TimeoutError:
            raise unanswered(path) from None


def decoded_snapshot(line: bytes) -> dict[str, Any]:
    """The snapshot in a line; an `error` ends the verb."""
    answer = decoded(line)
    if answer.get("kind") == "error":
        raise End(FAILED, str(answer.get("say", "")))
    return answer


def snapshot(path: str) -> dict[str, Any]:
    """One snapshot, decoded; an `error` ends the verb."""
    return decoded_snapshot(snapshot_line(path))


def act(path: str, command: str, args: dict[str, Any]) -> dict[str, Any]:
    """Send a command; the `answer` object, accepted or refused."""
    with Conversation(path) as talk:
        talk.ask({"do": "act", "command": command, "args": args})
        try:
            return talk.line()
        except TimeoutError:
            raise unanswered(path) from None


def unanswered(path: str) -> End:
    """What to say when a daemon listens and does not answer."""
    return End(
        TIMED_OUT,
        f"the daemon behind {path} took the question and did not answer within {PATIENCE:.0f} s.\n"
        "See its log with `rigctl logs daemon`.",
    )


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE)
    folder = -1
    try:
        address = path
        if len(os.fsencode(path)) > LONGEST_ADDRESS:
            # The kernel resolves /proc/self/fd/N itself: a short name for a folder however deep.
            folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
            address = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
        connection.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        connection.close()
        raise NotRunning(path) from None
    except PermissionError:
        connection.close()
        raise End(
            FAILED,
            f"no right to open {path}: it belongs to the user who runs the daemon.\n"
            f"See `ls -l {path}`; run rigctl as that user, or give your group the socket.",
        ) from None
    except OSError as error:
        connection.close()
        raise End(FAILED, f"cannot reach the daemon at {path}: {error.strerror}.") from None
    finally:
        if folder >= 0:
            os.close(folder)
    return connection

"""The words on the control socket as bytes: encodes and decodes, checks sizes and names."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from rigctl.control import PROTOCOL
from rigctl.core import commands
from rigctl.core.commands import Accepted, Answer, Command, Refused
from rigctl.core.flow import RouteRecord
from rigctl.core.harmless import one_line
from rigctl.core.reading import Missing, Why
from rigctl.core.snapshot import JournalEntry, Snapshot

REQUEST_LIMIT: Final = 64 * 1024
"""Bytes of one question, newline included. The longest real one has a holder's name in it."""

LINE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of one answer; a day of history for eight cards is the longest."""

MOST: Final = 1e9
"""The largest number a command may carry: 30 years, or more watts than any rig has."""

HOLDER_SIGNS: Final = 100
"""Signs of a holder's name."""

COMMANDS: Final[Mapping[str, type[Command]]] = {
    "start": commands.StartGroup,
    "stop": commands.StopGroup,
    "restart": commands.RestartGroup,
    "free": commands.FreeGroup,
    "lend-started": commands.LendStarted,
    "reclaim": commands.ReclaimGroup,
    "sleep": commands.SetSleepOnIdle,
    "power-limit": commands.SetPowerLimit,
    "end-leftovers": commands.EndLeftovers,
    "abort": commands.AbortAnswer,
    "restart-endpoint": commands.RestartEndpoint,
    "nvml-release": commands.ReleaseNvml,
    "confirm-state": commands.ConfirmState,
    "stop-daemon": commands.StopDaemon,
}
"""What `act` may carry; panel and command line use the same names."""

_NAMES: Final = {kind: name for name, kind in COMMANDS.items()}

_Told = TypeVar("_Told")

_encoder = msgspec.json.Encoder()
_snapshot_decoder = msgspec.json.Decoder(Snapshot)


class WireError(ValueError):
    """A line that cannot be used; `say` is what a person reads, `code` a stable word."""

    def __init__(self, say: str, code: str = "bad-request") -> None:
        super().__init__(say)
        self.say = say
        self.code = code


def nearest(word: str, known: Iterable[str]) -> str:
    """` Did you mean X?`, or the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, 1, 0.5)
    return f"did you mean `{close[0]}`?" if close else f"known are {', '.join(names)}."


def line(message: Any) -> bytes:
    """One message as one line."""
    return _encoder.encode(message) + b"\n"


def message(raw: bytes) -> dict[str, Any]:
    """One line as a JSON object; WireError when it is none."""
    try:
        decoded = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"that line is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise WireError('a line is one JSON object, such as {"do": "snapshot"}')
    return decoded


def number(asked: Mapping[str, Any], name: str, default: float) -> float:
    """A number in a question, or its default; WireError where it is none."""
    value = asked.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise WireError(f"`{name}` must be a number from 0 to {MOST:g}")
    return value


# Snapshots ------------------------------------------------------------------------------------

_WRITABLE: Final = b'"read_only":false'
_READ_ONLY: Final = b'"read_only":true'


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The line every client gets; encoded once, however many look.

    JSON has no infinity and no not-a-number, and one that slipped in would make the whole rig
    unreadable to every client. So the line is read back (as cheap as writing it), and mended.
    """
    encoded = line(snapshot)
    try:
        _snapshot_decoder.decode(encoded)
    except msgspec.ValidationError:
        return line(finite(snapshot))
    return encoded


def finite(value: Any, kind: str = "") -> Any:
    """The same value with every number that is none given up; `kind` is its field's type."""
    if isinstance(value, float) and not math.isfinite(value):
        return Missing(Why.IMPLAUSIBLE, "not a number") if "Reading" in kind else 0.0
    if isinstance(value, tuple):
        return tuple(finite(part, kind) for part in value)
    if isinstance(value, dict):
        return {
            key: part
            for key, part in value.items()
            if not isinstance(part, float) or math.isfinite(part)
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value,
            **{
                field.name: finite(getattr(value, field.name), str(field.type))
                for field in dataclasses.fields(value)
            },
        )
    return value


def for_reader(snapshot_line: bytes) -> bytes:
    """The same line for a client that may not act.

    Patched, not encoded anew: within JSON strings every quote has a backslash before it, so
    these bytes cannot stand anywhere but in the snapshot's own field.
    """
    at = snapshot_line.rfind(_WRITABLE)
    if at < 0:
        return snapshot_line
    return snapshot_line[:at] + _READ_ONLY + snapshot_line[at + len(_WRITABLE) :]


def decode_snapshot(raw: bytes) -> Snapshot:
    """The snapshot in a line; WireError when another version's shape does not fit this one's."""
    try:
        return _snapshot_decoder.decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise WireError(
            f"the daemon's snapshot does not fit this rigctl ({error}); it is of another version: "
            "end it with `rigctl daemon stop` (engines go on) and start it again",
            "version",
        ) from error


# Commands -------------------------------------------------------------------------------------


def encode_command(command: Command) -> dict[str, Any]:
    """The question that carries a command."""
    return {
        "do": "act",
        "command": _NAMES[type(command)],
        "args": msgspec.to_builtins(command),
    }


def decode_command(name: object, args: object) -> Command:
    """The command of an `act`; WireError names the nearest right word or the wrong field."""
    if not isinstance(name, str) or name not in COMMANDS:
        raise WireError(f"there is no command `{name}`: {nearest(str(name), COMMANDS)}")
    kind = COMMANDS[name]
    given: dict[object, object] = {} if args is None else args if isinstance(args, dict) else {}
    if args is not None and not isinstance(args, dict):
        raise WireError(f"`args` of `{name}` must be an object with the command's fields")
    fields = {field.name for field in dataclasses.fields(kind)}
    for key in given:
        if key not in fields:
            raise WireError(f"`{name}` has no field `{key}`: {nearest(str(key), fields)}")
    try:
        command: Command = msgspec.convert(given, kind, strict=True)
    except msgspec.ValidationError as error:
        raise WireError(f"`{name}` cannot be used so: {error}") from error
    for key in fields:
        value = getattr(command, key)
        if isinstance(value, int | float) and not 0 <= value <= MOST:
            raise WireError(f"`{name}` cannot be used so: `{key}` is not between 0 and {MOST:g}")
    if isinstance(command, commands.FreeGroup):
        holder = one_line(command.holder)[:HOLDER_SIGNS]
        return dataclasses.replace(command, holder=holder)
    return command


def encode_answer(answer: Answer) -> bytes:
    """`accepted` with its operation, or `refused` with the reason."""
    word = "accepted" if isinstance(answer, Accepted) else "refused"
    return line({"kind": "answer", word: answer})


def decode_answer(fields: Mapping[str, Any]) -> Answer:
    """The answer in a message of kind `answer`."""
    kind: type[Accepted] | type[Refused] = Accepted if "accepted" in fields else Refused
    return _told(fields.get("accepted", fields.get("refused")), kind, "answer")


def _told(value: object, kind: type[_Told], what: str) -> _Told:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        say = f"the daemon's {what} cannot be read: {error}"
        raise WireError(say, "version") from error


# Everything else ------------------------------------------------------------------------------


def hello(version: str, epoch: str, read_only: bool) -> bytes:
    return line(
        {
            "kind": "hello",
            "protocol": PROTOCOL,
            "rigctl": version,
            "epoch": epoch,
            "read_only": read_only,
        }
    )


def journal(entry: JournalEntry) -> bytes:
    return line({"kind": "journal", "entry": entry})


def decode_journal(fields: Mapping[str, Any]) -> JournalEntry:
    """The entry in a message of kind `journal`."""
    return _told(fields.get("entry"), JournalEntry, "journal")


def route(record: RouteRecord) -> bytes:
    return line({"kind": "route", "record": record})


def decode_route(fields: Mapping[str, Any]) -> RouteRecord:
    """The record in a message of kind `route`."""
    return _told(fields.get("record"), RouteRecord, "routes")


def gap(missed: int) -> bytes:
    return line({"kind": "gap", "missed": missed})


def log(text: str) -> bytes:
    return line({"kind": "log", "line": text})


def history(fields: Mapping[str, Any]) -> bytes:
    return line({"kind": "history", **fields})


def end() -> bytes:
    return b'{"kind":"end"}\n'


def error(say: str, code: str) -> bytes:
    return line({"kind": "error", "say": say, "code": code})

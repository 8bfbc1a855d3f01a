"""clients.toml: who may use the endpoint. Keys are random and kept as their hash alone."""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import os
import re
import secrets
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rigctl.config.faults import Faults
from rigctl.config.lines import key_lines
from rigctl.config.schema import ClientConfig, ConfigError
from rigctl.config.secrets import check_secret_file, replace_file
from rigctl.config.values import Table

KEY_HEAD = "sk-rig-"
KEY_BYTES = 32

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}")
"""Names stand in metrics' labels and log lines; `-` alone means a client without a key."""

_HASH = re.compile(r"[0-9a-f]{64}")

_HEAD = """\
# Written by `rigctl keys`: who may use the endpoint. Only hashes are kept here: a key is shown
# once, when it is made. `rigctl keys add NAME` and `rigctl keys remove NAME` change this file,
# `rigctl keys list` shows it, and the endpoint follows at once.

"""

_CLIENT_KEYS = ("sha256", "running", "created", "comment")


def new_key() -> str:
    """A key nobody can guess: 32 random bytes, in signs that a header and a shell can carry."""
    return KEY_HEAD + secrets.token_urlsafe(KEY_BYTES)


def hash_key(key: str) -> str:
    """Hex SHA-256. A random key needs no salt: there is no list of likely ones to try."""
    return hashlib.sha256(key.encode()).hexdigest()


def name_fault(name: str) -> str:
    """Why a client cannot be called so; empty when it can."""
    if _NAME.fullmatch(name):
        return ""
    return (
        f"{name!r} is no name for a client: letters, digits, `-`, `_` and `.`, at most 40, not "
        "beginning with `-` or `.`"
    )


def read_clients(path: Path) -> tuple[ClientConfig, ...]:
    """All clients in the order of the file; none where it is absent.

    ConfigError names what is wrong and the command that mends it, and never quotes a key.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=str(path)) from error
    why = check_secret_file(path)
    if why:
        raise ConfigError(why, path=str(path))
    try:
        text = path.read_text("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is damaged (it is not text): {_mend(path)}", path=str(path)) from error
    except tomllib.TOMLDecodeError as error:
        say = str(error)
        raise ConfigError(
            f"is damaged ({say[:1].lower()}{say[1:]}): {_mend(path)}", path=str(path)
        ) from error
    faults = Faults(str(path))
    lines = key_lines(text)
    clients: list[ClientConfig] = []
    top = Table(data, (), lines, faults, path.name)
    for key in data:
        if key != "client":
            faults.add(f"unknown section or key `{key}`: {_mend(path)}", top.line(key))
    tables = data.get("client", {})
    if not isinstance(tables, dict):
        faults.add(f"[client.NAME] is a table: {_mend(path)}", top.line("client") or 1)
        tables = {}
    for name, entry in tables.items():
        table = Table(
            entry if isinstance(entry, dict) else {},
            ("client", name),
            lines,
            faults,
            f"client {name!r}",
        )
        client = _client(name, table)
        if client is not None:
            twin = next((one for one in clients if one.key_hash == client.key_hash), None)
            if twin is not None:
                say = f"has the key of client {twin.name!r}: run `rigctl keys add {name} --replace`"
                table.fault("sha256", say)
            clients.append(client)
    faults.raise_if_any()
    return tuple(clients)


def _mend(path: Path) -> str:
    return (
        f"run `mv {path} {path}.damaged`, then make each client's key anew with "
        "`rigctl keys add NAME`"
    )


def _client(name: str, table: Table) -> ClientConfig | None:
    """One client; None where it can admit nobody, which is noted."""
    mend = f"remove the lines of [client.{name}], then run `rigctl keys add {name}`"
    wrong = name_fault(name)
    if wrong:
        table.fault((), f"{wrong}; remove its lines")
        return None
    for key in table.data:
        if key not in _CLIENT_KEYS:
            table.fault(key, f"unknown key `{key}`: a client has {', '.join(_CLIENT_KEYS)}")
    key_hash = table.data.get("sha256")
    if not isinstance(key_hash, str) or not _HASH.fullmatch(key_hash):
        # What stands here may be a key that somebody wrote in by hand: it is not quoted.
        table.fault("sha256", f"`sha256` is no hash of a key: {mend}")
        return None
    created = table.data.get("created")
    if isinstance(created, datetime.datetime):
        created = created.date()
    if created is not None and not isinstance(created, datetime.date):
        table.fault("created", "`created` is a date, such as 2026-11-30: correct or remove it")
        created = None
    return ClientConfig(
        name=name,
        key_hash=key_hash,
        running=table.whole("running", 1, 100_000),
        created=created,
        comment=table.text("comment"),
    )


def write_clients(path: Path, clients: Sequence[ClientConfig]) -> None:
    """Put the table in place at once, mode 0600. OSError (a full disk) leaves the old one whole."""
    import tomli_w

    tables: dict[str, dict[str, Any]] = {}
    for client in clients:
        written = {
            "sha256": client.key_hash,
            "running": client.running,
            "created": client.created,
            "comment": client.comment or None,
        }
        tables[client.name] = {key: value for key, value in written.items() if value is not None}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = tomli_w.dumps({"client": tables}) if tables else ""
    replace_file(path, (_HEAD + text).encode())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One change of the table at a time: two `rigctl keys add` at once must not lose one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)

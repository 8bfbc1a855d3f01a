"""Keys of the engines: read from where the owner put them, handed on where `ps` cannot see them."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rigctl.config.schema import ConfigError, GroupConfig, Secret

_KEY = re.compile(r"[!-~]+")
"""Printable ASCII without blanks: what an Authorization header can carry."""


def check_secret_file(path: Path) -> str:
    """Why the file cannot hold a key, with the command that mends it; empty when it can."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return f"key file {path} does not exist: write the key into it and run `chmod 600 {path}`"
    except OSError as error:
        return f"key file {path} cannot be read: {error.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return f"key file {path} is not a plain file"
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        return f"key file {path} can be read by others (mode {mode:03o}): run `chmod 600 {path}`"
    return ""


def read_secret(secret: Secret, environ: Mapping[str, str]) -> str:
    """The key itself. ConfigError, which never quotes the key, says why there is none."""
    if secret.source == "env":
        key = environ.get(secret.where, "").strip()
        origin = f"variable {secret.where}"
        if not key:
            raise ConfigError(f"{origin} is not set, and a key is to be read from it: export it")
    else:
        path = Path(secret.where)
        why = check_secret_file(path)
        if why:
            raise ConfigError(why)
        origin = f"key file {path}"
        try:
            key = path.read_text("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{origin} is not text") from error
        except OSError as error:
            raise ConfigError(f"{origin} cannot be read: {error.strerror}") from error
        if not key:
            raise ConfigError(f"{origin} is empty: write the key into it")
    if not _KEY.fullmatch(key) or key.startswith("-"):
        raise ConfigError(
            f"the key in {origin} cannot be sent in a header: it must be one line of letters, "
            "digits and signs without blanks, and not begin with `-`"
        )
    return key


def group_keys(group: GroupConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """SGLang's option names to the group's keys, for those that are set."""
    named = {"api-key": group.api_key, "admin-api-key": group.admin_key}
    return {
        option: read_secret(secret, environ)
        for option, secret in named.items()
        if secret is not None
    }


def key_file(group: GroupConfig, state: Path) -> Path | None:
    """Where the file with this group's keys lies, or None when it has no keys.

    SGLang takes keys only as options, but also reads options from a YAML file named by
    `--config` (0.5.5 and later), so the command line shows a path and no key.
    """
    if group.api_key is None and group.admin_key is None:
        return None
    return state / "keys" / f"{group.name}.yaml"


def write_key_file(group: GroupConfig, environ: Mapping[str, str], state: Path) -> Path | None:
    """Write the group's keys for its engine, readable by this user only; None without keys.

    To be called before each spawn. ConfigError when a key is missing, OSError on a full disk.
    """
    path = key_file(group, state)
    if path is None:
        return None
    # JSON is YAML, and quoting is settled: a key of digits stays text.
    text = json.dumps(group_keys(group, environ)) + "\n"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, text.encode())
    return path


def replace_file(path: Path, content: bytes) -> None:
    """Put the content in place at once, mode 0600: after any failure the old file is whole."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""Gathers doctor's facts from this machine: looks, changes nothing, waits for nothing long."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from rigctl import __version__
from rigctl.adapters.nvml_versions import versions
from rigctl.cli import logout, where
from rigctl.cli.exits import End
from rigctl.cli.found_cards import read_cards
from rigctl.cli.gather_endpoint import endpoint_facts
from rigctl.cli.talk import NotRunning, snapshot
from rigctl.cli.words import number
from rigctl.config.load import load
from rigctl.config.paths import find_home
from rigctl.config.schema import ConfigError
from rigctl.core.cards import CardSample
from rigctl.core.doctor_facts import (
    CardFacts,
    ConfigFacts,
    DiskFacts,
    DriverFacts,
    Facts,
    LoginFacts,
    NoticeFacts,
    ProgramFacts,
    SocketFacts,
)
from rigctl.core.reading import Missing

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
SHELL = "this shell"
MANAGER = "the systemd user environment"


def gather(home: str | None) -> Facts:
    """Everything the checks look at."""
    socket, snap = _socket(home)
    module, library = versions()
    error = ""
    if snap is not None:
        cards = tuple(_card(card) for card in snap["cards"])
        error = str(snap["nvml"])
    elif module:
        samples, error = read_cards()
        cards = tuple(_sampled(sample) for sample in samples)
    else:
        cards = ()
    environments = _environments()
    return Facts(
        program=_program(),
        socket=socket,
        config=_config(home),
        driver=DriverFacts(module, library, error),
        cards=cards,
        cuda_order=os.environ.get("CUDA_DEVICE_ORDER"),
        simulated=bool(snap and snap["simulated"]),
        metrics={
            group["name"]: tuple(group.get("missing_metrics", ()))
            for group in (snap["groups"] if snap else ())
        },
        notices=tuple(
            NoticeFacts(notice["id"], notice["level"], notice["say"])
            for notice in (snap["notices"] if snap else ())
        ),
        proxies={place: _proxies(env) for place, env in environments.items()},
        no_proxy={
            place: env.get("no_proxy") or env.get("NO_PROXY") or ""
            for place, env in environments.items()
        },
        nvml_packages=tuple(metadata.packages_distributions().get("pynvml", ())),
        disks=tuple(_disks(where.state_folder(home), where.logs_folder(home))),
        login=_login(),
        endpoint=endpoint_facts(find_home(home), snap),
        tmux_clipboard=_tmux_clipboard(),
    )


def _program() -> ProgramFacts:
    found = shutil.which("rigctl") or ""
    alias = shutil.which("gpurig") or ""
    return ProgramFacts(found, _is_ours(found), alias if _is_ours(alias) else "")


def _is_ours(path: str) -> bool:
    """pip's scripts are short texts that import the entry point; hamlib's is a binary."""
    try:
        with open(path, "rb") as file:
            return b"rigctl.cli.main" in file.read(4096)
    except OSError:
        return False


def _socket(home: str | None) -> tuple[SocketFacts, dict[str, Any] | None]:
    path = where.socket_file(home)
    folder, socket = _mode(os.path.dirname(path)), _mode(path)
    snap: dict[str, Any] | None = None
    try:
        snap = snapshot(path)
        answer = "answers"
    except NotRunning:
        answer = "nobody"
    except End as end:
        denied = os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK)
        answer = "denied" if denied else end.say.splitlines()[0]
    facts = SocketFacts(
        path,
        answer,
        folder_mode=folder,
        socket_mode=socket,
        read_only=bool(snap and snap["read_only"]),
        ours=__version__,
        theirs=snap["rigctl"] if snap else "",
    )
    return facts, snap


def _mode(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None


def _config(home: str | None) -> ConfigFacts:
    places = find_home(home)
    path = str(places.config)
    if not places.config.exists():
        return ConfigFacts(path, False)
    try:
        config = load(places.config, places.overrides)
    except (ConfigError, OSError) as error:
        return ConfigFacts(path, True, faults=tuple(str(error).splitlines()))
    by_index = tuple(
        group.name for group in config.groups if any(ref.kind == "index" for ref in group.cards)
    )
    return ConfigFacts(path, True, by_index=by_index)


def _card(card: dict[str, Any]) -> CardFacts:
    return CardFacts(
        card["index"],
        card["short"],
        card["pci"],
        card["name"],
        card["lost"],
        number(card["persistence"]),
    )


def _sampled(sample: CardSample) -> CardFacts:
    known = None if isinstance(sample.persistence, Missing) else sample.persistence
    short = sample.uuid.removeprefix("GPU-")[:4]
    return CardFacts(sample.index, short, sample.pci, sample.name, sample.lost, known)


def _environments() -> dict[str, Mapping[str, str]]:
    """This shell's variables and those that systemd gives the user's services."""
    found: dict[str, Mapping[str, str]] = {SHELL: os.environ}
    said = _output("systemctl", "--user", "show-environment")
    if said:
        pairs = (line.partition("=") for line in said.splitlines())
        found[MANAGER] = {name: value for name, _, value in pairs}
    return found


def _proxies(env: Mapping[str, str]) -> tuple[str, ...]:
    """Names only: a proxy's address may have a password in it."""
    names = [name for base in PROXIES for name in (base, base.upper())]
    return tuple(name for name in names if env.get(name))


def _disks(*folders: str) -> Iterable[DiskFacts]:
    seen: set[int] = set()
    for folder in folders:
        path = Path(folder)
        while not path.exists():
            path = path.parent
        device = path.stat().st_dev
        if device not in seen:
            seen.add(device)
            room = os.statvfs(path)
            yield DiskFacts(str(path), room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize)


def _login() -> LoginFacts:
    from rigctl.cli.commands.service import NAME, lingers, unit_file

    unit = unit_file()
    wanted_by = ""
    if unit.exists():
        lines = unit.read_text(errors="replace").splitlines()
        wanted_by = next(
            (line.partition("=")[2].strip() for line in lines if line.startswith("WantedBy=")), ""
        )
    return LoginFacts(
        user=logout.user(),
        systemd=os.path.isdir("/run/systemd/system"),
        linger=lingers(),
        kills_at_logout=_kills_at_logout(),
        unit=str(unit) if unit.exists() else "",
        wanted_by=wanted_by,
        enabled=(unit.parent / "default.target.wants" / NAME).is_symlink(),
    )


def _kills_at_logout() -> bool:
    """KillUserProcesses as logind reads it: the last file that sets it wins."""
    files = [Path("/etc/systemd/logind.conf")]
    for folder in ("/usr/lib/systemd/logind.conf.d", "/etc/systemd/logind.conf.d"):
        files.extend(sorted(Path(folder).glob("*.conf")))
    kills = False
    for file in files:
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition("=")
            if name.strip() == "KillUserProcesses":
                kills = value.strip().lower() in ("yes", "true", "1", "on")
    return kills


def _tmux_clipboard() -> str:
    if not os.environ.get("TMUX"):
        return ""
    return _output("tmux", "show-options", "-sv", "set-clipboard").strip()


def _output(*command: str) -> str:
    """What a small tool prints; empty where it is missing, fails or hangs."""
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""

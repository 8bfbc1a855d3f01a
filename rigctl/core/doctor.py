"""What commonly goes wrong on such a machine: facts in, findings with their cure out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rigctl.core.doctor_endpoint import check_endpoint
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
from rigctl.core.doctor_finding import FAILURE, OK, SKIPPED, WARNING, Finding

GIB = 2**30


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Every check, in the order in which a person would mend things."""
    return (
        check_program(facts.program),
        *check_socket(facts.socket),
        *check_config(facts.config),
        check_driver(facts.driver, facts.simulated),
        check_index_order(facts.config, facts.cards, facts.cuda_order),
        check_persistence(facts.cards),
        *check_lost(facts.cards),
        *check_notices(facts.notices, facts.socket.answer == "answers"),
        *check_metrics(facts.metrics),
        check_proxies(facts.proxies, facts.no_proxy),
        *check_endpoint(facts.endpoint),
        check_nvml_package(facts.nvml_packages),
        *check_disks(facts.disks),
        *check_login(facts.login),
        *check_clipboard(facts.tmux_clipboard),
    )


def exit_code(findings: Iterable[Finding]) -> int:
    """0 clean, 1 warnings, 2 failures."""
    severities = {finding.severity for finding in findings}
    return 2 if FAILURE in severities else 1 if WARNING in severities else 0


def check_program(program: ProgramFacts) -> Finding:
    """hamlib, the radio library, installs a /usr/bin/rigctl too."""
    if program.is_ours:
        return Finding("path", OK, f"`rigctl` is this program ({program.found})")
    other = "another program" if program.found else "nothing"
    use = (
        f"use `gpurig` ({program.alias}), the same program under a name of its own"
        if program.alias
        else "call it by its full path, or put its folder first in PATH"
    )
    where = f" ({program.found}; hamlib has one)" if program.found else ""
    return Finding("path", WARNING, f"`rigctl` means {other} in this shell{where}", use)


def check_socket(socket: SocketFacts) -> tuple[Finding, ...]:
    """Is there a daemon, may we speak with it, and may nobody else."""
    findings: list[Finding] = []
    if socket.answer == "answers":
        if socket.theirs != socket.ours:
            findings.append(
                Finding(
                    "daemon",
                    WARNING,
                    f"the daemon is rigctl {socket.theirs}, this command is {socket.ours}",
                    "rigctl daemon stop (engines go on); any act starts the new one",
                )
            )
        elif socket.read_only:
            findings.append(Finding("daemon", OK, "a daemon runs; it lets this user look, not act"))
        else:
            findings.append(Finding("daemon", OK, "a daemon runs and answers"))
    elif socket.answer == "nobody":
        findings.append(
            Finding(
                "daemon",
                WARNING,
                f"no daemon runs (nobody listens on {socket.path})",
                "rigctl service install, or rigctl daemon",
            )
        )
    elif socket.answer == "denied":
        findings.append(
            Finding(
                "socket",
                FAILURE,
                f"no right to open {socket.path}",
                "run rigctl as the daemon's user, or have it give your group the socket",
            )
        )
    else:
        findings.append(Finding("daemon", FAILURE, socket.answer, "rigctl logs daemon"))
    findings.extend(_rights(socket))
    return tuple(findings)


def _rights(socket: SocketFacts) -> Iterable[Finding]:
    folder = socket.path.rpartition("/")[0]
    mode = socket.folder_mode
    if mode is not None and mode & 0o022:
        yield Finding(
            "socket",
            FAILURE,
            f"others may write in {folder} (mode {mode:04o}): they could pose as the daemon",
            f"chmod go-w {folder}",
        )
    elif socket.socket_mode is not None and socket.socket_mode & 0o007:
        yield Finding(
            "socket",
            FAILURE,
            f"everybody may connect to {socket.path} (mode {socket.socket_mode:04o})",
            f"chmod o-rwx {socket.path}",
        )
    elif mode is not None:
        yield Finding("socket", OK, f"only its owner may write in {folder}")


def check_config(config: ConfigFacts) -> tuple[Finding, ...]:
    """Is there a rig.toml, and can it be used."""
    if not config.exists:
        return (Finding("config", WARNING, f"there is no {config.path}", "rigctl config init"),)
    if config.faults:
        return tuple(
            Finding("config", FAILURE, fault, f"mend {config.path}, then rigctl config check")
            for fault in config.faults
        )
    return (Finding("config", OK, f"{config.path} can be used"),)


def check_driver(driver: DriverFacts, simulated: bool) -> Finding:
    """C16: after an unattended upgrade the kernel module and the library differ."""
    if simulated:
        return Finding("driver-library", SKIPPED, "the rig is simulated: no driver is needed")
    if driver.module and driver.library and driver.module != driver.library:
        return Finding(
            "driver-library",
            FAILURE,
            f"kernel module {driver.module}, library {driver.library}: running engines go on, a "
            "stopped one does not come back",
            "reboot when the rig can be spared; until then stop and restart nothing",
        )
    if driver.error:
        return Finding("driver-library", FAILURE, f"NVML: {driver.error}", "nvidia-smi; dmesg")
    if not driver.module:
        return Finding(
            "driver-library",
            FAILURE,
            "no NVIDIA kernel module is loaded",
            "install the driver, or modprobe nvidia; `rigctl demo` needs none",
        )
    library = driver.library or "version not known"
    return Finding("driver-library", OK, f"kernel module {driver.module}, library {library}")


def check_index_order(
    config: ConfigFacts, cards: tuple[CardFacts, ...], cuda_order: str | None
) -> Finding:
    """C13: numbers move when a card is missing, and CUDA counts otherwise than NVML."""
    if config.by_index:
        groups = ", ".join(config.by_index)
        return Finding(
            "index-order",
            WARNING,
            f"{groups}: cards are named by number in {config.path}; a missing card shifts the rest",
            "write the UUIDs that `rigctl status --json` or `nvidia-smi -L` shows",
        )
    order = [card.pci for card in sorted(cards, key=lambda card: card.index)]
    if order != sorted(order):
        return Finding(
            "index-order",
            WARNING,
            "NVML does not number the cards in PCI order here",
            "name cards by UUID only, and do not trust numbers of other tools",
        )
    mixed = len({card.name for card in cards}) > 1
    if cuda_order not in (None, "", "PCI_BUS_ID") or (mixed and cuda_order != "PCI_BUS_ID"):
        why = f"CUDA_DEVICE_ORDER is {cuda_order}" if cuda_order else "the cards differ in model"
        return Finding(
            "index-order",
            WARNING,
            f"{why}: CUDA numbers them otherwise than the status does in programs you start "
            "yourself (engines and `rigctl lend` are not affected)",
            "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        )
    if not cards:
        return Finding("index-order", SKIPPED, "no card was seen")
    return Finding("index-order", OK, "cards are named by UUID or address and count in PCI order")


def check_persistence(cards: tuple[CardFacts, ...]) -> Finding:
    """C81: without it the driver unloads its state, and each look costs seconds and watts."""
    off = [str(card.index) for card in cards if card.persistence == 0]
    if off:
        return Finding(
            "persistence",
            WARNING,
            f"persistence mode is off on card {', '.join(off)}: the driver starts anew for each "
            "look, which takes seconds and lifts the card to full clocks",
            "sudo systemctl enable --now nvidia-persistenced (or sudo nvidia-smi -pm 1)",
        )
    if not any(card.persistence == 1 for card in cards):
        return Finding("persistence", SKIPPED, "no card says whether persistence mode is on")
    return Finding("persistence", OK, "persistence mode is on")


def check_lost(cards: tuple[CardFacts, ...]) -> Iterable[Finding]:
    """A card that has fallen off the bus."""
    return [
        Finding(
            "card-lost",
            FAILURE,
            f"card {card.index} ·{card.short} is lost: {card.lost}",
            "look for `Xid` in `sudo dmesg`; check riser and power; it takes a reboot",
        )
        for card in cards
        if card.lost
    ]


def check_notices(notices: tuple[NoticeFacts, ...], running: bool) -> Iterable[Finding]:
    """What the daemon itself warns about, idle-but-hot first among it."""
    severities = {"warning": WARNING, "error": FAILURE}
    findings = [
        Finding(notice.id, severities[notice.level], notice.say)
        for notice in notices
        if notice.level in severities
    ]
    findings += [
        Finding(notice.id, OK, notice.say) for notice in notices if notice.id == "polling-cost"
    ]
    if all(finding.id != "idle-but-hot" for finding in findings):
        if running:
            findings.insert(0, Finding("idle-but-hot", OK, "no group idles at high watts"))
        else:
            findings.insert(0, Finding("idle-but-hot", SKIPPED, "only a running daemon knows"))
    return findings


def check_metrics(metrics: Mapping[str, tuple[str, ...]]) -> Iterable[Finding]:
    """Series that an engine version does not serve: figures shown as `--` for that reason (C69)."""
    return [
        Finding("metrics-missing", OK, f"{group} does not serve {', '.join(names)}: shown as `--`")
        for group, names in metrics.items()
        if names
    ]


def check_proxies(proxies: Mapping[str, tuple[str, ...]], no_proxy: Mapping[str, str]) -> Finding:
    """C44: rigctl ignores them, but the clients on this host send loopback traffic to them."""
    caught = [
        f"{', '.join(names)} in {place}"
        for place, names in proxies.items()
        if names and not _spares_loopback(no_proxy.get(place, ""))
    ]
    if not caught:
        return Finding("proxies", OK, "no proxy variable catches loopback traffic")
    return Finding(
        "proxies",
        WARNING,
        f"{'; '.join(caught)}: clients on this host send requests for 127.0.0.1 there and see the "
        "endpoint and the engines as down (rigctl itself never looks at these variables)",
        "export no_proxy=127.0.0.1,localhost,::1 NO_PROXY=127.0.0.1,localhost,::1",
    )


def _spares_loopback(no_proxy: str) -> bool:
    """Address by name: `localhost` does not cover 127.0.0.1, and few clients read CIDR."""
    words = {word.strip().lower() for word in no_proxy.split(",")}
    return "*" in words or "127.0.0.1" in words


def check_nvml_package(packages: tuple[str, ...]) -> Finding:
    """The PyPI package `pynvml` is another one that brings a module of the same name."""
    if "nvidia-ml-py" not in packages:
        return Finding(
            "pynvml",
            FAILURE,
            "the module pynvml does not come from nvidia-ml-py",
            "pip uninstall -y pynvml; pip install --force-reinstall nvidia-ml-py",
        )
    if len(packages) > 1:
        others = ", ".join(sorted(set(packages) - {"nvidia-ml-py"}))
        return Finding(
            "pynvml",
            WARNING,
            f"{others} brings a module pynvml too, and the last one installed wins",
            f"pip uninstall -y {others}; pip install --force-reinstall nvidia-ml-py",
        )
    return Finding("pynvml", OK, "pynvml comes from nvidia-ml-py")


def check_disks(disks: tuple[DiskFacts, ...]) -> Iterable[Finding]:
    """A full disk ends an engine that prints, and leaves state unwritten."""
    for disk in disks:
        room = f"{disk.free / GIB:.1f} of {disk.total / GIB:.0f} GiB free at {disk.path}"
        if disk.free < GIB / 2:
            severity = FAILURE
        elif disk.free < 5 * GIB:
            severity = WARNING
        else:
            yield Finding("disk", OK, room)
            continue
        yield Finding("disk", severity, room, f"make room; see `du -xh {disk.path} | sort -h`")


def check_login(login: LoginFacts | None) -> Iterable[Finding]:
    """C93: what logging out and a reboot do to the daemon."""
    if login is None or not login.systemd:
        yield Finding("linger", SKIPPED, "this machine was not booted with systemd")
        return
    if login.unit and login.wanted_by != "default.target":
        target = login.wanted_by or "nothing"
        yield Finding(
            "service-target",
            WARNING,
            f"{login.unit} is wanted by {target}, which a user manager never reaches",
            "rigctl service install",
        )
    elif login.unit and not login.enabled:
        yield Finding(
            "service-target", WARNING, f"{login.unit} is not enabled", "rigctl service install"
        )
    if login.linger:
        yield Finding("linger", OK, "the daemon outlives a logout (linger is on)")
    elif login.unit:
        yield Finding(
            "linger",
            WARNING,
            "linger is off: the service ends at your last logout and waits for a login after boot",
            f"loginctl enable-linger {login.user}",
        )
    elif login.kills_at_logout:
        yield Finding(
            "linger",
            WARNING,
            "systemd ends your processes at logout here: the daemon and its engines with them",
            f"loginctl enable-linger {login.user}, and rigctl service install",
        )
    else:
        yield Finding(
            "linger", OK, "no service is installed; after a reboot any act starts the daemon"
        )


def check_clipboard(set_clipboard: str) -> Iterable[Finding]:
    """Inside tmux the panel's copy needs `on`: `external` takes no OSC 52 from programs."""
    if not set_clipboard:
        return
    if set_clipboard == "on":
        yield Finding("tmux-clipboard", OK, "tmux passes what the panel copies to the clipboard")
        return
    yield Finding(
        "tmux-clipboard",
        WARNING,
        f"tmux's set-clipboard is {set_clipboard}: what the panel copies stays in tmux",
        "tmux set-option -s set-clipboard on (and in ~/.tmux.conf)",
    )

"""The owner's file as the daemon uses it: specs for the state, plans for the starts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from rigctl.adapters import proc
from rigctl.config.cards import resolve, resolve_group
from rigctl.config.clients import read_clients
from rigctl.config.diff import differences
from rigctl.config.flags import MASK, mask, secret_name, split_command
from rigctl.config.load import load
from rigctl.config.paths import Home
from rigctl.config.plan import launch_plan
from rigctl.config.proxy_checks import endpoint_order, is_loopback
from rigctl.config.schema import (
    ClientConfig,
    Config,
    ConfigError,
    GroupConfig,
    LaunchPlan,
    Secret,
)
from rigctl.config.secrets import group_keys, write_key_file
from rigctl.core.cards import CardSample
from rigctl.core.engine_states import Policy
from rigctl.core.facts import GroupFound
from rigctl.core.ids import CardId, GroupName
from rigctl.core.link_words import KeySource, TableClient, TablePolicy
from rigctl.core.phases import PhasePolicy
from rigctl.core.spec import EndpointSpec, GroupSpec, RigSpec
from rigctl.core.watch_facts import WatchPolicy


class Book:
    """Reads rig.toml anew before each start, so that the owner's edits count from there on."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._seen = self._stamp()
        self._clients: tuple[ClientConfig, ...] | None = None
        """As last understood; None: never."""
        self._clients_fault = ""
        self.config: Config = self._load()
        self._started: dict[GroupName, GroupConfig] = {}
        """As each running engine was started: the file may say otherwise by now."""

    def reload(self) -> None:
        """Read the file again. ConfigError leaves the config as it was."""
        fresh = self._load()
        names = {group.name for group in fresh.groups}
        for group in self.config.groups:
            if group.name not in names:
                say = (
                    f"the group {group.name} is gone, and this daemon looks after it: write it "
                    f"back, or `rigctl stop {group.name}` and then `rigctl daemon stop`"
                )
                raise ConfigError(say, path=fresh.path)
        self.config = fresh

    def _load(self) -> Config:
        """The files. Who may use the endpoint is judged apart: a fault there stops the endpoint,
        and no engine."""
        config = load(self.home.config, self.home.overrides)
        self._clients_fault = ""
        try:
            self._clients = read_clients(self.home.clients)
        except ConfigError as error:
            self._clients_fault = str(error)
        return replace(config, clients=self._clients or ())

    def endpoint(self) -> EndpointSpec | None:
        """`[proxy]` and its clients; None without it."""
        proxy, clients = self.config.proxy, self.config.clients
        if proxy is None:
            return None
        refused = ""
        if self._clients is None:
            refused = self._clients_fault  # nobody can tell who would be let in
        elif not clients and not is_loopback(proxy.host):
            refused = (
                f"[proxy] `host` = {proxy.host!r} lets other machines in, and no client has a key: "
                'run `rigctl keys add NAME` first, or write host = "127.0.0.1"'
            )
        order = endpoint_order(proxy, self.config.groups)
        first = self.config.group(order[0])
        own = {field.name for field in fields(TablePolicy)} - {"model", "order"}
        shared = own & {field.name for field in fields(proxy)}
        policy = TablePolicy(
            model=proxy.model or first.served_name or first.model,
            order=order,
            **{name: getattr(proxy, name) for name in shared},
        )
        if not policy.reported_window:
            policy = replace(policy, reported_window=order[0])
        known = tuple(TableClient(each.name, each.key_hash, each.running) for each in clients)
        return EndpointSpec(proxy.host, proxy.port, policy, known, refused)

    @property
    def clients_fault(self) -> str:
        """Why `clients.toml` could not be understood at its last reading; empty when it could."""
        return self._clients_fault

    def changed(self) -> bool:
        """Whether one of the files was written since this was last asked.

        Not since it was last read: a start reads it too, and tells nobody but its own engine.
        """
        before, self._seen = self._seen, self._stamp()
        return self._seen != before

    def _stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        files = (self.home.config, self.home.overrides, self.home.clients)
        return tuple(_stamp(path) for path in files)

    def started(self, name: GroupName) -> None:
        """An engine was started by the file as it is now: it keeps this address and these keys."""
        self._started[name] = self.config.group(name)

    def adopted(self, name: GroupName, argv: Sequence[str]) -> None:
        """An engine was found running: its own command line says where it answers."""
        group = self.config.group(name)
        flags = split_command(argv).values()
        host = flags.get("--host", ())
        port = flags.get("--port", ())
        self._started[name] = replace(
            group,
            host=host[0] if host else group.host,
            port=int(port[0]) if port and port[0].isdigit() else group.port,
        )

    def rig(self, simulated: bool) -> RigSpec:
        """The rig's own keys."""
        rig = self.config.rig
        return RigSpec(
            name=rig.name,
            free_group=self.config.free_group,
            price_per_kwh=rig.price_per_kwh,
            currency=rig.currency,
            stagger=rig.stagger,
            free_drain=rig.free_drain,
            watch=WatchPolicy(),
            phases=PhasePolicy(),
            simulated=simulated,
            home=str(self.home.state),
            tag=hashlib.sha256(os.fsencode(self.home.state)).hexdigest()[:12],
        )

    def spec(self, group: GroupConfig, present: Sequence[CardSample]) -> GroupSpec:
        """One group's keys, its cards found among those present."""
        cards, missing = self._cards(group, present)
        window = group.context_length or 0
        stretched = "" if group.yarn_factor is None else f"YaRN {group.yarn_factor:g}"
        return GroupSpec(
            name=group.name,
            cards=cards,
            missing=missing,
            url=f"http://{group.host}:{group.port}",
            model=group.served_name or group.model,
            window=window,
            stretched=stretched,
            slots=group.max_running_requests,
            pool=group.max_total_tokens,
            sleep_on_idle=group.sleep_on_idle,
            drain=group.drain,
            policy=Policy(grace=group.stop_grace),
            power_limit=group.power_limit,
            start_with_daemon=group.start_with_daemon,
            ranks=group.tensor_parallel or len(group.cards) or 1,
            log=str(self.log(group.name)),
            command=self._masked(group, present, group.sleep_on_idle),
            key=_key_source(group.api_key),
            admin_key=_key_source(group.admin_key),
        )

    def _cards(
        self, group: GroupConfig, present: Sequence[CardSample]
    ) -> tuple[tuple[CardId, ...], tuple[str, ...]]:
        """The cards that are there, and in words why a start could not have them all."""
        try:
            found = resolve_group(group, self.config, present)
        except ConfigError as error:
            return self._some(group, present), (error.say,) if group.cards else ()
        return tuple(card.uuid for card in found), ()

    @staticmethod
    def _some(group: GroupConfig, present: Sequence[CardSample]) -> tuple[CardId, ...]:
        """Those that can be told: shown with the group, never started on."""
        cards: list[CardId] = []
        for reference in group.cards:
            if reference.kind == "index":
                continue  # which card an index means cannot be told while one is missing (C13)
            try:
                cards.append(resolve((reference,), present, group.name)[0].uuid)
            except ConfigError:
                if reference.kind == "uuid":
                    cards.append(CardId(reference.value))
        return tuple(cards)

    def found(
        self,
        name: GroupName,
        present: Sequence[CardSample],
        pid: int | None,
        sleep_on_idle: bool,
    ) -> GroupFound:
        """What the group means on these cards, and how its running engine differs from that."""
        group = self.config.group(name)
        cards, missing = self._cards(group, present)
        differs: tuple[str, ...] = ()
        command = self._masked(group, present, sleep_on_idle)
        if pid is not None and not missing:
            try:
                plan = self.plan(name, present, sleep_on_idle)
            except ConfigError:
                plan = None
            running = proc.cmdline(pid)
            if plan is not None and running:
                ours = {**os.environ, **plan.env}
                differs = differences(plan.argv, running, ours, proc.environ(pid))
        return GroupFound(name, cards, missing, command, differs, self.spec(group, present))

    def _masked(
        self, group: GroupConfig, present: Sequence[CardSample], sleep_on_idle: bool
    ) -> tuple[str, ...]:
        try:
            return self.plan(group.name, present, sleep_on_idle).masked
        except ConfigError:
            return ()

    def plan(
        self, name: GroupName, present: Sequence[CardSample], sleep_on_idle: bool
    ) -> LaunchPlan:
        """The start of one engine. ConfigError when a card is missing."""
        group = self.config.group(name)
        return launch_plan(group, self.config, present, os.environ, sleep_on_idle, self.home.state)

    def write_keys(self, name: GroupName) -> None:
        """Put the group's keys where its engine reads them. ConfigError, OSError."""
        write_key_file(self.config.group(name), os.environ, self.home.state)

    def authorization(self, name: GroupName) -> tuple[tuple[bytes, bytes], ...]:
        """The header that the engine's own endpoints want; empty without a key."""
        keys = group_keys(self._as_started(name), os.environ)
        key = keys.get("admin-api-key") or keys.get("api-key")
        return () if key is None else ((b"authorization", f"Bearer {key}".encode()),)

    def api_authorization(self, name: GroupName) -> tuple[tuple[bytes, bytes], ...]:
        """The header for reading: an admin key does not open the normal endpoints."""
        key = group_keys(self._as_started(name), os.environ).get("api-key")
        return () if key is None else ((b"authorization", f"Bearer {key}".encode()),)

    def address(self, name: GroupName) -> tuple[str, int]:
        """Host and port at which this host reaches the engine that runs."""
        return self._reached(self._as_started(name))

    def next_address(self, name: GroupName) -> tuple[str, int]:
        """The same for a start by the file as it is now."""
        return self._reached(self.config.group(name))

    def binding(self, name: GroupName) -> tuple[str, int]:
        """What the next start will bind: all addresses are taken when one of them is."""
        group = self.config.group(name)
        return group.host or "127.0.0.1", group.port

    def _as_started(self, name: GroupName) -> GroupConfig:
        return self._started.get(name) or self.config.group(name)

    @staticmethod
    def _reached(group: GroupConfig) -> tuple[str, int]:
        host = "127.0.0.1" if group.host in ("0.0.0.0", "") else group.host
        return ("::1" if host == "::" else host), group.port

    def log(self, name: str) -> Path:
        """The file that the engine's output is appended to."""
        return self.home.logs / f"{name}.log"

    @staticmethod
    def masked(argv: Sequence[str]) -> tuple[str, ...]:
        """A running command line, fit to be shown."""
        return mask(tuple(argv))


def _key_source(secret: Secret | None) -> KeySource:
    return KeySource() if secret is None else KeySource(secret.source, secret.where)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def masked_env(env: Mapping[str, str]) -> dict[str, str]:
    """Variables fit to be kept and shown."""
    return {name: MASK if secret_name(name) else value for name, value in env.items()}

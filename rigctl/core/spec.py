"""What the owner's file says of the rig and of each group, and the cards it was found to mean."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.engine_states import Policy
from rigctl.core.ids import CardId, GroupName
from rigctl.core.link_words import KeySource, TableClient, TablePolicy
from rigctl.core.phases import PhasePolicy
from rigctl.core.watch_facts import WatchPolicy


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """Changes with the file: at the group's next start, or while it is off."""

    name: GroupName
    cards: tuple[CardId, ...]
    missing: tuple[str, ...]
    """Why a start could not have all its cards, one sentence each; empty when it could."""
    url: str
    model: str
    window: int
    stretched: str
    slots: int | None
    pool: int | None
    sleep_on_idle: bool
    """As the file has it; an override may say otherwise."""
    drain: float
    policy: Policy
    power_limit: float | None
    start_with_daemon: bool
    ranks: int
    """Scheduler processes to expect."""
    log: str
    command: tuple[str, ...] = ()
    """The command line a start would use now, secrets masked."""
    key: KeySource = KeySource()
    admin_key: KeySource = KeySource()
    """Where its keys are read from; the keys themselves are in no state."""


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """What the owner's file and `clients.toml` say of the endpoint."""

    host: str
    port: int
    policy: TablePolicy
    clients: tuple[TableClient, ...] = ()
    refused: str = ""
    """Why nothing may listen there, with the cure; empty where it may."""

    @property
    def url(self) -> str:
        """Where a client of this host reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class RigSpec:
    name: str
    free_group: GroupName
    price_per_kwh: float
    currency: str
    stagger: float
    free_drain: float
    watch: WatchPolicy
    phases: PhasePolicy
    simulated: bool
    home: str
    tag: str
    """Names this home in spawn tokens: another rig of the same user is not ours."""

"""What the panel knows at one moment: the last snapshot, the link, the marks, what was asked."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.flow import SessionRow
from rigctl.core.snapshot import CardView, EndpointView, GroupView, OperationView, Snapshot

_NO_ENDPOINT = EndpointView()


@dataclass(frozen=True, slots=True)
class Asked:
    """A command the daemon accepted; shown as asked until a snapshot has its operation."""

    operation: int
    what: str
    group: str
    say: str


@dataclass(frozen=True, slots=True)
class Said:
    """One line of answer to the person at the keys; the panel takes it away after a while."""

    text: str
    role: str = "text"


@dataclass(frozen=True, slots=True)
class PanelState:
    """Frozen: screens compare slices of it and repaint what differs."""

    snapshot: Snapshot | None = None
    group: str = ""
    """The marked group: every act means this one."""
    card: str = ""
    """UUID of the marked card, or empty."""
    request: str = ""
    """The marked request on the sessions screen; empty where the marked session rests."""
    session: str = ""
    """Label of the marked session, or empty."""
    read_only: bool = False
    """The panel's own switch; the daemon's word comes with the snapshot."""
    lost: str = ""
    """Why there is no daemon now; empty while its word comes."""
    lost_seconds: float = 0.0
    """Age of what is shown, while the daemon is gone or silent."""
    asked: tuple[Asked, ...] = ()
    ended: tuple[int, ...] = ()
    """Operations whose end is news to this panel: their outcome is still shown."""
    said: Said | None = None

    @property
    def view(self) -> GroupView | None:
        """The marked group."""
        return self.find_group(self.group)

    @property
    def card_view(self) -> CardView | None:
        """The marked card."""
        cards = self.snapshot.cards if self.snapshot else ()
        return next((card for card in cards if card.uuid == self.card), None)

    @property
    def endpoint(self) -> EndpointView:
        """The one address in front of the groups, as the last snapshot has it."""
        return self.snapshot.endpoint if self.snapshot else _NO_ENDPOINT

    @property
    def session_row(self) -> SessionRow | None:
        """The marked request; once it has ended, the session it was of."""
        if not self.session:
            return None
        rows = [row for row in self.endpoint.rows.sessions if row.session == self.session]
        wanted = (row for row in rows if row.request == self.request)
        return next(wanted, rows[0] if rows else None)

    def find_group(self, name: str) -> GroupView | None:
        """The group of that name as the last snapshot has it."""
        groups = self.snapshot.groups if self.snapshot else ()
        return next((group for group in groups if group.name == name), None)

    def cards_of(self, name: str) -> tuple[CardView, ...]:
        """The group's cards that the rig has now."""
        cards = self.snapshot.cards if self.snapshot else ()
        return tuple(card for card in cards if card.group == name)

    def operations_of(self, name: str) -> tuple[OperationView, ...]:
        """The group's operations, oldest first."""
        operations = self.snapshot.operations if self.snapshot else ()
        return tuple(operation for operation in operations if operation.group == name)

    @property
    def may_act(self) -> str:
        """Empty when acts can be sent, else the reason in words."""
        if self.snapshot is None:
            return "no word from the daemon yet"
        if self.lost:
            return f"the daemon is gone ({self.lost}); acts come back with it"
        if self.snapshot.read_only:
            return "the daemon lets this user look, not act; see `rigctl doctor`"
        if self.read_only:
            return "this panel is read-only; the key ! lets it act again"
        return ""

"""One card in full: every reading, or why it is absent, and who holds its memory."""

from __future__ import annotations

from rigctl.core.reading import Missing, Reading
from rigctl.core.snapshot import CardView
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line
from rigctl.tui.screens.group import field, heading, reading, side_by_side
from rigctl.tui.screens.reading import ReadingScreen
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.card_rows import use


def detail(card: CardView, cells: int, glyphs: Glyphs) -> list[Line]:
    """Everything the snapshot says of one card."""
    word, role = use(card)
    identity: list[Line] = [
        heading("Card"),
        field("name", card.name),
        field("UUID", card.uuid),
        field("PCI", card.pci),
        field("group", card.group or "none"),
        field("used by", word or "the group's engine", role if word else "text"),
    ]
    if card.lost:
        identity.append(field("lost", card.lost, "bad"))
    identity.append(field("read", f"{words.duration(round(card.age, 1))} ago"))
    power = [
        heading("Power"),
        reading("watts", card.watts, f"{words.number(card.watts, 1)} W"),
        reading("limit", card.limit_watts, f"{words.number(card.limit_watts)} W"),
        _wanted(card.wanted_limit),
        reading(
            "default limit", card.default_limit_watts, f"{words.number(card.default_limit_watts)} W"
        ),
        reading("today", card.kwh_today, f"{words.number(card.kwh_today, 2)} kWh"),
        field("P-states today", _shares(card)),
    ]
    work = [
        heading("Work"),
        reading("P-state", card.pstate, f"P{words.number(card.pstate)}"),
        reading("utilisation", card.utilisation, words.percent(card.utilisation)),
        reading("temperature", card.celsius, f"{words.number(card.celsius)} {glyphs.degree}"),
        reading("fan", card.fan, words.percent(card.fan)),
        reading("clock", card.clock_mhz, f"{words.number(card.clock_mhz)} MHz"),
        reading(
            "memory clock", card.memory_clock_mhz, f"{words.number(card.memory_clock_mhz)} MHz"
        ),
        _held_down(card),
    ]
    bus = [
        heading("Bus"),
        reading(
            "PCIe",
            card.pcie_generation,
            f"gen {words.number(card.pcie_generation)} x{words.number(card.pcie_width)}",
        ),
        reading("from host", card.pcie_rx, words.per_second(card.pcie_rx)),
        reading("to host", card.pcie_tx, words.per_second(card.pcie_tx)),
        reading("persistence mode", card.persistence, "on" if card.persistence == 1 else "off"),
    ]
    memory = [
        heading("Memory"),
        reading("used", card.memory_used, f"{words.gib(card.memory_used)} GiB"),
        reading("driver's reserve", card.memory_reserved, f"{words.gib(card.memory_reserved)} GiB"),
        reading("total", card.memory_total, f"{words.gib(card.memory_total)} GiB"),
    ]
    processes = [heading("Processes"), *_processes(card)]
    return side_by_side([identity, power, processes], [work, bus, memory], cells, glyphs)


def _wanted(limit: Reading) -> Line:
    """None wanted is the owner's choice, not a figure that a card withholds."""
    if isinstance(limit, Missing):
        return field("wanted limit", f"none: {limit.note or words.why(limit)}", "dim")
    return field("wanted limit", f"{words.number(limit)} W")


def _shares(card: CardView) -> str:
    if not card.pstate_share:
        return f"{words.ABSENT}  (not sampled yet)"
    ordered = sorted(card.pstate_share.items(), key=lambda item: -item[1])
    return "  ".join(f"{name} {words.share(value)}" for name, value in ordered)


def _held_down(card: CardView) -> Line:
    held = card.throttle
    if isinstance(held, Missing):
        return field("held down by", f"{words.ABSENT}  ({words.why(held)})", "dim")
    return field("held down by", ", ".join(held) or "nothing", "warn" if held else "text")


def _processes(card: CardView) -> list[Line]:
    found = card.processes
    if isinstance(found, Missing):
        return [field("", f"{words.ABSENT}  ({words.why(found)})", "dim")]
    if not found:
        return [field("", "none", "dim")]
    lines: list[Line] = []
    for process in found:
        name = process.name or ("?" if process.visible else "not visible here (a container?)")
        owner = f" of {process.user}" if process.user else ""
        memory = words.explained(process.used_bytes, f"{words.gib(process.used_bytes)} GiB")
        lines.append(field(f"pid {process.pid}", f"{name}{owner}   {memory}"))
    return lines


class CardScreen(ReadingScreen):
    """The marked card, kept true while it is looked at; left and right are other cards."""

    wrap = True
    hang = True

    def update_middle(self, state: PanelState) -> None:
        """The text anew; only rows that changed are repainted."""
        card = state.card_view
        if card is not None:
            self.pager.replace(detail(card, self.size.width - 2, self.pager.glyphs))
        self.retitle()

    def title_parts(self) -> tuple[Line, Line]:
        """Which card."""
        card = self.state.card_view
        if card is None:
            return (("this card is no longer seen", "warn"),), ()
        dot = self.pager.glyphs.dot
        name = f" {dot} {words.card_name(card.name)} {dot}{card.short}"
        return ((f"card {card.index}", "strong"), (name, "text")), ()

    def copy_text(self) -> tuple[str, str]:
        """The UUID."""
        card = self.state.card_view
        return (card.uuid, "the card's UUID") if card else ("", "")

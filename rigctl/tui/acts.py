"""From a key to a command and its answer: ask once with the consequence, send, show as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rigctl.core import commands
from rigctl.core.commands import Accepted, Command, Refused
from rigctl.core.ids import GroupName
from rigctl.tui import actions, words
from rigctl.tui.actions import Action
from rigctl.tui.link import FAULTS
from rigctl.tui.state import Asked

if TYPE_CHECKING:
    from rigctl.tui.app import Panel


def begin(panel: Panel, action: Action) -> None:
    """Ask where the act has a consequence, else send at once."""
    state = panel.state
    assert action.command is not None
    lines = action.question(state) if action.question is not None else ()
    target = action.target(state)
    if not lines:
        panel.run_worker(send(panel, action, action.command(state), target), group="send")
        return
    from rigctl.tui.screens.asking import ConfirmScreen

    assert action.question is not None
    question = action.question
    verb = actions.word(action, state)
    title = f"{verb} {target}".rstrip()
    # The command is fixed when the question is put: what a person said yes to is what is sent.
    command = action.command(state)
    first = lines

    def consequence() -> tuple[str, ...]:
        now = panel.state
        if action.target(now) != target:
            return first
        why = action.unavailable(now)
        return (*first, f"Now: {why}.") if why else question(now) or first

    screen = ConfirmScreen(
        title, consequence, panel.keys.confirm(action.id), _shown(panel, action), title
    )

    def answered(yes: bool | None) -> None:
        if yes:
            panel.run_worker(send(panel, action, command, target), group="send")
        else:
            panel.say(f"{title}: left as it is")

    panel.push_screen(screen, answered)


def begin_power(panel: Panel) -> None:
    """Ask for watts, then send."""
    from rigctl.tui.screens.asking import NumberScreen

    view = panel.state.view
    assert view is not None
    cards = panel.state.cards_of(view.name)
    first = cards[0] if cards else None
    text = [f"Power limit of {view.name}'s {words.plural(len(cards), 'card')}, watts a card."]
    if first is not None:
        text.append(
            f"Now {words.number(first.limit_watts)} W, "
            f"default {words.number(first.default_limit_watts)} W; "
            f"drawn {words.watts(view.power.watts, 'cards')}."
        )

    def answered(watts: float | None) -> None:
        if watts is None:
            panel.say("power limit: left as it is")
            return
        command = commands.SetPowerLimit(GroupName(view.name), watts)
        panel.run_worker(send(panel, actions.BY_ID["power"], command, view.name), group="send")

    panel.push_screen(NumberScreen(f"power limit {view.name}", tuple(text)), answered)


async def send(panel: Panel, action: Action, command: Command, target: str) -> None:
    """Send and show the answer; done is only what a snapshot says is done."""
    what = _what(command)
    try:
        answer = await panel.link.client.send(command)
    except FAULTS as error:
        panel.say(f"{_named(what, target)} was not sent: {error}", "bad")
        return
    match answer:
        case Accepted(operation, say):
            panel.asked(Asked(int(operation), what, target, say))
        case Refused(say, _):
            panel.say(f"{_named(what, target)} refused: {say}", "warn")
        case _ as never:
            assert_never(never)


def _named(what: str, target: str) -> str:
    return f"{what} {target}".rstrip()


def _what(command: Command) -> str:
    names = {
        commands.StartGroup: "start",
        commands.StopGroup: "stop",
        commands.RestartGroup: "restart",
        commands.FreeGroup: "free",
        commands.ReclaimGroup: "reclaim",
        commands.SetSleepOnIdle: "sleep-on-idle",
        commands.SetPowerLimit: "power limit",
        commands.EndLeftovers: "end leftovers",
        commands.AbortAnswer: "abort",
        commands.RestartEndpoint: "restart endpoint",
        commands.ConfirmState: "accept state",
        commands.ReleaseNvml: "release NVML",
        commands.StopDaemon: "stop daemon",
    }
    return names.get(type(command), type(command).__name__)


def _shown(panel: Panel, action: Action) -> str:
    return panel.keys.shown(action.id) or "Y"

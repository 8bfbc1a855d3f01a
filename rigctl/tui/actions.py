"""Every action of the panel, once: keys, footer, palette, help and questions are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rigctl.core import commands
from rigctl.core.commands import Command
from rigctl.core.ids import GroupName
from rigctl.core.snapshot import GroupView
from rigctl.tui import consequences, gate_words
from rigctl.tui.state import PanelState

Consequence = Callable[[PanelState], tuple[str, ...]]


def _never(state: PanelState) -> str:
    return ""


_rig = _never
"""The target of what concerns the whole rig."""


def _marked_group(state: PanelState) -> str:
    return state.group if state.view is not None else ""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do; the id is what `[keys]` in rig.toml binds a key to."""

    id: str
    key: str
    """Textual's name of the key, several split by commas; empty for palette-only actions."""
    word: str
    """In the footer: one or two words."""
    help: str
    """In palette and help: one line."""
    section: str
    """act, look, move, panel, or the screen it belongs to: logs, plots."""
    footer: int = 0
    """Rank in the footer, 1 first; 0 is not shown there."""
    unavailable: Callable[[PanelState], str] = _never
    """Empty when it can be done now, else why not."""
    command: Callable[[PanelState], Command] | None = None
    """What it asks of the daemon; None for what the panel does itself."""
    question: Consequence | None = None
    """The consequence in numbers; a question without lines is not asked."""
    words: Callable[[PanelState], str] | None = None
    """The footer word where it depends on the state: `start` or `stop`."""
    target: Callable[[PanelState], str] = _marked_group
    """What a question and its answer name beside the word; empty for the rig as a whole."""


def _group(state: PanelState) -> GroupView:
    view = state.view
    assert view is not None, "an action is only done when it is available"
    return view


def _name(state: PanelState) -> GroupName:
    return GroupName(_group(state).name)


def _act(needed: Callable[[GroupView], str]) -> Callable[[PanelState], str]:
    """May this panel act at all, is a group marked, and does its state fit?"""

    def reason(state: PanelState) -> str:
        if state.may_act:
            return state.may_act
        view = state.view
        return needed(view) if view is not None else "no group is marked"

    return reason


def _rig_act(needed: Callable[[PanelState], str]) -> Callable[[PanelState], str]:
    def reason(state: PanelState) -> str:
        return state.may_act or needed(state)

    return reason


def _can_free(view: GroupView) -> str:
    if view.lease is not None:
        return f"{view.name} is lent to {view.lease.holder} already; r takes it back"
    if view.watched:
        return f"{view.name} was started outside rigctl: end it where it was started"
    return ""


def _can_reclaim(view: GroupView) -> str:
    if view.lease is not None or view.state == "draining":
        return ""
    return f"{view.name} is not lent"


def _can_toggle(view: GroupView) -> str:
    if view.watched:
        return f"{view.name} was started outside rigctl: end it where it was started"
    if view.lease is not None and view.state in {"off", "failed"}:
        return f"{view.name} is lent to {view.lease.holder}; r takes it back"
    if view.state == "stopping":
        return f"{view.name} is stopping already"
    return ""


def _can_restart(view: GroupView) -> str:
    if view.state not in {"ready", "failed", "backing_off"}:
        return f"{view.name} is {view.state.replace('_', ' ')}; restart needs a running engine"
    return _can_toggle(view)


def _can_sleep(view: GroupView) -> str:
    if view.state in {"starting", "draining", "stopping"}:
        return f"{view.name} is {view.state}; wait until it is ready or off"
    return ""


def _has_leftovers(view: GroupView) -> str:
    return "" if view.leftovers else f"{view.name} has no leftover process"


def _needs_confirmation(state: PanelState) -> str:
    notices = state.snapshot.notices if state.snapshot else ()
    if any(notice.id == "needs-confirmation" for notice in notices):
        return ""
    return "the state file is in order: nothing to accept"


def _stops(state: PanelState) -> bool:
    view = state.view
    return view is not None and view.state in consequences.RUNNING


def _toggle(state: PanelState) -> Command:
    if _stops(state):
        return commands.StopGroup(_name(state))
    return commands.StartGroup(_name(state))


def _toggle_question(state: PanelState) -> tuple[str, ...]:
    if _stops(state):
        return consequences.stop(state, _group(state))
    return consequences.start(state)


def _reclaim_question(state: PanelState) -> tuple[str, ...]:
    view = _group(state)
    lease = view.lease
    if lease is None or view.state == "draining":
        return ()  # A free that still drains is called off: nothing is lost by that.
    if lease.pid is None and lease.held_bytes.value <= 0:
        return ()
    return consequences.reclaim(state, view)


def _sleep(state: PanelState) -> Command:
    view = _group(state)
    running = view.state in {"ready", "failed", "backing_off"}
    return commands.SetSleepOnIdle(_name(state), not view.sleep.wanted, restart=running)


def _no_endpoint(state: PanelState) -> str:
    return "" if state.endpoint.url else "this rig has no endpoint: rig.toml has no [proxy]"


def _can_restart_endpoint(state: PanelState) -> str:
    if state.endpoint.state == "leaving":
        return "the endpoint is leaving already; wait for its successor"
    return _no_endpoint(state)


def _can_abort(state: PanelState) -> str:
    row = state.session_row
    if row is None:
        return "no request is marked; the sessions screen (S) marks one"
    if not row.request:
        return f"{row.session} rests: no request of it runs"
    return ""


def _abort(state: PanelState) -> Command:
    row = state.session_row
    assert row is not None, "an action is only done when it is available"
    return commands.AbortAnswer(row.request)


def _no_group(state: PanelState) -> str:
    return "" if state.view is not None else "no group is marked"


ACTIONS: tuple[Action, ...] = (
    Action(
        "free", "F", "free", "free the marked group's cards: drain, stop, verify, lend", "act", 1,
        _act(_can_free),
        lambda state: commands.FreeGroup(_name(state), holder="the panel"),
        lambda state: consequences.free(state, _group(state)),
    ),
    Action(
        "reclaim", "r", "reclaim", "take lent cards back, or cancel a free that drains", "act", 2,
        _act(_can_reclaim), lambda state: commands.ReclaimGroup(_name(state)), _reclaim_question,
    ),
    Action(
        "toggle", "s", "start/stop", "start or stop the marked group", "act", 3,
        _act(_can_toggle), _toggle, _toggle_question,
        lambda state: "stop" if _stops(state) else "start",
    ),
    Action(
        "restart", "R", "restart", "stop the marked group and start it again", "act", 0,
        _act(_can_restart), lambda state: commands.RestartGroup(_name(state)),
        lambda state: consequences.restart(state, _group(state)),
    ),
    Action(
        "sleep", "z", "sleep-on-idle", "turn sleep-on-idle on or off (a restart)", "act", 4,
        _act(_can_sleep), _sleep, lambda state: consequences.sleep(state, _group(state)),
    ),
    Action("power", "W", "power limit", "set the power limit of the marked group's cards", "act", 0,
           _act(lambda view: "")),
    Action(
        "leftovers", "X", "end leftovers", "end what a past engine of the group left", "act", 0,
        _act(_has_leftovers), lambda state: commands.EndLeftovers(_name(state)),
        lambda state: consequences.leftovers(state, _group(state)),
    ),
    Action(
        "accept-state", "", "accept state", "accept the state rebuilt from /proc", "act", 0,
        _rig_act(_needs_confirmation), lambda state: commands.ConfirmState(),
        lambda state: consequences.confirm_state(state, state.view), target=_rig,
    ),
    Action(
        "release", "", "release NVML", "let go of the cards for 60 s, for a reset", "act", 0,
        _rig_act(lambda state: ""), lambda state: commands.ReleaseNvml(60.0),
        lambda state: consequences.release(state, state.view), target=_rig,
    ),
    Action(
        "stop-daemon", "", "stop daemon", "end the daemon; engines go on", "act", 0,
        _rig_act(lambda state: ""), lambda state: commands.StopDaemon(),
        lambda state: consequences.stop_daemon(state, state.view), target=_rig,
    ),
    Action(
        "restart-endpoint", "", "restart endpoint", "a new endpoint takes the address over",
        "act", 0, _rig_act(_can_restart_endpoint), lambda state: commands.RestartEndpoint(),
        gate_words.restart_endpoint, target=_rig,
    ),
    Action("open", "enter", "detail", "the marked card, or the marked group", "look", 0, _no_group),
    Action("sessions", "S", "sessions", "who asks what at the endpoint now", "look", 5),
    Action("logs", "l", "logs", "the marked group's engine log", "look", 6, _no_group),
    Action("plots", "p", "plots", "watts, tokens and pool over time", "look", 7),
    Action("journal", "J", "journal", "everything that happened", "look", 8),
    Action("help", "question_mark", "help", "keys and what they do", "look", 10),
    Action("commands", "colon,ctrl+p", "commands", "find any action by its name", "look", 9),
    Action("next", "tab", "next group", "mark the next group", "move"),
    Action("previous", "shift+tab", "previous group", "mark the group before", "move"),
    *(
        Action(f"group-{place}", str(place), f"group {place}", f"mark group {place}", "move")
        for place in range(1, 5)
    ),
    Action("down", "j,down", "down", "next card, next line", "move"),
    Action("up", "k,up", "up", "card or line before", "move"),
    Action("page-down", "space,pagedown", "page down", "one page on", "move"),
    Action("page-up", "b,pageup", "page up", "one page back", "move"),
    Action("top", "g,home", "top", "first card or line", "move"),
    Action("end", "G,end", "end", "last card or line", "move"),
    Action("back", "escape", "back", "leave this screen, take marks away", "move"),
    Action("copy", "y", "copy", "copy what is shown (OSC 52)", "panel"),
    Action(
        "copy-address", "", "copy address", "copy the endpoint's address (OSC 52)", "panel", 0,
        _no_endpoint,
    ),
    Action("theme", "t", "theme", "next theme", "panel"),
    Action("read-only", "exclamation_mark", "read-only", "look only, or act again", "panel"),
    Action("quit", "q", "quit", "leave the panel; engines and daemon go on", "panel", 11),
    Action(
        "abort", "A,ctrl+d", "abort", "end the marked request; its client is told", "sessions", 0,
        _rig_act(_can_abort), _abort, gate_words.abort,
        target=gate_words.request_name,
    ),
    Action("filter", "slash", "filter", "show only what has a text; sessions too", "logs"),
    Action("follow", "f", "follow", "stay at the newest line", "logs"),
    Action("wrap", "w", "wrap", "wrap long lines, or cut them", "logs"),
    Action("run", "P", "run before", "the log of the run before", "logs"),
    Action("metric", "m", "metric", "watts, decode, prefill or pool", "plots"),
    Action("longer", "right_square_bracket,right", "longer", "over a longer time", "plots"),
    Action("shorter", "left_square_bracket,left", "shorter", "over a shorter time", "plots"),
)  # fmt: skip

BY_ID = {action.id: action for action in ACTIONS}

_SHOWN = {
    "question_mark": "?",
    "colon": ":",
    "exclamation_mark": "!",
    "slash": "/",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
}
_NAMED = {shown: name for name, shown in _SHOWN.items()}


class Keys:
    """Which key means which action, after the owner's `[keys]` table."""

    def __init__(self, wishes: dict[str, str] | None = None) -> None:
        self.complaints: list[str] = []
        """What of the table could not be used, in words."""
        self._keys = {action.id: action.key for action in ACTIONS}
        for name, key in (wishes or {}).items():
            self._bind(name, key)

    def _bind(self, name: str, key: str) -> None:
        if name not in self._keys:
            near = ", ".join(BY_ID)
            self.complaints.append(f"[keys] {name}: no such action; there are: {near}")
            return
        key = ",".join(_NAMED.get(part.strip(), part.strip()) for part in key.split(","))
        for other, taken in self._keys.items():
            shared = set(taken.split(",")) & set(key.split(",")) - {""}
            if other != name and shared:
                self.complaints.append(f"[keys] {name} = {key}: the key is taken by {other}")
                return
        self._keys[name] = key

    def of(self, name: str) -> str:
        """Textual's key list for an action, maybe empty."""
        return self._keys[name]

    def shown(self, name: str) -> str:
        """The first key as a person reads it."""
        first = self._keys[name].split(",")[0]
        return _SHOWN.get(first, first)

    def all_shown(self, name: str) -> str:
        """All keys of an action, for the help screen."""
        return "  ".join(_SHOWN.get(key, key) for key in self._keys[name].split(",") if key)

    def confirm(self, name: str) -> str:
        """The key that says yes to this action's question: its own, else `Y`."""
        return self._keys[name].split(",")[0] or "Y"


def word(action: Action, state: PanelState) -> str:
    """The footer word, by the state where it depends on it."""
    if action.words is not None and state.view is not None:
        return action.words(state)
    return action.word

"""The command palette: every action of the registry, and why one cannot be done now."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from rigctl.tui import actions
from rigctl.tui.actions import Action


class RigCommands(Provider):
    """Found by name, help and id; the key stands beside the name."""

    def _every(self) -> Iterator[tuple[str, Action, str]]:
        from rigctl.tui.app import Panel

        panel = self.app
        assert isinstance(panel, Panel)
        for action in actions.ACTIONS:
            if action.section in {"move", "logs", "plots"} or action.id == "commands":
                continue
            why = action.unavailable(panel.state)
            key = panel.keys.shown(action.id)
            name = actions.word(action, panel.state) + (f"  ({key})" if key else "")
            text = f"not now: {why}" if why else action.help
            yield name, action, f"{text}  [{action.id}]"

    async def discover(self) -> Hits:
        """All of them, before anything was typed."""
        for name, action, text in self._every():
            run = partial(self.app.run_action, f"act('{action.id}')")
            yield DiscoveryHit(name, run, help=_literal(text))

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for name, action, text in self._every():
            score = max(matcher.match(name), matcher.match(f"{action.id} {action.help}") * 0.8)
            if score > 0:
                run = partial(self.app.run_action, f"act('{action.id}')")
                yield Hit(score, matcher.highlight(name), run, help=_literal(text))


def _literal(text: str) -> str:
    """Square brackets are markup to Textual."""
    return text.replace("[", "(").replace("]", ")")

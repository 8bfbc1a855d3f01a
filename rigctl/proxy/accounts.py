"""Sums of each client, since this process began."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rigctl.core.answer import Usage
from rigctl.core.flow import ClientRow
from rigctl.core.link_words import TableClient

MOST_CLIENTS = 1_000


@dataclass(slots=True)
class Account:
    """One client's sums."""

    running: int = 0
    requests: int = 0
    failed: int = 0
    cancelled: int = 0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    thinking: int = 0
    uncounted: int = 0


class Accounts:
    """By client; a client whose key is gone keeps its sums."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}

    def of(self, client: str) -> Account:
        """The account, begun where there is none."""
        found = self._accounts.get(client)
        if found is None:
            found = self._accounts[client] = Account()
        return found

    def running(self) -> dict[str, int]:
        """Requests under way on an engine, by client."""
        return {name: each.running for name, each in self._accounts.items() if each.running}

    def count(self, client: str, usage: Usage | None) -> None:
        """The engine's own count of one answer; what it did not tell is in no sum."""
        account = self.of(client)
        if usage is None:
            account.uncounted += 1
            return
        account.prompt += usage.prompt or 0
        account.cached += usage.cached or 0
        account.output += usage.completion or 0
        account.thinking += usage.reasoning or 0

    def rows(self, known: Iterable[TableClient]) -> tuple[ClientRow, ...]:
        """All clients that exist or were here, by name."""
        limits = {client.name: client.running for client in known}
        names = sorted({*limits, *self._accounts})[:MOST_CLIENTS]
        return tuple(self._row(name, limits.get(name)) for name in names)

    def _row(self, name: str, limit: int | None) -> ClientRow:
        account = self._accounts.get(name, Account())
        return ClientRow(
            client=name,
            running=account.running,
            limit=limit,
            requests=account.requests,
            failed=account.failed,
            cancelled=account.cancelled,
            prompt_tokens=account.prompt,
            cached_tokens=account.cached,
            output_tokens=account.output,
            thinking_tokens=account.thinking,
            uncounted=account.uncounted,
        )

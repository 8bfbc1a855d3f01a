"""What an act costs, in numbers from the snapshot, said before it is confirmed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigctl.cli.endpoint_words import endpoint_of, told
from rigctl.cli.words import number, plural, span, tokens
from rigctl.core import gate_says
from rigctl.core.clusters import RoutePolicy, Standing

if TYPE_CHECKING:
    from rigctl.cli.words import Value

LIVING = ("starting", "ready", "draining", "stopping", "backing_off")


def destroys(group: dict[str, Any]) -> bool:
    """Whether stopping this group's engine takes anything from anybody."""
    return group["state"] in LIVING and not group["watched"]


def of_stop(group: dict[str, Any], drain: float | None, limit: Value | None = None) -> list[str]:
    """What a stop, restart, free or sleep toggle does to the work in hand.

    `drain` is what the person said; without it the rig's own `limit` holds (the group's, where
    that is None too).
    """
    name = group["name"]
    if group["state"] == "starting":
        return [f"{name} is {span(group['seconds'])} into its start, which is thrown away."]
    if group["state"] == "backing_off":
        return [f"No engine runs on {name} now: it waits for its next try."]
    usual = number(group["drain_limit"] if limit is None else limit)
    lines = [_answers(group, usual if drain is None else drain)]
    lines.extend(_cache(group))
    return lines


ADMITS = frozenset(standing.value for standing in Standing if standing.admits)
"""Standings of a cluster that new work may be sent to."""


def of_gate(snap: dict[str, Any], group: dict[str, Any], *, comes_back: bool) -> list[str]:
    """Where the endpoint sends what comes meanwhile, and which sessions go cold.

    Empty where no endpoint tells of itself; `comes_back`: the engine is started again at once.
    """
    view = endpoint_of(snap)
    if not told(view) or not destroys(group):
        return []
    name, rows = group["name"], view["rows"]
    others = [
        row["cluster"]
        for row in rows["clusters"]
        if row["cluster"] != name and row["gate"] == "open" and row["standing"] in ADMITS
    ]
    windows = [one["window"] for one in snap["groups"] if one["name"] in others]
    most = max(windows, default=0)
    over = tokens(most) if 0 < most < group["window"] else ""
    return [gate_says.new_requests(others, over, comes_back=comes_back), *_cold(rows, group)]


def _cold(rows: dict[str, Any], group: dict[str, Any]) -> list[str]:
    name = group["name"]
    homes = sum(row["homes"] for row in rows["clusters"] if row["cluster"] == name)
    sessions = [row for row in rows["sessions"] if row["cluster"] == name]
    count = max(homes, len({row["session"] for row in sessions}))
    if not count:
        return []
    contexts = {row["session"]: number(row["context"]) for row in sessions}
    known = [context for context in contexts.values() if context is not None]
    rate, assumed = _prefill_rate(group)
    return [
        gate_says.cold(
            count,
            tokens(sum(known)) if known else "",
            span(sum(known) / rate),
            least=len(known) < count,
            assumed=f"{rate:.0f}" if assumed else "",
        )
    ]


def _prefill_rate(group: dict[str, Any]) -> tuple[float, bool]:
    """Prompt tokens a second, and whether that is assumed.

    The counter's pace tells what the engine can only while a prompt is read.
    """
    flow = group["flow"]
    left, eta = number(flow["tokens_left"]), number(flow["eta"])
    if flow["state"] in ("prefilling", "stalled", "slowed") and left and eta:
        return left / eta, False
    return RoutePolicy().prefill_prior, True


def of_return(group: dict[str, Any]) -> list[str]:
    """What bringing the engine back takes."""
    estimate = number(group["start_estimate"])
    if estimate is None:
        return ["How long a start takes is not known yet: none was measured."]
    return [f"A start takes about {span(estimate)}."]


def of_limits(snap: dict[str, Any]) -> list[str]:
    """Power limits that a reboot took back: an engine's first burst may trip the supply (C09)."""
    return [
        f"Power {notice['say']}" for notice in snap["notices"] if notice["id"] == "power-limits"
    ]


def in_flight(group: dict[str, Any]) -> float | None:
    """Answers in the making, by the best counter that is there."""
    for value in (group["in_flight"], group["slots"]["active"], group["slots"]["running"]):
        got = number(value)
        if got is not None:
            return got
    return None


def _answers(group: dict[str, Any], drain: float | None) -> str:
    running = in_flight(group)
    name = group["name"]
    if running is None:
        return f"How many answers {name} is working on is not known now."
    if running == 0:
        return f"No answer is running on {name}."
    who = f"{plural(running, 'answer')} {'is' if running == 1 else 'are'} running on {name}"
    if drain == 0:
        return f"{who}; cut off at once."
    limit = "the group's drain limit" if drain is None else span(drain)
    return f"{who}; given up to {limit} to finish, then cut off."


def _cache(group: dict[str, Any]) -> list[str]:
    cached = number(group["kv"]["cached"])
    if not cached:
        return []
    return [f"{tokens(cached)} cached tokens are lost; their sessions are read again from cold."]

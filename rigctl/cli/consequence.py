"""What an act costs, in numbers from the snapshot, said before it is confirmed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigctl.cli.words import number, plural, span, tokens

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

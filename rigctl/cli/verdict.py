"""Whether the rig is well, for `status --check` and cron: pure, from the snapshot's JSON."""

from __future__ import annotations

from rigctl.cli.endpoint_words import endpoint_of, trouble
from rigctl.cli.exits import DEGRADED, DOWN, OK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DOWN_STATES = ("failed", "backing_off", "off")
ILL_FLOWS = ("hung", "broken", "stalled")


def verdict(snap: dict[str, Any]) -> tuple[int, list[str]]:
    """The exit code and its reasons, the worst first.

    Down: every group that is meant to run does not. Degraded: one of several does not, a group is
    hung, a lease is overdue, a card is lost, the endpoint should serve and does not, NVML is
    silent, or there is a warning.
    """
    wanted = [group for group in snap["groups"] if group["wanted"] and not group["lease"]]
    down = [group for group in wanted if group["state"] in DOWN_STATES]
    reasons = [
        f"{group['name']} is {group['state'].replace('_', ' ')}"
        + (f": {group['say']}" if group["say"] else "")
        + (f" (next: {group['advice']})" if group["advice"] else "")
        for group in down
    ]
    for group in snap["groups"]:
        flow = group["flow"]
        if flow["state"] in ILL_FLOWS:
            reasons.append(f"{group['name']} is {flow['state']}: {flow['say']}".rstrip(": "))
        if group["lease"] and group["lease"]["overdue"]:
            holder = group["lease"]["holder"]
            reasons.append(
                f'{group["name"]} is lent to "{holder}" and overdue '
                f"(next: rigctl reclaim {group['name']})"
            )
    reasons.extend(
        f"card {card['index']} ·{card['short']} is lost: {card['lost']}"
        for card in snap["cards"]
        if card["lost"]
    )
    no_endpoint = trouble(endpoint_of(snap))
    if no_endpoint:
        reasons.append(no_endpoint)
    if snap["nvml"]:
        reasons.append(f"NVML: {snap['nvml']}")
    known = " ".join(reasons)
    reasons.extend(
        notice["say"]
        for notice in snap["notices"]
        if notice["level"] in ("warning", "error") and notice["say"] not in known
    )
    if down and len(down) == len(wanted):
        return DOWN, reasons
    return (DEGRADED if reasons else OK), reasons

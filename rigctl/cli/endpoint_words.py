"""The endpoint of a snapshot's JSON in words that several verbs say alike. Pure."""

from __future__ import annotations

from rigctl.cli.words import number, plural, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NONE = "there is no endpoint: write [proxy] into rig.toml (see `rigctl config init`)"
OLD_SECONDS = 10.0
"""Without a word for so long, what the endpoint told last is said to be old."""

SHOULD_BE_UP = ("off", "lost", "backing_off", "failed")
"""States in which clients are not served, or nobody can tell."""

TONES = {
    "up": "good",
    "starting": "warning",
    "leaving": "warning",
    "lost": "warning",
    "backing_off": "bad",
    "failed": "bad",
    "off": "bad",
}


def endpoint_of(snap: dict[str, Any]) -> dict[str, Any]:
    """The endpoint's view; one without an endpoint where the daemon is too old to know of any."""
    view: dict[str, Any] = snap.get("endpoint") or {"state": "none"}
    return view


def told(view: dict[str, Any]) -> bool:
    """Whether its rows are of now. It tells nothing more while nothing is under way."""
    if view["state"] not in ("up", "leaving"):
        return False
    age = number(view["age"])
    calm = not in_flight(view) and not view["rows"]["queued"]
    return age is None or age <= OLD_SECONDS or calm


def base_url(url: str) -> str:
    """What clients set as base_url."""
    plain = url.rstrip("/")
    return plain if not plain or plain.endswith("/v1") else f"{plain}/v1"


def in_flight(view: dict[str, Any]) -> int:
    """Requests sent to an engine and not ended, all clusters together."""
    return sum(row["in_flight"] for row in view["rows"]["clusters"])


def state(view: dict[str, Any]) -> str:
    """`up 3d 04h`, `backing off 12 s`."""
    return f"{view['state'].replace('_', ' ')} {span(view['seconds'])}"


def traffic(view: dict[str, Any]) -> str:
    """`7 in flight, 2 queued, oldest 41 s`, and that it is old where it is."""
    rows = view["rows"]
    parts = [f"{in_flight(view)} in flight"]
    if rows["queued"]:
        parts.append(f"{rows['queued']} queued, oldest {span(rows['oldest_wait'])}")
    else:
        parts.append("none queued")
    if not told(view):
        age = number(view["age"])
        parts.append("told " + ("never" if age is None else f"{span(age)} ago"))
    return ", ".join(parts)


def trouble(view: dict[str, Any]) -> str:
    """Why an endpoint that should serve does not, with the next step; empty while it does."""
    if view["state"] not in SHOULD_BE_UP:
        return ""
    why = f": {view['say']}" if view["say"] else ""
    following = f" (next: {view['advice']})" if view["advice"] else ""
    return f"the endpoint is {view['state'].replace('_', ' ')}{why}{following}"


def running(view: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of requests under way, in the queue or at an engine."""
    return [row for row in view["rows"]["sessions"] if row["request"]]


def row_state(row: dict[str, Any]) -> str:
    """`answering 12 s`, `stalled 41 s behind a1b2c3d4`, `queued 9 s: place 2 of 5, about 40 s`."""
    lasts = f"{row['state']} {span(row['seconds'])}"
    if row["state"] == "stalled":
        if row["behind"]:
            return f"{lasts} behind {row['behind']}"
        return row["say"] or lasts
    if row["state"] in ("queued", "held") and row["say"]:
        return f"{lasts}: {row['say']}"
    return f"{lasts}, behind {row['behind']}" if row["behind"] else lasts


def whose(row: dict[str, Any]) -> str:
    """`anna`, or that there was no key."""
    return str(row["client"]) if row["client"].strip("-") else "a client without a key"


def answers(count: float) -> str:
    """`1 answer runs`, `3 answers run`."""
    return f"{plural(count, 'answer')} {'runs' if round(count) == 1 else 'run'}"

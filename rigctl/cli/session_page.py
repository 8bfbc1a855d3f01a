"""The page of `rigctl sessions`: who asks for what, how it stands, and each client's sums. Pure."""

from __future__ import annotations

from typing import Any

from rigctl.cli.endpoint_words import base_url, endpoint_of, row_state, running, state, traffic
from rigctl.cli.paint import Paint
from rigctl.cli.render import cut, flow, wrap
from rigctl.cli.table import Fitted
from rigctl.cli.words import ABSENT, number, percent, span, tokens

RIGHT = ("context", "tok/s", "wait", "first", "pool", "turn")
FIRST_TO_GO = ("turn", "first", "rule", "wait", "pool", "cluster", "client")
CLIENT_FIRST_TO_GO = ("uncounted", "cancelled", "thought", "limit", "cached")

TONES = {"stalled": "warning", "queued": "warning", "held": "warning", "resting": "dim"}

_ORDER = {"resting": 2, "queued": 1, "held": 1}


def chosen(
    snap: dict[str, Any], client: str | None = None, cluster: str | None = None
) -> dict[str, Any]:
    """What `--json` prints: the endpoint's rows, of the client and cluster that are named."""
    view = endpoint_of(snap)
    rows = view.get("rows", {})
    sessions = [
        row
        for row in rows.get("sessions", ())
        if (client is None or row["client"] == client)
        and (cluster is None or row["cluster"] == cluster)
    ]
    sessions.sort(key=lambda row: (_ORDER.get(row["state"], 0), _age(row)))
    return {
        "state": view["state"],
        "age": view.get("age"),
        "sessions": sessions,
        "more_sessions": rows.get("more_sessions", 0),
        "clients": [
            row for row in rows.get("clients", ()) if client is None or row["client"] == client
        ],
        "queued": rows.get("queued", 0),
        "oldest_wait": rows.get("oldest_wait", 0.0),
    }


def _age(row: dict[str, Any]) -> float:
    """Waiting: the oldest first; resting: the newest first; running: as told."""
    seconds: float = row["seconds"]
    return {1: -seconds, 2: seconds}.get(_ORDER.get(row["state"], 0), 0.0)


def page(
    snap: dict[str, Any],
    paint: Paint,
    width: int,
    client: str | None = None,
    cluster: str | None = None,
) -> list[str]:
    """The whole page, line by line, each at most `width` columns where it can be helped."""
    view = endpoint_of(snap)
    found = chosen(snap, client, cluster)
    head = [f"endpoint {state(view)}", base_url(view["url"]), traffic(view)]
    lines = [paint(line, "bold") for line in flow(head, width, "")]
    if view["say"] and view["state"] != "up":
        lines += wrap(view["say"], width, "  ", "  ")
    sessions = found["sessions"]
    if sessions:
        lines += ["", *_sessions(sessions, paint, width)]
    else:
        whom = " ".join(part for part in (client and f"of {client}", cluster and f"on {cluster}")
                        if part)  # fmt: skip
        lines += ["", f"no session {whom}".rstrip()]
    if found["more_sessions"]:
        lines.append(paint(f"({found['more_sessions']} more sessions rest)", "dim"))
    if found["clients"]:
        lines += ["", *_clients(found["clients"], paint, width)]
    return lines


def _sessions(rows: list[dict[str, Any]], paint: Paint, width: int) -> list[str]:
    columns = {
        "request": [short(row["request"]) or ABSENT for row in rows],
        "session": [row["session"] for row in rows],
        "client": [row["client"] or ABSENT for row in rows],
        "cluster": [row["cluster"] or ABSENT for row in rows],
        "context": [tokens(row["context"]) for row in rows],
        "tok/s": [_rate(row["rate"]) for row in rows],
        "wait": [span(row["waited"]) if row["request"] else ABSENT for row in rows],
        "first": [span(row["first_byte"]) for row in rows],
        "pool": [percent(row["pool_share"]) for row in rows],
        "turn": [str(row["turn"]) for row in rows],
        "rule": [row["rule"] or ABSENT for row in rows],
        "state": [cut(_said(row), max(30, width - 60)) for row in rows],
    }
    fitted = Fitted(columns, width, right=RIGHT, first_to_go=FIRST_TO_GO)
    return [
        paint(cut(fitted.head, width), "dim"),
        *(
            paint(cut(line, width), "warning" if row["flags"] else TONES.get(row["state"], ""))
            for row, line in zip(rows, fitted.rows, strict=True)
        ),
    ]


def _said(row: dict[str, Any]) -> str:
    """The state, and what is odd about the answer."""
    flags = f" ! {', '.join(row['flags'])}" if row["flags"] else ""
    return row_state(row) + flags


def _rate(value: Any) -> str:
    got = number(value)
    return ABSENT if got is None else f"{got:.1f}" if got < 99.95 else f"{got:.0f}"


def _clients(rows: list[dict[str, Any]], paint: Paint, width: int) -> list[str]:
    columns = {
        "client": [row["client"] for row in rows],
        "running": [str(row["running"]) for row in rows],
        "limit": [ABSENT if row["limit"] is None else str(row["limit"]) for row in rows],
        "requests": [str(row["requests"]) for row in rows],
        "failed": [str(row["failed"]) for row in rows],
        "cancelled": [str(row["cancelled"]) for row in rows],
        "prompt": [tokens(row["prompt_tokens"]) for row in rows],
        "cached": [_share(row) for row in rows],
        "answer": [tokens(row["output_tokens"]) for row in rows],
        "thought": [tokens(row["thinking_tokens"]) for row in rows],
        "uncounted": [str(row["uncounted"]) for row in rows],
    }
    fitted = Fitted(columns, width, right=set(columns) - {"client"}, first_to_go=CLIENT_FIRST_TO_GO)
    return [paint(cut(fitted.head, width), "dim"), *(cut(line, width) for line in fitted.rows)]


def _share(row: dict[str, Any]) -> str:
    """Of the prompt tokens, what came from the cache; nothing was read yet: nothing to say."""
    if not row["prompt_tokens"]:
        return ABSENT
    return percent(row["cached_tokens"] / row["prompt_tokens"])


def short(request: str) -> str:
    """The end of an id, in which alone the requests of one endpoint differ: `00000017`."""
    return request.rpartition("-")[2]


def find_request(snap: dict[str, Any], wanted: str) -> list[dict[str, Any]]:
    """Requests under way that a person may mean: by id, its end or beginning, or their session."""
    rows = running(endpoint_of(snap))
    exact = [row for row in rows if wanted in (row["request"], row["session"])]
    ends = [row for row in rows if short(row["request"]) == wanted]
    return exact or ends or [row for row in rows if row["request"].startswith(wanted)]

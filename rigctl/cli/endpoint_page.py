"""The page of `rigctl endpoint`: its address, its state, and how it judges each cluster. Pure."""

from __future__ import annotations

from typing import Any

from rigctl.cli.endpoint_words import TONES, base_url, state, traffic
from rigctl.cli.paint import Paint
from rigctl.cli.render import cut, flow, wrap
from rigctl.cli.table import Fitted
from rigctl.cli.words import plural, span

RIGHT = ("in flight", "waiting", "sessions", "sent", "overflow", "failed", "resent")
FIRST_TO_GO = ("resent", "overflow", "sent", "failed", "sessions", "gate", "waiting")
STANDING_TONES = {"down": "bad", "suspect": "warning", "slowed": "warning", "busy": "warning"}


def page(view: dict[str, Any], paint: Paint, width: int) -> list[str]:
    """The whole page, line by line, each at most `width` columns where it can be helped."""
    lines = [f"{paint('endpoint', 'bold')}  {paint(state(view), TONES.get(view['state'], ''))}"]
    lines += wrap(view["say"], width, "  ", "  ")
    rows = view["rows"]
    lines += flow(
        [
            base_url(view["url"]),
            f"model {view['model']}" if view["model"] else "",
            "a key is needed" if view["keys"] else "no key is asked for",
            f"pid {view['pid']}" if view["pid"] else "",
            plural(rows["connections"], "connection"),
            plural(view["crashes"], "crash", "crashes") if view["crashes"] else "",
        ],
        width,
    )
    lines += [f"  {traffic(view)}"]
    if view["advice"]:
        lines += wrap(f"next: {view['advice']}", width, "  ", "  ")
    if rows["clusters"]:
        lines += ["", *_clusters(rows["clusters"], paint, width)]
    if rows["off"]:
        lines += ["", "off here:"]
        for sentence in rows["off"]:
            lines += wrap(sentence, width, "    ", "  ")
    totals = [f"{name.replace('_', ' ')} {value:.0f}" for name, value in rows["totals"].items()]
    if totals:
        lines += ["", *(paint(line, "dim") for line in flow(["since its start:", *totals], width))]
    return lines


def _clusters(rows: list[dict[str, Any]], paint: Paint, width: int) -> list[str]:
    columns = {
        "cluster": [row["cluster"] for row in rows],
        "gate": [row["gate"] for row in rows],
        "in flight": [f"{row['in_flight']} of {row['slots']}" for row in rows],
        "waiting": [str(row["waiting"]) for row in rows],
        "sessions": [str(row["homes"]) for row in rows],
        "sent": [str(row["sent"]) for row in rows],
        "overflow": [str(row["overflow"]) for row in rows],
        "failed": [str(row["failed"]) for row in rows],
        "resent": [str(row["resent"]) for row in rows],
        "standing": [f"{row['standing']} {span(row['seconds'])}" for row in rows],
    }
    fitted = Fitted(columns, width, right=RIGHT, first_to_go=FIRST_TO_GO)
    lines = [paint(cut(fitted.head, width), "dim")]
    for row, line in zip(rows, fitted.rows, strict=True):
        lines.append(paint(cut(line, width), STANDING_TONES.get(row["standing"], "")))
        lines += wrap(row["say"], width, "    ", "  ")
        if row["culprit"]:
            waiting = ", ".join(row["waiting_behind"]) or "nobody"
            lines += wrap(
                f"the prompt of {row['culprit']} is being read; behind it: {waiting}",
                width,
                "    ",
                "  ",
            )
    return lines

"""The table of a bench run, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rigctl.bench.plan import Result, judge

SCHEMA = 1


def table(results: Sequence[Result]) -> str:
    """One block a row: what, the figures of ours and of the peers, ratios, met or not met."""
    lines: list[str] = []
    met = 0
    for result in results:
        verdict = judge(result)
        met += verdict.met
        lines.append(f"{'met    ' if verdict.met else 'not met'}  {result.row.what}")
        lines.append(f"         bar    {result.row.bar}")
        if result.ours:
            lines.append(f"         ours   {', '.join(map(str, result.ours))}")
        if result.peers:
            lines.append(f"         peers  {', '.join(map(str, result.peers))}")
        if verdict.ratios:
            lines.append(f"         ratio  {', '.join(verdict.ratios)}")
        if verdict.why:
            lines.append(f"         why    {verdict.why}")
        if result.note:
            lines.append(f"         note   {result.note}")
    lines.append("")
    lines.append(f"{met} of {len(results)} bars met")
    return "\n".join(lines)


def as_json(results: Sequence[Result], machine: dict[str, str]) -> str:
    """The same as one JSON object."""
    rows = []
    for result in results:
        verdict = judge(result)
        rows.append(
            {
                "id": result.row.id,
                "what": result.row.what,
                "bar": result.row.bar,
                "met": verdict.met,
                "why": verdict.why,
                "ratios": verdict.ratios,
                "ours": [asdict(figure) for figure in result.ours],
                "peers": [asdict(figure) for figure in result.peers],
                "note": result.note,
                "details": result.details,
            }
        )
    return json.dumps({"kind": "bench", "schema": SCHEMA, "machine": machine, "rows": rows})

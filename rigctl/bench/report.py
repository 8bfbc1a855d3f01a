"""The table of a bench run, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rigctl.bench.plan import Result, judge

SCHEMA = 1


BUSY = 0.5
"""Load average by core, before a run, above which its figures only find problems."""


def table(results: Sequence[Result], machine: Mapping[str, str] | None = None) -> str:
    """One block a row: what, the figures of ours and of the peers, ratios, met or not met.

    On a machine that was busy before the run that is said first.
    """
    lines = _preface(machine or {})
    met = 0
    bars = [result for result in results if result.row.bars]
    for result in results:
        verdict = judge(result)
        met += verdict.met and bool(result.row.bars)
        word = verdict.word if result.row.bars else "told"
        lines.append(f"{word:<7}  {result.row.what}")
        if result.row.bar:
            lines.append(f"         bar    {result.row.bar}")
        if result.ours:
            lines.append(f"         ours   {', '.join(map(str, result.ours))}")
        if result.peers:
            lines.append(f"         peers  {', '.join(map(str, result.peers))}")
        if verdict.ratios:
            lines.append(f"         ratio  {', '.join(verdict.ratios)}")
        if verdict.why:
            lines.append(f"         why    {verdict.why}")
        if result.row.how:
            lines.append(f"         how    {result.row.how}")
        if result.note:
            lines.append(f"         note   {result.note}")
    lines.append("")
    lines.append(f"{met} of {len(bars)} bars met")
    return "\n".join(lines)


def _preface(machine: Mapping[str, str]) -> list[str]:
    lines = [f"method   {machine['method']}"] if "method" in machine else []
    load, cores = float(machine.get("load", 0)), int(machine.get("cores", 1))
    if load > BUSY * cores:
        say = f"load {load:.1f} on {cores} cores before the run: figures for finding problems only"
        lines.append(f"note     {say}")
    return [*lines, ""] if lines else []


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
                "how": result.row.how,
                "met": verdict.met,
                "verdict": verdict.word if result.row.bars else "told",
                "why": verdict.why,
                "ratios": verdict.ratios,
                "ours": [asdict(figure) for figure in result.ours],
                "peers": [asdict(figure) for figure in result.peers],
                "note": result.note,
                "details": result.details,
            }
        )
    return json.dumps({"kind": "bench", "schema": SCHEMA, "machine": machine, "rows": rows})

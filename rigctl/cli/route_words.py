"""One routing decision in plain words, from its record's JSON. Pure."""

from __future__ import annotations

from typing import Any

from rigctl.cli.render import wrap
from rigctl.cli.words import ABSENT, clock, span, tokens

RULES = {
    "length": "only there it fits",
    "home": "its session is cached there",
    "free": "the first choice had a free slot",
    "overflow": "the first choice was full",
    "queue": "both were full, the shortest wait won",
    "only": "no other cluster takes requests",
    "retry": "another try, before the client got a byte",
    "too-long": "it fits nowhere",
    "body": "its body cannot be read",
    "off": "the only cluster that could take it is off",
    "starting": "held for a cluster that starts",
    "full": "the queue was full",
    "moved": "its home was given up",
    "side": "a question that takes no slot",
    "pinned": "it goes on from an answer that only one cluster knows",
    "crashed": "it was alone in prefill when its engine crashed",
}
"""What each of the rules means to somebody who never read them."""

SOURCES = {
    "chain": "by its messages",
    "turns": "by its messages, the system prompt having changed",
    "opening": "by its first 4,000 characters",
    "response": "by the answer that it goes on from",
}

ESTIMATES = {
    "bytes": "at most, by its bytes",
    "learnt": "by this rig's own characters a token",
    "counted": "counted by the engine",
    "ids": "given as numbers",
}


def block(record: dict[str, Any], now: float, width: int) -> list[str]:
    """A decision as a few lines: when and whose, where and why, how it was known and how long."""
    who = "" if record["client"] in ("-", "") else f"  {record['client']}"
    session = f"  session {record['session']}" if record["session"] else ""
    request = record["request"] or ABSENT
    when = clock(record["wall"], now)
    lines = [f"{when}  {request}{who}{session}  {record['endpoint']}"]
    rule = RULES.get(record["rule"], "")
    meaning = f" ({rule})" if rule else ""
    where = f"to {record['cluster']}" if record["cluster"] else "refused"
    lines += wrap(f"{where} by the rule `{record['rule']}`{meaning}", width, "    ", "  ")
    if record["say"]:
        lines += wrap(record["say"], width, "    ", "  ")
    lines += wrap(_known(record), width, "    ", "  ")
    lines += wrap(_outcome(record), width, "    ", "  ")
    return lines


def _known(record: dict[str, Any]) -> str:
    source = record["source"]
    if not source:
        session = "a new session"
    else:
        session = f"its session was known {SOURCES.get(source, f'by {source}')}"
    if not record["tokens"]:
        return session
    how = ESTIMATES.get(record["how"], record["how"])
    return f"{session}; prompt {tokens(record['tokens'])} tokens" + (f" ({how})" if how else "")


def _outcome(record: dict[str, Any]) -> str:
    waited = f"waited {span(record['waited'])}" if record["waited"] >= 0.05 else "did not wait"
    status = record["status"]
    return f"{waited}; " + (f"answered {status}" if status else "runs")

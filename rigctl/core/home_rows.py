"""Sessions as rows of plain values, so that a restarted proxy knows them. No text is in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rigctl.core.home import MOST_DIGESTS, MOST_TIPS, Home, Session
from rigctl.core.ids import GroupName, Mono
from rigctl.core.lengths import REMEMBERED, Learnt


def row(session: Session) -> dict[str, Any]:
    """One session."""
    home = session.home
    return {
        "label": home.label,
        "cluster": home.cluster,
        "run": home.run,
        "tokens": home.tokens,
        "since": home.since,
        "seen": home.seen,
        "count": home.turns,
        "cold": home.cold,
        "key": session.key,
        "opening": session.opening.hex(),
        "chain": [[digest.hex(), place] for digest, place in session.chain.items()],
        "turns": [[digest.hex(), place] for digest, place in session.turns.items()],
        "end": session.end,
        "turns_end": session.turns_end,
        "tips": [list(each) for each in session.tips],
        "learnt": list(session.learnt.ratios),
    }


def given(response: str, cluster: GroupName, run: str) -> dict[str, Any]:
    """Who gave a response that may be continued."""
    return {"response": response, "cluster": cluster, "run": run}


def read(
    rows: Iterable[Any], now: Mono
) -> tuple[list[Session], list[tuple[str, GroupName, str]], int]:
    """The sessions of those rows, the least recently seen first; the responses that can be
    continued; and how many rows were no good. A later row of one label replaces the earlier."""
    found: dict[str, Session] = {}
    answers: list[tuple[str, GroupName, str]] = []
    bad = 0
    for each in rows:
        try:
            if "response" in each:
                name = GroupName(str(each["cluster"]))
                answers.append((str(each["response"]), name, str(each["run"])))
                continue
            if each.get("ended") is True:
                found.pop(str(each["label"]), None)
                continue
            session = _session(each)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            bad += 1
            continue
        if session.home.seen > now:
            bad += 1
            continue
        found[session.home.label] = session
    return sorted(found.values(), key=lambda each: each.home.seen), answers, bad


def _session(row: dict[str, Any]) -> Session:
    label = str(row["label"])
    if len(label) != 8:
        raise ValueError(label)
    home = Home(
        label=label,
        cluster=GroupName(str(row["cluster"])),
        run=str(row["run"]),
        tokens=int(row["tokens"]),
        since=Mono(float(row["since"])),
        seen=Mono(float(row["seen"])),
        turns=int(row["count"]),
        cold=str(row["cold"]),
    )
    return Session(
        home,
        key=str(row["key"]),
        opening=bytes.fromhex(row["opening"]),
        chain=_places(row["chain"]),
        turns=_places(row["turns"]),
        end=int(row["end"]),
        turns_end=int(row["turns_end"]),
        tips=[(int(at), int(tokens)) for at, tokens in row["tips"]][-MOST_TIPS:],
        learnt=Learnt(tuple(float(each) for each in row["learnt"])[-REMEMBERED:]),
    )


def _places(pairs: Any) -> dict[bytes, int]:
    return {bytes.fromhex(digest): int(place) for digest, place in list(pairs)[:MOST_DIGESTS]}

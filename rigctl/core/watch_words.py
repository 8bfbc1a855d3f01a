"""What watching an engine found out, as lines of the journal."""

from __future__ import annotations

from typing import assert_never

from rigctl.core.ids import GroupName
from rigctl.core.orders import Order, TellPerson, WriteJournal
from rigctl.core.plural import answers
from rigctl.core.watch_facts import (
    BrokenSeen,
    HungSeen,
    Recovered,
    SlowedBegan,
    SlowedEnded,
    StallBegan,
    StallEnded,
    WatchFact,
)


def journal(name: GroupName, facts: tuple[WatchFact, ...]) -> tuple[Order, ...]:
    """One line each; a broken or hung engine is also told to a person."""
    orders: list[Order] = []
    for fact in facts:
        entry = _entry(name, fact)
        orders.append(entry)
        if isinstance(fact, HungSeen | BrokenSeen):
            orders.append(TellPerson("failed", name, entry.say))
    return tuple(orders)


def _entry(name: GroupName, fact: WatchFact) -> WriteJournal:
    match fact:
        case StallBegan(waiting=waiting, tokens_left=left):
            rest = "" if left is None else f", {left:.0f} tokens left to read"
            return WriteJournal(
                name, "stall", f"prefill stall began: {answers(waiting, 'waits', 'wait')}{rest}"
            )
        case StallEnded(seconds=seconds, tokens=tokens, waited=waited, why=why):
            say = f"prefill stall {seconds:.0f} s, {tokens:.0f} tokens read, "
            say += f"{answers(waited, 'waited', 'waited')}; {why}"
            figures = {"seconds": seconds, "tokens": tokens, "waited": waited}
            return WriteJournal(name, "stall-ended", say, figures)
        case SlowedBegan(per_answer=now, usual=usual):
            say = f"answers slowed to {now:.1f} of {usual:.1f} tok/s each while a prompt is read"
            return WriteJournal(name, "slowed", say, {"per_answer": now, "usual": usual})
        case SlowedEnded(seconds=seconds):
            say = f"answers were slowed for {seconds:.0f} s"
            return WriteJournal(name, "slowed-ended", say, {"seconds": seconds})
        case HungSeen(silent=silent, expected=expected):
            say = (
                f"hung: work, but no progress for {silent:.0f} s; a chunk takes {expected:.0f} s; "
            )
            say += f"`rigctl restart {name}`"
            return WriteJournal(name, "hung", say, {"silent": silent, "expected": expected})
        case BrokenSeen(missing=missing):
            return WriteJournal(name, "broken", f"broken: {', '.join(missing)} is gone")
        case Recovered(was=was, seconds=seconds):
            say = f"works again after {seconds:.0f} s {was}"
            return WriteJournal(name, "recovered", say, {"seconds": seconds})
        case _:
            assert_never(fact)

"""What an act on a group means to those who ask at the endpoint: the sentences, figures given.

Command line and panel see the same snapshot by different ways, and say the same of it.
"""

from __future__ import annotations

from collections.abc import Sequence


def new_requests(others: Sequence[str], over: str, *, comes_back: bool) -> str:
    """Where new requests go while the group takes none.

    `others` are the clusters that take requests; `over` is the largest window among them where the
    group's own is larger, else empty; `comes_back`: the engine is started again at once.
    """
    wait = "held until it is back, within limits" if comes_back else "refused (503)"
    if not others:
        return f"No other cluster takes requests: new ones are {wait}."
    where = f"New requests are routed to {' and '.join(others)}"
    return f"{where}; prompts over {over} tokens are {wait}." if over else f"{where}."


def cold(sessions: int, tokens: str, seconds: str, *, least: bool, assumed: str = "") -> str:
    """How many sessions lose their cache, and what reading them anew takes.

    `tokens` and `seconds` are empty where nothing is known of their length; `least`: some of them
    are not in the sum; `assumed` is the prefill rate where it was not measured.
    """
    text = f"{sessions} session{' goes' if sessions == 1 else 's go'} cold"
    if not tokens:
        return f"{text}: read anew at the next turn."
    more = "at least " if least else ""
    how = f" at an assumed {assumed} tok/s" if assumed else ""
    return f"{text}: {more}{tokens} tokens, about {seconds} of prefill{how}."

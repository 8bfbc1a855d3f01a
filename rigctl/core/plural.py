"""Counted nouns in sentences: `1 answer waits`, `3 answers wait`."""

from __future__ import annotations


def answers(count: float, one: str, many: str) -> str:
    """So many answers and what they do, with the verb's form for one and for many."""
    return f"1 answer {one}" if round(count) == 1 else f"{count:.0f} answers {many}"

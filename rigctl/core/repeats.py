"""Sees an answer that repeats itself: the same block, over and over, up to its last character.

One answer of this rig once fell into such a loop. Ordinary text repeats too: rules of dashes,
tables, padding. What counts is an exact block of some length, many times in a row, at the end.
"""

from __future__ import annotations

from rigctl.core.said import Said

SHORTEST = 20
"""Characters of the shortest block."""
TIMES = 8
"""How often it must stand there in a row."""
WINDOW = 32 * 1024
"""Characters looked at: blocks of up to a `TIMES`th of it are found."""
PLAIN = 4_096
"""Characters that a block of few different signs must fill: a rule of dashes is no loop."""
FEW = 5
"""Different signs up to which a block is plain."""
_NEEDLE = SHORTEST * (TIMES - 1)
"""Characters of the end that every block that counts has once more, one block before."""
_MOST_TRIES = 256


def block_at_end(text: str) -> str:
    """The block that the text's end repeats, or nothing; the shortest that fits the rules."""
    text = text[-WINDOW:]
    size = len(text)
    if size < SHORTEST * TIMES:
        return ""
    needle = text[-_NEEDLE:]
    longest = size // TIMES
    lowest = max(0, size - _NEEDLE - longest)
    at = size - _NEEDLE
    for _ in range(_MOST_TRIES):
        at = text.rfind(needle, lowest, at + _NEEDLE - 1)
        if at < 0:
            return ""
        period = size - _NEEDLE - at
        if period < SHORTEST:
            # A shorter period, taken so often that the block is long enough.
            period *= -(-SHORTEST // period)
        block = text[size - period :]
        if period <= longest and text.endswith(block * TIMES):
            if len(set(block)) > FEW:
                return block
            if text.endswith(block * -(-PLAIN // period)):
                return block
            return ""
    return ""


def says_the_same(said: Said) -> bool:
    """Whether the end of a choice's thinking, or of its answer, repeats itself."""
    return any(block_at_end(text.tail(WINDOW)) for text in (said.thinking, said.answer))

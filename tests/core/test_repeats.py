"""An answer that repeats itself is seen; what only looks repetitive is not."""

from __future__ import annotations

import base64
import random

import pytest

from rigctl.core.repeats import TIMES, block_at_end

LINE = "I should check the file again. "
PARAGRAPH = (
    "Wait, let me reconsider the approach. The function takes a list and returns its sum, "
    "but the test expects an empty list to give None, so I have to handle that first.\n\n"
)


WORDS = [
    *("the", "a", "file", "test", "of", "is", "and", "error"),
    *("line", "we", "return", "value", "list", "check", "now", "then"),
]


def prose(characters: int, seed: int = 1) -> str:
    """Text without a loop, of few different words."""
    rng = random.Random(seed)
    out: list[str] = []
    while sum(map(len, out)) + len(out) < characters:
        out.append(rng.choice(WORDS))
    return " ".join(out)


@pytest.mark.parametrize(
    "block",
    [
        LINE,
        PARAGRAPH,
        "abcdefghijklmnopqrst",
        "Let me think about it again, because 日本語 is here.\n",
        "x = compute(x)\n    if x:\n",
        PARAGRAPH * 3 + LINE,
    ],
)
@pytest.mark.parametrize("before", ["", "A proper beginning. " * 2, prose(5_000)])
@pytest.mark.parametrize("cut", [0, 7])
def test_a_block_that_stands_there_eight_times_is_found(block: str, before: str, cut: int) -> None:
    """Wherever the last repetition was cut off, and whatever came before."""
    text = before + block * (TIMES + 1) + block[:cut]
    found = block_at_end(text)
    assert found
    assert text.endswith(found * TIMES)
    assert sorted(found) == sorted(block * (len(found) // len(block)))


def test_a_short_block_counts_when_it_fills_the_length() -> None:
    """`no, no, no, ` is a loop of four letters, taken several at once."""
    assert block_at_end("Is it? " + "no, wait: " * 40)


def test_the_stuck_token_is_found() -> None:
    """An engine in a damaged state writes one token for ever; a rule of dashes ends."""
    assert block_at_end("The answer" + "!" * 5_000)
    assert not block_at_end("# Title\n" + "=" * 300)
    assert not block_at_end("| a |\n|" + "---|" * 60)


@pytest.mark.parametrize(
    "text",
    [
        prose(20_000),
        LINE * (TIMES - 2),
        "\n".join(f"- item {n}: the value is {n * n}" for n in range(400)),
        "\n".join(f"| {n:4} | {'x' * (n % 7):8} | ok |" for n in range(400)),
        "\n".join(f"    self.field_{n} = other.field_{n}" for n in range(300)),
        base64.b64encode(random.Random(2).randbytes(20_000)).decode(),
        base64.b64encode(b"\0" * 2_000).decode(),
        "| 0 | 0 | 0 | 0 | 0 | 0 |\n" * 20,
        "\n".join("".join(random.Random(n).choice("01 ") for _ in range(60)) for n in range(200)),
        "0, " * 400,
        LINE * 30 + "And now the answer: 42, because of what was said.",
        "",
        "short",
    ],
)
def test_what_only_looks_repetitive_is_no_loop(text: str) -> None:
    """Lists, tables, code, base64, and a loop that the answer has left behind."""
    assert not block_at_end(text)


def test_code_of_this_project_is_no_loop() -> None:
    """Real source, cut at many places."""
    with open(__file__, encoding="utf-8") as file:
        source = file.read()
    assert not any(block_at_end(source[:end]) for end in range(200, len(source), 97))

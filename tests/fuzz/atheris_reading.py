"""Coverage-guided fuzzing of what is read: python tests/fuzz/atheris_reading.py -max_total_time=600

The input's first byte picks the endpoint, its second the size of the pieces. What it finds is
pinned in `test_sse_splits.py` or `tests/parse/test_rewrite.py`.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["rigctl"]):
    from rigctl.core.ask import Endpoint
    from rigctl.core.sse import Events
    from rigctl.parse.answers import AnswerReader
    from rigctl.parse.asks import read_ask
    from rigctl.parse.rewrite import Wishes, rewrite

ENDPOINTS = tuple(Endpoint)
OURS = Wishes(rid="r" * 20, session_id="s", think_cap=5, budgets=True, effort={"high": "low"})


def one_input(data: bytes) -> None:
    """Pieces and the whole tell the same; no body raises; what is not ours comes out again."""
    if len(data) < 2:
        return
    endpoint = ENDPOINTS[data[0] % len(ENDPOINTS)]
    size = data[1] % 9 + 1
    rest = data[2:]
    parts = [rest[at : at + size] for at in range(0, len(rest), size)]
    whole, cut = Events(), Events()
    assert whole.feed(rest) == [event for part in parts for event in cut.feed(part)]
    states = []
    for pieces in ([rest], parts):
        reader = AnswerReader(endpoint, True, swallow=True)
        out = b"".join(map(reader.filter, pieces)) + reader.finish()
        assert len(out) <= len(rest)
        said = {index: str(one.answer) for index, one in reader.choices.items()}
        states.append((out, said, reader.ended, reader.usage, reader.progress))
    assert states[0] == states[1]
    read_ask(endpoint, (), rest)
    rewritten = rewrite(endpoint, rest, OURS)
    assert bool(rewritten.fault) is not bool(rewritten.parts)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()

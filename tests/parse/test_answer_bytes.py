"""The bytes of a stream: forwarded as they came, but for the usage chunk that is ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from support_frames import DONE, USAGE, delta, frame

from rigctl.core.answer import Ending, Usage
from rigctl.core.ask import Endpoint
from rigctl.parse.answers import MOST_HELD, AnswerReader

CAPTURES = Path(__file__).parents[1] / "data" / "streams"


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.case("C46")
@pytest.mark.parametrize("size", [None, 1, 7, 100])
def test_the_usage_chunk_that_we_asked_for_is_swallowed(asked: bool, size: int | None) -> None:
    """It alone, however it is cut, comments around it stay; one the client asked for passes."""
    before = delta(content="a") + b": ping\n\n" + delta(finish="stop")
    stream = before + USAGE + b": ping\n\n" + DONE
    reader = AnswerReader(Endpoint.CHAT, True, swallow=asked)
    step = size or len(stream)
    out = b"".join(reader.filter(stream[at : at + step]) for at in range(0, len(stream), step))
    out += reader.finish()
    assert out == (before + b": ping\n\n" + DONE if asked else stream)
    assert reader.usage == Usage(prompt=80_000, cached=79_000, completion=12)


@pytest.mark.case("C46")
@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_a_swallowed_chunk_takes_its_crlf_with_it(size: int) -> None:
    """Also where the network cut between CR and LF."""
    parts = [part.replace(b"\n", b"\r\n") for part in (delta(content="a"), USAGE, DONE)]
    stream = b"".join(parts)
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    out = b"".join(reader.filter(stream[at : at + size]) for at in range(0, len(stream), size))
    assert out + reader.finish() == parts[0] + parts[2]


@pytest.mark.case("C46")
def test_usage_on_every_chunk_passes_and_counts() -> None:
    """`continuous_usage_stats`: byte-true; the last one is the count."""
    row = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
    parts = [frame(**row, usage={"prompt_tokens": 5, "completion_tokens": n}) for n in range(1, 4)]
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    assert b"".join(map(reader.filter, parts)) == b"".join(parts)
    assert reader.usage == Usage(prompt=5, completion=3)


def test_an_event_too_long_to_be_the_usage_chunk_is_not_held_back() -> None:
    """Megabytes do not pile up behind a filter; the next usage chunk is still caught."""
    big = delta(content="x" * (3 * MOST_HELD))
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    out = b""
    most = 0
    fed = 0
    for at in range(0, len(big), 1_000):
        out += reader.filter(big[at : at + 1_000])
        fed += len(big[at : at + 1_000])
        most = max(most, fed - len(out))
        assert reader.at_boundary is (at == 0 or not out or out == big)
    assert most <= MOST_HELD + 1_000
    assert reader.filter(USAGE + DONE) == DONE
    assert out == big
    assert str(reader.choices[0].answer) == "x" * (3 * MOST_HELD)


def test_what_is_held_at_the_end_is_forwarded() -> None:
    """An event that a dying engine did not end goes to the client as it is."""
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    assert reader.filter(b'data: {"choi') == b""
    assert reader.at_boundary
    assert reader.finish() == b'data: {"choi'


@pytest.mark.case("C36")
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_character_cut_by_the_network_is_whole(size: int) -> None:
    """Bytes are joined to events before anything is decoded."""
    stream = b"".join(
        b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text.encode()
        for text in ("🌍", "測", "é")
    )
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    out = b"".join(reader.filter(stream[at : at + size]) for at in range(0, len(stream), size))
    assert out == stream
    assert str(reader.choices[0].answer) == "🌍測é"


@pytest.mark.case("C36")
def test_an_invalid_byte_ends_nothing() -> None:
    """It is passed on as it is, and the rest of its event is read."""
    bad = b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n'
    lone = b'data: {"choices":[{"delta":{"content":"\\ud83c"}}]}\n\n'
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    stream = bad + lone + delta(content="c", finish="stop")
    assert reader.filter(stream) == stream
    assert str(reader.choices[0].answer) == "a\ufffdb\ud83cc"
    assert reader.ended is Ending.COMPLETE


@pytest.mark.parametrize(
    ("name", "answer", "usage"),
    [
        (
            "sglang",
            "readable=- recent stack fullnameplic v fullname",
            Usage(prompt=13, completion=8, reasoning=0),
        ),
        ("llama", None, Usage(prompt=35, cached=0, completion=12)),
        ("vllm", None, None),
    ],
)
def test_streams_of_real_servers(name: str, answer: str | None, usage: Usage | None) -> None:
    """Recorded from SGLang 0.5.23, llama.cpp and vLLM."""
    stream = (CAPTURES / f"{name}.txt").read_bytes()
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    out = b"".join(reader.filter(stream[at : at + 50]) for at in range(0, len(stream), 50))
    out += reader.finish()
    # The recording of vLLM was cut off.
    assert reader.ended is (Ending.TRUNCATED if name == "vllm" else Ending.COMPLETE)
    assert reader.done is (name != "vllm")
    assert reader.usage == usage
    assert len(out) < len(stream) or usage is None
    assert out.count(b"data:") == stream.count(b"data:") - (usage is not None)
    if answer is not None:
        assert str(reader.choices[0].answer) == answer

"""What the client has received of one choice: text in parts, inline tags, all thought."""

from __future__ import annotations

import pytest

from rigctl.core.answer import MOST_CHOICES, MOST_TEXT, Answer, Doing, Ending
from rigctl.core.said import Said, Tags, Text, all_thought, sound


def told(*parts: str, thinking: str = "") -> Answer:
    """An answer of these parts."""
    answer = Answer()
    if thinking:
        answer.thought(0, thinking, "reasoning_content")
    for part in parts:
        answer.answered(0, part)
    return answer


def test_text_of_many_parts_is_whole() -> None:
    """Joined once, whatever the number of parts; the tail is the end of it."""
    text = Text()
    parts = [f"{n} " for n in range(3_000)]
    for part in parts:
        text.add(part)
    whole = "".join(parts)
    assert str(text) == whole
    assert text.characters == len(whole)
    assert [text.tail(n) for n in (0, 1, 7, 5_000, 10**9)] == [
        "",
        whole[-1:],
        whole[-7:],
        whole[-5_000:],
        whole,
    ]
    assert len(text._blocks) + len(text._parts) < 300


@pytest.mark.case("C45")
@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("text", "tags", "visible"),
    [
        ("<think>a thought</think>\n\nThe answer", Tags.CLOSED, "\n\nThe answer"),
        ("\n <think>\na thought</think>Yes", Tags.CLOSED, "Yes"),
        ("<think>not ended", Tags.OPEN, ""),
        ("the template opened it</think>Yes", Tags.CLOSED, "Yes"),
        ("plain", Tags.LOOSE, "plain"),
        ("<thinking> is a tag", Tags.LOOSE, "<thinking> is a tag"),
        ("Write <think> first", Tags.LOOSE, "Write <think> first"),
        ("<think>a</think>b <think>c", Tags.CLOSED, "b <think>c"),
    ],
)
def test_inline_tags_tell_the_state(text: str, tags: Tags, visible: str, size: int) -> None:
    """A tag cut anywhere is one; a later one is talk about tags; the text stays as it was."""
    answer = told(*(text[at : at + size] for at in range(0, len(text), size)))
    said = answer.choices[0]
    assert said.tags is tags
    assert said.visible() == visible
    assert str(said.answer) == text
    assert answer.doing is (Doing.THINKING if tags is Tags.OPEN else Doing.ANSWERING)


def test_tags_in_an_answer_after_thinking_in_its_own_field_are_text() -> None:
    """Where a parser took the thinking out, the answer may say `</think>` and mean it."""
    said = told("Close it with </think>.", thinking="hm").choices[0]
    assert said.visible() == "Close it with </think>."


@pytest.mark.parametrize(
    ("answer", "thinking", "finish", "empty"),
    [
        ("", "a long thought", "length", True),
        (" \n", "a long thought", "stop", True),
        ("<think>never ended", "", "length", True),
        ("<think>x</think>\n", "", "stop", True),
        ("Yes", "a thought", "stop", False),
        ("", "still at it", "", False),
        ("", "", "stop", False),
    ],
)
def test_an_answer_that_is_all_thought(
    answer: str, thinking: str, finish: str, empty: bool
) -> None:
    """Finished, thought, and nothing in it: what agents see as an empty answer."""
    told_ = told(*([answer] if answer else []), thinking=thinking)
    said = told_.said(0)
    assert said is not None
    if finish:
        told_.finished(0, finish)
    assert all_thought(said) is empty


def test_a_tool_call_after_thought_is_an_answer() -> None:
    """Most turns of an agent say nothing besides."""
    answer = told(thinking="I should look")
    answer.called(0, 0, "read_file", "c1", "{}")
    answer.finished(0, "tool_calls")
    assert not all_thought(answer.choices[0])


@pytest.mark.case("C36")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a🌍", "a🌍"),
        ("a\ufffd", "a"),
        ("a\ufffd\ufffd", "a"),
        ("a" + chr(0xD83C), "a"),
        ("\ufffd", ""),
    ],
)
def test_a_half_character_is_no_place_to_go_on_from(text: str, left: str) -> None:
    """What another engine goes on from ends in a whole character; one in the middle stays."""
    assert sound(text) == left
    assert sound("\ufffd" + "b") == "\ufffdb"


def test_calls_are_open_until_their_end_is_seen() -> None:
    """A call ends with the next one or with the choice; half of one is never spliced."""
    answer = Answer()
    answer.called(0, 0, "write", "c0", '{"path":"/a')
    assert answer.choices[0].open_call
    answer.called(0, 1, "read", "c1", "")
    assert [call.open for call in answer.choices[0].calls.values()] == [False, True]
    answer.finished(0, "tool_calls")
    assert not answer.choices[0].open_call
    assert str(answer.choices[0].calls[0].arguments) == '{"path":"/a'


def test_calls_without_an_index_are_told_apart_by_their_names() -> None:
    """Some servers leave the index out and send each name once."""
    answer = Answer()
    answer.called(0, None, "read", "c0", "{")
    answer.called(0, None, "", "", "}")
    answer.called(0, None, "read", "c1", "{}")
    assert [str(call.arguments) for call in answer.choices[0].calls.values()] == ["{}", "{}"]


@pytest.mark.case("C26")
@pytest.mark.parametrize("indexes", [range(100_000), range(-5, 5_000), [10**30, -(10**30), 0] * 9])
def test_strange_indexes_stay_within_bounds(indexes: range | list[int]) -> None:
    """A server that counts tokens in `index` costs neither a crash nor the memory."""
    answer = Answer()
    for index in indexes:
        answer.answered(index, "x")
        answer.called(index, index, "f", "", "{}")
    assert answer.progress == 2 * len(indexes)
    assert len(answer.choices) <= MOST_CHOICES
    assert answer.whole is (len(indexes) < 100)


def test_memory_is_bounded_and_said() -> None:
    """Beyond the limit text is no longer kept; what is kept is a beginning without a hole."""
    answer = Answer()
    part = "x" * 1_000_003
    for _ in range(12):
        answer.answered(0, part)
        answer.thought(0, "y", "reasoning")
    assert not answer.whole
    assert answer.choices[0].answer.characters <= MOST_TEXT
    assert answer.progress == 24


def test_an_answer_of_several_choices_is_complete_with_all_of_them() -> None:
    """`n: 2` with one finished still runs; with `[DONE]` the server says that it is all."""
    answer = Answer(expected=2)
    answer.answered(0, "a")
    answer.finished(0, "stop")
    assert answer.ended is Ending.RUNNING
    answer.answered(1, "b")
    answer.finished(1, "stop")
    assert answer.ended is Ending.COMPLETE


def test_said_begins_empty() -> None:
    """Nothing said is nothing thought."""
    assert not all_thought(Said())

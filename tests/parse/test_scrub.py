"""What an engine says of itself stays with the engine."""

from __future__ import annotations

import pytest

from rigctl.parse.scrub import without_paths

FASTAPI = (
    "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field "
    "required', 'input': {'model': 'x'}}\n\n"
    '  File "/root/venv/lib/python3.11/site-packages/sglang/srt/entrypoints/http_server.py", '
    "line 1870, in openai_v1_chat_completions\n    POST /v1/chat/completions"
)


def test_the_place_in_the_servers_code_goes_and_what_is_wrong_stays() -> None:
    """As FastAPI has it: the client reads what to mend, and not where the server lies."""
    left = without_paths(FASTAPI)
    assert left.endswith("'input': {'model': 'x'}}")
    assert left.startswith("1 validation error:")
    for place in ("/root", "http_server", "1870"):
        assert place not in left


def test_a_traceback_loses_its_places() -> None:
    """Each of its lines that names a file."""
    told = 'boom\n  File "/opt/a.py", line 3\n  File "/opt/b.py", line 4, in run\nValueError: no'
    assert without_paths(told) == "boom\nValueError: no"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 262144 tokens.",
        'the File "x" that you sent',
        'Unknown tool `File "a.py"`, line up',
        "",
    ],
)
def test_ordinary_words_are_not_touched(message: str) -> None:
    """Only the whole form counts."""
    assert without_paths(message) == message

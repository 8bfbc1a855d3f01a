"""No key gets through, and what is no key is left alone."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rigctl.core.redact import redact

LOGS = Path(__file__).parents[1] / "data" / "logs"


@pytest.mark.parametrize(
    "line",
    [
        "server_args={'port': 1, 'api_key': 'sekrit', 'admin_api_key': \"se'krit\"}",
        '{"api_key":"sekrit","admin_api_key":"sekrit"}',
        '{"launch_command":"--model x --port 3 --something sekrit"}',
        "ServerArgs(model_path='x', api_key='sekrit', admin_api_key=None)",
        "python -m sglang.launch_server --api-key sekrit --port 3",
        "python -m sglang.launch_server --admin-api-key=sekrit",
        "['--api-key', 'sekrit', '--admin-api-key', 'sekrit']",
        r'"launch": "--api-key \"sekrit\" x"',
        "Authorization: Bearer sekrit",
        "OPENAI_API_KEY=sekrit HF_TOKEN=sekrit python x",
        "api_key: sekrit",
        r"'api_key': 'sek\'sekrit'",
    ],
)
def test_a_key_is_masked_in_every_spelling(line: str) -> None:
    """Dict, JSON, repr, command line, header and environment: the value is gone, its name stays."""
    shown = redact(line)
    assert "sekrit" not in shown
    assert "krit" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "line",
    [
        "Prefill batch, #new-token: 4096, #cached-token: 0, token usage: 0.00",
        "server_args={'api_key': None, 'admin_api_key': None, 'eos_token': 'x', 'num_token': 3}",
        '{"api_key":null,"tokenizer_path":"/models/x"}',
        "max_total_num_tokens=800000",
        "the api key is not set",
        "'api_key': ''",
    ],
)
def test_other_lines_are_as_they_were(line: str) -> None:
    """Tokens that are counted and keys that are not set are not secrets."""
    assert redact(line) == line


def test_masking_twice_changes_nothing() -> None:
    """A masked line may pass through again."""
    once = redact("--api-key sekrit 'api_key': 'sekrit' Bearer sekrit")
    assert redact(once) == once


def test_recorded_logs_show_no_key() -> None:
    """The real start line holds both keys in clear text; nothing of them is left."""
    for path in LOGS.glob("*.log"):
        for line in path.read_text().splitlines():
            assert "sekrit" not in redact(line)


@pytest.mark.parametrize("part", ["a", "A_", "api_key", "--api-key ", "secret='", "_TOKEN"])
def test_a_long_line_does_not_hold_the_daemon_up(part: str) -> None:
    """A picture in base64, or anything else of 64 KiB, is read once and not once a character."""

    def too_long(*_: object) -> None:
        raise AssertionError("the line took 20 s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(20)
    try:
        redact("new-token: secret " + part * (64 * 1024 // len(part)))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

"""The simulated engine's command line, metrics page and answers, without a process."""

from __future__ import annotations

import math

import pytest

from rigctl.sim.sglang.board import Board, number
from rigctl.sim.sglang.flags import parse
from rigctl.sim.sglang.identity import CannotStartError, identify
from rigctl.sim.sglang.refusals import RefusedError, check_lengths
from rigctl.sim.sglang.settings import read_settings
from rigctl.sim.sglang.wishes import read_wish

MODEL = ("--model-path", "Qwen/Qwen3.8-27B")


def test_flags_are_sglangs_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Aliases and defaults are taken; an unknown flag exits 2 in argparse's words."""
    args = parse([*MODEL, "--tp", "4", "--max-total-tokens", "800000", "--sleep-on-idle"])
    assert (args["tp_size"], args["max_total_tokens"], args["sleep_on_idle"]) == (4, 800_000, True)
    assert args["served_model_name"] == "Qwen/Qwen3.8-27B"
    assert args["chunked_prefill_size"] == 4096
    with pytest.raises(SystemExit) as end:
        parse([*MODEL, "--sleep-while-idle"])
    assert end.value.code == 2
    assert "unrecognized arguments: --sleep-while-idle" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(["--port", "1"])
    assert "--model-path/--model" in capsys.readouterr().err


def test_flags_from_a_file(tmp_path: object) -> None:
    """`--config FILE.yaml` adds options; the command line wins over it."""
    file = tmp_path / "keys.yaml"  # type: ignore[operator]
    file.write_text('{"api-key": "secret", "port": 4, "sleep-on-idle": true}')
    args = parse([*MODEL, "--config", str(file), "--port", "5"])
    assert (args["api_key"], args["port"], args["sleep_on_idle"]) == ("secret", 5, True)
    file.write_text("api-key: 'other'\nport: 7\n")
    args = parse([*MODEL, "--config", str(file)])
    assert (args["api_key"], args["port"]) == ("other", 7)


def test_the_mamba_pool_caps_the_slots() -> None:
    """Eight are configured, thirty state slots at five each serve six."""
    flags = ["--max-running-requests", "8", "--speculative-algorithm", "DFLASH"]
    identity = identify(parse([*MODEL, *flags]), {})
    assert (identity.slots, identity.capped_from, identity.mamba_each) == (6, 8, 5)


def test_a_longer_window_needs_its_variable() -> None:
    """YaRN without SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN ends before loading, in its words."""
    args = parse([*MODEL, "--context-length", "524288"])
    with pytest.raises(CannotStartError, match=r"context_length \(524288\) is greater"):
        identify(args, {})
    assert identify(args, {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}).context == 524_288
    with pytest.raises(CannotStartError, match="Repo id must use"):
        identify(parse(["--model-path", "/nope"]), {})


def test_too_long_in_three_wordings() -> None:
    """Past the window, past it with the answer, and past the pool: each its own text."""
    small = identify(parse([*MODEL, "--context-length", "8192", "--max-total-tokens", "4096"]), {})
    with pytest.raises(
        RefusedError, match=r"The input \(18010 tokens\) is longer than the model's"
    ):
        check_lengths(18_010, None, small)
    with pytest.raises(RefusedError, match="You requested a total of 9000 tokens: 8000 tokens"):
        check_lengths(8000, 1000, small)
    with pytest.raises(RefusedError, match=r"exceeds the maximum allowed length \(4090 tokens\)"):
        check_lengths(5000, 10, small)
    assert check_lengths(1000, None, small) == 3095


def test_an_answer_begins_in_thought_where_a_parser_is_set() -> None:
    """Thought is bounded by the budget, and off when the template is told so."""
    identity = identify(parse([*MODEL, "--reasoning-parser", "qwen3"]), {})
    body = {"messages": [{"role": "user", "content": "hello"}]}
    path = "/v1/chat/completions"
    free = read_wish(path, body, identity, 0)
    assert free.thoughts > 30
    assert read_wish(path, body, identity, 25).thoughts == 25
    off = body | {"chat_template_kwargs": {"enable_thinking": False}}
    assert read_wish(path, off, identity, 0).thoughts == 0
    with pytest.raises(RefusedError, match="empty"):
        read_wish(path, {"messages": []}, identity, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4096, "4096.0"),
        (0.0, "0.0"),
        (1514336, "1.514336e+06"),
        (999999.0, "999999.0"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (0.9051, "0.9051"),
    ],
)
def test_numbers_are_printed_as_the_reference_client_does(value: float, text: str) -> None:
    """`1.514336e+06` and not `1514336.0`."""
    assert number(value) == text


def test_the_metrics_page() -> None:
    """Constants on every rank, live gauges on rank 0, lazy series absent until they move."""
    board = Board("qwen", 4, [77])
    board.set("max_total_num_tokens", 800_000)
    board.set("num_running_reqs", 3)
    page = board.text()
    assert page.count("\nsglang:max_total_num_tokens{") == 4
    assert page.count("\nsglang:num_running_reqs{") == 1
    assert (
        'num_retracted_reqs{engine_type="unified",model_name="qwen",moe_ep_rank="0",pid="77"'
        in page
    )
    assert "sglang:realtime_tokens_total" not in page
    board.add("realtime_tokens_total", 5, mode="decode")
    board.observe("inter_token_latency_seconds", 9.0)
    board.observe("inter_token_latency_seconds", 0.003)
    page = board.text()
    assert 'sglang:realtime_tokens_total{engine_type="unified",mode="decode"' in page
    lines = [line for line in page.splitlines() if line.startswith("sglang:inter_token_latency")]
    assert lines[0].startswith("sglang:inter_token_latency_seconds_sum")
    assert lines[-1].endswith("} 2.0")
    assert lines[-2].endswith("} 2.0")
    assert lines[-3].endswith("} 1.0")


def test_settings_come_from_variables() -> None:
    """SIM_* variables, with defaults that run at the real speed."""
    assert read_settings({}).speed == 1.0
    found = read_settings({"SIM_SPEED": "10", "SIM_CRASH_AFTER": "5", "SIM_LEFTOVER": "1"})
    assert (found.speed, found.crash_after, found.leftover) == (10.0, 5.0, True)
    assert found.real(20.0) == 2.0

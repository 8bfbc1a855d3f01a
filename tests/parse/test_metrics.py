"""The metrics parser: every version and dialect gives the same figures, and absent is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.core.reading import Missing, Why
from rigctl.parse.metrics import Metrics, parse

DATA = Path(__file__).parents[1] / "data" / "metrics"
VERSIONS = ("0.5.9", "0.5.15", "0.5.18", "0.5.20", "0.5.23")
LABELS = 'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"'


def text_of(version: str) -> str:
    return (DATA / f"sglang-{version}.prom").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_same_figures(version: str) -> None:
    """What a version serves is read alike, from rank 0 of four and never as a sum over ranks."""
    found = parse(text_of(version))
    assert found.value("running") == 3
    assert found.value("queued") == 1
    assert found.value("pool_total") == 800_000
    assert found.counted_tokens("decode") == 40_311
    assert found.counted_tokens("prefill_compute") == 168_222
    assert found.counted_tokens("prefill_cache") == 1_514_336
    assert found.value("accept_length") == 3.9
    assert found.value("retracted") == 0
    assert found.model == "qwen3.8-27b"


@pytest.mark.parametrize(
    ("version", "absent"),
    [
        (
            "0.5.9",
            {
                "context_len",
                "full_token_usage",
                "kv_used_tokens",
                "kv_evictable_tokens",
                "kv_available_tokens",
                "mamba_used_tokens",
                "mamba_evictable_tokens",
                "mamba_available_tokens",
                "scheduler_idle_seconds",
            },
        ),
        ("0.5.15", {"scheduler_idle_seconds"}),
        ("0.5.18", {"scheduler_idle_seconds"}),
        ("0.5.20", set()),
        ("0.5.23", set()),
    ],
)
def test_absent_names_are_listed_for_doctor(version: str, absent: set[str]) -> None:
    """A name that is looked for and not served is named, and nothing else is."""
    assert set(parse(text_of(version)).absent) == absent


def test_a_real_capture_is_read_whole() -> None:
    """The recorded server's own figures come out, lazily made series as 0."""
    found = parse((DATA / "captured-0.5.23-cpu-busy.prom").read_bytes())
    assert found.value("running") == 1
    assert found.counted_tokens("decode") == 166
    assert found.counted_tokens("prefill_compute") == 25
    assert found.counted_tokens("prefill_cache") == 0
    assert found.value("kv_used") == 167
    assert found.active() == 2
    assert found.value("retracted") == 0
    assert found.absent == ()


@pytest.mark.case("C69")
def test_underscore_names_are_the_same_names() -> None:
    """A collector that rewrites `sglang:` to `sglang_` changes no figure."""
    text = text_of("0.5.23")
    assert parse(text.replace("sglang:", "sglang_")) == parse(text)


@pytest.mark.case("C69")
def test_both_spellings_at_once_double_nothing() -> None:
    """The engine and a collector behind it in one text: each series counts once, the engine's."""
    text = text_of("0.5.23")
    old = text.replace("sglang:", "sglang_").replace(" 5.0", " 4.0").replace(" 3.0", " 2.0")
    assert parse(text + old) == parse(text)
    assert parse(old + text) == parse(text)


@pytest.mark.case("C69")
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_openmetrics_is_read_alike(line_end: str) -> None:
    """Exemplars, timestamps, `_created` series, `# EOF` and a moved `_total` change no figure."""
    plain = text_of("0.5.23")
    lines = []
    for line in plain.splitlines():
        if line.startswith("sglang:realtime_tokens_total{"):
            lines.append(line + ' # {trace_id="a b"} 1.0 1795982565.4')
            lines.append(line.replace("_total{", "_created{").rsplit(" ", 1)[0] + " 1.79598e+09")
        elif line.startswith("sglang:num_running_reqs{"):
            lines.append(line + " 1795982565.484")
        elif line.startswith("sglang:num_retracted_requests_total{"):
            lines.append(line.replace("_total{", "{"))
        else:
            lines.append(line)
    assert parse(line_end.join([*lines, "# EOF", ""])) == parse(plain)


def test_only_rank_zero_counts() -> None:
    """Other tensor, pipeline, data and expert ranks are never added or taken instead."""
    lines = [f"sglang:num_running_reqs{{{LABELS}}} 3.0"]
    for rank in ("tp_rank", "pp_rank", "dp_rank", "moe_ep_rank"):
        lines.insert(0, f'sglang:num_running_reqs{{{rank}="1"}} 9.0')
        lines.append(f'sglang:num_running_reqs{{{rank}="2"}} 9.0')
    assert parse("\n".join(lines)).value("running") == 3


def test_priorities_are_not_added_to_their_total() -> None:
    """With priority scheduling the sample with an empty label is the total."""
    text = "\n".join(
        f'sglang:num_queue_reqs{{{LABELS},priority="{priority}"}} {count}'
        for priority, count in (("", 5), ("0", 2), ("10", 3))
    )
    assert parse(text).value("queued") == 5


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1,5", "", "x", "1e308", "9" * 400])
def test_what_is_no_number_is_absent(value: str) -> None:
    """NaN, infinity and rubbish are a missing sample, never 0."""
    found = parse(f"sglang:num_running_reqs{{{LABELS}}} {value}\nsglang:num_queue_reqs 1\n")
    assert found.value("running") == Missing(Why.UNSUPPORTED, "metric missing")
    assert found.value("queued") == 1


def test_labels_may_hold_anything() -> None:
    """A model's name with braces, quotes, commas and blanks does not break the line."""
    name = r"a}b \"c\", d # {e"
    found = parse(f'sglang:num_running_reqs{{model_name="{name}",tp_rank="0"}} 3.0\n')
    assert found.value("running") == 3
    assert found.model == name


def test_no_label_and_an_exemplar() -> None:
    """A series without labels is read, also when the only brace is its exemplar's."""
    found = parse('sglang:scheduler_idle_seconds_total 86.5 # {t="x"} 1\n')
    assert found.value("scheduler_idle_seconds") == 86.5


def test_only_generation_requests_are_active() -> None:
    """Scrapes, probes and listings are nobody's answer; methods and endpoints are added up."""
    text = "\n".join(
        f'sglang:http_requests_active{{endpoint="{endpoint}",method="{method}"}} {count}'
        for endpoint, method, count in (
            ("/v1/chat/completions", "POST", 2),
            ("/v1/messages", "POST", 1),
            ("/generate", "POST", 1),
            ("/generate", "PUT", 1),
            ("/metrics", "GET", 7),
            ("/health", "GET", 7),
            ("/v1/messages/count_tokens", "POST", 7),
        )
    )
    assert parse(text).active() == 5


def test_active_of_an_old_version_is_not_believed() -> None:
    """Before 0.5.15 running streams are not in the gauge: it is absent, not too low."""
    assert parse(text_of("0.5.9")).active() == Missing(
        Why.UNSUPPORTED, "this version does not count running streams"
    )
    assert parse(text_of("0.5.15")).active() == 5


def test_no_token_family_at_all_is_not_zero() -> None:
    """A counter is 0 beside its siblings only; without any, nobody knows."""
    found = parse(f"sglang:num_running_reqs{{{LABELS}}} 0.0\n")
    missing = found.counted_tokens("decode")
    assert isinstance(missing, Missing)
    assert missing.why is Why.NOT_YET
    assert "realtime_tokens" in found.absent


@pytest.mark.parametrize("text", ["", "# EOF\n", "vllm:num_requests_running 3\n", "<html>", "\x00"])
def test_another_servers_text_is_no_answer(text: str) -> None:
    """A text with nothing of an engine in it is told apart from an engine that is idle."""
    found = parse(text)
    assert found == Metrics({}, {}, {}, "", found.absent, False)
    assert isinstance(found.counted_tokens("decode"), Missing)
    assert isinstance(found.active(), Missing)

"""512 generated configs through SGLang's real argument parser: it understands what was meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from config_kit import ConfigKit, make_card
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from rigctl.config.diff import differences
from rigctl.config.load import load
from rigctl.config.plan import launch_plan
from rigctl.config.secrets import write_key_file

Parse = Callable[[Sequence[str]], dict[str, Any]]

EXAMPLES = 512
CARDS = tuple(make_card(number) for number in range(8))
KEY_VARIABLES = {"API": "0123456789", "ADMIN": "yes#no:&*!|>'\"%@`{}[],-"}
"""Keys that YAML would read as a number, and as anything but a plain word."""

WORD = st.text("abcXYZ019._/ ÄÖ漢'\"\\$&{}[]*#@!-=,", min_size=1, max_size=20).filter(
    lambda word: word.strip() and not word.startswith(("-", "~/"))
)
SIZE = st.integers(1, 2_000_000)
PARSERS = ("qwen3", "deepseek-r1", "qwen3-thinking", "gpt-oss", "glm45")
PASSED: dict[str, tuple[tuple[str, ...], Any]] = {
    "mem_fraction_static": (("--mem-fraction-static", "0.85"), 0.85),
    "chunked_prefill_size": (("--chunked-prefill-size=2048",), 2048),
    "prefill_max_requests": (("--prefill-max-requests", "2"), 2),
    "max_prefill_tokens": (("--max-prefill-tokens", "2Ki"), 2048),
    "enable_mixed_chunk": (("--enable-mixed-chunk",), True),
    "disable_radix_cache": (("--disable-radix-cache",), True),
    "device": (("--device", "cpu"), "cpu"),
    "numa_node": (("--numa-node", "0", "1"), [0, 1]),
    "log_level": (("--log-level", "warning"), "warning"),
    "max_queued_requests": (("--max-queued-requests", "7"), 7),
    "enable_metrics_for_all_schedulers": (("--enable-metrics-for-all-schedulers",), True),
    "random_seed": (("--random-seed=-1",), -1),
}
"""Flags without a key of their own: by dest, as written and as parsed."""


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    """A valid `[[group]]`, each key there or not."""
    group: dict[str, Any] = {
        "name": draw(st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)),
        "cards": draw(st.lists(st.integers(0, 7), unique=True, max_size=8)),
        "port": draw(st.integers(1, 65535)),
        "model": draw(WORD),
    }

    def maybe(key: str, strategy: st.SearchStrategy[Any]) -> None:
        if draw(st.booleans()):
            group[key] = draw(strategy)

    maybe("host", st.sampled_from(("127.0.0.1", "0.0.0.0", "::1", "rig.local")))
    maybe("served_name", WORD.filter(lambda word: ":" not in word))
    maybe("max_total_tokens", SIZE)
    maybe("max_running_requests", st.integers(1, 4096))
    maybe("reasoning_parser", st.sampled_from(PARSERS))
    maybe("tool_call_parser", st.sampled_from(("qwen3_coder", "qwen25", "llama3")))
    maybe("grammar_backend", st.sampled_from(("xgrammar", "llguidance", "none")))
    maybe("sleep_on_idle", st.booleans())
    maybe("api_key", st.just({"env": "API"}))
    maybe("admin_key", st.just({"env": "ADMIN"}))
    maybe("card_names", st.sampled_from(("index", "uuid")))
    maybe("tensor_parallel", st.integers(1, max(len(group["cards"]), 1)))
    maybe("env", st.dictionaries(st.sampled_from(("NCCL_DEBUG", "A")), WORD, max_size=2))
    if draw(st.booleans()):
        native, factor = draw(SIZE), draw(st.sampled_from((1.0, 1.5, 2.0, 4.0)))
        group |= {"yarn_factor": factor, "yarn_original": native}
        group["context_length"] = draw(st.integers(1, int(native * factor)))
        group["yarn_style"] = draw(st.sampled_from(("nested", "flat")))
    else:
        maybe("context_length", SIZE)
    if draw(st.booleans()):
        group["draft_model"] = draw(WORD)
        maybe("draft_tokens", st.integers(1, 64))
        maybe("draft_algorithm", st.sampled_from(("DFLASH", "EAGLE3", "eagle")))
    if draw(st.booleans()):
        group["think_budget"] = draw(st.integers(0, 100_000))
        group["grammar_backend"] = "xgrammar"
        group.setdefault("reasoning_parser", "qwen3")
    passed = draw(st.lists(st.sampled_from(sorted(PASSED)), unique=True, max_size=4))
    group["flags"] = [word for dest in passed for word in PASSED[dest][0]]
    return group


def meant(group: dict[str, Any]) -> dict[str, Any]:
    """What SGLang's namespace has to hold, from the config alone."""
    cards = len(group["cards"])
    drafts = "draft_model" in group
    wanted = {
        "model_path": group["model"],
        "host": group.get("host", "127.0.0.1"),
        "port": group["port"],
        "tp_size": group.get("tensor_parallel") or cards or 1,
        "served_model_name": group.get("served_name"),
        "context_length": group.get("context_length"),
        "max_total_tokens": group.get("max_total_tokens"),
        "max_running_requests": group.get("max_running_requests"),
        "speculative_algorithm": group.get("draft_algorithm", "DFLASH") if drafts else None,
        "speculative_draft_model_path": group.get("draft_model"),
        "speculative_num_draft_tokens": group.get("draft_tokens"),
        "reasoning_parser": group.get("reasoning_parser"),
        "tool_call_parser": group.get("tool_call_parser"),
        "grammar_backend": group.get("grammar_backend"),
        "sleep_on_idle": group.get("sleep_on_idle", False),
        "enable_strict_thinking": "think_budget" in group,
        "api_key": KEY_VARIABLES["API"] if "api_key" in group else None,
        "admin_api_key": KEY_VARIABLES["ADMIN"] if "admin_key" in group else None,
        "enable_metrics": True,
        "enable_cache_report": True,
        "uvicorn_access_log_exclude_prefixes": ["/metrics", "/v1/loads", "/ready"],
    }
    for dest, (words, value) in PASSED.items():
        if words[0] in group["flags"]:
            wanted[dest] = value
    return wanted


def stretched(group: dict[str, Any]) -> dict[str, Any]:
    """The part of the override that the config decides."""
    if "yarn_factor" not in group:
        return {}
    return {
        "rope_type": "yarn",
        "factor": group["yarn_factor"],
        "original_max_position_embeddings": group["yarn_original"],
    }


class Checked:
    """Where the files go, and how many configs were compared."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """One folder for all generated files."""
    return Checked(tmp_path_factory.mktemp("generated"))


@seed(20261129)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(group=groups())
def test_sglang_parses_what_the_config_says(
    real_parser: Parse, checked: Checked, group: dict[str, Any]
) -> None:
    """From TOML through the plan and SGLang's parser, every value arrives as written."""
    folder = checked.folder
    path = folder / "rig.toml"
    path.write_text(tomli_w.dumps({"group": [group]}), encoding="utf-8")
    config = load(path)
    loaded = config.groups[0]
    plan = launch_plan(loaded, config, CARDS, KEY_VARIABLES, loaded.sleep_on_idle, folder)
    write_key_file(loaded, KEY_VARIABLES, folder)
    program = len(loaded.engine)
    answer = real_parser(plan.argv[program:])
    assert "refused" not in answer, answer
    parsed = answer["parsed"]
    wanted = meant(group)
    assert {dest: parsed[dest] for dest in wanted} == wanted
    override = json.loads(parsed["json_model_override_args"] or "{}")
    inner = override.get("rope_scaling") or override.get("text_config", {}).get("rope_parameters")
    assert {key: (inner or {})[key] for key in stretched(group)} == stretched(group)
    assert bool(override) == ("yarn_factor" in group)
    assert plan.env.get("SGLANG_MAX_THINK_TOKENS") == (
        str(group["think_budget"]) if "think_budget" in group else None
    )
    assert not any(key in word for word in plan.argv for key in KEY_VARIABLES.values())
    assert differences(plan.argv, plan.argv, plan.env, plan.env) == ()
    checked.count += 1


@pytest.mark.usefixtures("real_parser")
def test_all_of_them_were_compared(checked: Checked) -> None:
    """The generator did not run dry; needs the test above."""
    assert checked.count >= EXAMPLES


def test_the_shipped_example_parses(real_parser: Parse) -> None:
    """Both groups of the example are command lines that SGLang takes."""
    config = load(Path(__file__).parents[2] / "assets" / "examples" / "rig.toml")
    names = [card.value for group in config.groups for card in group.cards]
    cards = [make_card(n) for n in range(8)]
    renamed = [
        type(card)(name, card.index, card.pci, card.name)
        for card, name in zip(cards, names, strict=True)
    ]
    for group in config.groups:
        plan = launch_plan(group, config, renamed, {}, group.sleep_on_idle)
        answer = real_parser(plan.argv[len(group.engine) :])
        assert answer["parsed"]["context_length"] == group.context_length


def test_no_flag_of_sglang_is_taken_for_one_of_ours(
    real_parser: Parse, rig_file: ConfigKit
) -> None:
    """Of the parser's own flags, only those that rigctl sets are refused in `flags`."""
    from config_kit import GROUP

    from rigctl.config.flags import ALWAYS, CARD_CHOICE, KEY_OF_FLAG, SOMETIMES, canonical

    parsed = real_parser(["--model-path", "x"])["parsed"]
    ours = {*KEY_OF_FLAG, *ALWAYS, *CARD_CHOICE, *SOMETIMES}
    for dest in parsed:
        flag = "--" + dest.replace("_", "-")
        assert (canonical(flag) in ours) == (flag in ours), flag
        if flag not in ours:
            rig_file.load(GROUP + f'flags = ["{flag}"]\n')


def test_an_unknown_flag_is_refused_by_the_parser(real_parser: Parse) -> None:
    """The test itself can fail: the parser behind it is no yes-man."""
    answer = real_parser(["--model-path", "x", "--sleep-on-idel"])
    assert "unrecognized arguments: --sleep-on-idel" in answer["refused"]

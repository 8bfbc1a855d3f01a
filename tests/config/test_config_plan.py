"""The command line and variables that start an engine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from config_kit import GROUP, ConfigKit

from rigctl.config.flags import MASK, mask
from rigctl.config.plan import launch_plan
from rigctl.config.schema import ConfigError, LaunchPlan
from rigctl.config.secrets import key_file, write_key_file
from rigctl.core.cards import CardSample

NO_CARDS = GROUP.replace("[0]", "[]")


def planned(rig_file: ConfigKit, text: str, cards: tuple[CardSample, ...] = ()) -> LaunchPlan:
    """The plan of the only group of this text."""
    config = rig_file.load(text)
    group = config.groups[0]
    return launch_plan(group, config, cards, {}, group.sleep_on_idle, rig_file.path.parent)


def value(plan: LaunchPlan, flag: str) -> str:
    """The word after a flag."""
    return plan.argv[plan.argv.index(flag) + 1]


def test_the_smallest_plan(rig_file: ConfigKit, eight_cards: tuple[CardSample, ...]) -> None:
    """Nothing but what was written and what is always set."""
    plan = planned(rig_file, GROUP, eight_cards)
    assert " ".join(plan.argv) == (
        "python3 -m sglang.launch_server --model-path /models/tiny --host 127.0.0.1 --port 30001 "
        "--tp-size 1 --enable-metrics --enable-cache-report "
        "--uvicorn-access-log-exclude-prefixes /metrics /v1/loads /ready"
    )
    assert plan.env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0"}
    assert plan.cards == (eight_cards[0].uuid,)


def test_without_cards_nothing_speaks_of_cards(rig_file: ConfigKit) -> None:
    """The CPU engine starts without CUDA variables and without a rank count."""
    plan = planned(rig_file, NO_CARDS)
    assert plan.env == {}
    assert "--tp-size" not in plan.argv
    assert value(planned(rig_file, NO_CARDS + "tensor_parallel = 2\n"), "--tp-size") == "2"


def test_one_rank_a_card(rig_file: ConfigKit, eight_cards: tuple[CardSample, ...]) -> None:
    """Unless the owner says otherwise."""
    four = GROUP.replace("[0]", "[0, 1, 2, 3]")
    assert value(planned(rig_file, four, eight_cards), "--tp-size") == "4"
    two = planned(rig_file, four + "tensor_parallel = 2\n", eight_cards)
    assert value(two, "--tp-size") == "2"


def test_sleep_on_idle_is_the_wish_of_the_moment(rig_file: ConfigKit) -> None:
    """The caller's word counts, the file's is only its default."""
    config = rig_file.load(NO_CARDS + "sleep_on_idle = true\n")
    for wish in (True, False):
        plan = launch_plan(config.groups[0], config, (), {}, wish)
        assert ("--sleep-on-idle" in plan.argv) is wish


def test_yarn_becomes_the_override_and_its_variable(rig_file: ConfigKit) -> None:
    """As SGLang's reference has it for nested configs."""
    plan = planned(rig_file, NO_CARDS + "context_length = 524288\nyarn_factor = 2\n")
    assert value(plan, "--json-model-override-args") == (
        '{"text_config":{"rope_parameters":{"mrope_interleaved":true,"mrope_section":[11,11,10],'
        '"rope_type":"yarn","rope_theta":10000000,"partial_rotary_factor":0.25,"factor":2.0,'
        '"original_max_position_embeddings":262144}}}'
    )
    assert plan.env == {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    assert value(plan, "--context-length") == "524288"


def test_yarn_for_a_flat_config(rig_file: ConfigKit) -> None:
    """The classic Qwen3 form."""
    text = "context_length = 131072\nyarn_factor = 4\nyarn_original = 32768\nyarn_style = 'flat'\n"
    assert json.loads(value(planned(rig_file, NO_CARDS + text), "--json-model-override-args")) == {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32768,
        }
    }


def test_yarn_keeps_the_rope_of_a_model_at_hand(rig_file: ConfigKit, tmp_path: Path) -> None:
    """SGLang replaces nested parameters as a whole, so another family's would be wrong."""
    rope = {"rope_type": "default", "rope_theta": 5000000, "mrope_section": [8, 8, 8]}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"rope_parameters": rope}}))
    text = NO_CARDS.replace("/models/tiny", str(tmp_path))
    plan = planned(rig_file, text + "context_length = 2000\nyarn_factor = 2\n")
    assert json.loads(value(plan, "--json-model-override-args")) == {
        "text_config": {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 5000000,
                "mrope_section": [8, 8, 8],
                "factor": 2.0,
                "original_max_position_embeddings": 1000,
            }
        }
    }


def test_the_draft_and_the_think_budget(rig_file: ConfigKit) -> None:
    """Each is a handful of flags, and the budget a variable."""
    plan = planned(
        rig_file,
        NO_CARDS + "draft_model = '/d'\ndraft_tokens = 8\nthink_budget = 5000\n"
        "reasoning_parser = 'qwen3'\ngrammar_backend = 'xgrammar'\n",
    )
    assert value(plan, "--speculative-algorithm") == "DFLASH"
    assert value(plan, "--speculative-draft-model-path") == "/d"
    assert value(plan, "--speculative-num-draft-tokens") == "8"
    assert "--enable-strict-thinking" in plan.argv
    assert plan.env == {"SGLANG_MAX_THINK_TOKENS": "5000"}


def test_an_algorithm_without_a_draft_model(rig_file: ConfigKit) -> None:
    """NGRAM proposes from the prompt itself."""
    plan = planned(rig_file, NO_CARDS + "draft_algorithm = 'NGRAM'\ndraft_tokens = 4\n")
    assert value(plan, "--speculative-algorithm") == "NGRAM"
    assert "--speculative-draft-model-path" not in plan.argv


def test_flags_and_variables_pass_through_as_written(rig_file: ConfigKit) -> None:
    """In their order, after ours."""
    plan = planned(rig_file, NO_CARDS + "flags = ['--device', 'cpu', '-v']\nenv = { A = 'b c' }\n")
    assert plan.argv[-3:] == ("--device", "cpu", "-v")
    assert plan.env == {"A": "b c"}


def test_keys_are_in_no_command_line(
    rig_file: ConfigKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ps` shows the path of a file that only its owner can read."""
    (tmp_path / "api.key").write_text("sk-1234567890\n")
    (tmp_path / "api.key").chmod(0o600)
    text = NO_CARDS + "api_key = { file = 'api.key' }\nadmin_key = { env = 'ADMIN' }\n"
    config = rig_file.load(text)
    environ = {"ADMIN": "0123456789"}
    plan = launch_plan(config.groups[0], config, (), environ, False, tmp_path / "state")
    monkeypatch.chdir("/")
    path = write_key_file(config.groups[0], environ, tmp_path / "state")
    assert path is not None
    assert path == key_file(config.groups[0], tmp_path / "state")
    assert value(plan, "--config") == str(path)
    for shown in (plan.argv, plan.masked, tuple(plan.env.values()), (repr(plan), repr(config))):
        assert not any("sk-1234567890" in word or "0123456789" in word for word in shown)
    assert json.loads(path.read_text()) == {
        "api-key": "sk-1234567890",
        "admin-api-key": "0123456789",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_group_without_keys_has_no_key_file(rig_file: ConfigKit, tmp_path: Path) -> None:
    """And writes none."""
    group = rig_file.load(NO_CARDS).groups[0]
    assert write_key_file(group, {}, tmp_path / "state") is None
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "variable KEY is not set"),
        ({"KEY": " "}, "variable KEY is not set"),
        ({"KEY": "two words"}, "cannot be sent in a header"),
        ({"KEY": "-dash"}, "cannot be sent in a header"),
        ({"KEY": "kän"}, "cannot be sent in a header"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_unquoted(
    rig_file: ConfigKit, tmp_path: Path, environ: dict[str, str], says: str
) -> None:
    """Before the start, and without repeating it."""
    group = rig_file.load(NO_CARDS + "api_key = { env = 'KEY' }\n").groups[0]
    with pytest.raises(ConfigError) as caught:
        write_key_file(group, environ, tmp_path / "state")
    assert says in caught.value.say
    assert not environ.get("KEY", "").strip() or environ["KEY"] not in caught.value.say


def test_a_secret_in_the_flags_is_masked(rig_file: ConfigKit) -> None:
    """What is shown is not what is run."""
    for written in ("'--ssl-keyfile-password', 'hush'", "'--ssl-keyfile-password=hush'"):
        plan = planned(rig_file, NO_CARDS + f"flags = [{written}, '--device', 'cpu']\n")
        assert any("hush" in word for word in plan.argv)
        assert not any("hush" in word for word in plan.masked)
        assert plan.masked[-2:] == ("--device", "cpu")


class Quiet(BaseHTTPRequestHandler):
    """Answers every GET with 204."""

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing: the test's output stays clean."""


FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).status)"


@pytest.mark.case("C44")
@pytest.mark.parametrize("given", [{}, {"NO_PROXY": "localhost"}, {"no_proxy": "example.org, *.x"}])
def test_an_engine_reaches_itself_past_a_proxy(rig_file: ConfigKit, given: dict[str, str]) -> None:
    """SGLang's warm-up asks its own address with a client that obeys `http_proxy`."""
    server = HTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        closed = HTTPServer(("127.0.0.1", 0), Quiet)
        proxy = f"http://127.0.0.1:{closed.server_port}"
        closed.server_close()
        environ = {**os.environ, **given, "http_proxy": proxy, "ALL_PROXY": proxy}
        config = rig_file.load(NO_CARDS)
        plan = launch_plan(config.groups[0], config, (), environ, False)
        url = f"http://127.0.0.1:{server.server_port}/model_info"
        codes = [
            subprocess.run(
                [sys.executable, "-c", FETCH, url], env=env, capture_output=True, check=False
            ).returncode
            for env in (environ, {**environ, **plan.env})
        ]
        assert codes == [1, 0]
        for host in filter(None, ",".join(given.values()).replace(" ", "").split(",")):
            assert host in plan.env["no_proxy"].split(",")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.case("C44")
def test_without_a_proxy_nothing_is_added(rig_file: ConfigKit) -> None:
    """The engine's environment stays as it is."""
    assert planned(rig_file, NO_CARDS).env == {}


@pytest.mark.parametrize("word", ["HF_TOKEN=sekrit", "AWS_SECRET_ACCESS_KEY=sekrit", "a_key=x"])
def test_a_variable_on_the_command_line_is_masked(word: str) -> None:
    """`env HF_TOKEN=… python3 …` as the engine, and docker's `-e`: the value is never shown."""
    name = word.partition("=")[0]
    assert mask(("env", word, "-e", word, "python3")) == (
        *("env", f"{name}={MASK}", "-e", f"{name}={MASK}", "python3"),
    )
    assert mask(("MODEL=qwen", "--api-key", "a=b")) == ("MODEL=qwen", "--api-key", MASK)

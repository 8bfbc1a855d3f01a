"""One suite for both engines: what rigctl builds on holds for the simulated and the real SGLang."""

from __future__ import annotations

from typing import Any

import pytest
from engine_play import CHAT

Run = dict[str, Any]
pytestmark = pytest.mark.timeout(2400)  # the first test of each kind plays its whole life

PHASES = (
    "server_args=",
    "Init parallel begin.",
    "Init parallel ends.",
    "Load weight begin.",
    "Load weight end.",
    "KV Cache is allocated.",
    "Memory pool end.",
    "max_total_num_tokens=#, chunked_prefill_size=#",
    "Tree cache initialized:",
    "Engine startup timings (s):",
    "INFO:     Uvicorn running on",
    "The server is fired up and ready to roll!",
)
"""The lines that start phases are read from, in their order."""


def positions(course: list[str], lines: tuple[str, ...]) -> list[int]:
    """Where each line stands; fails with its name where it is missing."""
    found = []
    for line in lines:
        at = next((n for n, said in enumerate(course) if said.startswith(line)), None)
        assert at is not None, f"{line!r} is not in the log"
        found.append(at)
    return found


def test_start_phases_come_in_order(run: Run) -> None:
    """The log tells init, weights, pools, graphs and readiness, each once and in this order."""
    at = positions(run["start"]["course"], PHASES)
    assert at == sorted(at)


def test_the_port_listens_before_it_is_ready(run: Run) -> None:
    """`/v1/models`, `/v1/loads` and `/metrics` say 200 while `/ready` and `/health` say 503."""
    start = run["start"]
    assert set(start["early"].values()) == {200}
    assert start["early_ready"] == 503
    assert start["early_health"] == 503


def test_processes_have_their_titles(run: Run) -> None:
    """A scheduler and a detokenizer under SGLang's names, in the session that was started."""
    assert run["start"]["children"] == ["sglang::detokenizer", "sglang::scheduler"]


def test_endpoints(run: Run) -> None:
    """Status and kind of what the pollers and the doctor read; `/get_load` is gone."""
    answers = run["answers"]
    gone = answers["status"].pop("/get_load", 404)
    assert gone == 404
    assert set(answers["status"].values()) == {200}
    assert answers["type"]["/metrics"].startswith("text/plain")
    assert answers["type"]["/v1/loads"] == "application/json"
    assert answers["window"] == 8192
    assert {"version", "max_total_num_tokens", "internal_states", "launch_command"} <= set(
        answers["server_info"]
    )
    assert answers["flush"][0] == 200


def test_server_info_leaks_the_key(run: Run) -> None:
    """Law: never show it unfiltered, for it carries the api key in clear text."""
    assert run["answers"]["leaks_key"]


def test_the_shape_of_loads(run: Run) -> None:
    """The numbers that progress and pool are read from."""
    keys = run["answers"]["keys"]["/v1/loads"]
    wanted = [
        "timestamp",
        "num_running_reqs",
        "num_waiting_reqs",
        "num_waiting_uncached_tokens",
        "num_used_tokens",
        "max_total_num_tokens",
        "max_running_requests",
        "token_usage",
        "total_prefill_uncached_tokens",
        "total_prefill_busy_us",
    ]
    for name in wanted:
        assert f".loads[].{name}: number" in keys
    assert ".version: text" in keys


def test_the_metrics_that_are_read(run: Run) -> None:
    """Names, types and labels of every family rigctl looks at."""
    families = run["work"]["families"]
    scheduler = "(engine_type,model_name,moe_ep_rank,pp_rank,tp_rank)"
    gauges = [
        "num_running_reqs",
        "num_queue_reqs",
        "max_total_num_tokens",
        "context_len",
        "token_usage",
        "full_token_usage",
        "mamba_usage",
        "kv_used_tokens",
        "kv_evictable_tokens",
        "kv_available_tokens",
        "mamba_used_tokens",
        "mamba_evictable_tokens",
        "mamba_available_tokens",
        "spec_accept_length",
        "gen_throughput",
    ]
    for name in gauges:
        assert families[f"sglang:{name}"][1:] == ["type gauge", scheduler]
    with_mode = "(engine_type,mode,model_name,moe_ep_rank,pp_rank,tp_rank)"
    assert families["sglang:realtime_tokens_total"][1:] == ["type counter", with_mode]
    assert families["sglang:http_requests_active"][1:] == ["type gauge", "(endpoint,method)"]
    assert families["sglang:scheduler_idle_seconds_total"][1:] == ["type counter", scheduler]


def test_who_may_ask(run: Run) -> None:
    """With a key set, all but health, readiness and metrics want it."""
    refusals = run["refusals"]
    assert refusals["no key"] == refusals["wrong key"] == [401, [".error"], "Unauthorized"]
    assert refusals["no key for metrics"] == [200]


def test_too_long_is_400_in_sglangs_words(run: Run) -> None:
    """The window's refusal, told before anything is computed."""
    status, keys, text = run["refusals"]["too long"]
    assert status == 400
    assert keys == [".code", ".message", ".object", ".param", ".type"]
    assert text == ("The input (# tokens) is longer than the model's context length (# tokens).")
    status, _, text = run["refusals"]["too long with its answer"]
    assert status == 400
    assert text.startswith("Requested token count exceeds the model's maximum context length of #")


def test_other_refusals(run: Run) -> None:
    """Unknown path 404, wrong method 405, broken JSON 400; a wrong model name is taken."""
    refusals = run["refusals"]
    assert refusals["no such path"][0] == 404
    assert refusals["wrong method"][0] == 405
    assert refusals["no json"][0] == 400
    assert refusals["no messages"][0] == 400
    assert refusals["wrong model"] == [200]


def test_stream_framing(run: Run) -> None:
    """Role first, text, a finish, the usage that was asked for, then [DONE]; chunked."""
    work = run["work"]
    assert work["stream_head"]["transfer-encoding"] == "chunked"
    assert work["stream_head"]["content-type"].startswith("text/event-stream")
    assert work["last_frame"] == "[DONE]"
    frames = work["stream"]
    assert ".choices[].delta.role: text" in frames[0]
    assert ".choices[].delta.content: text" in frames[1]
    assert ".choices[].finish_reason: text" in frames[-2]
    assert ".choices[]" in frames[-1]
    assert ".usage.completion_tokens: number" in frames[-1]


def test_counters_move_while_a_stream_runs(run: Run) -> None:
    """The decode counter moves within a second; the stream counts as active and running."""
    work = run["work"]
    assert work["active"] == 1.0
    assert work["decode_counter_moves"]
    assert work["running"] == 1


def test_a_repeated_prompt_is_cached(run: Run) -> None:
    """The prefix cache serves the second asking, and the usage says so."""
    assert run["work"]["cached"]


def test_batch_lines_have_the_keys_that_are_read(run: Run) -> None:
    """Both batch lines are `key: value` pairs with these keys among them."""
    assert {"#new-token", "#cached-token", "#running-req", "#queue-req", "#pending-token"} <= set(
        run["work"]["prefill_line"]
    )
    assert {"#running-req", "gen throughput (token/s)", "#queue-req"} <= set(
        run["work"]["decode_line"]
    )


def test_abort_wants_a_known_id(run: Run) -> None:
    """`/abort_request` says 200 to any id; only one it knows ends the stream, and soon."""
    aborted = run["work"]["aborted"]
    assert aborted["unknown"] == aborted["status"] == 200
    assert aborted["goes_on"]
    assert aborted["soon"]


def test_a_client_that_leaves_frees_its_slot(run: Run) -> None:
    """0.5.23 tells the scheduler: no zombie decodes on."""
    assert run["work"]["left"]


def test_an_idle_engine_sleeps(run: Run) -> None:
    """With --sleep-on-idle the scheduler uses next to no CPU, and holds nothing."""
    assert run["idle"]["cpu_share"] < 0.1
    assert run["idle"]["running"] == 0


def test_a_taken_port_is_a_hang(run: Run) -> None:
    """It loads, says Errno 98, and stays with its memory: the port is checked first."""
    taken = run["taken"]["by something"]
    assert taken["code"] is None
    assert taken["left"]
    assert taken["course"][0].startswith("ERROR:    [Errno #] error while attempting to bind")


def test_on_anothers_port_an_engine_says_ready(run: Run) -> None:
    """Law: the ready line alone proves nothing. Its warm-up was answered by the port's holder."""
    course = run["taken"]["by an engine"]["course"]
    told = ("ERROR:    [Errno #]", "The server is fired up and ready to roll!")
    at = positions(course, told)
    assert at == sorted(at)


def test_sigterm_drains(run: Run) -> None:
    """A stream in flight goes on to its [DONE]; then the engine leaves with 0 and no child."""
    drain = run["drain"]
    assert drain["done"]
    assert drain["ended_after_stream"]
    assert drain["code"] == 0
    assert drain["left"] == 0
    assert drain["health"] == 503
    told = ("SIGTERM received.", "Gracefully exiting...", "kill_process_tree called:")
    at = positions(drain["course"], told)
    assert at == sorted(at)


@pytest.mark.case("C07")
def test_a_killed_scheduler_takes_the_server_along(run: Run) -> None:
    """Noticed within seconds, told in these lines, ended by its own SIGKILL."""
    kill = run["kill"]
    assert kill["code"] == -9
    told = (
        "Subprocess scheduler_# (pid=#) crashed with exit code #.",
        "SIGQUIT received.",
        "Sleeping # seconds before crash diagnostics",
        "kill_process_tree called: parent_pid=#, include_parent=True",
    )
    at = positions(kill["course"], told)
    assert at == sorted(at)
    assert kill["seconds"]["gone"] - kill["seconds"]["noticed"] > 4.0


@pytest.mark.case("C01")
def test_sigterm_while_loading_leaves_children_behind(run: Run) -> None:
    """The main process dies of the signal, its children stay: a stop signals the whole session.

    They carry no title yet, so nothing that looks for `sglang::` finds them.
    """
    assert run["loading"] == {"code": -15, "titled": False, "left": True}


def test_command_lines_that_cannot_start(run: Run) -> None:
    """An unknown flag ends with 2 in argparse's words, a wrong model or window with 1."""
    flags = run["flags"]
    assert flags["unknown"][0] == 2
    assert flags["unknown"][1].endswith("error: unrecognized arguments: --sleep-while-idle")
    assert flags["missing"][0] == 2
    assert "--model-path" in flags["missing"][1]
    assert flags["no model"][0] == 1
    assert flags["window"][0] == 1
    assert "User-specified context_length (#) is greater than the derived" in flags["window"][1]


def test_chat_path_is_the_one_counted() -> None:
    """The suite's own path is a generation endpoint of the metrics parser."""
    from rigctl.parse.metrics import GENERATION_ENDPOINTS

    assert CHAT in GENERATION_ENDPOINTS

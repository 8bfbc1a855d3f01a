"""The relay bench: its engine, its client, its verdicts over rounds, and peers that are missing."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rigctl.bench import cost, relay_frames, relay_peers, relay_plan, relay_suite
from rigctl.bench.peers import PeerMissingError
from rigctl.bench.plan import Bar, Figure, Result, Row, judge
from rigctl.bench.relay_loads import Load, requests
from rigctl.bench.relay_peers import Relay, free_port, running
from rigctl.bench.relay_plan import DIRECT, OURS, ROWS
from rigctl.bench.relay_rounds import LoadFailedError, Taken, figures, run_load
from rigctl.bench.report import table


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """The bench's engine on two ports, asked without a relay."""
    ports = (free_port(), free_port())
    argv = [sys.executable, "-m", "rigctl.bench.relay_backend", *map(str, ports)]
    with running(argv, tmp_path_factory.mktemp("engine"), os.environ) as process:
        for port in ports:
            log = tmp_path_factory.mktemp("log") / "output"
            log.touch()
            relay_peers.await_answer("the engine", port, process, log)
        yield Relay(DIRECT, ports)


# engine and client ----------------------------------------------------------------------


def test_every_token_is_stamped_and_read_back() -> None:
    """A token's event is one SSE frame of a chunked body whose stamp the client finds."""
    piece = relay_frames.Frames(7).token(123_456_789)
    size, _, rest = piece.partition(b"\r\n")
    frame = rest[:-2]
    assert int(size, 16) == len(frame)
    assert frame.startswith(b"data: ")
    assert frame.endswith(b"\n\n")
    assert json.loads(frame[6:])["choices"][0]["delta"]["content"].endswith("123456789")
    (found,) = relay_frames.STAMP.findall(frame)
    assert int(found) == 123_456_789


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("filler", [10, 100_000])
@pytest.mark.parametrize("spaced", [False, True])
def test_the_engine_reads_what_is_wanted_after_a_relay_rewrote_it(
    field: str, filler: int, spaced: bool
) -> None:
    """Renamed fields, other spacing and large bodies change nothing in what is streamed."""
    text = f"{relay_frames.knobs_text(0.25, 0.005)} you are"
    body = {
        "messages": [
            {"role": "system", "content": text},
            {"role": "user", "content": "x" * filler},
        ],
        "stream": True,
        field: 30,
    }
    raw = json.dumps(body, separators=None if spaced else (",", ":")).encode()
    assert relay_frames.read_knobs(raw) == relay_frames.Knobs(30, 0.25, 0.005, True)


def test_a_conversation_grows_and_each_turn_begins_as_the_last_one() -> None:
    """Turns of one conversation share their beginning; another one shares no user message."""
    load = Load(1, 5, body=20_000, conversation=3, named=1.0)
    bodies = [json.loads(raw.partition(b"\r\n\r\n")[2]) for raw in requests(load, 0)]
    assert len(bodies) == 5
    first, second, third, other, _ = (body["messages"] for body in bodies)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert other[0] == first[0]
    assert other[1] != first[1]
    assert [each["role"] for each in third][-2:] == ["assistant", "user"]
    assert sum(len(each["content"]) for each in first) > 18_000
    heads = [raw.partition(b"\r\n\r\n")[0] for raw in requests(load, 0)]
    assert all(b"x-session-id: " in head for head in heads)


def test_the_client_counts_every_token_and_its_time(direct: Relay) -> None:
    """All tokens of all streams arrive, later than they were written and in less than a second."""
    outcome = run_load(Load(3, 2, tokens=20, gap=0.002), direct)
    assert (outcome.chunks, outcome.finished, outcome.failed) == (120, 6, 0)
    assert outcome.chunk_p50 is not None
    assert outcome.first_p50 is not None
    assert 0 < outcome.chunk_p50 < 1000
    assert 0 < outcome.first_p50 < 1000
    assert outcome.seconds >= 2 * 20 * 0.002


def test_a_load_in_time_ends_in_time(direct: Relay) -> None:
    """Short answers are asked until the time is over and not until the number is."""
    outcome = run_load(Load(2, 10**9, stream=False, seconds=0.2), direct)
    assert outcome.finished > 2
    assert outcome.chunks == 0


def test_a_lost_answer_is_no_figure(tmp_path: Path) -> None:
    """What hangs up in the middle of a stream fails the load, and is named."""
    port = free_port()
    script = tmp_path / "broken.py"
    script.write_text(
        "import socket\n"
        f"server = socket.create_server(('127.0.0.1', {port}))\n"
        "while True:\n"
        "    line, _ = server.accept()\n"
        "    line.recv(65536)\n"
        "    line.sendall(b'HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n')\n"
        "    line.close()\n"
    )
    with running([sys.executable, str(script)], tmp_path, os.environ):
        time.sleep(0.5)
        with pytest.raises(LoadFailedError, match="1 of 1 requests failed: connection lost"):
            run_load(Load(1, 1, tokens=3), Relay("broken", (port,)))


# verdicts -------------------------------------------------------------------------------


def rounds(*bars: Bar) -> Row:
    """A row with those bars."""
    return Row("x", "what", "promise", bars, beside="nginx")


def result(row: Row, ours: tuple[float, ...], nginx: tuple[float, ...]) -> Result:
    """Ours and nginx's rounds."""
    return Result(row, (Figure.of(OURS, ours, "ms"),), (Figure.of("nginx", nginx, "ms"),))


def test_each_round_is_held_against_the_peers_own() -> None:
    """A disturbance that met both relays of a round does not decide: margins are paired."""
    row = rounds(Bar(OURS, 1.0, "nginx", plus=0.25))
    verdict = judge(result(row, (0.3, 5.1, 0.3, 0.3), (0.2, 5.0, 0.2, 0.2)))
    assert verdict.met
    assert verdict.ratios == ("1.50 × nginx",)


def test_what_holds_in_half_of_the_rounds_is_too_close_to_call() -> None:
    """A difference under the spread is not called: not met, and said why."""
    row = rounds(Bar(OURS, 1.0, "nginx", below=True))
    verdict = judge(result(row, (1.0, 1.0, 1.0, 1.0, 1.0), (1.1, 1.1, 1.1, 0.8, 0.8)))
    assert not verdict.met
    assert verdict.why == "too close to call: 1 × nginx held in 3 of 5 rounds"


def test_a_median_over_the_bar_is_not_met() -> None:
    """Over twice the peer in most rounds: missed, with the ratio."""
    row = rounds(Bar(OURS, 2.0, "nginx"))
    verdict = judge(result(row, (5.0, 5.0, 1.0), (2.0, 2.0, 2.0)))
    assert verdict.why == "2.50 × nginx is over 2"


def test_no_ratio_to_a_figure_that_is_not_apart_from_nothing() -> None:
    """Where the peer's rounds reach below zero a ratio would be noise."""
    row = rounds(Bar(OURS, 1.0))
    verdict = judge(result(row, (0.5, 0.5), (-0.1, 0.3)))
    assert verdict.met
    assert verdict.ratios == ("no ratio to nginx: its figure is not apart from 0",)


@pytest.mark.parametrize(("value", "met"), [(6.0, True), (5.0, False), (7.0, False)])
def test_a_count_is_exact(value: float, met: bool) -> None:
    """Six is six: neither five nor seven."""
    row = Row("ten", "what", "six", (Bar("on standard", 6, exact=True),))
    assert judge(Result(row, (Figure("on standard", value, ""),))).met is met


def test_a_bar_whose_peer_is_missing_says_so_and_is_not_met() -> None:
    """Every bar against a peer needs that peer in the run; the table has a word for it."""
    for row in ROWS:
        ours = tuple(Figure(bar.figure, bar.limit if bar.exact else 0, "ms") for bar in row.bars)
        verdict = judge(Result(row, ours))
        needs = any(bar.peer for bar in row.bars)
        assert verdict.met is not needs
        assert verdict.word == ("peer not in this run" if needs else "met")
    shown = table([Result(relay_plan.row("cpu"), (Figure(OURS, 20, "ms"),))])
    assert shown.startswith("peer not in this run  CPU for 1,000 chunks")
    assert "0 of 1 bars met" in shown


def test_a_row_without_a_bar_is_told_and_not_counted() -> None:
    """A figure that promises nothing is shown, and no bar more or less is met for it."""
    shown = table([Result(relay_plan.row("short"), (Figure(OURS, 9000, "/s"),))])
    assert shown.startswith("told ")
    assert "0 of 0 bars met" in shown


def test_directs_share_is_taken_off_round_by_round() -> None:
    """Added latency is the relay's minus direct's of the same round; a failed relay has none."""
    taken = {
        DIRECT: Taken(first=[1.0, 2.0, 1.0]),
        OURS: Taken(first=[1.5, 2.6, 1.4]),
        "nginx": Taken(first=[1.2], fault="nginx: it fell"),
    }
    found = figures(taken, "first", "ms", True)
    assert found[OURS].rounds == pytest.approx((0.5, 0.6, 0.4))
    assert found[OURS].value == pytest.approx(0.5)
    assert "nginx" not in found
    assert found[DIRECT].name == "direct (whole)"


# peers ----------------------------------------------------------------------------------


def test_a_missing_peer_names_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No server on the machine, no interpreter with the package: how to get each."""
    monkeypatch.setattr(relay_peers, "_PLACES", str(tmp_path))
    monkeypatch.setenv("RIGCTL_BENCH_ROUTER", str(tmp_path / "none"))
    monkeypatch.delenv("RIGCTL_BENCH_LITELLM", raising=False)
    cures = {
        "nginx": "apt install nginx-light",
        "HAProxy": "apt install haproxy",
        "sglang-router": "RIGCTL_BENCH_ROUTER=.* is no interpreter",
        "LiteLLM": r"pip install 'litellm\[proxy\]==",
    }
    for name, cure in cures.items():
        with (
            pytest.raises(PeerMissingError, match=cure),
            relay_peers.peer(name, tmp_path / name, (1, 2)),
        ):
            pass


def test_a_relay_that_does_not_start_is_absent_with_its_last_words(tmp_path: Path) -> None:
    """A peer that ends at once is not waited for, and what it said is told."""
    argv = [sys.executable, "-c", "print('no licence'); raise SystemExit(3)"]
    log = tmp_path / "output"
    with running(argv, tmp_path, os.environ) as process:
        process.wait()
        with pytest.raises(PeerMissingError, match=r"did not answer.*no licence"):
            relay_peers.await_answer("peer", free_port(), process, log)


def test_cpu_of_a_tree_is_told_to_the_nanosecond(tmp_path: Path) -> None:
    """A spinning process's time grows between two looks that one clock tick cannot tell apart."""
    with running([sys.executable, "-c", "while True: pass"], tmp_path, os.environ) as process:
        relay = Relay("spinner", (), process.pid)
        time.sleep(0.2)
        before = relay.cpu()
        time.sleep(0.2)
        assert 0 < relay.cpu() - before <= 0.5
        assert cost.exact_cpu_seconds(process.pid) > 0
    assert relay_suite.machine(relay_plan.QUICK)["run"].startswith("quick")

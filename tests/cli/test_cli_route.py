"""`rigctl route explain`: one decision a block, in plain words."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from cli_views import WALL, endpoint, rig

from rigctl.cli.route_words import RULES, block
from rigctl.control import wire
from rigctl.core.flow import RouteRecord
from rigctl.core.snapshot import Snapshot

HOME = RouteRecord(
    seq=41,
    wall=WALL,
    request="r1aaaaaaa",
    session="s1bbbbbbb",
    client="anna",
    endpoint="/v1/chat/completions",
    cluster="standard",
    rule="home",
    say="its home is full: 12 s of waiting cost less than 101 s of cold prefill on long",
    source="chain",
    tokens=101_000,
    how="learnt",
    waited=12.0,
    status=200,
)
REFUSED = replace(
    HOME,
    seq=42,
    request="r2aaaaaaa",
    session="s2bbbbbbb",
    client="-",
    cluster="",
    rule="off",
    say="only long could take 300000 tokens, and it is lent to training",
    source="",
    how="counted",
    waited=0.0,
    status=503,
)


@contextmanager
def answering(home: Path, snapshot: Snapshot, records: list[RouteRecord]) -> Iterator[list[Any]]:
    """Something on the home's socket that speaks the questions `snapshot` and `routes`."""
    asked: list[Any] = []

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            question = json.loads(self.rfile.readline())
            asked.append(question)
            if question["do"] == "snapshot":
                self.wfile.write(wire.encode_snapshot(snapshot))
                return
            assert question["do"] == "routes"
            newest = records[max(0, len(records) - question["limit"]) :]
            lines = [{"kind": "route", "record": asdict(record)} for record in newest]
            for line in [*lines, {"kind": "end"}]:
                self.wfile.write(json.dumps(line).encode() + b"\n")

    path = home / "state" / "rigctl.sock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with socketserver.ThreadingUnixStreamServer(str(path), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()
            path.unlink()


def test_a_decision_is_explained_in_plain_words(home, rigctl) -> None:
    """Where, by which rule, how the session was known, the estimate, the wait, both prices."""
    with answering(home, rig(endpoint=endpoint()), [HOME, REFUSED]) as asked:
        done = rigctl("route", "explain", "-n", "2", env={"COLUMNS": "82"})
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().split("\n\n")
    assert "r1aaaaaaa  anna  session s1bbbbbbb  /v1/chat/completions" in first
    assert first.splitlines()[1:] == [
        "  to standard by the rule `home` (its session is cached there)",
        "  its home is full: 12 s of waiting cost less than 101 s of cold prefill on long",
        "  its session was known by its messages; prompt 101k tokens (by this rig's own",
        "    characters a token)",
        "  waited 12 s; answered 200",
    ]
    assert "refused by the rule `off` (the only cluster that could take it is off)" in second
    assert "a new session; prompt 101k tokens (counted by the engine)" in second
    assert "did not wait; answered 503" in second
    assert "anna" not in second
    assert asked[-1] == {"do": "routes", "limit": 2, "follow": False}


def test_one_request_or_session_is_looked_for_among_all(home, rigctl) -> None:
    """By the beginning of its id; JSON has the whole record, one a line."""
    with answering(home, rig(endpoint=endpoint()), [HOME, REFUSED]):
        found = rigctl("route", "explain", "--request", "r2", "--json").stdout.splitlines()
        of_session = rigctl("route", "explain", "--session", "s1bbbbbbb").stdout
        none = rigctl("route", "explain", "--request", "zz")
        last = rigctl("route", "explain", "-n", "1", "--json").stdout.splitlines()
    assert [json.loads(line)["request"] for line in found] == ["r2aaaaaaa"]
    assert json.loads(found[0]) == {"schema": 1, "kind": "route", **asdict(REFUSED)}
    assert "r1aaaaaaa" in of_session
    assert "r2aaaaaaa" not in of_session
    assert (none.returncode, none.stdout) == (0, "")
    assert "no decision about zz is kept" in none.stderr
    assert len(last) == 1


def test_nothing_decided_yet_is_said(home, rigctl) -> None:
    """An empty page would look like a fault; a rig without an endpoint is another thing."""
    with answering(home, rig(endpoint=endpoint()), []):
        assert "no request came" in rigctl("route", "explain").stderr
    with answering(home, rig(), []):
        done = rigctl("route", "explain")
    assert done.returncode == 1
    assert "write [proxy] into rig.toml" in done.stderr
    assert (rigctl("route").returncode, rigctl("route", "explain").returncode) == (2, 3)


def test_every_rule_of_the_router_has_plain_words() -> None:
    """The rules that `core.clusters.Why` lists."""
    from rigctl.core.clusters import Why

    listed = Path(__file__).parents[2] / "rigctl" / "core" / "clusters.py"
    text = listed.read_text().partition("class Why")[2].partition("say: str")[0]
    assert set(RULES) == {word for word in text.split("`")[1::2] if word.isascii()}
    assert Why("home", "").rule in RULES


@pytest.mark.parametrize("width", [40, 80])
def test_blocks_fit_the_terminal(width: int) -> None:
    """Later lines are indented; a decision under way says that it runs."""
    lines = block(asdict(replace(HOME, status=0, tokens=0)), WALL, width)
    assert all(len(line) <= width for line in lines[1:])
    assert lines[-1].endswith("runs")
    assert "prompt" not in " ".join(lines)

"""`rigctl route explain`: one decision a block, in plain words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from cli_rig import serving
from cli_views import WALL, endpoint, rig

from rigctl.cli.route_words import RULES, block
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
def deciding(home: Path, *records: RouteRecord, shown: Snapshot | None = None) -> Iterator[Any]:
    """The scripted rig, whose endpoint has decided this."""
    with serving(home, shown or rig(endpoint=endpoint())) as served:
        served.routes.put(records)
        yield served


def test_a_decision_is_explained_in_plain_words(home, rigctl) -> None:
    """Where, by which rule, how the session was known, the estimate, the wait, both prices."""
    with deciding(home, HOME, REFUSED):
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


def test_one_request_or_session_is_looked_for_among_all(home, rigctl) -> None:
    """By the beginning of its id; JSON has the whole record, one a line."""
    with deciding(home, HOME, REFUSED):
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


def test_following_shows_each_decision_and_its_outcome(home) -> None:
    """The last ones, then new ones as they are made, then once more as they end."""
    with deciding(home, HOME, REFUSED) as served:
        process = subprocess.Popen(
            [sys.executable, "-m", "rigctl", "route", "explain", "-fn1", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())]
        runs = replace(HOME, seq=43, request="r3aaaaaaa", status=0)
        served.soon(lambda: served.routes.put((runs,)))
        seen.append(json.loads(process.stdout.readline()))
        served.soon(lambda: served.routes.put((replace(runs, status=499),)))
        seen.append(json.loads(process.stdout.readline()))
        process.terminate()
        process.communicate(timeout=30)
    assert [(one["request"], one["status"]) for one in seen] == [
        ("r2aaaaaaa", 503),
        ("r3aaaaaaa", 0),
        ("r3aaaaaaa", 499),
    ]


def test_nothing_decided_yet_is_said(home, rigctl) -> None:
    """An empty page would look like a fault; a rig without an endpoint is another thing."""
    with deciding(home):
        assert "no request came" in rigctl("route", "explain").stderr
    with deciding(home, shown=rig()):
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

"""The endpoint's verbs: sessions, endpoint, abort, and its line on the status page."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from cli_rig import ends, refuse, serving
from cli_views import cluster, endpoint, group, rig, session

from rigctl.control import wire
from rigctl.core.commands import AbortAnswer, RestartEndpoint
from rigctl.core.reading import NOT_YET
from rigctl.core.snapshot import EndpointView

UTF8 = {"LANG": "C.UTF-8", "COLUMNS": "140"}
WAITING = {
    "cluster": "",
    "rate": NOT_YET,
    "context": NOT_YET,
    "pool_share": NOT_YET,
    "first_byte": NOT_YET,
}
ROWS = (
    session(5, request="", state="resting", seconds=240.0, cluster="long", rate=NOT_YET),
    session(3, state="queued", seconds=9.0, say="place 2 of 5, about 40 s", **WAITING),
    session(1),
    session(
        2,
        state="stalled",
        seconds=41.0,
        behind="s4bbbbbbb",
        client="ben",
        cluster="long",
        flags=("repeats",),
    ),
)


def test_sessions_are_a_table_and_each_clients_sums(home, rigctl) -> None:
    """What runs first, then what waits, then what rests; a stall names who is in front."""
    with serving(home, rig(endpoint=endpoint(*ROWS))):
        done = rigctl("sessions", env=UTF8)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    head = "endpoint up 3d 04h  http://127.0.0.1:8000/v1  4 in flight, 2 queued, oldest 41 s"
    assert lines[0] == head
    assert [line.split()[1][:2] for line in lines[3:7]] == ["s1", "s2", "s3", "s5"]
    assert "stalled 41 s behind s4bbbbbbb ! repeats" in lines[4]
    assert "queued 9.0 s: place 2 of 5, about 40 s" in lines[5]
    assert lines[6].split()[0] == "--"
    assert lines[9].split() == [
        "anna",
        "2",
        "3",
        "120",
        "1",
        "4",
        "9.00M",
        "90",
        "%",
        "310k",
        "120k",
        "2",
    ]
    assert lines[10].split() == ["ben", "0", "--", "7", "0", "0", "0", "--", "0", "0", "0"]


def test_a_prompt_that_waits_for_another_says_whose(home, rigctl) -> None:
    """Sent to an engine that reads another prompt first: it prefills, and stands behind."""
    row = session(1, state="prefilling", seconds=3.0, behind="s4bbbbbbb", say="waits behind it")
    with serving(home, rig(endpoint=endpoint(row))):
        assert "prefilling 3.0 s, behind s4bbbbbbb" in rigctl("sessions", env=UTF8).stdout


def test_sessions_of_one_client_on_one_cluster(home, rigctl) -> None:
    """Both choices narrow the rows; the JSON has the same rows in full, with its schema."""
    with serving(home, rig(endpoint=endpoint(*ROWS))):
        text = rigctl("sessions", "--client", "ben", env=UTF8).stdout
        data = json.loads(rigctl("sessions", "--json", "--cluster", "long").stdout)
        none = rigctl("sessions", "--client", "carl").stdout
    assert "s2bbbbbbb" in text
    assert "anna" not in text
    assert (data["schema"], data["kind"], data["queued"]) == (1, "sessions", 2)
    assert [row["session"] for row in data["sessions"]] == ["s2bbbbbbb", "s5bbbbbbb"]
    assert data["sessions"][0]["flags"] == ["repeats"]
    assert "no session of carl" in none


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_row_is_wider_than_the_terminal(home, rigctl, width: int) -> None:
    """Columns go from the least needed; which session and how it stands stay."""
    shown = rig(endpoint=endpoint(*ROWS))
    with serving(home, shown):
        for verb in ("sessions", "endpoint"):
            done = rigctl(verb, env={"COLUMNS": str(width)})
            assert all(len(line) <= width for line in done.stdout.splitlines()), done.stdout
    if width >= 60:
        assert "standard" in done.stdout


def test_sessions_are_watched_as_they_change(home) -> None:
    """`--watch --json`: one object for each snapshot."""
    with serving(home, rig(endpoint=endpoint(session(1)))) as served:
        process = subprocess.Popen(
            [sys.executable, "-m", "rigctl", "sessions", "--watch", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        served.soon(lambda: served.show(endpoint=endpoint(session(1), session(2))))
        second = json.loads(process.stdout.readline())
        process.terminate()
        process.communicate(timeout=30)
    assert (len(first["sessions"]), len(second["sessions"])) == (1, 2)


@pytest.mark.parametrize(
    "words", [["sessions"], ["endpoint"], ["abort", "00000001", "--yes"], ["endpoint", "restart"]]
)
def test_a_rig_without_an_endpoint_says_how_to_get_one(home, rigctl, words: list[str]) -> None:
    """Exit code 1 and the section to write; without a daemon 3, and none is started."""
    with serving(home, rig()):
        done = rigctl(*words)
    assert done.returncode == 1
    assert "write [proxy] into rig.toml" in done.stderr
    if words[-1] != "restart":
        assert rigctl(*words).returncode == 3


def test_endpoint_shows_standing_evidence_and_what_is_off(home, rigctl) -> None:
    """Address, key, clusters with their evidence, the session that holds others up."""
    busy = cluster(
        standing="busy",
        say="46k of 122k tokens left",
        culprit="s4bbbbbbb",
        waiting_behind=("s1bbbbbbb", "s2bbbbbbb"),
    )
    view = endpoint(*ROWS)
    view = replace(view, rows=replace(view.rows, clusters=(busy, view.rows.clusters[1])))
    with serving(home, rig(endpoint=view)):
        page = rigctl("endpoint", env=UTF8).stdout
        told = json.loads(rigctl("endpoint", "status", "--json").stdout)
    assert "endpoint  up 3d 04h" in page
    assert "http://127.0.0.1:8000/v1  model qwen3.8-27b  a key is needed" in page
    assert "standard  open     3 of 6        0         4   212         9" in page
    assert "busy 10 min\n  46k of 122k tokens left\n" in page
    assert "the prompt of s4bbbbbbb is being read; behind it: s1bbbbbbb, s2bbbbbbb" in page
    assert "off here:\n  /v1/messages: a thinking budget has no effect there." in page
    assert told["base_url"] == "http://127.0.0.1:8000/v1"
    assert (told["kind"], told["rows"]["clusters"][0]["culprit"]) == ("endpoint", "s4bbbbbbb")


ABORTED = ends("done", "ended after 740 tokens", kind="abort")


@pytest.mark.parametrize("named", ["rig-e1-00000001", "00000001", "s1bbbbbbb"])
def test_abort_ends_the_request_that_is_meant(home, rigctl, named: str) -> None:
    """By its id, the end of it that the table shows, or its session's label."""
    with serving(home, rig(endpoint=endpoint(*ROWS)), ABORTED) as served:
        done = rigctl("abort", named, "--yes")
    assert done.returncode == 0, done.stderr
    assert served.asked == [AbortAnswer("rig-e1-00000001")]
    assert "ended after 740 tokens" in done.stderr


def test_abort_asks_whose_it_is_and_no_is_the_default(home, terminal) -> None:
    """Client, cluster, state, what it made; Enter alone does nothing."""
    with serving(home, rig(endpoint=endpoint(*ROWS)), ABORTED) as served:
        screen = terminal("abort", "00000001")
        screen.expect("[y/N]")
        screen.type("\n")
        assert screen.wait() == 1
        assert served.asked == []
    for part in (
        "anna asked it on standard: turn 9 of session s1bbbbbbb.",
        "It is answering 12 s; it waited 0.4 s and made 740 tokens so far",
        "End request 00000001 of anna?",
        "nothing was done",
    ):
        assert part in screen.seen, screen.seen


def test_abort_of_none_or_of_several_does_nothing(home, rigctl) -> None:
    """Usage, with what could be meant."""
    with serving(home, rig(endpoint=endpoint(*ROWS)), ABORTED) as served:
        several = rigctl("abort", "rig", "--yes")
        none = rigctl("abort", "zzz", "--yes")
        resting = rigctl("abort", "s5bbbbbbb", "--yes")
        assert served.asked == []
    assert several.returncode == none.returncode == resting.returncode == 2
    assert "may mean any of 00000003, 00000001, 00000002" in several.stderr
    assert "3 others are: `rigctl sessions` lists them" in none.stderr


def test_a_refused_abort_says_why(home, rigctl) -> None:
    """The daemon's words, exit code 1."""
    with serving(home, rig(endpoint=endpoint(*ROWS)), refuse("it has just ended")):
        done = rigctl("abort", "00000001", "--yes")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "it has just ended")


def test_endpoint_restart_cuts_nobody_and_says_so(home, rigctl) -> None:
    """No question is asked: the old process finishes what it has."""
    restarted = ends("done", "a new proxy serves", kind="restart-endpoint")
    with serving(home, rig(endpoint=endpoint(*ROWS)), restarted) as served:
        dry = rigctl("endpoint", "restart", "--dry-run")
        assert served.asked == []
        done = rigctl("endpoint", "restart")
    assert (dry.returncode, done.returncode) == (0, 0), done.stderr
    assert "no connection is refused meanwhile" in dry.stderr
    assert "4 answers run: the old process finishes them. 2 requests queued there" in dry.stderr
    assert served.asked == [RestartEndpoint()]


def test_the_status_page_has_one_line_of_it(home, rigctl) -> None:
    """Address, in flight, queued, oldest wait; none at all without an endpoint."""
    with serving(home, rig(endpoint=endpoint())):
        page = rigctl("status", env=UTF8).stdout
    assert (
        "endpoint   up 3d 04h  http://127.0.0.1:8000/v1  4 in flight, 2 queued, oldest 41 s\n"
        in page
    )
    with serving(home, rig()):
        assert "endpoint" not in rigctl("status").stdout


def test_what_it_told_long_ago_is_said_to_be_old(home, rigctl) -> None:
    """Work under way and no word for a minute: that is old. A calm endpoint has nothing to tell."""
    with serving(home, rig(endpoint=endpoint(age=60.0))):
        assert "oldest 41 s, told 60 s ago" in rigctl("status", env=UTF8).stdout
    view = endpoint(age=60.0)
    calm = replace(view.rows, queued=0, clusters=(cluster(in_flight=0),))
    with serving(home, rig(endpoint=replace(view, rows=calm))):
        page = rigctl("status", env=UTF8).stdout
    assert "0 in flight, none queued\n" in page


ILL = {
    "failed": "the endpoint is failed: port 8000 is taken by pid 7 (next: rigctl endpoint)",
    "lost": "the endpoint is lost: port 8000",
    "backing_off": "the endpoint is backing off: port 8000",
    "off": "the endpoint is off: port 8000",
}


@pytest.mark.parametrize(("state", "says"), ILL.items())
def test_an_endpoint_that_should_serve_and_does_not_is_degraded(
    home, rigctl, state: str, says: str
) -> None:
    """`status --check` gives 1 and the reason; the page says it too."""
    view = EndpointView(
        state=state,
        seconds=9.0,
        say="port 8000 is taken by pid 7",
        advice="rigctl endpoint",
        url="http://127.0.0.1:8000",
    )
    with serving(home, rig(endpoint=view)):
        done = rigctl("status", "--check")
        page = rigctl("status", env=UTF8).stdout
    assert done.returncode == 1
    assert done.stdout.startswith(says)
    assert f"! {says}" in page.replace("\n  ", " ")


def test_an_endpoint_that_serves_is_well(home, rigctl) -> None:
    """Up, starting and leaving are no fault."""
    for state in ("up", "starting", "leaving", "none"):
        with serving(home, rig(endpoint=replace(endpoint(), state=state))):
            assert rigctl("status", "--check").returncode == 0, state


def test_a_daemon_that_knows_of_no_endpoint_is_understood(home) -> None:
    """An older daemon's snapshot has no such field: the page comes all the same."""
    from rigctl.cli.paint import Paint
    from rigctl.cli.render import page
    from rigctl.cli.verdict import verdict

    snap = json.loads(wire.encode_snapshot(rig()))
    del snap["endpoint"]
    assert page(snap, Paint(False), 100)[0].startswith("rigctl · rig")
    assert verdict(snap) == (0, [])


def test_a_stop_says_where_new_requests_go_and_what_goes_cold(home, rigctl) -> None:
    """By the endpoint's own rows; a window that nobody else has is named."""
    groups = (group(), group("long", window=524_288))
    with serving(home, rig(groups=groups, endpoint=endpoint(*ROWS))):
        stop = rigctl("stop", "long", "--dry-run").stderr
        restart = rigctl("restart", "long", "--dry-run").stderr
        free = rigctl("free", "long", "--dry-run").stderr
        sleep = rigctl("sleep", "long", "on", "--dry-run").stderr
    gone = "New requests are routed to standard; prompts over 262k tokens are refused (503)."
    held = "prompts over 262k tokens are held until it is back, within limits."
    cold = "2 sessions go cold: 202k tokens, about 3 min of prefill at an assumed 1000 tok/s."
    assert gone in stop
    assert gone in free
    assert held in restart
    assert held in sleep
    assert all(cold in text for text in (stop, free, restart, sleep))


def test_a_stop_of_the_last_cluster_says_that_nobody_answers(home, rigctl) -> None:
    """A gate that is shut, or a standing that takes nothing, is no other cluster."""
    view = endpoint()
    shut = (cluster(), cluster("long", gate="finish"))
    with serving(home, rig(endpoint=replace(view, rows=replace(view.rows, clusters=shut)))):
        said = rigctl("stop", "standard", "--dry-run").stderr
    assert "No other cluster takes requests: new ones are refused (503)." in said
    with serving(home, rig(endpoint=replace(view, age=60.0))):
        assert "New requests" not in rigctl("stop", "standard", "--dry-run").stderr

"""`rigctl status`: the daemon's own line, a page for people, a verdict for cron."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cli_rig import serving
from cli_views import LOST, card, group, lease, rig

from rigctl.control import wire
from rigctl.core.reading import Total
from rigctl.core.snapshot import Flow, Notice, PowerView


def test_json_is_the_daemons_line_as_it_came(home, rigctl) -> None:
    """`--json` prints the very bytes of the socket, non-ASCII text included."""
    snapshot = rig(rig="Zürich →")
    with serving(home, snapshot):
        done = rigctl("status", "--json", text=False)
    assert done.stdout == wire.encode_snapshot(snapshot)
    assert done.returncode == 0


@pytest.mark.case("C98")
def test_json_stays_utf8_in_any_locale(home, rigctl) -> None:
    """JSON is UTF-8 whatever the locale says."""
    with serving(home, rig(rig="Zürich")):
        done = rigctl(
            "status", "--json", text=False, env={"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}
        )
    assert json.loads(done.stdout)["rig"] == "Zürich"


def test_without_a_daemon_it_says_so_and_starts_none(home, rigctl) -> None:
    """No daemon: exit code 3, the next command, and still no daemon afterwards."""
    done = rigctl("status")
    assert done.returncode == 3
    assert "rigctl daemon" in done.stderr
    assert done.stdout == ""
    assert not (home / "state").exists()


def test_it_loads_nothing_heavy(home) -> None:
    """`rigctl status` loads none of the panel, HTTP, NVML, typed JSON and asyncio modules."""
    heavy = (
        "{'textual', 'httpx', 'pynvml', 'msgspec', 'asyncio', 'dataclasses', 'rigctl.core.reading'}"
    )
    code = (
        "import sys\n"
        "from rigctl.cli.main import main\n"
        "code = main(['status'])\n"
        f"loaded = sorted({heavy} & set(sys.modules))\n"
        "sys.exit(f'loaded {loaded}' if loaded or code else 0)\n"
    )
    with serving(home, rig()):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 0, done.stderr
    assert "standard" in done.stdout


def test_the_page_shows_what_a_person_looks_for(home, rigctl) -> None:
    """State, pool, slots, rates, lease and the cards' table stand on the page."""
    groups = (
        group(flow=Flow("stalled", 41.0, "3 answers wait", 3.0, 46_000.0, 122_000.0, 50.0)),
        group("long", state="off", seconds=4320.0, lease=lease(), pid=None),
    )
    with serving(home, rig(groups=groups)):
        done = rigctl("status", env={"LANG": "C.UTF-8", "TZ": "UTC"})
    page = done.stdout
    assert done.returncode == 0
    assert (
        "rigctl · rig  896 W of 2800 W  5.1 kWh today  1.53 EUR  pool 240k of 1.45M in use" in page
    )
    assert "standard   ready 3d 04h" in page
    assert "pool 120k of 800k in use, 314k cached" in page
    assert "slots 3 of 6  queue 1  decode 118 tok/s" in page
    assert "! PREFILL STALL 41 s  3 answers wait  46k of 122k left  ~50 s" in page
    assert 'lent to "training" since ' in page
    assert "3090 ·0003" in page


@pytest.mark.case("C78")
def test_a_partial_sum_is_a_lower_bound(home, rigctl) -> None:
    """A total with missing parts says so, an absent figure is `--` with its reason once."""
    cards = tuple(card(n, watts=LOST) if n > 3 else card(n) for n in range(8))
    power = PowerView(Total(410.0, 4, 8), Total(2800.0, 8, 8), 5.1, 1.53)
    with serving(home, rig(cards=cards, power=power)):
        page = rigctl("status", env={"LANG": "C.UTF-8"}).stdout
    assert "≥ 410 W (4 of 8 cards)" in page
    assert "--/350" in page
    note = "-- the card has fallen off the bus (GPU is lost): watts of card 4, watts of card 5"
    assert page.count(note) == 1


@pytest.mark.case("C98")
@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C"},
        {"LC_ALL": "POSIX"},
        {"LANG": "de_DE.ISO-8859-1"},
        {"PYTHONIOENCODING": "ascii", "LANG": "C.UTF-8"},
    ],
)
def test_a_bare_locale_gets_ascii(home, rigctl, env: dict[str, str]) -> None:
    """Outside UTF-8 the page is pure ASCII and whole, never a traceback."""
    env = {"LC_ALL": "", "LC_CTYPE": "", "LANG": "", **env}
    with serving(home, rig(rig="Zürich", groups=(group(say="wait → now …"), group("long")))):
        done = rigctl("status", env=env, text=False)
    assert done.stderr == b""
    assert done.returncode == 0
    page = done.stdout.decode("ascii")
    assert "wait -> now ..." in page
    assert "Z?rich" in page


@pytest.mark.case("C98")
def test_an_uninstalled_utf8_locale_is_no_error(home, rigctl) -> None:
    """LC_ALL names a locale that is not installed: the page comes all the same."""
    with serving(home, rig()):
        done = rigctl("status", env={"LC_ALL": "xx_YY.UTF-8"}, text=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "·0003".encode() in done.stdout


@pytest.mark.case("C100")
def test_a_closed_pipe_is_quiet(home) -> None:
    """`rigctl status | head -1`: no traceback, no complaint of the interpreter."""
    notices = tuple(Notice(f"n{n}", "info", "x" * 2000) for n in range(200))
    with serving(home, rig(notices=notices)):
        done = subprocess.run(
            ["/bin/bash", "-c", f"{sys.executable} -m rigctl status | head -1"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.stdout.startswith("rigctl")
    assert done.stderr == ""


@pytest.mark.case("C100")
@pytest.mark.parametrize("args", [(), ("--read-only",)])
def test_alone_without_a_terminal_it_prints_the_status(home, rigctl, args) -> None:
    """`rigctl` in cron or behind a pipe: plain text, no escape codes, the verdict's exit code."""
    down = group(state="failed", say="exit 137: out of memory")
    with serving(home, rig(groups=(down, group("long")))):
        done = rigctl(*args, env={"TERM": "xterm", "COLORTERM": "truecolor"})
    assert "standard   failed" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({}, 0, "all well"),
        ({"nvml": "driver 520 and library 525 differ"}, 1, "NVML: driver 520"),
        ({"notices": (Notice("idle-but-hot", "warning", "idle at 1030 W"),)}, 1, "idle at 1030 W"),
        ({"notices": (Notice("hint", "info", "say"),)}, 0, "all well"),
        ({"groups": (group(state="failed", say="no memory"), group("long"))}, 1, "no memory"),
        (
            {"groups": (group(state="failed", say="no memory"), group("long", wanted=False))},
            3,
            "standard is failed: no memory",
        ),
        ({"groups": (group(flow=Flow("hung", 400.0, "no progress")),)}, 1, "standard is hung"),
        ({"groups": (group(state="off", lease=lease(overdue=True)),)}, 1, "rigctl reclaim"),
        ({"cards": (card(3, lost="Xid 79"),)}, 1, "card 3 ·0003 is lost: Xid 79"),
    ],
)
def test_check_gives_a_verdict_with_its_reasons(home, rigctl, changes, code, reason) -> None:
    """`--check`: 0 well, 1 degraded, 3 down, each with why."""
    with serving(home, rig(**changes)):
        done = rigctl("status", "--check", env={"LANG": "C.UTF-8"})
        plain = rigctl("status")
    assert done.returncode == code
    assert reason in done.stdout
    assert plain.returncode == 0


def test_watch_follows_and_survives_a_daemon_restart(home) -> None:
    """`--watch --json` prints each change, waits through a restart and goes on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rigctl", "status", "--watch", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # It needs a first daemon: without one it says so, as status does.
    assert process.wait(30) == 3
    process.communicate()
    with serving(home, rig(seq=1)) as first:
        process = subprocess.Popen(
            [sys.executable, "-m", "rigctl", "status", "--watch", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["seq"] == 1
        first.soon(lambda: first.show())
        assert json.loads(process.stdout.readline())["seq"] == 2
    with serving(home, rig(seq=70)):
        assert json.loads(process.stdout.readline())["seq"] == 70
    process.terminate()
    _, talk = process.communicate(timeout=30)
    assert "went away" in talk
    assert "Traceback" not in talk


def test_a_socket_path_too_long_for_the_kernel_is_reached(tmp_path: Path, rigctl) -> None:
    """A home deeper than 107 bytes works: its socket is reached by way of the opened folder."""
    deep = tmp_path / ("a" * 80) / ("b" * 80)
    deep.mkdir(parents=True)
    with serving(deep, rig()):
        done = rigctl("--home", str(deep), "status")
    assert done.returncode == 0, done.stderr
    assert "standard" in done.stdout


def test_an_unreadable_socket_says_whose_it_is(home, rigctl) -> None:
    """A path that is no socket gives a sentence, not a traceback."""
    (home / "state").mkdir()
    (home / "state" / "rigctl.sock").write_text("")
    done = rigctl("status")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_of_the_table_is_wider_than_the_terminal(home, terminal, width: int) -> None:
    """Narrow terminals lose columns from the least needed, never the watts."""
    with serving(home, rig()):
        screen = terminal("status", "--no-color", env={"COLUMNS": str(width)})
        assert screen.wait() == 0
    table = [line for line in screen.seen.splitlines() if "·000" in line]
    assert len(table) == 8
    assert all(len(line) <= width for line in table)
    assert all("112/350" in line for line in table)


@pytest.mark.case("C97")
@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colour_only_where_wanted_and_never_alone(home, terminal, env, coloured) -> None:
    """Colour needs a terminal that knows it and nobody against it; the word is there anyway."""
    with serving(home, rig()):
        screen = terminal("status", env=env)
        assert screen.wait() == 0
    assert ("\x1b[32m" in screen.seen) is coloured
    assert "ready" in screen.seen


def test_a_newer_daemon_is_named_with_the_cure(home, rigctl) -> None:
    """Two versions: the page still comes, and says which command mends it."""
    with serving(home, rig(rigctl="9.9.9")):
        done = rigctl("status")
    assert "the daemon is rigctl 9.9.9" in done.stdout
    assert "rigctl daemon stop" in done.stdout


@pytest.mark.parametrize("said", [b"hello\n", b"[]\n", b"[" * 100_000 + b"\n", b"x" * 20_000_000])
def test_what_is_no_daemon_is_said(home, rigctl, said: bytes) -> None:
    """A stranger on the socket: one sentence, no traceback, no endless line kept."""
    (home / "state").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / "state" / "rigctl.sock"))
        listening.listen()

        def answer() -> None:
            with listening.accept()[0] as client, contextlib.suppress(OSError):
                client.recv(4096)
                client.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        done = rigctl("status")
        thread.join()
    assert done.returncode == 1
    assert "not rigctl's daemon" in done.stderr
    assert "Traceback" not in done.stderr

"""`rigctl lend`: the command on the cards, its signals, its terminal, and the way back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_rig import ends, refuse, serving, until
from cli_views import card, group, rig

from rigctl.core.commands import FreeGroup, LendStarted, ReclaimGroup, Refused

DONE = ends("done", "4 of 4 cards free")

SHOW = "import json, os; print(json.dumps({k: v for k, v in os.environ.items()}))"


FAMILY = """
import os, pathlib, signal, time
child = os.fork() == 0
name = "child" if child else "parent"
def ended(number, frame):
    with open(MARKS, "a") as file:
        file.write(name + "\\n")
    os._exit(9)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, ended)
pathlib.Path(MARKS + "." + name).touch()
time.sleep(60)
"""
"""A program with a child; both note the signal that ends them, and neither outlives a minute."""


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`rigctl lend long ARGS…` without a terminal, running; ended with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "rigctl", "lend", "long", "--yes", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_the_command_gets_the_cards_and_they_come_back(home, rigctl) -> None:
    """The variables name exactly the lent cards; the daemon is told who runs; then reclaim."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("lend", "long", "--yes", "--", sys.executable, "-c", SHOW)
        env = json.loads(done.stdout)
        free, told, back = served.asked
        assert isinstance(free, FreeGroup)
        assert free.holder.startswith(sys.executable)
        assert free.holder_pid
        assert isinstance(told, LendStarted)
        assert told.pid not in (0, free.holder_pid)
        assert back == ReclaimGroup("long")
        uuids = ",".join(each.uuid for each in served.snapshot.cards[4:])
    assert done.returncode == 0, done.stderr
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert env["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert env["RIGCTL_GROUP"] == "long"
    assert env["RIGCTL_CARDS"] == uuids


@pytest.mark.case("C14")
def test_uuids_only_when_asked_for(home, rigctl) -> None:
    """Plain numbers by default, since programs parse them; UUIDs with --uuids."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("lend", "long", "--yes", "--uuids", "--", sys.executable, "-c", SHOW)
        uuids = ",".join(each.uuid for each in served.snapshot.cards[4:])
    assert json.loads(done.stdout)["CUDA_VISIBLE_DEVICES"] == uuids


@pytest.mark.case("C13")
def test_a_lost_card_lends_nothing(home, rigctl) -> None:
    """With a card off the bus the numbers cannot be trusted: 125, nothing runs, cards go back."""
    cards = tuple(card(n, lost="Xid 79" if n == 5 else "") for n in range(8))
    with serving(home, rig(cards=cards), DONE) as served:
        done = rigctl("lend", "long", "--yes", "--", "echo", "ran")
        assert served.commands(ReclaimGroup)
    assert done.returncode == 125
    assert "ran" not in done.stdout


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
    ],
)
def test_the_exit_code_is_the_commands(home, rigctl, command, code) -> None:
    """Its own code, 128 + signal where one ended it; the cards go back always."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("lend", "long", "--yes", "--", *command)
        assert served.commands(ReclaimGroup) == [ReclaimGroup("long")]
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("program", "code"), [("/nowhere/at-all", 127), ("no-such-program-here", 127), ("/etc", 126)]
)
def test_a_mistyped_command_stops_no_engine(home, rigctl, program, code) -> None:
    """127 not found, 126 not executable: known before a card is asked for, so none is."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("lend", "long", "--yes", "--", program)
        assert served.asked == []
    assert done.returncode == code
    assert program in done.stderr


def test_a_lease_that_ended_by_itself_is_no_failure(home, rigctl) -> None:
    """`--kill` ended command and lease: the cards are the rig's again, and nothing went wrong."""

    def script(served, command):
        if isinstance(command, ReclaimGroup):
            return Refused("long is not lent; `rigctl start long` starts it", "not-lent")
        return DONE(served, command)

    with serving(home, rig(), script):
        done = rigctl("lend", "long", "--yes", "--", "true")
    assert done.returncode == 0
    assert "had ended already" in done.stderr
    assert "rigctl start" not in done.stderr


def test_partly_free_runs_nothing(home, rigctl) -> None:
    """3 of 4 free: 125, the command is not run, the three cards go back."""
    with serving(home, rig(), ends("partly", "3 of 4 free")) as served:
        done = rigctl("lend", "long", "--yes", "--", "echo", "ran")
        assert served.commands(ReclaimGroup)
        assert not served.commands(LendStarted)
    assert done.returncode == 125
    assert "ran" not in done.stdout
    assert "3 of 4 free" in done.stderr


def test_usage_needs_a_command_and_an_end_for_kill(home, rigctl) -> None:
    """No command, --kill without --for, a `--` on another verb: usage."""
    assert rigctl("lend", "long", "--yes").returncode == 2
    assert rigctl("lend", "long", "--yes", "--kill", "--", "true").returncode == 2
    assert rigctl("status", "--", "true").returncode == 2


def test_kill_is_told_to_the_daemon_only(home, rigctl) -> None:
    """`--kill` is the daemon's to carry out at the lease's end, on that one process."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("lend", "long", "--yes", "--for", "2h", "--kill", "--", "true")
        assert served.commands(LendStarted)[0].kill_at_end
        assert served.commands(FreeGroup)[0].for_seconds == 7200.0
    assert done.returncode == 0


def test_arguments_after_the_dashes_are_the_commands(home, rigctl) -> None:
    """Options, a second `--` and --home after the first `--` belong to the command."""
    words = ["--home", "x", "--", "--yes", "-h"]
    with serving(home, rig(), DONE):
        done = rigctl(
            "lend", "long", "--yes", "--", sys.executable, "-c", "import sys; print(sys.argv)",
            *words,
        )  # fmt: skip
    assert done.stdout.strip() == str(["-c", *words])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_command_and_its_children(home, started, number) -> None:
    """A signal to rigctl goes to the command's whole group; its end brings the cards back."""
    marks = home / "marks"
    program = f"MARKS = {str(marks)!r}\n{FAMILY}"
    with serving(home, rig(), DONE) as served:
        process = started("--", sys.executable, "-c", program)
        until((home / "marks.child").exists, "the child")
        until((home / "marks.parent").exists, "the parent")
        until(lambda: bool(served.commands(LendStarted)), "the word to the daemon")
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        until(lambda: bool(served.commands(ReclaimGroup)), "the reclaim")
    assert process.returncode == 9, err
    until(lambda: sorted(marks.read_text().split()) == ["child", "parent"], "both ends")


def test_a_signal_before_the_command_runs_gives_the_cards_back(home, started) -> None:
    """SIGTERM while the group still drains: nothing is run, the free is cancelled."""
    with serving(home, rig(), ends("done", "done", after=30)) as served:
        process = started("--", "echo", "ran")
        until(lambda: bool(served.asked), "the free")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert served.commands(ReclaimGroup) == [ReclaimGroup("long")]
    assert process.returncode == 130, err
    assert out == ""


def test_it_is_a_session_of_its_own_without_a_terminal(home, rigctl) -> None:
    """Without a terminal the command leads its own session, as the daemon's --kill needs."""
    show = "import os; print(os.getsid(0) == os.getpid() == os.getpgid(0))"
    with serving(home, rig(), DONE):
        done = rigctl("lend", "long", "--yes", "--", sys.executable, "-c", show)
    assert done.stdout.strip() == "True"


def test_an_interactive_shell_works_on_the_cards(home, terminal) -> None:
    """On a terminal the command is its foreground job: a shell has job control and ctrl+c."""
    with serving(home, rig(), DONE) as served:
        screen = terminal("lend", "long", "--yes", "--", "bash", "--norc", env={"PS1": "cards> "})
        screen.expect("cards> ")
        until(lambda: bool(served.commands(LendStarted)), "the shell")
        shell = served.commands(LendStarted)[0].pid
        screen.type("sleep 100\n")
        children = Path(f"/proc/{shell}/task/{shell}/children")
        until(lambda: bool(children.read_text()), "the shell's job")
        screen.type("\x03")
        until(lambda: not children.read_text(), "its end by ctrl+c")
        # The shell takes the terminal anew after ctrl+c, and may eat what is typed meanwhile.
        screen.type("\n")
        screen.type("    echo got-$((40+2)) $CUDA_VISIBLE_DEVICES\n")
        screen.expect("got-42 4,5,6,7")
        screen.type("exit 5\n")
        assert screen.wait() == 5
        assert served.commands(ReclaimGroup)
    assert "no job control" not in screen.seen


def test_ctrl_c_ends_the_command_and_brings_the_cards_back(home, terminal) -> None:
    """ctrl+c on the terminal ends the command, not rigctl before its reclaim."""
    with serving(home, rig(), DONE) as served:
        screen = terminal("lend", "long", "--yes", "--", "sleep", "100")
        until(lambda: bool(served.commands(LendStarted)), "the command")
        screen.type("\x03")
        assert screen.wait() == 128 + signal.SIGINT
        assert served.commands(ReclaimGroup) == [ReclaimGroup("long")]


def test_a_closed_terminal_ends_the_command_and_brings_the_cards_back(home, terminal) -> None:
    """The window is closed: the command gets its SIGHUP, and the cards still come back."""
    with serving(home, rig(), DONE) as served:
        screen = terminal("lend", "long", "--yes", "--", "sleep", "100")
        until(lambda: bool(served.commands(LendStarted)), "the command")
        pid = served.commands(LendStarted)[0].pid
        screen.hang_up()
        until(lambda: bool(served.commands(ReclaimGroup)), "the reclaim")
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the command's end")


def test_ctrl_z_stops_both_and_fg_goes_on(home, terminal) -> None:
    """Under a shell with job control ctrl+z suspends the whole job and fg resumes it."""
    command = f"{sys.executable} -m rigctl lend long --yes -- "
    with serving(home, rig(), DONE) as served:
        screen = terminal(argv=("bash", "--norc", "-i"), env={"PS1": "shell> "})
        screen.expect("shell> ")
        screen.type(command + "bash -c 'echo up; sleep 1.5; echo fin-$((6*7))'\n")
        screen.expect("up\r\n")
        screen.type("\x1a")
        screen.expect("Stopped")
        assert not served.commands(ReclaimGroup)
        screen.type("fg\n")
        screen.expect("fin-42")
        until(lambda: bool(served.commands(ReclaimGroup)), "the reclaim")
        screen.type("exit\n")
        screen.wait()


def test_a_group_that_is_off_is_lent_at_once(home, rigctl) -> None:
    """Nothing runs there, so nothing is asked and the command runs."""
    off = group("long", state="off", pid=None)
    with serving(home, rig(groups=(group(), off)), DONE):
        done = rigctl("lend", "long", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_unanswered_question_is_usage_other_failures_125(home, rigctl) -> None:
    """A question nobody answers is 2; a daemon that refuses is rigctl's own failure."""
    with serving(home, rig(), DONE):
        assert rigctl("lend", "long", "--", "true").returncode == 2
        assert rigctl("lend", "nope", "--yes", "--", "true").returncode == 2
    with serving(home, rig(), refuse("lent to another")):
        done = rigctl("lend", "long", "--yes", "--", "true")
    assert done.returncode == 125
    assert "lent to another" in done.stderr


def test_a_key_in_the_command_is_not_the_holders_name(home, rigctl) -> None:
    """The name goes into journal, notices and state file; keys in the command's words do not."""
    words = [
        "env",
        "HF_TOKEN=hf_sekrit",
        "AWS_SECRET_ACCESS_KEY=sekrit",
        "--api-key",
        "sekrit",
        "--wandb-api-key=sekrit",
    ]
    with serving(home, rig(), DONE) as served:
        rigctl("lend", "long", "--yes", "--", *words)
        holder = served.commands(FreeGroup)[0].holder
    assert holder.startswith("env HF_TOKEN=*")
    assert "sekrit" not in holder

"""Acts: the question, the wait, the exit code; asked of the real control server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from cli_rig import accept, ends, refuse, serving, until
from cli_views import group, lease, rig

from rigctl.core.commands import (
    Accepted,
    FreeGroup,
    ReclaimGroup,
    Refused,
    ReleaseNvml,
    RestartGroup,
    SetPowerLimit,
    SetSleepOnIdle,
    StartGroup,
    StopGroup,
)
from rigctl.core.ids import OperationId
from rigctl.core.reading import Total
from rigctl.core.snapshot import Notice, OperationView

DONE = ends("done", "4 of 4 cards free, 94.9 GiB, 7.9 s", total_seconds=7.9)


def test_free_waits_and_prints_the_variables(home, rigctl) -> None:
    """`free` ends with 0 once NVML shows the cards free, and stdout is what a shell can eval."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("free", "--yes", "--for", "2h", "--holder", "training")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,5,6,7\n"
    assert "long: 4 of 4 cards free, 94.9 GiB, 7.9 s" in done.stderr
    assert served.asked == [FreeGroup("long", "training", 7200.0)]


@pytest.mark.case("C04")
def test_partly_freed_is_exit_code_4(home, rigctl) -> None:
    """A foreign process on a card: `3 of 4 free` is said, exit code 4, no variables printed."""
    say = "3 of 4 free; card 5: 9.6 GiB held by pid 9001 (user 1002, python) - not ours"
    with serving(home, rig(), ends("partly", say)):
        done = rigctl("free", "long", "--yes")
    assert done.returncode == 4
    assert say in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("state", "code"), [("failed", 1), ("cancelled", 1)])
def test_other_ends_are_failures(home, rigctl, state: str, code: int) -> None:
    """Failed and cancelled operations give exit code 1 with the daemon's words."""
    with serving(home, rig(), ends(state, "the engine did not leave")):
        done = rigctl("free", "--yes")
    assert done.returncode == code
    assert f"{state}: the engine did not leave" in done.stderr


def test_json_is_one_object_with_the_outcome(home, rigctl) -> None:
    """`--json`: one object on stdout, its schema, the answer and the ended operation."""
    with serving(home, rig(), DONE):
        done = rigctl("free", "--yes", "--json")
    told = json.loads(done.stdout)
    assert (told["schema"], told["kind"], told["command"]) == (1, "act", "free")
    assert told["accepted"]["operation"] == 1
    assert told["operation"]["state"] == "done"
    assert told["operation"]["figures"] == {"total_seconds": 7.9}


def test_without_a_terminal_a_destructive_act_needs_yes(home, rigctl) -> None:
    """No terminal and no --yes: nothing is asked of the daemon, exit code 2, and why."""
    with serving(home, rig(), DONE) as served:
        done = rigctl("free")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert served.asked == []


def test_the_question_has_its_consequence_in_numbers(home, terminal) -> None:
    """On a terminal: answers, drain limit, cached tokens and the start's length, default no."""
    with serving(home, rig(), DONE) as served:
        screen = terminal("free")
        screen.expect("[y/N]")
        screen.type("\n")
        assert screen.wait() == 1
        assert served.asked == []
    for part in (
        "3 answers are running on long; given up to 3 min to finish",
        "314k cached tokens are lost",
        "about 74 s",
        "Free the 4 cards of long?",
        "nothing was done",
    ):
        assert part in screen.seen, screen.seen


def test_yes_at_the_question_goes_on(home, terminal) -> None:
    """`y` frees the cards and shows the outcome."""
    with serving(home, rig(), DONE) as served:
        screen = terminal("free", "long")
        screen.expect("[y/N]")
        screen.type("y\n")
        assert screen.wait() == 0
        assert served.commands(FreeGroup)
    assert "4 of 4 cards free" in screen.seen


@pytest.mark.case("C99")
@pytest.mark.parametrize("keys", ["\x1by\n", "yy\n", "n\n", "\x04"])
def test_only_a_clear_yes_is_a_yes(home, terminal, keys: str) -> None:
    """Esc glued to y, a doubled key, n or the end of input: nothing is done."""
    with serving(home, rig(), DONE) as served:
        screen = terminal("stop", "long")
        screen.expect("[y/N]")
        screen.type(keys)
        assert screen.wait() == 1
        assert served.asked == []


def test_keys_typed_before_the_question_do_not_answer_it(home, terminal) -> None:
    """Type-ahead is thrown away: a y meant for something else stops no engine."""
    with serving(home, rig(), DONE) as served:
        screen = terminal("stop", "long")
        screen.type("y\n")
        screen.expect("[y/N]")
        screen.type("n\n")
        assert screen.wait() == 1
        assert served.asked == []


@pytest.mark.case("C16")
def test_the_second_confirmation_is_a_typed_word(home, terminal, rigctl) -> None:
    """Where an engine could not come back, yes is not enough: the group's name, or --force."""
    say = "driver mismatch: a stopped server will not come back before a reboot; add --force"

    def script(rig_, command):
        if not command.force:
            return Refused(say, "needs-confirmation")
        return accept(rig_, command)

    with serving(home, rig(), script) as served:
        plain = rigctl("stop", "long", "--yes")
        assert plain.returncode == 1
        assert say in plain.stderr
        forced = rigctl("stop", "long", "--yes", "--force")
        assert forced.returncode == 0
        screen = terminal("stop", "long")
        screen.expect("[y/N]")
        screen.type("y\n")
        screen.expect("type long")
        screen.type("y\n")
        assert screen.wait() == 1
        assert [command.force for command in served.commands(StopGroup)] == [False, True, False]
        screen = terminal("stop", "long")
        screen.expect("[y/N]")
        screen.type("y\n")
        screen.expect("type long")
        screen.type("long\n")
        assert screen.wait() == 0
        assert served.commands(StopGroup)[-1].force


def test_an_idle_group_is_freed_without_a_question(home, rigctl) -> None:
    """Where no engine runs nothing is taken from anybody, so nothing is asked."""
    off = group("long", state="off", pid=None)
    with serving(home, rig(groups=(group(), off)), DONE):
        done = rigctl("free")
    assert done.returncode == 0, done.stderr


def test_a_group_between_two_tries_has_no_answers_to_lose(home, rigctl) -> None:
    """Backing off after a crash: nothing runs, and that is what the consequence says."""
    groups = (group(), group("long", state="backing_off", pid=None))
    with serving(home, rig(groups=groups)):
        said = rigctl("free", "long", "--dry-run").stderr
    assert "No engine runs on long now" in said
    assert "answer" not in said


def test_dry_run_says_and_does_nothing(home, rigctl) -> None:
    """`--dry-run`: the consequence, exit code 0, nothing asked of the daemon, none started."""
    assert rigctl("stop", "long", "--dry-run").returncode == 0
    assert not (home / "state").exists()
    with serving(home, rig(), DONE) as served:
        done = rigctl("restart", "standard", "--dry-run")
        told = json.loads(rigctl("free", "--dry-run", "--json").stdout)
    assert done.returncode == 0
    assert "3 answers are running on standard; given up to 2 min" in done.stderr
    assert told["dry_run"] is True
    assert served.asked == []


def test_timeout_ends_the_wait_not_the_act(home, rigctl) -> None:
    """`--timeout`: exit code 124, what was asked goes on, and how to cancel it."""
    with serving(home, rig(), ends("done", "done", after=30)):
        done = rigctl("free", "--yes", "--timeout", "0.3")
    assert done.returncode == 124
    assert "it goes on" in done.stderr
    assert "rigctl reclaim long" in done.stderr


def test_ctrl_c_ends_the_wait_not_the_act(home, terminal) -> None:
    """ctrl+c while waiting: exit code 130 and a word about what goes on, no traceback."""
    with serving(home, rig(), ends("done", "done", after=30)):
        screen = terminal("free", "--yes")
        screen.expect("2 answers finish")
        screen.type("\x03")
        assert screen.wait() == 130
    assert "no longer waiting; it goes on" in screen.seen
    assert "Traceback" not in screen.seen


def test_the_wait_outlives_a_daemon_restart(home) -> None:
    """The daemon goes and comes back while a free drains: the command still learns the end."""
    running = OperationView(1, "free", "long", "anna", 1.0, "running", "2 answers finish")

    def starts(rig_, command):
        rig_.operation(running)
        return Accepted(OperationId(1), "free accepted")

    with serving(home, rig(), starts) as first:
        process = subprocess.Popen(
            [sys.executable, "-m", "rigctl", "free", "--yes"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: bool(first.asked), "the free")
    ended = replace(running, state="done", say="4 of 4 cards free")
    with serving(home, rig(operations=(ended,))):
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "CUDA_VISIBLE_DEVICES=4,5,6,7" in out


def test_refusals_keep_the_daemons_words(home, rigctl) -> None:
    """A refusal is exit code 1 with what the daemon said; an unknown group is usage."""
    with serving(home, rig(), refuse("long is lent to training; `rigctl reclaim long` first")):
        done = rigctl("start", "long")
        wrong = rigctl("start", "lnog")
    assert done.returncode == 1
    assert "rigctl reclaim long" in done.stderr
    assert wrong.returncode == 2
    assert "did you mean `long`?" in wrong.stderr


def test_each_verb_sends_its_command(home, rigctl) -> None:
    """Every act reaches the daemon with the fields that were typed."""
    with serving(home, rig(), accept) as served:
        for args in (
            ("start", "long"),
            ("stop", "long", "-y", "--drain", "0"),
            ("restart", "long", "-y", "--drain", "1m30s"),
            ("reclaim", "long", "--no-start"),
            ("sleep", "long", "on", "-y", "--no-wait"),
            ("sleep", "long", "off", "--no-restart", "--no-wait"),
            ("power-limit", "280", "--no-wait"),
            ("power-limit", "long", "280W", "--no-wait"),
            ("power-limit", "·0003", "250", "--no-wait"),
            ("nvml", "release", "2m"),
        ):
            done = rigctl(*args)
            assert done.returncode == 0, (args, done.stderr)
        uuid = served.snapshot.cards[3].uuid
    assert served.asked == [
        StartGroup("long"),
        StopGroup("long", 0.0),
        RestartGroup("long", 90.0),
        ReclaimGroup("long", False),
        SetSleepOnIdle("long", True, True),
        SetSleepOnIdle("long", False, False),
        SetPowerLimit(None, 280.0),
        SetPowerLimit("long", 280.0),
        SetPowerLimit(None, 250.0, uuid),
        ReleaseNvml(120.0),
    ]


@pytest.mark.case("C77")
def test_sleep_shows_what_it_saved(home, rigctl) -> None:
    """The toggle prints watts and scheduler CPU before and after, as the daemon measured them."""
    figures = {
        "watts_before": 515.2,
        "watts_after": 127.9,
        "scheduler_cpu_before": 0.97,
        "scheduler_cpu_after": 0.002,
    }
    with serving(home, rig(), ends("done", "ready", kind="sleep", **figures)):
        done = rigctl("sleep", "standard", "on", "--yes", env={"LANG": "C.UTF-8"})
        refused = rigctl("sleep", "standard", "on")
    assert done.stdout.splitlines() == [
        "power 515 W → 128 W (-387 W)",
        "scheduler 97 % → 0 % of a core",
    ]
    assert refused.returncode == 2
    assert "cached tokens are lost" in refused.stderr


def test_a_power_limit_without_rights_prints_the_exact_command(home, rigctl) -> None:
    """Where the driver refuses, stdout is the command that root can run."""
    with serving(home, rig(), ends("failed", "no permission", kind="power-limit")) as served:
        done = rigctl("power-limit", "long", "280")
        uuids = ",".join(card.uuid for card in served.snapshot.cards[4:])
    assert done.returncode == 1
    assert done.stdout == f"sudo nvidia-smi -i {uuids} -pl 280\n"


@pytest.mark.parametrize("words", [("280", "long"), ("long", "much"), ("nine", "280"), ("0",)])
def test_a_power_limit_that_makes_no_sense_is_usage(home, rigctl, words) -> None:
    """Wrong order, no number, no such card: exit code 2, nothing sent."""
    with serving(home, rig(), accept) as served:
        assert rigctl("power-limit", *words).returncode == 2
        assert served.asked == []


def test_reclaim_says_who_still_holds_the_cards(home, rigctl) -> None:
    """The engine waits for memory that others hold, and the person is told whose it is."""
    held = lease(held_bytes=Total(20.0 * 2**30, 4, 4), pid=48213, command="python train.py")
    with serving(home, rig(groups=(group(), group("long", state="off", lease=held)))):
        done = rigctl("reclaim", "--dry-run")
    assert "20.0 GiB on its cards are still held by pid 48213 (python train.py)" in done.stderr


@pytest.mark.parametrize("text", ["2 h", "h", "-3", "1x", ""])
def test_a_wrong_length_of_time_is_usage(home, rigctl, text: str) -> None:
    """Only 90, 90s, 15m, 2h, 1d and their sums are lengths of time."""
    assert rigctl("free", "--yes", f"--for={text}").returncode == 2


def test_unknown_verbs_get_the_nearest_one(rigctl) -> None:
    """A mistyped verb is usage, with a guess; --help lists the exit codes."""
    wrong = rigctl("recliam")
    assert wrong.returncode == 2
    assert "did you mean `rigctl reclaim`?" in wrong.stderr
    told = rigctl("--help").stdout
    assert "124  timed out" in told
    assert "partly done" in told


def test_a_verb_that_dies_of_sigterm_leaves_no_traceback(home) -> None:
    """A waiting command ended from outside says nothing odd."""
    with serving(home, rig(), ends("done", "done", after=30)) as served:
        process = subprocess.Popen(
            [sys.executable, "-m", "rigctl", "free", "--yes"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )
        until(lambda: bool(served.asked), "the free")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.case("C09")
def test_start_asks_while_power_limits_are_back_at_their_default(home, rigctl) -> None:
    """A reboot took the limits back: nothing starts unasked, and the remedy is named."""
    say = "limits back at default: 8 cards, worst case +630 W; sudo nvidia-smi -i GPU-0 -pl 280"
    shown = rig(notices=(Notice("power-limits", "error", say),))
    with serving(home, shown, DONE) as served:
        unasked = rigctl("start", "long")
        assert unasked.returncode == 2
        assert "+630 W" in unasked.stderr
        assert "nvidia-smi" in unasked.stderr
        assert served.asked == []
        assert rigctl("start", "long", "--yes").returncode == 0
    assert served.asked == [StartGroup("long")]

"""Engines are started, watched, found again and signalled by identity alone."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from process_kit import DUMMY, Bench, until

from rigctl.adapters import proc
from rigctl.adapters.process import ProcessLauncher
from rigctl.core.ids import ProcessIdentity


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.close()


@pytest.fixture(params=["to pid 1", "to a subreaper"])
def orphans(request: pytest.FixtureRequest) -> Iterator[None]:
    """Orphans go to pid 1, or (vllm#55510) to the process that set itself as their reaper."""
    subreaper = 36  # PR_SET_CHILD_SUBREAPER
    libc = ctypes.CDLL(None)
    libc.prctl(subreaper, request.param == "to a subreaper", 0, 0, 0)
    yield
    libc.prctl(subreaper, 0, 0, 0, 0)
    while True:  # collect what was handed to us
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break


@pytest.mark.case("C01")
@pytest.mark.usefixtures("orphans")
@pytest.mark.parametrize("options", [(), ("--own-session",)])
async def test_orphaned_schedulers_are_found_and_ended(
    bench: Bench, options: tuple[str, ...]
) -> None:
    """What a killed main process leaves behind is ours, wherever it was reparented to."""
    leader, children = await bench.start("--children", "4", *options)
    assert bench.launcher.members(leader) == (leader.pid, *sorted(children))
    os.kill(leader.pid, signal.SIGKILL)
    await until(lambda: bool(bench.exits))
    assert bench.exits == [(leader, -9)]
    assert not bench.launcher.alive(leader)
    assert bench.launcher.members(leader) == tuple(sorted(children))
    recorded = bench.launcher.recorded(leader)
    assert {member.pid for member in recorded} == set(children)
    assert set(bench.launcher.end_pids(recorded[:1], signal.SIGKILL)) == {recorded[0].pid}
    await until(lambda: bench.gone(recorded[0].pid))
    assert set(bench.launcher.members(leader)) == set(children) - {recorded[0].pid}
    bench.launcher.signal(leader, signal.SIGKILL)
    await until(lambda: bench.gone(*children))
    assert bench.launcher.members(leader) == ()


@pytest.mark.case("C01")
async def test_orphans_never_seen_before_are_recorded_while_the_leader_is_a_zombie(
    bench: Bench,
) -> None:
    """Nobody looked before the leader died, and its children carry no token: still ours."""
    leader, children = await bench.start("--no-token")
    await until(lambda: all(not proc.has_token(child, "t") for child in children))
    os.kill(leader.pid, signal.SIGKILL)
    await until(lambda: bool(bench.exits))
    assert bench.launcher.members(leader) == tuple(sorted(children))
    assert {who.pid for who in bench.launcher.recorded(leader)} == set(children)


@pytest.mark.case("C01")
async def test_orphans_of_an_earlier_daemons_engine_are_found_by_record_or_token(
    bench: Bench,
) -> None:
    """After a daemon restart a dead leader's orphans are ours by record or token, else nobody's."""
    leader, children = await bench.start("--children", "2", token="tok-1")
    recorded = [proc.identity(children[0])]
    os.kill(leader.pid, signal.SIGKILL)
    await until(lambda: bool(bench.exits))

    async def next_daemon(recorded: list[ProcessIdentity | None], token: str) -> tuple[int, ...]:
        launcher = ProcessLauncher(lambda *_: None)
        assert not launcher.adopt(leader, [who for who in recorded if who is not None], token)
        return launcher.members(leader)

    assert await next_daemon(recorded, "") == tuple(sorted(children))
    assert await next_daemon([], "tok-1") == tuple(sorted(children))
    assert await next_daemon([], "tok-2") == ()
    assert await next_daemon([], "") == ()


def open_editor(path: Path) -> subprocess.Popen[bytes]:
    """A process that `ps` shows as `vim … /…/sglang/notes.md` until it is killed."""
    return subprocess.Popen(
        ["vim", "-c", "read line", str(path)], executable="/bin/sh", stdin=subprocess.PIPE
    )


@pytest.mark.case("C02")
async def test_a_stop_ends_one_tree_and_no_lookalike(bench: Bench, tmp_path: Path) -> None:
    """Two engines with equal command lines, an editor on a path named like one: only A ends."""
    a, a_children = await bench.start("--children", "4")
    b, b_children = await bench.start("--children", "4")
    editor = open_editor(tmp_path / "sglang" / "notes.md")
    try:
        assert proc.cmdline(a.pid) == proc.cmdline(b.pid)
        assert set(bench.launcher.signal(a, signal.SIGTERM)) == {a.pid, *a_children}
        await until(lambda: bench.gone(a.pid, *a_children))
        assert bench.launcher.members(b) == (b.pid, *sorted(b_children))
        assert editor.poll() is None
    finally:
        editor.kill()
        editor.communicate()


@pytest.mark.case("C02")
async def test_a_recycled_pid_with_the_same_argv_is_not_ours(bench: Bench) -> None:
    """Same pid and command line but another start time or boot: neither adopted nor signalled."""
    real, children = await bench.start()
    real = dataclasses.replace(real, argv_hash=proc.argv_hash(proc.cmdline(real.pid)))
    for planted in (
        dataclasses.replace(real, start_ticks=real.start_ticks - 1),
        dataclasses.replace(real, boot_id="another-boot"),
    ):
        other = ProcessLauncher(lambda *_: None)
        assert not other.adopt(planted)
        assert not other.alive(planted)
        assert other.members(planted) == ()
        assert other.signal(planted, signal.SIGKILL) == ()
        assert other.end_pids([planted], signal.SIGKILL) == ()
    assert bench.launcher.members(real) == (real.pid, *sorted(children))


def start_with_pid(pid: int, argv: Sequence[str], log: Path) -> subprocess.Popen[bytes] | None:
    """Start a session leader that gets exactly this pid; None where that is not to be had."""
    for _ in range(100):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            return None
        with log.open("ab") as output:
            child = subprocess.Popen(argv, stdout=output, start_new_session=True)
        if child.pid == pid:
            return child
        child.kill()
        child.wait()
    return None


@pytest.mark.case("C02")
async def test_a_really_recycled_pid_is_not_ours(bench: Bench, tmp_path: Path) -> None:
    """The kernel gives the dead leader's pid to the same command line, which then leads a session
    and leaves orphans in it: none of them is ever taken for ours."""
    ours, _ = await bench.start("--children", "0")
    known = proc.identity(ours.pid)
    assert known is not None
    argv = proc.cmdline(ours.pid)
    os.kill(ours.pid, signal.SIGKILL)
    await until(lambda: bool(bench.exits))
    log = tmp_path / "recycled.log"
    recycled = start_with_pid(ours.pid, [*argv[:2], "--children", "2"], log)
    if recycled is None:
        pytest.skip("needs the right to choose the next pid (root)")
    bench.note(recycled.pid)
    await until(lambda: log.read_bytes().endswith(b"\n"))
    children = [int(word) for word in log.read_text().split()[1:]]
    for child in children:
        bench.note(child)
    for launcher in (bench.launcher, ProcessLauncher(lambda *_: None)):
        assert not launcher.adopt(known)
        assert launcher.members(known) == ()
        assert launcher.signal(known, signal.SIGKILL) == ()
    recycled.kill()
    recycled.wait()
    for launcher in (bench.launcher, ProcessLauncher(lambda *_: None)):
        assert not launcher.adopt(known)
        assert launcher.signal(known, signal.SIGKILL) == ()
    assert not bench.gone(*children)


@pytest.mark.case("C02")
async def test_a_session_number_in_other_hands_is_not_ours(bench: Bench) -> None:
    """Orphans of a later session with the same number are not signalled for the earlier leader."""
    later, children = await bench.start()
    os.kill(later.pid, signal.SIGKILL)
    await until(lambda: bool(bench.exits))
    earlier = dataclasses.replace(later, start_ticks=later.start_ticks - 500)
    other = ProcessLauncher(lambda *_: None)
    assert not other.adopt(earlier, token="another")
    assert other.signal(earlier, signal.SIGKILL) == ()
    assert not bench.gone(*children)


async def test_rigctl_and_its_ancestors_are_never_signalled(bench: Bench) -> None:
    """A wrong record that names ourselves, a parent or pid 1 reaches nobody, engines included."""
    engine, _ = await bench.start()
    for pid in (os.getpid(), os.getppid(), 1):
        wrong = proc.identity(pid)
        assert wrong is not None
        leads = dataclasses.replace(wrong, session=pid)
        assert bench.launcher.signal(leads, signal.SIGCONT) == ()
        assert bench.launcher.end_pids([wrong], signal.SIGCONT) == ()
    assert bench.launcher.alive(engine)


async def test_a_process_that_leads_no_session_is_listed_but_not_signalled(bench: Bench) -> None:
    """Signals go to sessions we started, and every one of those has a leader of its own."""
    _, children = await bench.start("--children", "1")
    child = proc.identity(children[0])
    assert child is not None
    assert bench.launcher.members(child) == (child.pid,)
    assert bench.launcher.signal(child, signal.SIGKILL) == ()


@pytest.mark.case("C08")
@pytest.mark.parametrize("code", [0, 3])
async def test_an_exit_is_reported_whatever_its_code(bench: Bench, code: int) -> None:
    """Exit 0 is reported like any other; whether it was asked for is not decided here."""
    leader, _ = await bench.start("--children", "0", "--exit", str(code))
    await until(lambda: bool(bench.exits))
    assert bench.exits == [(leader, code)]


@pytest.mark.case("C58")
async def test_a_tree_that_ignores_sigterm_falls_to_sigkill(bench: Bench) -> None:
    """TERM ignored for ever: still all there after it, all gone after KILL, code -9."""
    leader, children = await bench.start("--term", "ignore", "--child-term", "ignore")
    assert len(bench.launcher.signal(leader, signal.SIGTERM)) == 3
    await asyncio.sleep(0.2)
    assert len(bench.launcher.members(leader)) == 3
    bench.launcher.signal(leader, signal.SIGKILL)
    await until(lambda: bench.gone(leader.pid, *children) and bool(bench.exits))
    assert bench.exits == [(leader, -9)]


@pytest.mark.case("C58")
async def test_a_slow_leaver_is_reported_when_it_leaves(bench: Bench) -> None:
    """TERM answered late: alive until then, its own exit code after."""
    leader, _ = await bench.start("--children", "0", "--term", "slow", "--seconds", "0.3")
    bench.launcher.signal(leader, signal.SIGTERM)
    assert bench.launcher.alive(leader)
    await until(lambda: bool(bench.exits))
    assert bench.exits == [(leader, 0)]


@pytest.mark.case("C58")
async def test_children_that_outlive_their_parent_stay_members(bench: Bench) -> None:
    """The parent leaves at once, the children need longer: not done before they are gone."""
    leader, children = await bench.start("--child-term", "slow", "--seconds", "0.4")
    bench.launcher.signal(leader, signal.SIGTERM)
    await until(lambda: bool(bench.exits))
    assert bench.exits == [(leader, -15)]
    assert bench.launcher.members(leader) == tuple(sorted(children))
    await until(lambda: bench.launcher.members(leader) == ())


async def test_an_adopted_engine_is_watched_but_its_code_is_unknown(bench: Bench) -> None:
    """Adoption by pid, start time, boot and argv; the exit is seen, its code cannot be."""
    leader, _ = await bench.start()
    known = proc.identity(leader.pid)
    assert known is not None
    exits: list[tuple[ProcessIdentity, int | None]] = []
    second = ProcessLauncher(lambda who, code: exits.append((who, code)))
    assert not second.adopt(dataclasses.replace(known, argv_hash="0123456789abcdef"))
    assert second.adopt(known)
    os.kill(leader.pid, signal.SIGKILL)
    await until(lambda: bool(exits))
    assert exits == [(known, None)]
    second.close()


def start_supervisor(log: Path) -> subprocess.Popen[bytes]:
    """A program that starts a talkative engine through the launcher and prints its pid."""
    script = (
        "import asyncio, sys\n"
        "from rigctl.adapters.process import ProcessLauncher\n"
        "async def main():\n"
        "    launcher = ProcessLauncher(lambda *_: None)\n"
        "    who = launcher.spawn(sys.argv[2:], {}, sys.argv[1], 'tok')\n"
        "    print(who.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, str(log), sys.executable, str(DUMMY), "--say", "200000"],
        stdout=subprocess.PIPE,
    )


@pytest.mark.case("C65")
async def test_an_engine_outlives_its_supervisors_death_in_mid_print(
    bench: Bench, tmp_path: Path
) -> None:
    """200 kB printed after ready while the supervisor dies by -9: all of it is in the file."""
    log = tmp_path / "engine.log"
    supervisor = start_supervisor(log)
    with supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline())
        bench.note(pid)
        await until(lambda: log.stat().st_size > 20_000)
        supervisor.kill()
        supervisor.wait()
    at_death = log.stat().st_size
    for child in (int(word) for word in log.read_text().splitlines()[0].split()[1:]):
        bench.note(child)
    assert at_death < 150_000, "the supervisor must die in the middle"
    found = proc.find_by_token("tok")
    assert found == pid
    known = proc.identity(pid)
    assert known is not None
    assert bench.launcher.adopt(known)
    await until(lambda: log.read_bytes().endswith(b"said\n"))
    assert log.stat().st_size > 200_000
    assert len(bench.launcher.members(known)) == 3


async def test_spawning_says_in_words_why_it_could_not(bench: Bench, tmp_path: Path) -> None:
    """Every way in which a start fails at once ends in a sentence that names the thing."""
    log = str(tmp_path / "engine.log")
    text = tmp_path / "not-a-program"
    text.write_text("hello")
    orphan = tmp_path / "script"
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    for argv, words in (
        (["no-such-program"], "no such program"),
        ([str(text)], "not executable"),
        ([str(orphan)], "interpreter"),
        ([sys.executable, "x" * 200_000], "too long"),
        ([sys.executable, "a\0b"], "null byte"),
    ):
        with pytest.raises(OSError) as caught:
            bench.launcher.spawn(argv, {}, log, "t")
        assert words in str(caught.value.strerror)
        assert argv[0] in str(caught.value.strerror)
    with pytest.raises(OSError) as caught:
        bench.launcher.spawn([sys.executable], {}, str(tmp_path / "none" / "x.log"), "t")
    assert "engine's log" in str(caught.value.strerror)


async def test_an_engine_gets_a_session_a_file_and_its_variables(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own session, no terminal input, output appended to a 0600 file, systemd's words left out."""
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    log = tmp_path / "engine.log"
    log.write_text("before\n")
    code = (
        "import os,sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '',"
        " os.environ['A'], os.environ['RIGCTL_SPAWN'], 'NOTIFY_SOCKET' in os.environ)"
    )
    bench.launcher.spawn([sys.executable, "-c", code], {"A": "b"}, str(log), "tok")
    await until(lambda: bool(bench.exits))
    assert log.read_text() == "before\nTrue True b tok False\n"
    fresh = tmp_path / "fresh.log"
    bench.launcher.spawn([sys.executable, "-c", ""], {}, str(fresh), "tok")
    await until(lambda: len(bench.exits) == 2)
    assert fresh.stat().st_mode & 0o777 == 0o600


@pytest.mark.extras
def test_watching_works_on_uvloop_too(tmp_path: Path) -> None:
    """The daemon may run on uvloop: exits of children arrive there as well."""
    uvloop = pytest.importorskip("uvloop")

    async def run() -> list[int | None]:
        codes: list[int | None] = []
        launcher = ProcessLauncher(lambda _, code: codes.append(code))
        launcher.spawn([sys.executable, "-c", "raise SystemExit(7)"], {}, str(tmp_path / "l"), "t")
        await until(lambda: bool(codes))
        return codes

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run()) == [7]

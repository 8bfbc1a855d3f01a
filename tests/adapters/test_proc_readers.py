"""/proc is read as it is: odd names, zombies, rewritten titles, processes just gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from rigctl.adapters import proc


def test_a_name_with_brackets_and_blanks_does_not_shift_the_fields() -> None:
    """A program may call itself `) Z 1 (`: the fields after the last bracket still count."""
    code = (
        "import os,sys; open('/proc/self/comm','w').write(') Z 1 (');"
        "print(os.getsid(0), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        session = int(child.stdout.readline())
        line = proc.stat(child.pid)
        assert line is not None
        assert line.comm == ") Z 1 ("
        assert (line.parent, line.session) == (os.getpid(), session)
        assert line.state in ("R", "S"), "it has just printed, and may not sleep yet"
        assert proc.user(child.pid) == proc.user(os.getpid()) != ""


def test_a_zombie_counts_as_gone() -> None:
    """State Z has a stat line and no life: no identity, no member, no usage."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = proc.identity(child.pid)
    assert who is not None
    assert proc.same(who) is not None
    assert child.stdin is not None
    child.stdin.close()
    while (line := proc.stat(child.pid)) is not None and line.living:
        time.sleep(0.01)
    assert line is not None, "a zombie keeps its stat line until it is collected"
    assert proc.same(who) is None
    assert proc.identity(child.pid) is None
    assert proc.usage([child.pid]) == proc.Usage({}, 0)
    assert not proc.scan()[child.pid].living
    child.wait()
    assert proc.stat(child.pid) is None
    assert proc.user(child.pid) == ""


def test_the_command_line_is_told_apart_by_hash() -> None:
    """`a b` as one argument is another command line than `a` and `b`."""
    assert proc.argv_hash(["a b"]) != proc.argv_hash(["a", "b"])
    assert proc.argv_hash([]) == ""
    own = proc.cmdline(os.getpid())
    assert proc.identity(os.getpid()) == proc.identity(os.getpid())
    assert proc.argv_hash(own) == getattr(proc.identity(os.getpid()), "argv_hash", None)
    assert proc.title(os.getpid()).startswith(own[0])


def test_cpu_time_and_memory_grow_with_use() -> None:
    """A process that computes and allocates shows both, in seconds and bytes."""
    before = proc.usage([os.getpid()])
    block = b"x" * 50_000_000
    end = before.cpu_seconds[os.getpid()] + 0.05
    while proc.usage([os.getpid()]).cpu_seconds[os.getpid()] < end:
        sum(range(10_000))
    after = proc.usage([os.getpid(), 2**22 - 1])
    assert set(after.cpu_seconds) == {os.getpid()}
    assert after.resident_bytes > before.resident_bytes + 30_000_000
    assert len(block) == 50_000_000


def test_the_token_is_matched_whole() -> None:
    """A token that is the beginning of another does not find it."""
    env = {**os.environ, proc.TOKEN_VARIABLE: "token-12"}
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env, start_new_session=True
    ) as child:
        while not proc.has_token(child.pid, "token-12"):  # until exec has replaced the copy
            time.sleep(0.005)
        assert proc.find_by_token("token-12") == child.pid
        assert proc.find_by_token("token-1") is None


def test_ancestors_are_listed_nearest_first() -> None:
    """The chain starts with our parent and goes up to a process that has none here."""
    chain = proc.ancestors(os.getpid())
    assert chain[0] == os.getppid()
    assert proc.ancestors(chain[0]) == chain[1:]
    assert proc.ancestors(chain[-1]) == ()

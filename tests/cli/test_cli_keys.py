"""`rigctl keys`: a key is shown once, kept as a hash, and the table is whole at every moment."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rigctl.config.clients import read_clients, write_clients

RIG = '[[group]]\nname = "standard"\ncards = []\nport = 30001\nmodel = "tiny/model"\n'


def table(home: Path) -> Path:
    """Where the hashes lie."""
    return home / "state" / "clients.toml"


def test_a_key_is_printed_once_and_kept_as_its_hash(home, rigctl) -> None:
    """stdout is the key alone; nothing on disk has it, and nobody else may read the table."""
    (home / "rig.toml").write_text(RIG + "[proxy]\nport = 8088\n")
    done = rigctl("keys", "add", "anna", "--running", "3", "--comment", "her laptop")
    assert done.returncode == 0, done.stderr
    key = done.stdout.rstrip("\n")
    assert key.startswith("sk-rig-")
    assert done.stdout == f"{key}\n"
    assert key not in done.stderr
    assert "base_url to http://127.0.0.1:8088/v1" in done.stderr
    assert "from now on every client needs a key" in done.stderr
    (client,) = read_clients(table(home))
    assert client.key_hash == hashlib.sha256(key.encode()).hexdigest()
    assert (client.name, client.running, client.comment) == ("anna", 3, "her laptop")
    assert client.created is not None
    assert abs(client.created - datetime.datetime.now().astimezone().date()).days <= 1
    assert stat.S_IMODE(table(home).stat().st_mode) == 0o600
    written = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert not any(key.encode() in content for content in written)


def test_a_second_key_of_a_name_needs_replace(home, rigctl) -> None:
    """Refused with the next step; replaced, the limit and the comment stay and the old key ends."""
    first = rigctl("keys", "add", "anna", "--running", "2", "--comment", "x").stdout.strip()
    again = rigctl("keys", "add", "anna")
    assert (again.returncode, again.stdout) == (1, "")
    assert "`rigctl keys add anna --replace`" in again.stderr
    second = json.loads(rigctl("keys", "add", "anna", "--replace", "--json").stdout)
    assert second["key"] != first
    (client,) = read_clients(table(home))
    assert client.key_hash == hashlib.sha256(second["key"].encode()).hexdigest()
    assert (client.running, client.comment) == (2, "x")


def test_the_list_never_has_a_key(home, rigctl) -> None:
    """Names, limits, days and the first signs of the hash, which cannot be turned back."""
    assert "no client has a key" in rigctl("keys", "list").stderr
    keys = [rigctl("keys", "add", name).stdout.strip() for name in ("anna", "ben")]
    rigctl("keys", "add", "ben", "--replace", "--running", "1")
    text, data = rigctl("keys", "list").stdout, rigctl("keys", "list", "--json").stdout
    assert not any(key in text + data for key in keys)
    anna, ben = json.loads(data)["clients"]
    assert (anna["name"], anna["running"]) == ("anna", None)
    assert (ben["name"], ben["running"]) == ("ben", 1)
    assert anna["sha256"] == hashlib.sha256(keys[0].encode()).hexdigest()[:12]
    assert len(text.splitlines()) == 3
    assert "at most 1" in text


def test_remove_asks_and_says_what_it_means(home, rigctl, terminal) -> None:
    """No is the default; the last key opens the endpoint to everybody on this machine."""
    for name in ("anna", "ben"):
        rigctl("keys", "add", name)
    screen = terminal("keys", "remove", "anna")
    screen.expect("[y/N]")
    screen.type("\n")
    assert screen.wait() == 1
    assert "its requests are refused (401) from then on" in screen.seen
    assert rigctl("keys", "remove", "anna").returncode == 2
    assert len(read_clients(table(home))) == 2
    assert rigctl("keys", "remove", "anna", "--yes").returncode == 0
    last = rigctl("keys", "remove", "ben", "--yes")
    assert "everybody on this machine can use the endpoint" in last.stderr
    assert read_clients(table(home)) == ()
    unknown = rigctl("keys", "remove", "ben", "--yes")
    assert (unknown.returncode, "rigctl keys list" in unknown.stderr) == (2, True)


def test_the_last_key_of_an_open_endpoint_stays(home, rigctl) -> None:
    """Other machines reach it: it would refuse its own file, and keep a key that was to end."""
    rigctl("keys", "add", "anna")
    (home / "rig.toml").write_text(RIG + '[proxy]\nhost = "0.0.0.0"\n')
    done = rigctl("keys", "remove", "anna", "--yes")
    assert done.returncode == 1
    assert 'write host = "127.0.0.1" first' in done.stderr
    assert len(read_clients(table(home))) == 1


@pytest.mark.parametrize(
    "words", [["-"], ["a b"], ["a", "--running", "0"], ["a", "--running", "x"]]
)
def test_what_is_no_name_or_limit_is_usage(home, rigctl, words: list[str]) -> None:
    """Nothing is written."""
    done = rigctl("keys", "add", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert not table(home).exists()


def test_a_damaged_table_is_never_written_over(home, rigctl) -> None:
    """Each verb ends with the command that mends it."""
    write_clients(table(home), [])
    table(home).write_text("[client")
    for words in (["add", "anna"], ["list"], ["remove", "anna", "--yes"]):
        done = rigctl("keys", *words)
        assert done.returncode == 1, words
        assert f"mv {table(home)} " in done.stderr
    assert table(home).read_text() == "[client"
    table(home).chmod(0o644)
    assert f"chmod 600 {table(home)}" in rigctl("keys", "list").stderr


@pytest.mark.case("C68")
def test_a_full_disk_loses_no_client_and_shows_no_key(home, rigctl) -> None:
    """A key that could not be kept is not printed; the table is as it was."""
    rigctl("keys", "add", "anna")
    before = table(home).read_bytes()
    code = (
        "import resource, sys\n"
        "from rigctl.cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        "sys.exit(main(['keys', 'add', 'ben', '--comment', 'x' * 300]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be written: File too large. Nothing was changed" in done.stderr
    assert table(home).read_bytes() == before
    assert os.listdir(table(home).parent) == ["clients.toml"]


def test_two_at_once_lose_neither(home) -> None:
    """Each reads, changes and writes under a lock."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "rigctl", "keys", "add", f"client{number}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(6)
    ]
    assert [process.wait(60) for process in started] == [0] * 6
    assert len(read_clients(table(home))) == 6

"""clients.toml: hashes alone, whole or not at all, and every fault with the command that mends."""

from __future__ import annotations

import datetime
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from config_kit import GROUP, ConfigKit
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.config.clients import (
    hash_key,
    name_fault,
    new_key,
    read_clients,
    write_clients,
)
from rigctl.config.load import load
from rigctl.config.schema import ClientConfig, ConfigError

DAY = datetime.date(2026, 11, 30)
ANNA = ClientConfig("anna", hash_key("a"), 2, DAY, "her laptop")
BEN = ClientConfig("ben.2", hash_key("b"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Where this test's table lies; its folder does not exist yet."""
    return tmp_path / "state" / "clients.toml"


def test_what_is_written_is_read_into_the_config(rig_file: ConfigKit, table: Path) -> None:
    """In its order, readable by the owner alone, with a head that says what it is."""
    write_clients(table, [ANNA, BEN])
    assert load(rig_file.write(GROUP), None, table).clients == (ANNA, BEN)
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    assert table.read_text().startswith("# Written by `rigctl keys`")
    write_clients(table, [])
    assert read_clients(table) == ()
    assert table.read_text().startswith("# Written by `rigctl keys`")


def test_no_table_is_no_client(table: Path) -> None:
    """A rig without keys has none."""
    assert read_clients(table) == ()


def test_a_link_to_nowhere_is_not_a_rig_without_keys(table: Path) -> None:
    """Whoever asked for keys does not get an open endpoint because a file moved."""
    table.parent.mkdir()
    table.symlink_to(table.parent / "gone")
    with pytest.raises(ConfigError, match="does not exist"):
        read_clients(table)


def test_keys_are_random_and_fit_a_header() -> None:
    """The head names them, so that a secret scanner can; 32 bytes follow."""
    keys = {new_key() for _ in range(50)}
    assert len(keys) == 50
    for key in keys:
        assert key.startswith("sk-rig-")
        assert len(key) == len("sk-rig-") + 43
        assert key.replace("-", "").replace("_", "").isalnum()
        assert hash_key(key) != hash_key(key + "x")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_table_that_others_can_read_is_refused(table: Path, mode: int) -> None:
    """With the command that mends it."""
    write_clients(table, [ANNA])
    table.chmod(mode)
    with pytest.raises(ConfigError, match=f"run `chmod 600 {table}`"):
        read_clients(table)


GOOD = f'[client.anna]\nsha256 = "{"a" * 64}"\n'

DAMAGED = {
    "no TOML": ("[client", None, "clients.toml.damaged`, then make each client's key anew"),
    "no text": ("\xff", None, "it is not text"),
    "another section": (GOOD + "[rig]\n", 3, "unknown section or key `rig`"),
    "no table": ("client = 1\n", 1, "[client.NAME] is a table"),
    "a key in clear": ('[client.anna]\nsha256 = "sk-rig-hush"\n', 2, "is no hash of a key"),
    "no hash": ("[client.anna]\nrunning = 1\n", 1, "then run `rigctl keys add anna`"),
    "a client that is text": ('[client]\nanna = "sk-rig-hush"\n', 2, "is no hash of a key"),
    "hash in capitals": (GOOD.replace("aaa", "AAA"), 2, "is no hash of a key"),
    "limit of none": (GOOD + "running = 0\n", 3, "it must be from 1 to 100000"),
    "limit as text": (GOOD + 'running = "2"\n', 3, "write running = 2"),
    "no date": (GOOD + 'created = "today"\n', 3, "is a date, such as"),
    "unknown key": (GOOD + "limit = 2\n", 3, "unknown key `limit`: a client has sha256"),
    "no name": ('[client."a b"]\nsha256 = "x"\n', 1, "is no name for a client"),
    "twins": (GOOD + GOOD.replace("anna", "ben"), 4, "has the key of client 'anna'"),
}


@pytest.mark.parametrize(("text", "line", "says"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_table_names_the_cure(
    table: Path, text: str, line: int | None, says: str
) -> None:
    """The line, where there is one; never the key that somebody wrote into it."""
    table.parent.mkdir()
    table.touch(0o600)
    table.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        read_clients(table)
    said = str(caught.value)
    assert said.startswith(f"{table}:{line}: " if line else f"{table}: ")
    assert says in said
    assert "hush" not in said


def test_its_faults_stand_beside_those_of_the_rig_file(rig_file: ConfigKit, table: Path) -> None:
    """One run names all."""
    write_clients(table, [ANNA])
    table.chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        load(rig_file.write(GROUP + "modle = 1\n"), None, table)
    first, second = sorted(str(caught.value).splitlines())
    assert "rig.toml:6: " in first
    assert "chmod 600" in second


@pytest.mark.parametrize("name", ["-", "-a", ".a", "a b", "a/b", "", "ä", "x" * 41, "a\n"])
def test_a_name_that_no_label_can_carry_is_refused(name: str) -> None:
    """`-` alone is what a client without a key is called."""
    assert "is no name for a client" in name_fault(name)
    assert name_fault("anna-2.x_y") == ""


CLIENTS = st.lists(
    st.builds(
        ClientConfig,
        name=st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}", fullmatch=True),
        key_hash=st.binary(min_size=32, max_size=32).map(bytes.hex),
        running=st.none() | st.integers(1, 100),
        created=st.none() | st.dates(),
        comment=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12),
    ),
    max_size=5,
    unique_by=(lambda one: one.name, lambda one: one.key_hash),
)


@seed(20261130)
@settings(max_examples=150, deadline=None, database=None)
@given(CLIENTS)
def test_any_clients_come_back(
    tmp_path_factory: pytest.TempPathFactory, clients: list[ClientConfig]
) -> None:
    """Whatever they are called and said of."""
    path = tmp_path_factory.getbasetemp() / "any-clients.toml"
    write_clients(path, clients)
    assert read_clients(path) == tuple(clients)
    tomllib.loads(path.read_text("utf-8"))


FULL = """
import resource, sys
from pathlib import Path
from rigctl.config.clients import hash_key, write_clients
from rigctl.config.schema import ClientConfig
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
try:
    write_clients(Path(sys.argv[1]), [ClientConfig("ben", hash_key("b"), comment="x" * 200)])
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.case("C68")
def test_a_full_disk_leaves_the_old_table(table: Path) -> None:
    """Half a table would lock clients out, or an empty one let everybody in."""
    write_clients(table, [ANNA])
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(table)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\n"
    assert read_clients(table) == (ANNA,)
    assert list(table.parent.iterdir()) == [table]

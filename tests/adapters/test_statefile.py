"""The state file is whole or untouched, and never mistaken for a first start when it is bad."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support_disk import no_room, small_disk

from rigctl.adapters.statefile import StateFile, Unreadable

OLD = Path(__file__).with_name("data") / "state_schema1.json"


def test_what_was_saved_is_loaded_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    """A missing file is an empty memory; a saved one comes back as it was, mode 0600."""
    file = StateFile(tmp_path / "state.json", 1)
    assert file.load() == {}
    file.save({"wanted": ["long"], "wörter": "ß"})
    assert file.load() == {"wanted": ["long"], "wörter": "ß", "schema": 1}
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["state.json"]


@pytest.mark.case("C68")
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty"),
        (b"\0" * 4096, "is empty"),
        (b'{"schema": 1, "wanted": ["lo', "not whole JSON"),
        (b"[1]", "does not hold a JSON object"),
        (b'{"wanted": []}', "no schema number"),
        (b'{"schema": "1"}', "no schema number"),
        (b'{"schema": 99}', "newer rigctl"),
        (b'{"schema": 0}', "no longer reads"),
        (b"\xff\xfe{}", "not whole JSON"),
    ],
)
def test_a_bad_file_is_said_to_be_bad_and_kept(tmp_path: Path, raw: bytes, words: str) -> None:
    """0 bytes, half JSON, wrong schema: unreadable on every load until a save, bytes kept aside."""
    path = tmp_path / "state.json"
    path.write_bytes(raw)
    file = StateFile(path, 1)
    for _ in range(2):
        bad = file.load()
        assert isinstance(bad, Unreadable)
        assert words in bad.reason
        assert Path(bad.kept).read_bytes() == raw
    assert len(list(tmp_path.iterdir())) == 2
    file.save({"rebuilt": True})
    assert file.load() == {"rebuilt": True, "schema": 1}
    assert Path(bad.kept).read_bytes() == raw


def test_bad_files_are_not_collected_for_ever(tmp_path: Path) -> None:
    """A crash loop that spoils the file leaves a handful of copies, the newest ones."""
    path = tmp_path / "state.json"
    file = StateFile(path, 1)
    for number in range(9):
        path.write_text(f"spoiled {number}")
        bad = file.load()
        assert isinstance(bad, Unreadable)
        os.utime(bad.kept, (number, number))
    assert len(list(tmp_path.glob("*.unreadable-*"))) == 5
    assert Path(bad.kept).read_text() == "spoiled 8"


def test_an_old_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    """A file of schema 1 loads in a rigctl of schema 3 through both steps, and is not rewritten."""
    path = tmp_path / "state.json"
    shutil.copy(OLD, path)
    file = StateFile(
        path,
        3,
        {
            1: lambda old: {**old, "groups": old.pop("wanted")},
            2: lambda old: {**old, "leases": []},
        },
    )
    loaded = file.load()
    assert isinstance(loaded, dict)
    assert loaded["groups"] == ["standard", "long"]
    assert loaded["leases"] == []
    assert loaded["schema"] == 3
    assert path.read_bytes() == OLD.read_bytes()
    bad = StateFile(path, 2, {1: lambda old: {"x": old["nothing"]}}).load()
    assert isinstance(bad, Unreadable)
    assert "from schema 1 to 2" in bad.reason


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    with small_disk(folder):
        yield folder


@pytest.mark.case("C68")
def test_a_full_disk_leaves_the_old_state_whole(disk: Path) -> None:
    """No room for the new state: the error says so, the old one loads, nothing is left behind."""
    file = StateFile(disk / "state.json", 1)
    file.save({"wanted": ["long"]})
    with no_room(disk), pytest.raises(OSError) as caught:
        file.save({"wanted": ["x" * 40_000]})
    assert "state as it was before stays" in str(caught.value.strerror)
    assert "full" in str(caught.value.strerror) or "limit" in str(caught.value.strerror)
    assert file.load() == {"wanted": ["long"], "schema": 1}
    assert os.listdir(disk) == ["state.json"]
    file.save({"wanted": []})
    assert file.load() == {"wanted": [], "schema": 1}


@pytest.mark.case("C68")
def test_a_read_only_home_is_said(disk: Path) -> None:
    """A home that cannot be written: the sentence names it, what is there can still be read."""
    file = StateFile(disk / "state.json", 1)
    file.save({"wanted": ["long"]})
    mounted = os.path.ismount(disk)
    if not mounted and os.geteuid() == 0:
        pytest.skip("root without the right to mount: nothing here is read-only to it")
    if mounted:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    else:
        disk.chmod(0o500)
    try:
        with pytest.raises(OSError) as caught:
            file.save({})
        assert ("read-only" if mounted else "denied") in str(caught.value.strerror)
        assert file.load() == {"wanted": ["long"], "schema": 1}
    finally:
        if mounted:
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        else:
            disk.chmod(0o700)


@seed(68)
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80))
def test_no_bytes_on_disk_make_load_raise(raw: bytes) -> None:
    """Whatever lies there, load answers with an object or says why it cannot be used."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        path.write_bytes(raw)
        loaded = StateFile(path, 1).load()
        if not isinstance(loaded, Unreadable):
            assert loaded == json.loads(raw)
            assert loaded["schema"] == 1

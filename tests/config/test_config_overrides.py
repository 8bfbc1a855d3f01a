"""What keys change is kept beside the owner's file, whole or not at all."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from config_kit import GROUP, ConfigKit
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.config.load import load
from rigctl.config.overrides import (
    Override,
    read_overrides,
    set_override,
    write_overrides,
)
from rigctl.config.schema import ConfigError
from rigctl.core.ids import GroupName, Wall

NOW = Wall(1795982565.0)


def change(group: str, value: bool, by: str = "anna, key z") -> Override:
    """A sleep toggle."""
    return Override(GroupName(group), "sleep_on_idle", value, NOW, by)


def test_an_override_counts_and_says_so(rig_file: ConfigKit, tmp_path: Path) -> None:
    """The value changes, its origin names who, when and what it replaces; the file stays."""
    path = rig_file.write(GROUP + "sleep_on_idle = false\n")
    before = path.read_bytes()
    overrides = tmp_path / "state" / "overrides.toml"
    set_override(overrides, change("standard", True))
    config = load(path, overrides)
    assert config.groups[0].sleep_on_idle is True
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(NOW))
    assert config.origins["group.standard.sleep_on_idle"] == (
        f"overrides: set by anna, key z on {moment}, instead of false (rig.toml:6)"
    )
    assert path.read_bytes() == before
    assert load(path).groups[0].sleep_on_idle is False


def test_the_newest_change_of_a_key_is_kept(tmp_path: Path) -> None:
    """One value a group and key."""
    path = tmp_path / "overrides.toml"
    set_override(path, change("a", True))
    set_override(path, change("b", True))
    set_override(path, change("a", False, "ben"))
    assert set(read_overrides(path)) == {change("b", True), change("a", False, "ben")}


def test_a_change_for_a_group_that_is_gone_has_no_effect(
    rig_file: ConfigKit, tmp_path: Path
) -> None:
    """The owner may rename a group."""
    path = tmp_path / "overrides.toml"
    set_override(path, change("gone", True))
    assert load(rig_file.write(GROUP), path).groups[0].sleep_on_idle is False


def test_no_file_is_no_change(tmp_path: Path) -> None:
    """Most rigs have none."""
    assert read_overrides(tmp_path / "overrides.toml") == ()


@pytest.mark.parametrize(
    "text",
    [
        "group = [",
        "\xff",
        "[group.a.sleep_on_idle]\nvalue = 1\nat = 2026-11-29T20:14:05Z\n",
        "[group.a.sleep_on_idle]\nvalue = true\n",
        "[group.a.port]\nvalue = true\nat = 2026-11-29T20:14:05Z\n",
    ],
)
def test_a_damaged_file_is_named_with_the_cure(
    rig_file: ConfigKit, tmp_path: Path, text: str
) -> None:
    """A change that cannot be understood is not silently dropped."""
    path = tmp_path / "overrides.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"overrides\.toml: .*remove it, then set"):
        load(rig_file.write(GROUP), path)


@seed(20261129)
@settings(max_examples=100, deadline=None, database=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=9), st.tuples(st.booleans(), st.text(max_size=9)))
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, tuple[bool, str]]
) -> None:
    """Whatever people call their groups and themselves; `at` holds in microseconds."""
    path = tmp_path_factory.mktemp("round") / "overrides.toml"
    written = tuple(change(name, value, by) for name, (value, by) in changes.items())
    write_overrides(path, written)
    assert set(read_overrides(path)) == set(written)
    tomllib.loads(path.read_text("utf-8"))


FULL = """
import resource, sys
from pathlib import Path
from rigctl.config.overrides import Override, set_override
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
try:
    set_override(Path(sys.argv[1]), Override("a", "sleep_on_idle", False, 0.0, "x" * 100))
except OSError as error:
    print(error.strerror)
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A write that fails halfway is in a file of its own, which goes again."""
    path = tmp_path / "overrides.toml"
    set_override(path, change("a", True))
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\n"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]

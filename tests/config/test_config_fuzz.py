"""Whatever the file holds, reading it ends in a Config or in words, never in a traceback."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from config_kit import make_card
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.config.groups import GROUP_KEYS, RIG_KEYS
from rigctl.config.load import load
from rigctl.config.plan import launch_plan
from rigctl.config.proxy import PROXY_KEYS
from rigctl.config.schema import ConfigError
from rigctl.config.show import shown_values

CARDS = tuple(make_card(number) for number in range(8))

TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ("GPU-0", "0c:00.0", "--tp", "--foo", "=", "-", "file", "env", "DFLASH", "~/x")
    ),
)
SCALAR = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-3, 2**63 - 1),
    st.floats(),
    st.datetimes(),
    st.dates(),
    st.times(),
)
VALUE = st.one_of(
    SCALAR,
    st.lists(SCALAR, max_size=4),
    st.dictionaries(TEXT, SCALAR, max_size=3),
    st.lists(st.lists(SCALAR, max_size=2), max_size=2),
)
GROUP = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(GROUP_KEYS, VALUE),
        "name": TEXT,
        "port": st.integers(0, 70000),
        "cards": st.lists(st.integers(0, 9)),
    },
)
FILE = st.fixed_dictionaries(
    {"group": st.one_of(st.lists(st.one_of(GROUP, SCALAR), max_size=3), VALUE)},
    optional={
        "rig": st.one_of(st.fixed_dictionaries({}, optional=dict.fromkeys(RIG_KEYS, VALUE)), VALUE),
        "proxy": st.one_of(
            st.fixed_dictionaries({}, optional=dict.fromkeys(PROXY_KEYS, VALUE)), VALUE
        ),
        "schema_version": VALUE,
        "other": VALUE,
    },
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file, written over and over."""
    return tmp_path_factory.mktemp("fuzz") / "rig.toml"


def outcome(read: Callable[[], Any]) -> Any:
    """What it gives, or the ConfigError it ends in; any other error is the test's failure."""
    try:
        return read()
    except ConfigError as error:
        return error


def check(path: Path) -> None:
    """Read, plan and show; every fault names the file, and a line of it."""
    last = path.read_bytes().count(b"\n") + 1
    config = outcome(lambda: load(path))
    if isinstance(config, ConfigError):
        assert config.path == str(path)
        assert 0 < config.line <= last
        return
    assert shown_values(config)
    for group in config.groups:
        plan = outcome(partial(launch_plan, group, config, CARDS, {}, False, path.parent))
        assert plan.line > 0 if isinstance(plan, ConfigError) else plan.argv


@seed(20261129)
@settings(max_examples=400, deadline=None, database=None)
@given(FILE)
def test_any_values_end_in_a_config_or_in_words(path: Path, data: dict[str, Any]) -> None:
    """Known keys with any value of any type."""
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    check(path)


@seed(20261129)
@settings(max_examples=200, deadline=None, database=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.text("[]{}=\"'#.,\\\n \tagr01", max_size=40).map(lambda text: text.encode()),
    )
)
def test_any_bytes_end_in_words(path: Path, content: bytes) -> None:
    """Syntax of any kind; no such file is a config."""
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.path == str(path)
    assert 0 < caught.value.line <= content.count(b"\n") + 1

"""`[proxy]`: what is read, every fault with its line, and what a first file says of it."""

from __future__ import annotations

import dataclasses
import ipaddress
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from config_kit import GROUP, ConfigKit
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.config.clients import hash_key, write_clients
from rigctl.config.faults import SeveralFaultsError
from rigctl.config.init import drafts_from_cards, render
from rigctl.config.init_proxy import PROXY_HELP
from rigctl.config.load import load
from rigctl.config.proxy import PROXY_KEYS
from rigctl.config.proxy_checks import (
    endpoint_order,
    is_loopback,
    not_yet,
    proxy_warnings,
)
from rigctl.config.schema import ClientConfig, ConfigError, ProxyConfig
from rigctl.core.cards import CardSample
from rigctl.core.ids import GroupName

LONG = GROUP.replace("standard", "long").replace("[0]", "[1]").replace("30001", "30002")
BOTH = GROUP + LONG
"""Ten lines: what is added to the end stands from line 11 on."""


def test_without_the_table_there_is_no_endpoint(rig_file: ConfigKit) -> None:
    """A rig of an earlier rigctl goes on as it was."""
    config = rig_file.load(GROUP)
    assert config.proxy is None
    assert not any(key.startswith("proxy.") for key in config.origins)


def test_an_empty_table_is_all_defaults(rig_file: ConfigKit) -> None:
    """`[proxy]` alone switches the endpoint on."""
    config = rig_file.load(BOTH + "[proxy]\n")
    assert config.proxy == ProxyConfig()
    assert {config.origins[f"proxy.{key}"] for key in PROXY_KEYS} == {"default"}


def test_every_key_is_read_and_knows_its_line(rig_file: ConfigKit) -> None:
    """Each field of the schema arrives as written; none is left behind at its default."""
    written = ProxyConfig(
        host="::1",
        port=8088,
        model="house/model:1",
        reported_window="long",
        order=(GroupName("long"), GroupName("standard")),
        reserve_slots=0,
        reserve_share=0.25,
        queue_limit=0,
        hold=0.0,
        off_answer=400,
        session_rule="opening",
        normalize_prompt=True,
        picture_tokens=1,
        default_output=100,
        keep_alive=2.5,
        body_limit=1_000_000,
        memory_limit=2_000_000,
        priorities=True,
        drain=0.0,
    )
    values = dataclasses.asdict(written)
    assert all(values[key] != getattr(ProxyConfig(), key) for key in PROXY_KEYS)
    config = rig_file.load(
        BOTH + "[proxy]\n" + tomli_w.dumps({**values, "order": [*written.order]})
    )
    assert config.proxy == written
    lines = rig_file.path.read_text().splitlines()
    for key in PROXY_KEYS:
        line = int(config.origins[f"proxy.{key}"].removeprefix("rig.toml:"))
        assert lines[line - 1].startswith(f"{key} = ")


FAULTS = {
    "unknown": ("prot = 1", "unknown key `prot`: did you mean `port`?"),
    "another proxy's word": ("bind = 'x'", "unknown key `bind`: did you mean `host`?"),
    "nothing like it": ("zzz = 1", "[proxy] knows host, port, model,"),
    "keys in the file": (
        "api_keys = ['sk-1234']",
        "make each client's with `rigctl keys add NAME`",
    ),
    "host with a port": (
        "host = '127.0.0.1:8000'",
        'write host = "127.0.0.1" and port = 8000',
    ),
    "host as an address of the web": ("host = 'http://10.0.0.2:80/'", 'write host = "10.0.0.2"'),
    "host in brackets": ("host = '[::1]'", 'write host = "::1"'),
    "no host": ("host = ''", "`host` is empty"),
    "port as text": ("port = '8000'", "write port = 8_000"),
    "port out of range": ("port = 70000", "it must be from 1 to 65535"),
    "port of a group": ("port = 30002", "is taken by group 'long' at line 9: write another"),
    "two-line model": ("model = 'a\\nb'".replace("'", '"'), "without control signs"),
    "window of no group": ("reported_window = 'lnog'", "did you mean 'long'?"),
    "order of no group": ("order = ['standard', 'x']", "the groups are standard, long"),
    "order as text": ("order = 'standard long'", 'write order = ["standard", "long"]'),
    "order with one twice": ("order = ['long', 'long']", "names 'long' twice: remove one"),
    "share over one": ("reserve_share = 50", "it must be from 0 to 1"),
    "negative slots": ("reserve_slots = -1", "it must be from 0 to 4096"),
    "endless hold": ("hold = inf", "it must be from 0 to 3600"),
    "another answer": ("off_answer = 429", "it is 503 (come back later) or 400"),
    "another rule": ("session_rule = 'chian'", "did you mean 'chain'?"),
    "comments without a pause": ("keep_alive = 0", "it must be from 1 to 3600"),
    "size as text": ("body_limit = '64Mi'", "write body_limit = 67_108_864"),
    "truth as text": ("priorities = 'yes'", "write priorities = true"),
    "less than one body": ("memory_limit = 70_000", "is less than one request may have"),
    "body over memory": ("body_limit = 2_000_000_000", "raise it, or lower body_limit"),
}


@pytest.mark.parametrize(("written", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_named_with_its_line(rig_file: ConfigKit, written: str, says: str) -> None:
    """File, line, what is wrong, and the nearest right thing."""
    (fault,) = rig_file.faults(BOTH + "[proxy]\n" + written + "\n")
    assert fault.startswith("rig.toml:12: [proxy]: ")
    assert says in fault
    assert "sk-1234" not in fault


def test_no_room_for_a_prompt_is_named(rig_file: ConfigKit) -> None:
    """An answer as long as the window would refuse every request; a default alone only warns."""
    text = GROUP + "context_length = 4096\n[proxy]\n"
    (fault,) = rig_file.faults(text + "default_output = 5000\n")
    assert fault.startswith("rig.toml:8: [proxy]: `default_output` = 5000 leaves no room")
    config = rig_file.load(text)
    assert config.proxy is not None
    (warning,) = proxy_warnings(config.proxy, config.groups)
    assert warning.endswith("(context_length = 4096): write default_output below [proxy]")


def test_the_default_port_of_both_is_said_from_the_table(rig_file: ConfigKit) -> None:
    """A group had 8000 before there was an endpoint: the message names the key to write."""
    (fault,) = rig_file.faults("[proxy]\n" + GROUP.replace("30001", "8000"))
    assert fault.startswith("rig.toml:1: [proxy]: group 'standard' has `port` 8000")
    assert "write port = 8001 below [proxy]" in fault


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[porxy]\n", "did you mean [proxy]?"),
        ("queue_limit = 3\n", "`queue_limit` belongs below [proxy]"),
        ("[[proxy]]\n", "[proxy] is a table: write [proxy]"),
        ("proxy = 8000\n", "[proxy] is a table: write [proxy]"),
    ],
)
def test_a_table_written_otherwise_is_named(rig_file: ConfigKit, text: str, says: str) -> None:
    """On the first line of the file."""
    (fault,) = rig_file.faults(text + GROUP)
    assert fault.startswith("rig.toml:1: ")
    assert says in fault


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("::ffff:192.168.1.4", False),
        ("rig.local", False),
        ("localhost.example.org", False),
    ],
)
def test_an_open_address_needs_a_key(rig_file: ConfigKit, host: str, own: bool) -> None:
    """Refused with the next step; with one client it stands, and a loopback one always does."""
    clients = rig_file.path.parent / "clients.toml"
    path = rig_file.write(BOTH + f"[proxy]\nhost = '{host}'\n")
    assert is_loopback(host) is own
    if own:
        assert load(path, None, clients).proxy is not None
    else:
        with pytest.raises(ConfigError, match=r"run `rigctl keys add NAME` first") as caught:
            load(path, None, clients)
        assert (caught.value.path, caught.value.line) == (str(path), 12)
    write_clients(clients, [ClientConfig("anna", hash_key("k"))])
    assert load(path, None, clients).clients[0].name == "anna"


def test_a_group_that_order_leaves_out_comes_last(rig_file: ConfigKit) -> None:
    """And a check says how it is read."""
    config = rig_file.load(BOTH + "[proxy]\norder = ['long']\n")
    assert config.proxy is not None
    assert endpoint_order(config.proxy, config.groups) == ("long", "standard")
    assert endpoint_order(ProxyConfig(), config.groups) == ("standard", "long")
    (warning,) = proxy_warnings(config.proxy, config.groups)
    assert "does not name standard: it reads as long, standard" in warning


def test_what_is_probably_not_meant_is_a_warning(rig_file: ConfigKit) -> None:
    """No slot left for overflow; two models behind one name. Neither stops anything."""
    text = GROUP + LONG.replace("/tiny", "/other") + "max_running_requests = 2\n"
    config = rig_file.load(text + "[proxy]\nreserve_slots = 2\n")
    assert config.proxy is not None
    slots, models = proxy_warnings(config.proxy, config.groups)
    assert "all that group 'long' has (max_running_requests = 2): nothing overflows" in slots
    assert "/models/other, /models/tiny" in models
    assert proxy_warnings(ProxyConfig(), rig_file.load(BOTH).groups) == ()


@pytest.mark.parametrize(
    ("host", "port", "url", "differs"),
    [
        ("127.0.0.1", 8000, "http://127.0.0.1:8000", False),
        ("127.0.0.1", 8000, "http://127.0.0.1:8001/v1", True),
        ("0.0.0.0", 8000, "http://127.0.0.1:8000", False),
        ("0.0.0.0", 8000, "http://10.0.0.2:8000", True),
        ("::1", 8000, "http://[::1]:8000", False),
        ("::", 8000, "http://[::1]:8000", False),
        ("localhost", 8000, "http://127.0.0.1:8000", True),
        ("127.0.0.1", 9, "", False),
    ],
)
def test_a_new_address_waits_for_a_restart(host: str, port: int, url: str, differs: bool) -> None:
    """The check names the command that moves the endpoint to what the file says."""
    said = not_yet(ProxyConfig(host=host, port=port), url)
    assert bool(said) is differs
    assert ("rigctl endpoint restart" in said) is differs
    assert not_yet(None, url) == ""


def test_a_first_file_has_it_switched_on(
    tmp_path: Path, eight_cards: tuple[CardSample, ...]
) -> None:
    """Every key explained; each comment is a line that can be uncommented as it stands."""
    drafts = drafts_from_cards(eight_cards)
    text = render(drafts)
    section = text[text.index("[proxy]") : text.index("[[group]]")]
    assert set(PROXY_HELP) == set(PROXY_KEYS)
    lines = section.splitlines()[1:]
    written = "\n".join(line.removeprefix("# ") for line in lines if line)
    path = tmp_path / "rig.toml"
    path.write_text(text.replace(section, f"[proxy]\n{written}\n"))
    config = load(path)
    assert config.proxy == ProxyConfig(order=(GroupName("first"), GroupName("second")))
    path.write_text(text)
    assert load(path).proxy == ProxyConfig()


def test_a_first_file_avoids_the_groups_ports(eight_cards: tuple[CardSample, ...]) -> None:
    """Servers found running may have the usual port."""
    drafts = [
        dataclasses.replace(draft, config=dataclasses.replace(draft.config, port=8000 + number))
        for number, draft in enumerate(drafts_from_cards(eight_cards))
    ]
    assert tomllib.loads(render(drafts))["proxy"]["port"] == 8002


def test_a_first_file_fits_small_windows(eight_cards: tuple[CardSample, ...]) -> None:
    """Without this every request that names no length would be too long."""
    first, second = drafts_from_cards(eight_cards)
    small = dataclasses.replace(first.config, context_length=2048)
    text = render([dataclasses.replace(first, config=small), second])
    assert tomllib.loads(text)["proxy"]["default_output"] == 512


SCALAR = st.one_of(
    st.booleans(),
    st.integers(-5, 2**40),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(("standard", "long", "0.0.0.0", "::1", "a:1", "chain", "[::1]:9", "[", "://")),
    st.dates(),
)
VALUE = st.one_of(SCALAR, st.lists(SCALAR, max_size=3), st.dictionaries(st.text(), SCALAR))
SOUND = {
    "host": st.ip_addresses().filter(lambda one: one.is_loopback).map(str)
    | st.just(ipaddress.ip_address("127.0.0.1")).map(str),
    "port": st.integers(1, 65535),
    "order": st.permutations(["standard", "long"]),
    "reserve_share": st.floats(0, 1),
    "queue_limit": st.integers(0, 500),
    "off_answer": st.sampled_from((400, 503)),
    "keep_alive": st.floats(1, 60),
    "normalize_prompt": st.booleans(),
}
TABLE = st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(PROXY_KEYS, VALUE), "other": VALUE}
) | st.fixed_dictionaries({}, optional=SOUND)


@seed(20261130)
@settings(max_examples=300, deadline=None, database=None)
@given(TABLE)
def test_any_table_ends_in_words_or_in_a_sound_config(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any]
) -> None:
    """No value of any type crashes the reader, and what passes is within what the proxy can do."""
    path = tmp_path_factory.getbasetemp() / "any-proxy.toml"
    path.write_text(BOTH + tomli_w.dumps({"proxy": data}), encoding="utf-8")
    clients = path.with_name("none.toml")
    try:
        config = load(path, None, clients)
    except ConfigError as error:
        faults = error.faults if isinstance(error, SeveralFaultsError) else (error,)
        assert all(fault.path == str(path) and fault.line > 10 for fault in faults)
        return
    proxy = config.proxy
    assert proxy is not None
    assert is_loopback(proxy.host)
    assert proxy.port not in (30001, 30002)
    assert 0 <= proxy.reserve_share <= 1
    assert proxy.keep_alive >= 1
    assert proxy.memory_limit >= proxy.body_limit > 0
    assert sorted(endpoint_order(proxy, config.groups)) == ["long", "standard"]
    for key, value in data.items():
        read = getattr(proxy, key)
        assert (list(read) if isinstance(read, tuple) else read) == value

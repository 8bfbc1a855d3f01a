"""Both ends of the link between daemon and proxy: what one says is what the other hears."""

from __future__ import annotations

import dataclasses
import json
import math
import typing

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.control import link_wire
from rigctl.control.wire import WireError
from rigctl.core.flow import FlowRows, SessionRow
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import (
    LINK_PROTOCOL,
    Flow,
    GateState,
    HandOver,
    Hello,
    Progress,
    Table,
    TableClient,
    TableGroup,
    TablePolicy,
    ToDaemon,
    ToProxy,
)
from rigctl.core.reading import Missing, Why

HELLO = Hello(LINK_PROTOCOL, "0.1.0", 4711, "3f0c11aa", "127.0.0.1:8000", ("e1", 12))

TO_PROXY = st.one_of(*(st.from_type(kind) for kind in typing.get_args(ToProxy)))
TO_DAEMON = st.one_of(
    *(st.from_type(kind) for kind in typing.get_args(ToDaemon) if kind is not Hello)
)


def finite(value: object) -> bool:
    """No number in it that JSON has no word for."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, tuple):
        return all(finite(part) for part in value)
    if isinstance(value, dict):
        return all(finite(part) for part in value.values())
    if dataclasses.is_dataclass(value):
        return all(finite(getattr(value, field.name)) for field in dataclasses.fields(value))
    return True


@seed(31)
@settings(max_examples=150, deadline=None)
@given(TO_PROXY.filter(finite))
def test_whatever_the_daemon_says_arrives_as_it_was(message: ToProxy) -> None:
    """One line, whose kind a person can read, and the same value at the other end."""
    line = link_wire.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line)["kind"] in link_wire.TO_PROXY
    assert link_wire.decode_to_proxy(line) == message


@seed(32)
@settings(max_examples=150, deadline=None)
@given(TO_DAEMON.filter(finite))
def test_whatever_the_proxy_says_arrives_as_it_was(message: ToDaemon) -> None:
    """The same the other way."""
    assert link_wire.decode_to_daemon(link_wire.encode(message)) == message


def test_every_message_of_the_contract_has_a_word() -> None:
    """A message that is added to the contract cannot be forgotten on the wire."""
    assert set(link_wire.TO_PROXY.values()) == set(typing.get_args(ToProxy))
    assert {*link_wire.TO_DAEMON.values(), Hello} == set(typing.get_args(ToDaemon))


def test_the_hello_is_a_question_of_the_control_socket() -> None:
    """It begins like every question there, so that one server takes both."""
    line = link_wire.encode(HELLO)
    assert json.loads(line)["do"] == "link"
    assert link_wire.decode_hello(line, "0.1.0") == HELLO


@pytest.mark.parametrize(
    ("protocol", "older", "mends"),
    [
        (LINK_PROTOCOL + 1, "the daemon (rigctl 0.1.0) is older", "`rigctl daemon stop`"),
        (LINK_PROTOCOL - 1, "the proxy (rigctl 9.9) is older", "`rigctl endpoint restart`"),
    ],
)
def test_another_protocol_is_refused_by_naming_the_older_and_the_cure(
    protocol: int, older: str, mends: str
) -> None:
    """Whatever else the other version's hello holds: it need not be understood for that."""
    line = json.dumps({"do": "link", "protocol": protocol, "rigctl": "9.9", "pid": {"is": "new"}})
    with pytest.raises(WireError) as caught:
        link_wire.decode_hello(line.encode(), "0.1.0")
    assert caught.value.code == "version"
    assert older in caught.value.say
    assert mends in caught.value.say


def test_unknown_kinds_and_fields_of_a_newer_peer_are_passed_over() -> None:
    """The other side may be of the next version."""
    gate = GateState(GroupName("a"), 1, "finish", 3)
    newer = json.loads(link_wire.encode(gate))
    newer = {"kind": newer["kind"], "x": [1], "body": {**newer["body"], "y": 2}}
    assert link_wire.decode_to_daemon(json.dumps(newer).encode()) == gate
    assert link_wire.decode_to_daemon(b'{"kind":"weather","rain":true}') is None
    assert link_wire.decode_to_proxy(b'{"kind":"weather","rain":true}') is None
    # One side's words are not the other's.
    assert (
        link_wire.decode_to_proxy(link_wire.encode(GateState(GroupName("a"), 0, "open", 0))) is None
    )
    assert link_wire.decode_to_daemon(link_wire.encode(HandOver())) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"nonsense",
        b'{"kind":5}',
        b'{"kind":"gate"}',
        b'{"kind":"gate","body":{}}',
        b"\xff\xfe",
        b'{"kind":"',
    ],
)
def test_what_is_no_message_is_said_and_breaks_nothing(raw: bytes) -> None:
    """A line that cannot be used costs itself."""
    with pytest.raises(WireError):
        link_wire.decode_to_daemon(raw)


def test_a_refusal_arrives_with_its_reason() -> None:
    """The proxy learns why the daemon will not have it."""
    with pytest.raises(WireError) as caught:
        link_wire.decode_to_proxy(b'{"kind":"error","say":"too old","code":"version"}')
    assert (caught.value.say, caught.value.code) == ("too old", "version")


def test_a_line_over_the_limit_goes_out_on_neither_side() -> None:
    """No peer can make the other hold a line without end."""
    long = "x" * link_wire.LINK_LIMIT
    with pytest.raises(WireError) as caught:
        link_wire.encode(GateState(GroupName(long), 0, "open", 0))
    assert caught.value.code == "too-long"
    with pytest.raises(WireError) as caught:
        link_wire.decode_to_daemon(b'{"kind":"gate","group":"' + long.encode() + b'"}')
    assert caught.value.code == "too-long"


def test_a_number_that_is_none_costs_itself_and_not_the_line() -> None:
    """Infinity has no JSON: it arrives as a reason, everything else as it was."""
    row = SessionRow("rig-1", "ab", "-", "long", "answering", 3.0, rate=math.inf)
    sent = Flow(FlowRows(5.0, (row,), totals={"requests": math.nan, "failed": 1.0}))
    heard = link_wire.decode_to_daemon(link_wire.encode(sent))
    assert isinstance(heard, Flow)
    absent = Missing(Why.IMPLAUSIBLE, "not a number")
    assert heard.rows.sessions == (dataclasses.replace(row, rate=absent),)
    assert heard.rows.totals == {"failed": 1.0}
    late = Progress(GroupName("long"), "prefilling", eta=math.nan)
    assert link_wire.decode_to_proxy(link_wire.encode(late)) == dataclasses.replace(
        late, eta=absent
    )


def test_the_largest_rig_fits_with_room_to_spare() -> None:
    """A table of eight groups and a thousand clients, a flow of sixty-four sessions."""
    groups = tuple(
        TableGroup(GroupName(f"group-{number}"), "127.0.0.1", 30000 + number, "m" * 80, "ready")
        for number in range(8)
    )
    clients = tuple(TableClient(f"client-{number}", "f" * 64, 4) for number in range(1000))
    table = Table("e" * 12, 1, Mono(1.0), groups, TablePolicy(), clients)
    assert len(link_wire.encode(table)) < link_wire.LINK_LIMIT / 4

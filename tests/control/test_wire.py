"""What goes over the socket comes back as it was; what is wrong is answered in words."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from rig_views import rig

from rigctl.control import wire
from rigctl.core import commands
from rigctl.core.commands import Accepted, Command, Refused
from rigctl.core.harmless import one_line
from rigctl.core.ids import OperationId
from rigctl.core.reading import Missing, Why
from rigctl.core.snapshot import JournalEntry


def test_a_whole_rig_survives_the_wire() -> None:
    """Numbers, reasons, sums, nested views and texts with quotes come back equal."""
    line = wire.encode_snapshot(rig())
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert wire.decode_snapshot(line) == rig()
    assert json.loads(line)["kind"] == "snapshot"
    assert json.loads(line)["schema"] == 1


def test_a_reader_is_told_that_it_may_only_look() -> None:
    """The one field is patched, not a text that happens to hold the same letters."""
    patched = wire.decode_snapshot(wire.for_reader(wire.encode_snapshot(rig())))
    assert patched == dataclasses.replace(rig(), read_only=True)


def test_a_number_that_is_none_costs_itself_and_not_the_rig() -> None:
    """Infinity and not-a-number have no JSON: they arrive as a reason, the rest as it was."""
    whole = rig()
    spoiled = dataclasses.replace(
        whole,
        at=math.inf,
        host=dataclasses.replace(whole.host, load=math.nan),
        operations=(dataclasses.replace(whole.operations[0], figures={"a": math.nan, "b": 1.0}),),
        cards=(dataclasses.replace(whole.cards[0], watts=math.inf), *whole.cards[1:]),
    )
    read = wire.decode_snapshot(wire.encode_snapshot(spoiled))
    absent = Missing(Why.IMPLAUSIBLE, "not a number")
    assert (read.at, read.host.load, read.cards[0].watts) == (0.0, absent, absent)
    assert read.operations[0].figures == {"b": 1.0}
    assert (read.cards[1:], read.groups) == (whole.cards[1:], whole.groups)


def test_newer_fields_are_passed_over_and_another_shape_is_said() -> None:
    """A newer daemon's extra field does no harm; a changed one names the version as the cause."""
    fields = json.loads(wire.encode_snapshot(rig()))
    assert wire.decode_snapshot(json.dumps({**fields, "new": 1}).encode()) == rig()
    with pytest.raises(wire.WireError, match="another version"):
        wire.decode_snapshot(json.dumps({**fields, "seq": "x"}).encode())


def usable(command: Command) -> bool:
    """Numbers within reason, and a holder's name as it stands in a row."""
    values = dataclasses.asdict(command)
    holder = values.get("holder", "")
    return holder == one_line(holder)[: wire.HOLDER_SIGNS] and all(
        not isinstance(value, int | float) or 0 <= value <= wire.MOST for value in values.values()
    )


COMMAND = st.one_of(*(st.from_type(kind) for kind in wire.COMMANDS.values())).filter(usable)


@seed(5)
@settings(max_examples=200, deadline=None)
@given(COMMAND)
def test_every_command_survives_the_wire(command: Command) -> None:
    """Each command of core, with any fields, is the same one at the daemon."""
    asked = wire.message(wire.line(wire.encode_command(command)))
    assert asked["do"] == "act"
    decoded = wire.decode_command(asked["command"], asked["args"])
    assert type(decoded) is type(command)
    assert decoded == command


def test_every_command_of_core_has_a_name() -> None:
    """A command added to core and not to the table would be unreachable."""
    assert set(wire.COMMANDS.values()) == set(commands.Command.__args__)


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("fre", {}, "no command `fre`: did you mean `free`?"),
        (None, {}, "no command `None`: known are"),
        ("free", {"group": "long", "holdr": "x"}, "no field `holdr`: did you mean `holder`?"),
        ("free", {"group": "long"}, "missing required field `holder`"),
        ("free", {"group": 3, "holder": "x"}, "$.group"),
        ("free", [], "must be an object"),
        ("power-limit", {"group": None, "watts": "280"}, "$.watts"),
        ("power-limit", {"group": None, "watts": -1.0}, "`watts` is not between 0 and 1e+09"),
        ("nvml-release", {"seconds": 1e300}, "`seconds` is not between 0 and 1e+09"),
        ("lend-started", {"group": "long", "pid": -1}, "`pid` is not between 0 and 1e+09"),
    ],
)
def test_a_wrong_command_names_the_nearest_right_thing(
    name: object, args: object, words: str
) -> None:
    """Unknown names and fields, missing and mistyped ones: each is named with the way out."""
    with pytest.raises(wire.WireError) as caught:
        wire.decode_command(name, args)
    assert words in caught.value.say


def test_a_holder_is_one_short_line() -> None:
    """Whoever sends it: the name stands in rows, in the journal and in every snapshot."""
    args = {"group": "long", "holder": "an\nna\0\x1b[2J" + "x" * 50_000}
    command = wire.decode_command("free", args)
    assert isinstance(command, commands.FreeGroup)
    assert command.holder == ("an na\ufffd" + "x" * 50_000)[: wire.HOLDER_SIGNS]


def test_arguments_may_be_left_out_where_there_are_none() -> None:
    """`confirm-state` needs no fields and no `args`."""
    assert wire.decode_command("confirm-state", None) == commands.ConfirmState()
    assert wire.decode_command("stop-daemon", {}) == commands.StopDaemon()


@pytest.mark.parametrize(
    "answer", [Accepted(OperationId(3), "drains first"), Refused("no such group", "unknown-group")]
)
def test_answers_survive_the_wire(answer: commands.Answer) -> None:
    """Accepted and refused stay apart, with all they say."""
    assert wire.decode_answer(wire.message(wire.encode_answer(answer))) == answer


def test_journal_entries_keep_their_own_kind() -> None:
    """The message's kind and the entry's kind do not meet."""
    entry = JournalEntry(7, 1.5, "long", "freed", "long freed", {"total_seconds": 7.9})
    fields = wire.message(wire.journal(entry))
    assert fields["kind"] == "journal"
    assert wire.decode_journal(fields) == entry


@seed(6)
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_no_line_makes_the_decoder_fail_otherwise(raw: bytes) -> None:
    """Whatever a client sends, it is an object or a WireError."""
    try:
        fields = wire.message(raw)
    except wire.WireError:
        return
    assert fields == json.loads(raw)

"""The line: fair between clients and sessions, in order within one, bounded patience for all."""

from __future__ import annotations

from rigctl.core.clusters import Wait, Why
from rigctl.core.ids import GroupName, Mono
from rigctl.core.line import ROUND, Line


def _fill(line: Line, *entries: tuple[str, str, str]) -> None:
    for at, (request, session, client) in enumerate(entries):
        line.add(request, session, client, Mono(at * 0.01))


def test_first_come_first_served_among_equals() -> None:
    """New sessions of one client, one request each."""
    line = Line()
    _fill(line, ("a", "", "-"), ("b", "", "-"), ("c", "", "-"))
    assert line.order() == ("a", "b", "c")
    assert [line.place(each) for each in "abc"] == [1, 2, 3]
    assert line.ahead("another") == 3
    assert line.place("another") is None


def test_those_over_their_own_limit_are_before_nobody() -> None:
    """They wait for their client's answers, which cost the others nothing."""
    line = Line({"anna": 1, "ben": 1})
    line.started("", "anna")
    _fill(line, ("a1", "", "anna"), ("a2", "", "anna"), ("b1", "", "ben"))
    assert line.waiting_of("anna") == 2
    assert line.ahead("another") == 1
    line.ended("", "anna")
    assert line.ahead("another") == 3
    assert line.place("b1") is not None
    assert line.waiting_of("nobody") == 0


def test_a_session_that_asks_much_does_not_hold_up_the_others() -> None:
    """Its second request comes after everybody's first, its own order kept."""
    line = Line()
    _fill(line, *((f"m{n}", "much", "-") for n in range(4)), ("x", "one", "-"), ("y", "two", "-"))
    assert line.order() == ("m0", "x", "y", "m1", "m2", "m3")


def test_a_client_with_many_sessions_takes_turns_with_one_that_has_one() -> None:
    """Fair between people, not between their windows; what is under way counts."""
    line = Line()
    _fill(line, *((f"m{n}", f"s{n}", "much") for n in range(4)), ("x", "t", "few"))
    assert line.order() == ("m0", "x", "m1", "m2", "m3")
    line.started("s9", "much")
    assert line.order() == ("x", "m0", "m1", "m2", "m3")
    line.ended("s9", "much")
    assert line.order()[0] == "m0"


def test_waiting_buys_rank() -> None:
    """A round is worth so many seconds: nobody who comes later than that overtakes."""
    line = Line()
    for _ in range(3):
        line.started("busy", "-")
    line.add("old", "busy", "-", Mono(0.0))
    line.add("young", "", "-", Mono(3 * ROUND - 1))
    assert line.order()[0] == "young"
    line.add("younger", "", "-", Mono(3 * ROUND + 1))
    order = line.order()
    assert order.index("old") < order.index("younger")


def test_a_clients_limit_keeps_its_requests_waiting_and_nobody_elses() -> None:
    """No more of them are tried than may run; the panel says why they wait."""
    line = Line({"a": 2, "b": None})
    line.started("s", "a")
    _fill(line, ("a1", "1", "a"), ("a2", "2", "a"), ("b1", "3", "b"))
    assert line.may_start("a")
    assert set(line.order()) == {"a1", "b1"}
    line.started("1", "a")
    assert not line.may_start("a")
    assert line.may_start("b")
    assert line.order() == ("b1",)
    words = {each.request: each.say for each in line.places(Mono(1.0))}
    assert "as many under way as it may" in words["a2"]
    line.ended("s", "a")
    assert line.order() == ("b1", "a2")  # a1's session has one under way already


def test_place_age_and_expectation_for_people() -> None:
    """`place 2 of 5, about 40 s`, and what waits for which cluster."""
    line = Line()
    on = (GroupName("standard"),)
    line.add("a", "s", "-", Mono(10.0), Wait(on, 40.0, Mono(130.0), Why("queue", "full")))
    line.add("b", "", "-", Mono(12.0))
    line.note("b", Wait((GroupName("long"),), 0.2, None, Why("queue", "full")))
    first, second = line.places(Mono(20.0))
    assert (first.say, first.age, first.session) == ("place 1 of 2, about 40 s", 10.0, "s")
    assert (second.say, second.session) == ("place 2 of 2", "")
    assert line.waits_for(GroupName("standard")) == 1
    assert line.oldest(Mono(20.0)) == 10.0
    assert line.leave("a")
    assert not line.leave("a")
    assert (len(line), "a" in line) == (1, False)


def test_one_that_is_queued_again_keeps_the_time_it_came() -> None:
    """A server that was lost costs no place."""
    line = Line()
    line.add("new", "", "-", Mono(5.0))
    line.add("again", "", "-", Mono(1.0))
    assert line.order() == ("again", "new")


def test_what_one_waits_for_is_not_given_to_those_behind_it() -> None:
    """Those before it are not held up, nor anybody by one whose client has its fill."""
    line = Line({"anna": 1})
    standard = (GroupName("standard"),)
    line.add("small", "", "-", Mono(0.0))
    line.add("large", "", "-", Mono(1.0), Wait(standard, 9.0, None, Why("queue", "x"), standard))
    line.add("next", "", "-", Mono(2.0))
    assert [line.claimed(each) for each in ("small", "large", "next", "new")] == [
        frozenset(),
        frozenset(),
        frozenset(standard),
        frozenset(standard),
    ]
    line.leave("large")
    line.add("annas", "", "anna", Mono(0.5), Wait(standard, 9.0, None, Why("queue", "x"), standard))
    assert line.claimed("new") == frozenset(standard)
    line.started("", "anna")
    assert line.claimed("new") == frozenset()

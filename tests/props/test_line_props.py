"""The line under any arrivals: everybody is first in the end, and each session keeps its order."""

from __future__ import annotations

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.core.ids import Mono
from rigctl.core.line import ROUND, Line

arrivals = st.lists(
    st.tuples(
        st.sampled_from(["", "", "s1", "s2", "s3"]),
        st.sampled_from(["-", "anna", "ben"]),
        st.floats(0.0, 5.0),
    ),
    min_size=1,
    max_size=40,
)
running = st.lists(
    st.tuples(st.sampled_from(["", "s1"]), st.sampled_from(["-", "anna"])), max_size=8
)


def _own(session: str, client: str) -> str:
    return f"{client}/{session}" if session else ""


@seed(20261130)
@settings(max_examples=300, deadline=None)
@given(arrivals, running)
def test_each_session_in_its_own_order_and_everybody_once(
    stream: list[tuple[str, str, float]], busy: list[tuple[str, str]]
) -> None:
    """Whoever is served first each time: none is lost, none doubled, none overtakes its own."""
    line = Line()
    for session, client in busy:
        line.started(_own(session, client), client)
    now = 0.0
    came: dict[str, list[str]] = {}
    served: dict[str, list[str]] = {}
    for number, (session, client, gap) in enumerate(stream):
        now += gap
        name, own = f"r{number}", _own(session, client)
        line.add(name, own, client, Mono(now))
        came.setdefault(own or name, []).append(name)
        if number % 3 == 2:
            first = line.order()[0]
            line.leave(first)
            served.setdefault(_of(first, stream), []).append(first)
    while len(line):
        now += 0.1
        order = line.order()
        assert len(order) == len(set(order)) == len(line)
        assert [line.place(each) for each in order] == list(range(1, len(order) + 1))
        line.leave(order[0])
        served.setdefault(_of(order[0], stream), []).append(order[0])
    assert served == came


def _of(request: str, stream: list[tuple[str, str, float]]) -> str:
    session, client, _ = stream[int(request[1:])]
    return _own(session, client) or request


@seed(20261130)
@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 8),
    st.sampled_from(["other", "same"]),
    st.floats(1.0, 10.0),
    st.booleans(),
)
def test_nobody_starves_under_an_endless_stream(
    under_way: int, client: str, gap: float, fresh_sessions: bool
) -> None:
    """New ones come as fast as one is served, from sessions that have nothing under way: the one
    with the worst rank is first after a number of arrivals that its rank bounds."""
    line = Line()
    for _ in range(under_way):
        line.started("greedy", "same")
    line.add("old", "greedy", "same", Mono(0.0))
    now, number = 0.0, 0
    while True:
        now += gap
        number += 1
        line.add(f"n{number}", "" if fresh_sessions else f"s{number % 3}", client, Mono(now))
        first = line.order()[0]
        line.leave(first)
        if first == "old":
            break
        assert now <= ROUND * (under_way + 3) + 2 * gap


@seed(20261130)
@settings(max_examples=200, deadline=None)
@given(arrivals, st.integers(0, 3), st.integers(0, 3))
def test_a_limit_is_never_exceeded_and_blocks_nobody_else(
    stream: list[tuple[str, str, float]], limit: int, busy: int
) -> None:
    """Of the limited client as many are tried as may still run; of the others all."""
    line = Line({"anna": limit})
    for _ in range(busy):
        line.started("", "anna")
    owner = {}
    for number, (session, client, _) in enumerate(stream):
        line.add(f"r{number}", _own(session, client), client, Mono(float(number)))
        owner[f"r{number}"] = client
    order = line.order()
    annas = [each for each in order if owner[each] == "anna"]
    waiting = sum(1 for each in owner.values() if each == "anna")
    assert len(annas) == min(waiting, max(0, limit - busy))
    assert len(order) - len(annas) == len(owner) - waiting

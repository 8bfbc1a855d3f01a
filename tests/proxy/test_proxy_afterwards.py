"""Bookkeeping that is put off is done in its order, by itself, and whatever fails of it."""

from __future__ import annotations

import asyncio

import pytest

from rigctl.proxy.afterwards import MOMENT, Afterwards


async def test_it_is_done_in_its_order_when_somebody_asks_for_it() -> None:
    """First added, first done, before anything else is said."""
    after, done = Afterwards(), list[int]()
    for number in range(3):
        after.add(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == []
    after.run()
    assert done == [0, 1, 2]


async def test_it_is_done_by_itself_where_nobody_asks_and_again_after_that() -> None:
    """A moment later, each time that something was put off."""
    after = Afterwards()
    for _ in range(2):
        done = asyncio.Event()
        after.add(done.set)
        await asyncio.wait_for(done.wait(), MOMENT + 5)


async def test_work_that_fails_is_logged_and_keeps_none_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Bookkeeping that breaks costs its own entry alone."""
    after, done = Afterwards(), list[str]()
    after.add(lambda: done.clear() or 1 / 0)  # type: ignore[func-returns-value, arg-type, return-value]
    after.add(lambda: done.append("behind it"))
    after.run()
    assert done == ["behind it"]
    assert "bookkeeping failed" in caplog.text


async def test_what_is_only_written_down_waits_for_no_decision() -> None:
    """`run` leaves it, `learn` too; `settle` does all, what decisions go by first."""
    after, done = Afterwards(), list[str]()
    after.add_late(lambda: done.append("late"))
    after.add_lesson(lambda: done.append("lesson"))
    after.add(lambda: done.append("soon"))
    after.run()
    assert done == ["soon"]
    after.add(lambda: done.append("soon"))
    assert after.learn()
    assert done == ["soon", "soon", "lesson"]
    assert not after.learn()
    after.settle()
    assert done == ["soon", "soon", "lesson", "late"]


@pytest.mark.parametrize("kind", ["add_lesson", "add_late"])
async def test_what_no_decision_goes_by_is_done_by_itself(kind: str) -> None:
    """A moment later, whether or not anything is decided."""
    after, done = Afterwards(), asyncio.Event()
    getattr(after, kind)(done.set)
    await asyncio.wait_for(done.wait(), MOMENT + 5)

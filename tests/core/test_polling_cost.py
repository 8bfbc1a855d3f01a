"""What it costs to look at idle cards, measured by the rig itself and told to people (C82)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_rig import Rig

from rigctl.core.doctor import check_notices
from rigctl.core.doctor_facts import NoticeFacts
from rigctl.core.doctor_finding import OK
from rigctl.core.ids import Mono
from rigctl.core.lease import Lease
from rigctl.core.snapshot import Notice
from rigctl.core.state import with_group
from rigctl.core.view import view


def asked(rig: Rig, interval: float, watts: float, times: int = 8) -> None:
    """The rig is swept so often, and its cards draw that."""
    for card in rig.cards.values():
        card.watts = watts
    for _ in range(times):
        rig.tick(interval)
        rig.sweep()


def told(rig: Rig) -> list[Notice]:
    notices = view(rig.state, Mono(rig.now), (), "0", 1).notices
    return [each for each in notices if each.id == "polling-cost"]


@pytest.mark.case("C82")
def test_cards_that_polling_keeps_awake_are_told_in_watts() -> None:
    """27 W a card while a panel looks, 8 W while nobody does: said, with what to do."""
    rig = Rig()
    asked(rig, 10.0, 8.0, times=14)
    assert not told(rig), "one pace alone compares nothing"
    asked(rig, 1.0, 27.0)
    (notice,) = told(rig)
    assert "64 W left alone, 216 W when asked every second" in notice.say
    assert "close panels" in notice.say
    found = check_notices((NoticeFacts(notice.id, notice.level, notice.say),), running=True)
    assert [each.say for each in found if each.id == "polling-cost" and each.severity == OK]


@pytest.mark.case("C82")
def test_cards_that_sleep_on_are_no_matter() -> None:
    """The same watts at both paces: there is nothing to tell."""
    rig = Rig()
    asked(rig, 10.0, 8.0, times=14)
    asked(rig, 1.0, 8.0)
    assert not told(rig)


@pytest.mark.case("C82")
def test_only_a_settled_idle_rig_is_compared() -> None:
    """Work, lent cards and cards that still cool down would be laid at our own door."""
    rig = Rig()
    asked(rig, 1.0, 200.0, times=20)
    assert rig.state.polling.often_count == 0, "it has been idle for less than a minute"
    lease = Lease("training", rig.state.wall)
    rig.state = with_group(rig.state, replace(rig.group("long"), lease=lease))
    asked(rig, 10.0, 200.0, times=20)
    assert rig.state.polling.seldom_count == 0, "cards in other hands draw for others"

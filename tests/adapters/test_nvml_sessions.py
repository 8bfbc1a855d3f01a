"""One NVML session for life: begun anew only when it breaks, and explained when it stays broken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nvml_kit import Rig, rig

from rigctl.core.ids import CardId

__all__ = ["rig"]


@pytest.mark.case("C16")
def test_a_version_mismatch_names_both_versions(rig: Rig) -> None:
    """nvmlInit 18 says which module runs, which library lies there, and what to do."""
    rig.set(init_code=18, driver="520.56.06", library="525.85.12")
    sweep = rig.reader.sample()
    assert sweep.cards == ()
    assert sweep.error == (
        "NVML unavailable: kernel module 520.56.06, library 525.85.12 - reboot needed"
    )


@pytest.mark.parametrize(
    ("code", "advice"), [(12, "install the NVIDIA driver"), (9, "sudo modprobe nvidia")]
)
def test_no_nvml_says_what_to_do(rig: Rig, code: int, advice: str) -> None:
    """A rig without library or module gets the next command, not a number."""
    rig.set(init_code=code)
    assert advice in rig.reader.sample().error


@pytest.mark.case("C90")
def test_a_lost_session_is_begun_anew(rig: Rig) -> None:
    """999 from everything, and a new nvmlInit works: one sweep is lost, the next is whole."""
    assert rig.reader.sample().error == ""
    rig.set(session=1)
    assert rig.reader.sample().error == (
        "NVML unavailable: Unknown Error from every card - trying again"
    )
    rig.now += 1.0
    sweep = rig.reader.sample()
    assert sweep.error == ""
    assert [card.lost for card in sweep.cards] == [""] * 8


@pytest.mark.case("C90")
def test_new_sessions_are_tried_with_back_off_and_explained(rig: Rig) -> None:
    """999 for ever: nvmlInit comes ever more seldom, and the third failure explains."""
    assert rig.reader.sample().error == ""
    rig.set(session=1, init_code=999)
    tries: list[float] = []
    while rig.now < 1040.0:
        rig.places.clear()
        error = rig.reader.sample().error
        if "init" in rig.places:
            tries.append(rig.now - 1000.0)
        rig.now += 0.5
    assert tries == [1.0, 3.0, 7.0, 15.0, 31.0]
    assert "in a container the cards are lost when systemd reloads" in error


@pytest.mark.case("C89")
def test_a_stale_session_after_a_reset_is_begun_anew(rig: Rig) -> None:
    """UNINITIALIZED after a card reset: re-enumerated by UUID, the card's mark is gone."""
    rig.card(3, lost=16)
    assert rig.sample()[3].lost == "GPU needs a reset"
    rig.card(3, lost=0)
    rig.set(session=1, stale_code=1)
    assert rig.reader.sample().error
    rig.now += 1.0
    cards = rig.sample()
    assert [card.lost for card in cards] == [""] * 8
    assert cards[3].uuid == rig.table.cards[3].uuid


@pytest.mark.case("C81")
def test_one_session_serves_every_sweep(rig: Rig) -> None:
    """nvmlInit runs once however often is sampled, and nothing is spawned."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    for _ in range(5):
        assert rig.reader.sample().error == ""
        rig.now += 1.0
    assert rig.places.count("init") == 1
    assert Path(f"/proc/self/task/{os.getpid()}/children").read_text() == children


@pytest.mark.case("C09")
def test_limits_fall_back_with_the_driver(rig: Rig) -> None:
    """A driver reload takes the limits with it: the next session sees the default."""
    rig.reader.set_power_limit(CardId(rig.table.cards[4].uuid), 280.0)
    rig.set(session=1)
    rig.sample()
    rig.now += 1.0
    assert rig.sample()[4].limit_watts == 350

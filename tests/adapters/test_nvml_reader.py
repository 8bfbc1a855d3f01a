"""Cards read through the real binding over the fake library: sick cards and absurd fields."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvml_kit import Rig, rig

from rigctl.adapters import nvml_card
from rigctl.core.cards import CardSample
from rigctl.core.ids import CardId
from rigctl.core.reading import Missing, Why, total
from rigctl.sim.cardfile import CallFault, Holder, rtx_3090s

__all__ = ["rig"]

MIB = 1 << 20


def test_a_healthy_card_is_read_whole(rig: Rig) -> None:
    """Every field of a good card is a number, in the unit the contract names."""
    rig.card(
        2,
        watts=281.5,
        limit_watts=300.0,
        joules=8812.333,
        memory_used=15 * MIB,
        celsius=67,
        fan=61,
        clock_mhz=1695,
        memory_clock_mhz=9501,
        throttle=0x24,
        pcie_generation=4,
        pcie_width=8,
        persistence=False,
        processes=(Holder(os.getpid(), 9000 * MIB),),
    )
    card = rig.sample()[2]
    assert (card.index, card.pci, card.name) == (2, "0000:03:00.0", "NVIDIA GeForce RTX 3090")
    assert card.uuid == rig.table.cards[2].uuid
    assert card.lost == ""
    assert (card.watts, card.limit_watts, card.default_limit_watts) == (281.5, 300.0, 350.0)
    assert card.joules == pytest.approx(8812.333)
    assert (card.pstate, card.utilisation, card.celsius, card.fan) == (2, 50, 67, 61)
    assert (card.memory_used, card.memory_reserved) == (9015 * MIB, 346 * MIB)
    assert (card.clock_mhz, card.memory_clock_mhz) == (1695, 9501)
    assert card.throttle == ("power cap", "thermal")
    assert (card.pcie_generation, card.pcie_width, card.persistence) == (4, 8, 0)
    assert isinstance(card.processes, tuple)
    (holder,) = card.processes
    assert (holder.pid, holder.used_bytes, holder.visible) == (os.getpid(), 9000 * MIB, True)
    assert holder.name == Path("/proc/self/comm").read_text().strip()
    assert holder.user


@pytest.mark.case("C11")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (15, "GPU is lost (Xid 79?)"),
        (16, "GPU needs a reset"),
        (999, "Unknown Error on every call"),
    ],
)
def test_one_lost_card_costs_only_itself(rig: Rig, code: int, said: str) -> None:
    """Error 15, 16 or 999 on card 3: seven cards live, and the third says what NVML said."""
    rig.card(3, lost=code)
    cards = rig.sample()
    assert [card.lost for card in cards] == ["", "", "", said, "", "", "", ""]
    assert cards[3].uuid == rig.table.cards[3].uuid
    assert cards[3].watts == Missing(Why.LOST, said)
    assert total(card.watts for card in cards).counted == 7


@pytest.mark.case("C11")
def test_a_card_without_a_handle_costs_only_itself(rig: Rig) -> None:
    """When not even a handle is to be had, the index is still accounted for."""
    rig.card(3, faults={"nvmlDeviceGetHandleByIndex_v2": CallFault(code=999)})
    cards = rig.sample()
    assert [card.index for card in cards] == list(range(8))
    assert cards[3].lost == "no handle: Unknown Error"
    assert [bool(card.lost) for card in cards].count(True) == 1


@pytest.mark.case("C11")
def test_a_card_that_has_lost_its_name_keeps_its_uuid(rig: Rig) -> None:
    """A handle and UUID without name or bus address are enough to know the card by."""
    broken = CallFault(code=15)
    rig.card(
        3,
        lost=15,
        faults={"nvmlDeviceGetName": broken, "nvmlDeviceGetPciInfo_v3": broken},
    )
    card = rig.sample()[3]
    assert (card.uuid, card.name, card.pci) == (rig.table.cards[3].uuid, "", "")
    assert card.lost == "GPU is lost (Xid 79?)"


@pytest.mark.case("C11")
def test_a_lost_card_is_left_alone_for_a_while(rig: Rig) -> None:
    """A lost card is asked again after half a minute, not at every sweep, and may come back."""
    rig.card(3, lost=15)
    assert rig.sample()[3].lost
    rig.card(3, lost=0)
    rig.now += nvml_card.LOST_SECONDS - 1
    assert rig.sample()[3].lost
    rig.now += 1
    assert rig.sample()[3].lost == ""


@pytest.mark.case("C78")
def test_absurd_power_is_missing_not_counted(rig: Rig) -> None:
    """N/A, lost, 0 W on an active card and 0xffffffff leave `>= 410 W (4 of 8 cards)`."""
    for index, milliwatts in enumerate([112000, None, None, 98000, 0, 4294967295, 101000, 99000]):
        if milliwatts is not None:
            rig.card(index, faults={"nvmlDeviceGetPowerUsage": CallFault(value=milliwatts)})
    rig.card(1, faults={"nvmlDeviceGetPowerUsage": CallFault(code=3)})
    rig.card(2, faults={"nvmlDeviceGetPowerUsage": CallFault(code=15)})
    cards = rig.sample()
    summed = total(card.watts for card in cards)
    assert (summed.value, summed.counted, summed.of) == (pytest.approx(410.0), 4, 8)
    reasons = [card.watts.why for card in cards if isinstance(card.watts, Missing)]
    assert reasons == [Why.UNSUPPORTED, Why.LOST, Why.IMPLAUSIBLE, Why.IMPLAUSIBLE]
    assert [card.celsius for card in (cards[1], cards[4], cards[5])] == [34, 34, 34]


@pytest.mark.case("C78")
def test_no_power_is_believable_on_a_sleeping_card(rig: Rig) -> None:
    """Below 1 W is dropped only where the card is active."""
    rig.card(4, watts=0.4, pstate=8, utilisation=0)
    assert rig.sample()[4].watts == pytest.approx(0.4)


@pytest.mark.case("C78")
@pytest.mark.parametrize(
    ("function", "field", "raw"),
    [
        ("nvmlDeviceGetTemperatureV", "celsius", 18446744073709551615),
        ("nvmlDeviceGetFanSpeed", "fan", 4294967295),
        ("nvmlDeviceGetUtilizationRates", "utilisation", 4294967295),
        ("nvmlDeviceGetPerformanceState", "pstate", 32),
        ("nvmlDeviceGetMemoryInfo_v2", "memory_used", 0xFFFF_FFFF_FFFF_FFFF),
        ("nvmlDeviceGetClockInfo", "clock_mhz", 4294967295),
    ],
)
def test_an_absurd_field_costs_only_itself(rig: Rig, function: str, field: str, raw: int) -> None:
    """A number that cannot be true is missing, and the card's power is still there."""
    rig.card(5, faults={function: CallFault(value=raw)})
    card = rig.sample()[5]
    reading = getattr(card, field)
    assert isinstance(reading, Missing)
    assert reading.why is Why.IMPLAUSIBLE
    assert card.watts == 110.0


@pytest.mark.case("C86")
@pytest.mark.parametrize("code", [999, 13, 25])
def test_memory_falls_back_to_v1_for_that_card(rig: Rig, code: int) -> None:
    """Where v2 fails the v1 figure stands, and says that the driver's share is in it."""
    rig.set(cards=rtx_3090s(memory_used=15 * MIB, pstate=2, watts=110.0).cards)
    rig.card(6, faults={"nvmlDeviceGetMemoryInfo_v2": CallFault(code=code)})
    for _ in range(2):
        cards = rig.sample()
        assert (cards[0].memory_used, cards[0].memory_reserved) == (15 * MIB, 346 * MIB)
        assert cards[6].memory_used == 361 * MIB
        assert isinstance(cards[6].memory_reserved, Missing)
        assert "in the used bytes" in cards[6].memory_reserved.note


@pytest.mark.case("C80")
def test_an_energy_counter_that_is_not_there_is_asked_once(rig: Rig) -> None:
    """NOT_SUPPORTED is remembered for the session; the neighbours' counters go on."""
    rig.card(1, faults={"nvmlDeviceGetTotalEnergyConsumption": CallFault(code=3)})
    assert rig.sample()[1].joules == Missing(Why.UNSUPPORTED, "Not Supported")
    rig.card(1, faults={}, joules=5.0)
    assert isinstance(rig.sample()[1].joules, Missing)
    assert rig.sample()[0].joules == 0.0
    rig.reader.close()
    assert rig.sample()[1].joules == 5.0


@pytest.mark.case("C84")
def test_a_garbage_process_list_is_shown_as_such(rig: Rig) -> None:
    """Rows count only where the pid exists and the bytes fit; doubles are one; none is not 0."""
    own = os.getpid()
    rig.card(
        0,
        memory_used=22_000 * MIB,
        listed=(
            (8_123_456, 0xFFFF_FFFF_FFFF_FFFF),
            (22_412_263_424 & 0xFFFF_FFFF, 4102),
            (own, 0xFFFF_FFFF_FFFF_FFFF),
            (own, 700 * MIB),
        ),
    )
    rig.card(1, listed=((own, 48 << 30),))
    rig.card(2, listed=((own, 0),))
    rig.card(3, listed=(), memory_used=22_000 * MIB)
    cards = rig.sample()
    first = {row.pid: row for row in _rows(cards[0])}
    assert len(first) == 3
    assert first[own].used_bytes == 700 * MIB
    assert isinstance(first[8_123_456].used_bytes, Missing)
    assert isinstance(first[22_412_263_424 & 0xFFFF_FFFF].used_bytes, Missing)
    assert not first[8_123_456].visible
    for card in (cards[1], cards[2]):
        (row,) = _rows(card)
        assert isinstance(row.used_bytes, Missing)
        assert row.used_bytes.why is Why.IMPLAUSIBLE
    assert cards[3].processes == ()
    assert cards[3].memory_used == 22_000 * MIB


@pytest.mark.case("C04")
def test_foreign_processes_are_named_as_far_as_they_can_be(rig: Rig) -> None:
    """a) comm and user; b) nobody, yet memory held; c) pid 1 is no process of here; d) gone."""
    with subprocess.Popen(["sleep", "60"], user=1002) as foreign:
        gone = subprocess.Popen(["true"])
        gone.wait()
        rig.card(0, listed=((foreign.pid, 9_800 * MIB),))
        rig.card(1, listed=(), memory_used=9_800 * MIB)
        rig.card(2, listed=((1, 9_800 * MIB),))
        rig.card(3, listed=((gone.pid, 9_800 * MIB),))
        try:
            cards = rig.sample()
        finally:
            foreign.kill()
    (named,) = _rows(cards[0])
    assert (named.name, named.user, named.used_bytes) == ("sleep", "1002", 9_800 * MIB)
    assert cards[1].processes == ()
    assert cards[1].memory_used == 9_800 * MIB
    for card in (cards[2], cards[3]):
        (hidden,) = _rows(card)
        assert (hidden.visible, hidden.name) == (False, "")


@pytest.mark.case("C82")
def test_a_cheap_sweep_leaves_the_cards_asleep(rig: Rig) -> None:
    """Cards that wake when asked for utilisation stay in P8 while only cheap fields are read."""
    rig.set(cards=rtx_3090s(wakes_when_asked=True, watts=8.0, awake_watts=27.0).cards)
    for _ in range(3):
        cards = rig.sample(cheap=True)
        assert {(card.pstate, card.watts) for card in cards} == {(8, 8.0)}
        assert cards[0].utilisation == nvml_card.NOT_ASKED
    rig.sample()
    assert {(card.pstate, card.watts) for card in rig.sample(cheap=True)} == {(2, 27.0)}


def test_every_place_is_marked_before_it_is_asked(rig: Rig) -> None:
    """A crash leaves the name of the card at fault behind, and a finished sweep none."""
    rig.sample()
    uuids = [card.uuid for card in rig.table.cards]
    assert rig.places[:3] == ["init", "#0", uuids[0]]
    rig.places.clear()
    rig.sample()
    assert rig.places == [*uuids, ""]


@pytest.mark.parametrize("skip", [lambda card: card.uuid, lambda _card: "#6"])
def test_a_skipped_card_is_not_touched(rig: Rig, skip: Callable[[Any], str]) -> None:
    """A card left out on request is not asked at all, the others are."""
    rig.card(6, faults={"nvmlDeviceGetPowerUsage": CallFault(crash=True)})
    cards = rig.sample(skip=frozenset({skip(rig.table.cards[6])}))
    assert [card.lost for card in cards] == ["", "", "", "", "", "", "not asked", ""]


@pytest.mark.case("C09")
def test_a_power_limit_is_set_and_seen(rig: Rig) -> None:
    """A set limit shows in the next sweep of that card, and only there."""
    rig.sample()
    assert rig.reader.set_power_limit(CardId(rig.table.cards[4].uuid), 280.0) == ""
    limits = [card.limit_watts for card in rig.sample()]
    assert limits == [350, 350, 350, 350, 280, 350, 350, 350]


@pytest.mark.case("C09")
def test_a_power_limit_that_cannot_be_set_says_why(rig: Rig) -> None:
    """Without the right, the exact command; out of range, the range; no card, its name."""
    uuid = rig.table.cards[0].uuid
    assert rig.reader.set_power_limit(CardId(uuid), 900.0) == (
        "900 W is outside what the card takes: 100 to 350 W"
    )
    rig.set(may_set_limits=False)
    assert rig.reader.set_power_limit(CardId(uuid), 280.0) == (
        f"needs root: `sudo nvidia-smi -i {uuid} -pl 280`"
    )
    assert rig.reader.set_power_limit(CardId("GPU-none"), 280.0) == "no card GPU-none answers"


def test_throttle_reasons_are_words() -> None:
    """Idle is no reason; a bit nobody knows keeps its number."""
    assert nvml_card.throttle_words(0x1) == ()
    assert nvml_card.throttle_words(0x4 | 0x40) == ("power cap", "thermal, by hardware")
    assert nvml_card.throttle_words(0x1000) == ("reason 0x1000",)


def _rows(card: CardSample) -> tuple[Any, ...]:
    assert isinstance(card.processes, tuple), card.processes
    return card.processes

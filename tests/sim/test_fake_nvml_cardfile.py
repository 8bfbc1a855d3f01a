"""The card file: what is written is what is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rigctl.sim import cardfile
from rigctl.sim.cardfile import CallFault, CardFileError, Holder, rtx_3090s


def test_a_table_survives_the_file(tmp_path: Path) -> None:
    """Every field comes back as it was written, tuples and faults included."""
    table = rtx_3090s()
    odd = replace(
        table.cards[3],
        processes=(Holder(41, 9_000_000_000, 77),),
        release_seconds=None,
        listed=((1, 0xFFFF_FFFF_FFFF_FFFF),),
        lost=cardfile.GPU_IS_LOST,
        faults={"nvmlDeviceGetPowerUsage": CallFault(hang=300.0, value=4_294_967_295)},
    )
    table = replace(
        table,
        cards=(*table.cards[:3], odd, *table.cards[4:]),
        faults={"nvmlDeviceGetCount_v2": CallFault(crash=True)},
    )
    path = tmp_path / "cards.json"
    cardfile.write(path, table)
    assert cardfile.read(path) == table
    assert [entry.name for entry in tmp_path.iterdir()] == ["cards.json"]


def test_cards_of_a_rig_can_be_told_apart() -> None:
    """Eight cards have eight UUIDs, PCI addresses and short labels."""
    cards = rtx_3090s().cards
    assert len({card.uuid for card in cards}) == len({card.pci for card in cards}) == 8
    assert len({card.uuid[4:8] for card in cards}) == 8


@pytest.mark.parametrize("text", ["", "[]", '{"cards": [{"uuid": "x"}]}', '{"cards": [], "x": 1}'])
def test_a_file_that_is_none_says_so(tmp_path: Path, text: str) -> None:
    """An unreadable file is one named error with the path in it, whatever is wrong inside."""
    path = tmp_path / "cards.json"
    path.write_text(text)
    with pytest.raises(CardFileError, match=r"cards\.json is no card file"):
        cardfile.read(path)

"""Which cards a group means: the named ones, or none at all."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from config_kit import GROUP, ConfigKit, make_card

from rigctl.config.cards import parse_card, resolve, resolve_group
from rigctl.config.plan import launch_plan
from rigctl.config.schema import Config, ConfigError
from rigctl.core.cards import CardSample

SEVEN = tuple(make_card(n, n if n < 2 else n - 1) for n in range(8) if n != 2)
"""Card 2 is gone and the others moved up: old 3 to 7 are now 2 to 6 (C13)."""


def two_groups(rig_file: ConfigKit, by: str) -> Config:
    """Eight cards in two groups, named by `uuid`, `pci` or `index`."""

    def names(numbers: range) -> str:
        cards = [make_card(number) for number in numbers]
        if by == "index":
            return str(list(numbers))
        return str([str(card.uuid) if by == "uuid" else card.pci for card in cards])

    first = GROUP.replace("[0]", names(range(4)))
    second = GROUP.replace("[0]", names(range(4, 8))).replace("standard", "long")
    return rig_file.load(first + second.replace("30001", "30002"))


@pytest.mark.case("C13")
@pytest.mark.parametrize("by", ["uuid", "pci"])
def test_a_missing_card_never_shifts_a_group(rig_file: ConfigKit, by: str) -> None:
    """The group that lost a card is refused by its name; the other starts on its own four."""
    config = two_groups(rig_file, by)
    gone = make_card(2)
    with pytest.raises(ConfigError) as caught:
        launch_plan(config.groups[0], config, SEVEN, {}, False)
    wanted = gone.uuid if by == "uuid" else gone.pci
    assert f"group 'standard': card {wanted} is missing" in caught.value.say
    assert (caught.value.path, caught.value.line) == (str(rig_file.path), 3)
    plan = launch_plan(config.groups[1], config, SEVEN, {}, False)
    assert plan.cards == tuple(make_card(number).uuid for number in range(4, 8))
    assert plan.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert plan.env["CUDA_VISIBLE_DEVICES"] == "3,4,5,6"


@pytest.mark.case("C13")
def test_indexes_are_refused_while_any_card_is_missing(rig_file: ConfigKit) -> None:
    """Index 2 is then another card than it was, and nothing tells which one is gone."""
    config = two_groups(rig_file, "index")
    for group in config.groups:
        with pytest.raises(ConfigError, match="no index is safe; name the cards by UUID"):
            launch_plan(group, config, SEVEN, {}, False)


@pytest.mark.case("C13")
def test_the_order_of_nvml_list_does_not_matter(
    rig_file: ConfigKit, eight_cards: tuple[CardSample, ...]
) -> None:
    """Cards are found by name in whatever order they were read, and keep the owner's order."""
    config = two_groups(rig_file, "uuid")
    shuffled = [eight_cards[n] for n in (7, 0, 1, 2, 3, 4, 5, 6)]
    for group, numbers in zip(config.groups, ("0,1,2,3", "4,5,6,7"), strict=True):
        plan = launch_plan(group, config, shuffled, {}, False)
        assert plan.env["CUDA_VISIBLE_DEVICES"] == numbers


@pytest.mark.case("C14")
def test_the_engine_gets_numbers_that_parse(
    rig_file: ConfigKit, eight_cards: tuple[CardSample, ...]
) -> None:
    """An engine that reads the variable with int() finds plain numbers, each once."""
    config = two_groups(rig_file, "uuid")
    plan = launch_plan(config.groups[1], config, eight_cards, {}, False)
    program = (
        "import os; print([int(part) for part in os.environ['CUDA_VISIBLE_DEVICES'].split(',')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **plan.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[4, 5, 6, 7]\n")


@pytest.mark.case("C14")
def test_uuids_reach_the_engine_only_on_request(
    rig_file: ConfigKit, eight_cards: tuple[CardSample, ...]
) -> None:
    """`card_names = "uuid"` hands the whole UUIDs over."""
    config = rig_file.load(GROUP.replace("[0]", "[5, 1]") + 'card_names = "uuid"\n')
    plan = launch_plan(config.groups[0], config, eight_cards, {}, False)
    wanted = f"{eight_cards[5].uuid},{eight_cards[1].uuid}"
    assert plan.env["CUDA_VISIBLE_DEVICES"] == wanted


@pytest.mark.case("C14")
def test_a_short_uuid_is_refused_with_the_whole_one(eight_cards: tuple[CardSample, ...]) -> None:
    """A part of a name is no name, but it is easy to say which one was meant."""
    with pytest.raises(ConfigError, match=f"the whole name is {eight_cards[3].uuid}"):
        resolve((parse_card("GPU-00000003"),), eight_cards)


def test_a_mistyped_uuid_names_the_nearest(eight_cards: tuple[CardSample, ...]) -> None:
    """One wrong digit is a typing mistake; two thirds of them are another card."""
    wrong = str(eight_cards[3].uuid).replace("4000", "4001")
    with pytest.raises(ConfigError, match=f"did you mean {eight_cards[3].uuid}"):
        resolve((parse_card(wrong),), eight_cards)
    with pytest.raises(ConfigError) as caught:
        resolve((parse_card("GPU-ffffffff-1111-2222-3333-444444444444"),), eight_cards)
    assert "did you mean" not in caught.value.say


def test_all_missing_cards_are_named(eight_cards: tuple[CardSample, ...]) -> None:
    """And the ones that are there."""
    cards = (parse_card(9), parse_card("0000:FF:00.0"), parse_card(0))
    with pytest.raises(ConfigError) as caught:
        resolve(cards, eight_cards, "long")
    assert "card 9 is missing" in caught.value.say
    assert "card 0000:FF:00.0 is missing" in caught.value.say
    assert f"0 {eight_cards[0].uuid} (0000:01:00.0)" in caught.value.say
    with pytest.raises(ConfigError, match="present: none"):
        resolve(cards, ())


@pytest.mark.case("C14")
def test_two_names_of_one_card_are_refused(eight_cards: tuple[CardSample, ...]) -> None:
    """Which the file alone cannot tell."""
    cards = (parse_card(str(eight_cards[3].uuid)), parse_card(3))
    with pytest.raises(ConfigError, match=r"GPU-00000003.* and 3 are one card"):
        resolve(cards, eight_cards)


def test_a_card_in_two_groups_by_two_names_is_refused(
    rig_file: ConfigKit, eight_cards: tuple[CardSample, ...]
) -> None:
    """Both groups say so, at their own line."""
    second = GROUP.replace("[0]", '["0000:01:00.0"]').replace("standard", "long")
    config = rig_file.load(GROUP + second.replace("30001", "30002"))
    for group, line in zip(config.groups, (3, 8), strict=True):
        with pytest.raises(ConfigError, match="a card can be in one group") as caught:
            resolve_group(group, config, eight_cards)
        assert caught.value.line == line


def test_no_start_on_a_lost_card(rig_file: ConfigKit) -> None:
    """NVML still lists a card that has fallen off the bus; an engine on it only fails later."""
    config = two_groups(rig_file, "uuid")
    cards = [make_card(n, lost="GPU is lost (Xid 79?)" if n == 1 else "") for n in range(8)]
    with pytest.raises(ConfigError, match=r"is lost: GPU is lost \(Xid 79"):
        launch_plan(config.groups[0], config, cards, {}, False)
    assert launch_plan(config.groups[1], config, cards, {}, False).cards

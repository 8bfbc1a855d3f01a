"""A first rig.toml: valid, commented, from the cards found, and never over another."""

from __future__ import annotations

import dataclasses
import stat
import tomllib
from pathlib import Path

import pytest
from config_kit import make_card

from rigctl.config.groups import GROUP_KEYS
from rigctl.config.init import HELP, drafts_from_cards, render, write_new
from rigctl.config.load import load
from rigctl.config.running import DraftGroup
from rigctl.config.schema import ConfigError
from rigctl.core.cards import CardSample


@pytest.mark.parametrize("count", range(9))
def test_two_equal_groups_in_pci_order(tmp_path: Path, count: int) -> None:
    """Each card by its UUID; an odd one is left out and said so; one card is one group."""
    cards = [make_card(number) for number in reversed(range(count))]
    drafts = drafts_from_cards(cards, "/models/tiny")
    path = tmp_path / "rig.toml"
    write_new(path, drafts)
    config = load(path)
    named = [card.value for group in config.groups for card in group.cards]
    half = count // 2
    assert [len(group.cards) for group in config.groups] == ([half] * 2 if half else [count])
    used = 2 * half or count
    assert named == [
        str(make_card(number).uuid).lower().replace("gpu", "GPU") for number in range(used)
    ]
    text = path.read_text()
    assert ("in no group" in text) is (count > 1 and count % 2 == 1)
    for number in range(count):
        assert make_card(number).pci in text


def test_the_file_explains_every_key(eight_cards: tuple[CardSample, ...]) -> None:
    """Each key stands in the first group, set or as a comment that can be uncommented."""
    text = render(drafts_from_cards(eight_cards))
    first = text.split("[[group]]")[1]
    assert set(HELP) | {"name", "cards", "port", "model"} == set(GROUP_KEYS)
    for key in GROUP_KEYS:
        line = next(
            line for line in first.splitlines() if line.lstrip("# ").startswith(f"{key} = ")
        )
        if line != "cards = [":
            tomllib.loads(line.lstrip("# "))
    rig = text.split("[[group]]")[0]
    for key in ("free_group", "price_per_kwh", "currency", "stagger", "free_drain", "on_event"):
        assert f"# {key} = " in rig


def test_a_card_is_described_beside_its_uuid(eight_cards: tuple[CardSample, ...]) -> None:
    """By what a person knows it by; a name from the driver cannot break the file."""
    card = dataclasses.replace(eight_cards[0], name="RTX\n[x] é", memory_total=24.0 * 2**30)
    text = render(drafts_from_cards([card]))
    assert f'  "{card.uuid}",  # 0  0000:01:00.0  RTX?[x] ?, 24 GiB' in text.splitlines()
    tomllib.loads(text)


def test_an_existing_file_is_never_overwritten(
    tmp_path: Path, eight_cards: tuple[CardSample, ...]
) -> None:
    """Not even an empty one, or a link to nowhere."""
    drafts = drafts_from_cards(eight_cards)
    path = tmp_path / "rig.toml"
    path.touch()
    with pytest.raises(ConfigError, match="exists already and is never overwritten"):
        write_new(path, drafts)
    assert path.read_bytes() == b""
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="never overwritten"):
        write_new(path, drafts)
    assert not (tmp_path / "elsewhere").exists()


def keyed() -> DraftGroup:
    """A group whose key stood on a command line."""
    (draft,) = drafts_from_cards([make_card(0)])
    return dataclasses.replace(draft, keys={"api_key": "sk-1234"})


def test_a_key_goes_into_a_file_of_its_own(tmp_path: Path) -> None:
    """Both readable by the owner only; rig.toml names the file and never holds the key."""
    path = tmp_path / "deep" / "rig.toml"
    written = write_new(path, [keyed()])
    assert written == (path.parent / "first-api.key", path)
    assert [stat.S_IMODE(each.stat().st_mode) for each in written] == [0o600, 0o600]
    assert written[0].read_text() == "sk-1234\n"
    assert "sk-1234" not in path.read_text()
    secret = load(path).groups[0].api_key
    assert secret is not None
    assert secret.where == str(written[0])


def test_a_key_file_in_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    """Half a config would be worse than none."""
    (tmp_path / "first-api.key").write_text("other")
    with pytest.raises(ConfigError, match=r"first-api\.key: exists already"):
        write_new(tmp_path / "rig.toml", [keyed()])
    assert (tmp_path / "first-api.key").read_text() == "other"
    assert not (tmp_path / "rig.toml").exists()
    both = dataclasses.replace(keyed(), keys={"admin_key": "a", "api_key": "b"})
    with pytest.raises(ConfigError):
        write_new(tmp_path / "rig.toml", [both])
    assert not (tmp_path / "first-admin.key").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With the system's word for it."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be written: (Not a directory|File exists)"):
        write_new(tmp_path / "file" / "rig.toml", [keyed()])


def test_bytes_that_are_no_text_leave_no_torn_file(tmp_path: Path) -> None:
    """A running server's words may hold any byte: what rig.toml cannot carry is replaced."""
    (draft,) = drafts_from_cards([make_card(0)])
    odd = dataclasses.replace(draft.config, model="/models/gr\udcfc\udcdfe")
    path = tmp_path / "rig.toml"
    write_new(path, [dataclasses.replace(draft, config=odd)])
    assert load(path).groups[0].model == "/models/gr??e"

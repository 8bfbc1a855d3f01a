"""The memory of sessions on disk: torn lines, full disks, and a file that stays short."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from support_homes import settle

from rigctl.core.ask import Ask, Endpoint
from rigctl.core.clusters import RoutePolicy
from rigctl.core.homes import Homes
from rigctl.core.ids import GroupName, Mono
from rigctl.parse.asks import read_ask
from rigctl.proxy import homes_file
from rigctl.proxy.homes_file import HomesFile, shorten

STANDARD = GroupName("standard")
NOW = Mono(1_000.0)
LATER = Mono(2_000.0)


def ask(text: str) -> Ask:
    body = {"messages": [{"role": "user", "content": text}]}
    return read_ask(Endpoint.CHAT, (), json.dumps(body).encode())


def settled(homes: Homes, text: str) -> str:
    """One turn of the session that begins so; its label."""
    return settle(homes, ask(text), STANDARD, "one", NOW, 10, RoutePolicy()).label


def known(path: Path) -> set[str]:
    """Sessions that a next proxy finds there."""
    return {each.label for each in HomesFile(path).load(LATER).all()}


def test_what_was_saved_is_found_again_by_nobody_else(tmp_path: Path) -> None:
    """Sessions and responses; and the file is its owner's alone, without a word of any prompt."""
    path = tmp_path / "homes.json"
    file, homes = HomesFile(path), Homes()
    labels = {settled(homes, f"secret {number}") for number in range(5)}
    homes.gave("resp_1", GroupName("long"), "two")
    file.save(homes)
    assert known(path) == labels
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"secret" not in path.read_bytes()
    again = HomesFile(path).load(LATER)
    assert len(again) == 5
    follows = ask("go on")._replace(previous_response="resp_1")
    assert again.find(follows, LATER, RoutePolicy()).pinned == ("long", "two")


def test_a_torn_line_costs_itself_and_not_the_next(tmp_path: Path) -> None:
    """The last line of a proxy that was killed in mid-write."""
    path = tmp_path / "homes.json"
    homes = Homes()
    first = settled(homes, "first")
    HomesFile(path).save(homes)
    with path.open("ab") as file:
        file.write(b'{"label":"abcd')
    successor = HomesFile(path)
    homes = successor.load(LATER)
    second = settled(homes, "second")
    successor.save(homes)
    assert known(path) == {first, second}


def test_a_full_disk_costs_nothing_that_is_still_known_when_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once, however long it lasts; then everything is written, a half line or not."""
    path = tmp_path / "homes.json"
    file, homes = HomesFile(path), Homes()
    labels = {settled(homes, "before")}
    file.save(homes)
    real = os.open
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):

        def full(name: object, flags: int, mode: int = 0o777) -> int:
            with path.open("ab") as torn:
                torn.write(b'{"label":"to')  # what still went onto it
            raise OSError(28, "No space left on device")

        patched.setattr(homes_file.os, "open", full)
        for number in range(3):
            labels.add(settled(homes, f"while it was full {number}"))
            file.save(homes)
    assert os.open is real
    assert len([each for each in caplog.messages if "No space left" in each]) == 1
    labels.add(settled(homes, "after"))
    file.save(homes)
    assert known(path) == labels


def test_what_is_owed_to_a_full_disk_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be full for days."""
    monkeypatch.setattr(homes_file, "MOST_OWED", 10)
    file, homes = HomesFile(tmp_path / "no" / "homes.json"), Homes()
    for number in range(30):
        settled(homes, f"{number}")
        file.save(homes)
    assert len(file._owed) == 10


def test_a_file_of_many_turns_is_shortened_beside_the_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a thread; what changes meanwhile is written after it, and an end waits for it."""
    monkeypatch.setattr(homes_file, "REWRITE", 20)
    path = tmp_path / "homes.json"
    file, homes = HomesFile(path), Homes()
    labels = {settled(homes, f"session {number}") for number in range(4)}
    for number in range(60):
        homes.answered(homes.all()[-1], 10.0, 0.0, 20 + number, NOW)
        file.save(homes)
    labels.add(settled(homes, "last"))
    file.save(homes, last=True)
    assert known(path) == labels
    assert max(each.tokens for each in HomesFile(path).load(LATER).all()) == 79
    assert len(path.read_bytes().splitlines()) < 45
    assert not list(tmp_path.glob(".homes*"))


def test_shortening_keeps_the_last_word_on_each(tmp_path: Path) -> None:
    """Ended sessions are gone, torn lines too, and of responses the newest stay."""
    path = tmp_path / "homes.json"
    rows = [
        {"label": "aaaaaaaa", "tokens": 1},
        {"label": "bbbbbbbb", "tokens": 1},
        {"response": "r1", "cluster": "standard", "run": "one"},
        {"label": "aaaaaaaa", "tokens": 2},
        {"label": "bbbbbbbb", "ended": True},
        {"response": "r1", "cluster": "long", "run": "two"},
    ]
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows) + b'{"lab')
    shorten(path)
    left = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert left == [rows[3], rows[5]]


def test_a_file_that_cannot_be_shortened_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the proxy goes on."""
    monkeypatch.setattr(homes_file, "REWRITE", 3)

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(homes_file, "replace_file", full)
    path = tmp_path / "homes.json"
    file, homes = HomesFile(path), Homes()
    with caplog.at_level(logging.WARNING):
        labels = set()
        for number in range(8):
            labels.add(settled(homes, f"{number}"))
            file.save(homes)
        file.save(homes, last=True)
    assert known(path) == labels
    assert "is not shortened" in caplog.text

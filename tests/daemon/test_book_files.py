"""The owner's files as the daemon follows them: no edit is lost to a start that read it first."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.config.clients import hash_key, write_clients
from rigctl.config.paths import find_home
from rigctl.config.schema import ClientConfig, ConfigError
from rigctl.daemon.book import Book

RIG = '[[group]]\nname = "standard"\ncards = []\nport = 30001\nmodel = "tiny/model"\n'


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """Of a rig without an endpoint."""
    (tmp_path / "rig.toml").write_text(RIG)
    return Book(find_home(str(tmp_path)))


def test_an_edit_that_a_start_read_first_is_still_told(book: Book) -> None:
    """A start reads the file anew; the endpoint and the rig hear of it at the next look."""
    assert not book.changed()
    book.home.config.write_text(RIG + "[proxy]\nport = 8088\n")
    book.reload()
    assert book.changed()
    spec = book.endpoint()
    assert spec is not None
    assert spec.port == 8088
    assert not book.changed()


def test_a_key_made_or_ended_is_a_change(book: Book) -> None:
    """`rigctl keys` writes a file of its own."""
    write_clients(book.home.clients, [ClientConfig("anna", hash_key("k"))])
    assert book.changed()
    book.reload()
    assert [client.name for client in book.config.clients] == ["anna"]
    book.home.clients.unlink()
    assert book.changed()


def test_a_faulty_edit_is_looked_at_once(book: Book) -> None:
    """It is told when it is made, not every second; the config stays as it was."""
    book.home.config.write_text(RIG + "modle = 1\n")
    assert book.changed()
    with pytest.raises(ConfigError):
        book.reload()
    assert not book.changed()
    assert book.config.groups[0].port == 30001

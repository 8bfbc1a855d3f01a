"""`rigctl shortcut`: what it prints, and that it edits nothing but its own block."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.cli.marked import BACKUP, BEGIN, END, Torn, rewrite, with_block, without_block


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a folder of their own."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}


@seed(20)
@settings(max_examples=200, deadline=None)
@given(
    st.text(alphabet="ab \n#\t\r\x0b\u2028", max_size=60),
    st.text(alphabet="xy \n", max_size=20),
    st.text(alphabet="xy \n", max_size=20),
)
def test_a_block_goes_in_once_and_out_again(text: str, first: str, second: str) -> None:
    """Added, changed and removed, the rest of the file is byte for byte what it was."""
    added = with_block(text, first)
    again = with_block(added, second)
    assert again.count(BEGIN) == again.count(END) == 1
    assert with_block(again, second) == again
    left = without_block(again)
    assert left in (text, text + "\n")
    assert left == text or not text.endswith("\n")


@pytest.mark.parametrize("text", [f"{BEGIN}\nx\n", f"x\n{END}\n", f"{END}\n{BEGIN}\n"])
def test_half_a_block_is_touched_by_nobody(text: str) -> None:
    """One marker without the other means that somebody edited there."""
    with pytest.raises(Torn):
        with_block(text, "x")
    with pytest.raises(Torn):
        without_block(text)


def test_tmux_is_edited_backed_up_and_restored(rigctl, login, tmp_path) -> None:
    """Install twice, uninstall: one block, a copy of the first state, then the first state."""
    conf = tmp_path / ".tmux.conf"
    conf.write_text("set -g mouse on")
    conf.chmod(0o600)
    assert rigctl("shortcut", "tmux", "--install", env=login).returncode == 0
    once = conf.read_text()
    assert once.startswith("set -g mouse on\n")
    assert 'bind-key F run-shell -b "' in once
    again = rigctl("shortcut", "tmux", "--install", env=login)
    assert "has it already" in again.stderr
    assert rigctl("shortcut", "tmux", "--install", "--key", "G", env=login).returncode == 0
    assert "bind-key G" in conf.read_text()
    assert "bind-key F" not in conf.read_text()
    assert conf.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / f".tmux.conf{BACKUP}").read_text() == "set -g mouse on"
    assert rigctl("shortcut", "tmux", "--uninstall", env=login).returncode == 0
    assert conf.read_text() == "set -g mouse on\n"


def test_a_file_that_only_we_wrote_goes_again(rigctl, login, tmp_path) -> None:
    """No .tmux.conf before: none afterwards, and no copy of our own words beside it."""
    assert rigctl("shortcut", "tmux", "--install", env=login).returncode == 0
    assert rigctl("shortcut", "tmux", "--install", "--key", "G", env=login).returncode == 0
    assert rigctl("shortcut", "tmux", "--uninstall", env=login).returncode == 0
    assert not list(tmp_path.glob(".tmux.conf*"))


def test_a_linked_file_stays_a_link(rigctl, login, tmp_path) -> None:
    """Dotfiles kept elsewhere are edited where they are."""
    real = tmp_path / "dotfiles" / "tmux"
    real.parent.mkdir()
    real.write_text("x\n")
    (tmp_path / ".tmux.conf").symlink_to(real)
    rigctl("shortcut", "tmux", "--install", env=login)
    assert (tmp_path / ".tmux.conf").is_symlink()
    assert BEGIN in real.read_text()


def test_a_torn_file_is_left_alone_in_words(rigctl, login, tmp_path) -> None:
    """Half a block: exit code 1, why, and not one byte changed."""
    (tmp_path / ".tmux.conf").write_text(f"{BEGIN}\n")
    done = rigctl("shortcut", "tmux", "--install", env=login)
    assert done.returncode == 1
    assert "by hand" in done.stderr
    assert (tmp_path / ".tmux.conf").read_text() == f"{BEGIN}\n"


@pytest.mark.parametrize("program", ["sway", "i3"])
def test_window_managers_include_a_file_of_ours(rigctl, login, tmp_path, program) -> None:
    """The binding is a file of its own; the config gets one include line between markers."""
    config = tmp_path / ".config" / program / "config"
    assert rigctl("shortcut", program, "--install", env=login).returncode == 1
    config.parent.mkdir(parents=True)
    config.write_text("# mine\n")
    assert rigctl("shortcut", program, "--install", env=login).returncode == 0
    ours = config.with_name("rigctl.conf")
    assert f"include {ours}\n" in config.read_text()
    assert "bindsym Mod4+F9 exec" in ours.read_text()
    assert "free --notify" in ours.read_text()
    assert rigctl("shortcut", program, "--uninstall", env=login).returncode == 0
    assert config.read_text() == "# mine\n"
    assert not ours.exists()


@pytest.mark.parametrize(("target", "file"), [("kde", "rigctl-free"), ("desktop", "rigctl")])
def test_desktop_entries_are_valid(rigctl, login, tmp_path, target: str, file: str) -> None:
    """The entry carries our command, quoted by the specification; the validator agrees."""
    home = tmp_path / "a b%c$d"
    home.mkdir()
    words = ("--home", str(home), "shortcut", target)
    assert rigctl(*words, "--install", env=login).returncode == 0
    entry = tmp_path / ".local/share/applications" / f"{file}.desktop"
    lines = dict(line.split("=", 1) for line in entry.read_text().splitlines() if "=" in line)
    assert lines["Exec"].split(" ")[0].startswith("/")
    assert '"' + str(home).replace("%", "%%").replace("$", "\\\\$") + '"' in lines["Exec"]
    assert lines["Exec"].endswith("free --notify") is (target == "kde")
    assert ("X-KDE-Shortcuts" in lines) is (target == "kde")
    if tool := shutil.which("desktop-file-validate"):
        done = subprocess.run([tool, str(entry)], capture_output=True, text=True, check=False)
        assert "error" not in done.stdout
    assert rigctl(*words, "--uninstall", env=login).returncode == 0
    assert not entry.exists()


def test_gnome_gets_a_custom_shortcut_beside_the_others(rigctl, login, tmp_path) -> None:
    """The list keeps what others put in it; the command is one that a shell reads back."""
    printed = rigctl("shortcut", "gnome").stdout
    line = next(line for line in printed.splitlines() if " command " in line)
    assert shlex.split(shlex.split(line)[-1])[-2:] == ["free", "--notify"]
    compiler = shutil.which("glib-compile-schemas")
    if compiler is None or shutil.which("gsettings") is None:
        return  # a machine without GLib's tools can check no more than the text
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    (schemas / "test.gschema.xml").write_text(SCHEMA)
    subprocess.run([compiler, str(schemas)], check=True)
    env = {**login, "GSETTINGS_SCHEMA_DIR": str(schemas), "GSETTINGS_BACKEND": "keyfile"}

    def custom() -> str:
        words = ("gsettings", "get", NAME, "custom-keybindings")
        return subprocess.run(
            words, env={**os.environ, **env}, capture_output=True, text=True, check=True
        ).stdout

    subprocess.run(
        ("gsettings", "set", NAME, "custom-keybindings", "['/other/']"),
        env={**os.environ, **env},
        check=True,
    )
    for _ in range(2):
        done = rigctl("shortcut", "gnome", "--install", env=env)
        assert done.returncode == 0, done.stderr
        assert custom().count("/rigctl/") == 1
        assert "/other/" in custom()
    assert rigctl("shortcut", "gnome", "--uninstall", env=env).returncode == 0
    assert custom().strip() == "['/other/']"


NAME = "org.gnome.settings-daemon.plugins.media-keys"
SCHEMA = f"""<schemalist>
<schema id="{NAME}" path="/org/gnome/settings-daemon/plugins/media-keys/">
  <key name="custom-keybindings" type="as"><default>[]</default></key>
</schema>
<schema id="{NAME}.custom-keybinding">
  <key name="name" type="s"><default>''</default></key>
  <key name="command" type="s"><default>''</default></key>
  <key name="binding" type="s"><default>''</default></key>
</schema>
</schemalist>
"""
"""GNOME's own two schemas, as far as a custom shortcut needs them."""


def test_everything_is_printed_without_a_target(rigctl) -> None:
    """`rigctl shortcut` alone shows all of them; --install wants to know where."""
    done = rigctl("shortcut")
    for name in ("tmux", "gnome", "kde", "sway", "i3", "desktop"):
        assert f"# rigctl shortcut {name} --install" in done.stdout
    assert rigctl("shortcut", "--install").returncode == 2


def test_a_file_in_another_encoding_keeps_every_byte(rigctl, login, tmp_path) -> None:
    """Latin-1 comments and DOS line ends are the owner's: only our block comes and goes."""
    conf = tmp_path / ".tmux.conf"
    written = b"# gr\xfc\xdfe\r\nset -g mouse on\r\n"
    conf.write_bytes(written)
    done = rigctl("shortcut", "tmux", "--install", env=login)
    assert done.returncode == 0, done.stderr
    assert conf.read_bytes().startswith(written)
    assert rigctl("shortcut", "tmux", "--uninstall", env=login).returncode == 0
    assert conf.read_bytes() == written


def test_a_full_disk_leaves_the_file_whole_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new text is on the disk before it takes the old one's place."""
    conf = tmp_path / "tmux.conf"
    conf.write_text("x\n")
    seen: list[bytes] = []

    def full(_: int) -> None:
        seen.append(conf.read_bytes())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        rewrite(conf, with_block("x\n", "y"))
    assert seen == [b"x\n"]
    assert conf.read_text() == "x\n"
    assert {each.name for each in tmp_path.iterdir()} == {"tmux.conf", f"tmux.conf{BACKUP}"}

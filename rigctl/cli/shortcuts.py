"""The desktops and multiplexers a shortcut can be installed in, each with its own way."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rigctl.cli.exits import FAILED, End
from rigctl.cli.marked import Torn, read, rewrite, with_block, without_block
from rigctl.config.assets import asset

GNOME_SCHEMA = "org.gnome.settings-daemon.plugins.media-keys"
GNOME_PATH = "/org/gnome/settings-daemon/plugins/media-keys/custom-keybindings/rigctl/"


@dataclass(frozen=True, slots=True)
class Target:
    """One place for a shortcut."""

    name: str
    file: str
    """In assets/shortcuts."""
    key: str
    """In the target's own spelling; empty where there is none."""
    install: Callable[[str, str], str]
    """Takes the filled-in text and the key; says what was done."""
    uninstall: Callable[[], str]


def text_of(target: Target, command: list[str], key: str) -> str:
    """The target's file with our command and the key in it."""
    template = asset("shortcuts", target.file).read_text()
    act = command if target.file == "rigctl.desktop" else [*command, "free", "--notify"]
    if target.name == "tmux":
        # Whatever a run-shell prints would cover the pane; the notification says it all.
        line = _tmux_word(f"{shlex.join(act)} >/dev/null 2>&1")
    elif target.name == "gnome":
        line = shlex.quote(shlex.join(act))
    elif target.file.endswith(".desktop"):
        line = " ".join(_desktop_word(word) for word in act)
    else:
        line = shlex.join(act)
    return template.replace("@COMMAND@", line).replace("@KEY@", key)


def _tmux_word(text: str) -> str:
    """One argument in a tmux configuration; `#` would begin a format there."""
    for sign in ("\\", '"', "$"):
        text = text.replace(sign, "\\" + sign)
    return '"' + text.replace("#", "##") + '"'


def _desktop_word(word: str) -> str:
    """A word of an Exec line, by the desktop entry specification."""
    word = word.replace("%", "%%")
    if not any(sign in word for sign in " \t\n\"'\\><~|&;$*?#()`"):
        return word
    for sign in ("\\", '"', "`", "$"):
        word = word.replace(sign, "\\" + sign)
    return '"' + word.replace("\\", "\\\\") + '"'


def _config(*parts: str) -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base, *parts)


def _data(*parts: str) -> Path:
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(base, *parts)


def _tmux_file() -> Path:
    """tmux reads ~/.tmux.conf first; the XDG place is used where only that exists."""
    old, new = Path(os.path.expanduser("~/.tmux.conf")), _config("tmux", "tmux.conf")
    return new if new.exists() and not old.exists() else old


def _block_in(path: Path, block: str, then: str) -> str:
    try:
        changed = rewrite(path, with_block(read(path) if path.exists() else "", block))
    except Torn:
        raise _torn(path) from None
    return f"{path}: {f'added. {then}' if changed else 'has it already.'}"


def _no_block_in(path: Path) -> str:
    if not path.exists():
        return f"{path}: not there, so nothing to remove."
    text = read(path)
    try:
        rest = without_block(text)
    except Torn:
        raise _torn(path) from None
    if text and not rest and not path.is_symlink():
        path.unlink()
        return f"{path}: removed, for it held nothing else."
    changed = rewrite(path, rest)
    return f"{path}: {'removed.' if changed else 'had none.'}"


def _torn(path: Path) -> End:
    return End(
        FAILED,
        f"{path} has only one of rigctl's two markers, so it was left alone.\n"
        "Remove the lines between and around them by hand, then try again.",
    )


def _install_tmux(text: str, key: str) -> str:
    path = _tmux_file()
    return _block_in(path, text, f"For a running tmux: tmux source-file {path}")


def _install_included(program: str, reload: str) -> Callable[[str, str], str]:
    def install(text: str, key: str) -> str:
        ours = _config(program, "rigctl.conf")
        main = _config(program, "config")
        if not main.exists():
            raise End(
                FAILED,
                f"there is no {main} (a {program} without one reads the system's). Make it first: "
                f"mkdir -p {main.parent} && cp /etc/{program}/config {main}",
            )
        rewrite(ours, text)
        return _block_in(main, f"include {ours}", f"Then: {reload}")

    return install


def _uninstall_included(program: str) -> Callable[[], str]:
    def uninstall() -> str:
        said = _no_block_in(_config(program, "config"))
        _config(program, "rigctl.conf").unlink(missing_ok=True)
        return said

    return uninstall


def _install_entry(name: str, then: str) -> Callable[[str, str], str]:
    def install(text: str, key: str) -> str:
        path = _data("applications", name)
        changed = rewrite(path, text)
        if shutil.which("update-desktop-database"):
            subprocess.run(["update-desktop-database", "-q", path.parent], check=False)
        return f"{path}: {f'written. {then}'.rstrip() if changed else 'there already.'}"

    return install


def _uninstall_entry(name: str) -> Callable[[], str]:
    def uninstall() -> str:
        path = _data("applications", name)
        if not path.exists():
            return f"{path}: not there, so nothing to remove."
        path.unlink()
        return f"{path}: removed."

    return uninstall


def _gsettings(*words: str) -> str:
    if not shutil.which("gsettings"):
        raise End(FAILED, "there is no gsettings here: this is no GNOME session.")
    done = subprocess.run(["gsettings", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise End(FAILED, f"gsettings: {done.stderr.strip()}")
    return done.stdout.strip()


def _gnome_list() -> list[str]:
    """The paths of all custom shortcuts; gsettings prints a GVariant: `@as []` or `['…']`."""
    said = _gsettings("get", GNOME_SCHEMA, "custom-keybindings").removeprefix("@as ")
    return [str(path) for path in ast.literal_eval(said)]


def _install_gnome(text: str, key: str) -> str:
    command = next(line for line in text.splitlines() if " command " in line)
    values = {
        "name": "rigctl: free the cards",
        "command": shlex.split(command)[-1],
        "binding": key,
    }
    paths = _gnome_list()
    for name, value in values.items():
        _gsettings("set", f"{GNOME_SCHEMA}.custom-keybinding:{GNOME_PATH}", name, value)
    if GNOME_PATH in paths:
        return f"GNOME: {key} set again."
    _gsettings("set", GNOME_SCHEMA, "custom-keybindings", str([*paths, GNOME_PATH]))
    return f"GNOME: {key} frees the cards."


def _uninstall_gnome() -> str:
    paths = _gnome_list()
    if GNOME_PATH not in paths:
        return "GNOME: there was none."
    paths.remove(GNOME_PATH)
    _gsettings("set", GNOME_SCHEMA, "custom-keybindings", str(paths) if paths else "@as []")
    _gsettings("reset-recursively", f"{GNOME_SCHEMA}.custom-keybinding:{GNOME_PATH}")
    return "GNOME: removed."


TARGETS = {
    target.name: target
    for target in (
        Target("tmux", "tmux.conf", "F", _install_tmux, lambda: _no_block_in(_tmux_file())),
        Target("gnome", "gnome.sh", "<Super>F9", _install_gnome, _uninstall_gnome),
        Target(
            "kde",
            "rigctl-free.desktop",
            "Meta+F9",
            _install_entry(
                "rigctl-free.desktop",
                "The key works after the next login, or set it in System Settings > Shortcuts.",
            ),
            _uninstall_entry("rigctl-free.desktop"),
        ),
        Target(
            "sway",
            "sway.conf",
            "Mod4+F9",
            _install_included("sway", "swaymsg reload"),
            _uninstall_included("sway"),
        ),
        Target(
            "i3",
            "i3.conf",
            "Mod4+F9",
            _install_included("i3", "i3-msg reload (include needs i3 4.20)"),
            _uninstall_included("i3"),
        ),
        Target(
            "desktop",
            "rigctl.desktop",
            "",
            _install_entry("rigctl.desktop", "The panel is in the applications menu."),
            _uninstall_entry("rigctl.desktop"),
        ),
    )
}

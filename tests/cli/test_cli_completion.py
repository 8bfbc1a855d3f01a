"""Completion: each script is read by its real shell and asked for words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import serving
from cli_views import rig

from rigctl.cli.main import VERBS

SHELLS = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]
"""Those of this machine; bash is always there."""


@pytest.fixture
def script(tmp_path: Path, rigctl):
    """A shell's script in a file, and a `rigctl` on PATH for it to ask for groups."""
    program = tmp_path / "bin" / "rigctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rigctl "$@"\n')
    program.chmod(0o755)

    def make(shell: str) -> tuple[Path, dict[str, str]]:
        file = tmp_path / f"completion.{shell}"
        file.write_text(rigctl("completion", shell).stdout)
        env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        return file, env

    return make


def complete(shell: str, file: Path, env: dict[str, str], line: str) -> list[str]:
    """What the shell offers for a line, by its own machinery."""
    if shell == "bash":
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        code = (
            f"source {file}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            '_rigctl; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        command = ["bash", "--norc", "-c", code]
    elif shell == "fish":
        command = ["fish", "-N", "-c", f"source {file}; complete -C '{line}'"]
    else:
        # zsh completes only at a prompt; its words are taken from what _describe would get.
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        code = (
            "compdef() { :; }; _describe() { print -l -- ${(P)2}; }; _path_files() { :; }; "
            f"source {file}; words=({quoted}); CURRENT={len(words)}; _rigctl"
        )
        command = ["zsh", "-f", "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stderr == "", done.stderr
    separator = ":" if shell == "zsh" else "\t"
    return [each.split(separator)[0] for each in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", SHELLS)
def test_verbs_options_choices_and_groups(shell: str, home, script) -> None:
    """The first word completes to verbs, later ones to that verb's options and the groups."""
    file, env = script(shell)
    with serving(home, rig()):
        verbs = complete(shell, file, env, "rigctl ")
        stop = complete(shell, file, env, "rigctl stop ")
        options = complete(shell, file, env, "rigctl stop --")
        sleep = complete(shell, file, env, "rigctl sleep long ")
        nested = complete(shell, file, env, "rigctl service ")
    assert set(VERBS) <= set(verbs)
    assert {"standard", "long"} <= set(stop)
    assert {"--drain", "--yes", "--dry-run"} <= set(options)
    assert {"on", "off"} <= set(sleep)
    assert {"install", "status", "uninstall"} <= set(nested)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_groups_of_another_home(shell: str, home, script, tmp_path) -> None:
    """--home on the line is where the groups are asked for; rig.toml serves without a daemon."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "rig.toml").write_text('[[group]]\nname = "third"\n')
    file, env = script(shell)
    offered = complete(shell, file, env, f"rigctl --home {other} start ")
    assert "third" in offered


AT_PROMPT = {
    "bash": (("bash", "--norc"), ""),
    "zsh": (("zsh", "-f"), "autoload -U compinit; compinit -D; "),
}
"""How a shell is started bare, and what it needs before a completion script."""


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell in AT_PROMPT])
def test_tab_at_a_real_prompt_finishes_the_verb(shell: str, script, terminal) -> None:
    """Typed in an interactive shell, TAB finishes the word."""
    file, env = script(shell)
    argv, before = AT_PROMPT[shell]
    screen = terminal(argv=argv, env={**env, "PS1": "shell> "})
    screen.expect("shell> ")
    screen.type(f"{before}source {file}; echo rea''dy\n")
    screen.expect("ready")
    screen.type("rigctl recl\t")
    screen.expect("rigctl reclaim")
    screen.type("\x15exit\n")
    screen.wait()


def test_no_groups_is_no_error(rigctl) -> None:
    """Neither daemon nor config: completion offers nothing and says nothing."""
    done = rigctl("completion", "groups")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")

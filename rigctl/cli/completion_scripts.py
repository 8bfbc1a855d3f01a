"""The three shells' completion scripts, as text made from the verbs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class Described(Protocol):
    """A verb with its options, choices and whether it takes a group."""

    @property
    def name(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def options(self) -> tuple[tuple[str, str, bool], ...]: ...
    @property
    def choices(self) -> tuple[str, ...]: ...
    @property
    def groups(self) -> bool: ...


GLOBAL = ("--home", "--no-color", "--help", "--version")


def bash(verbs: Sequence[Described]) -> str:
    """For `source <(rigctl completion bash)`."""
    cases = "\n".join(
        f"        {verb.name}) words={_quote(' '.join(_words(verb)))}; groups={int(verb.groups)} ;;"
        for verb in verbs
    )
    names = " ".join(verb.name for verb in verbs)
    return f"""\
# bash completion for rigctl and gpurig
_rigctl() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} verb= home=() words= groups=0 i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
        --home) home=(--home "${{COMP_WORDS[i + 1]}}"); ((i++)) ;;
        --) COMPREPLY=($(compgen -c -- "$cur")); return ;;
        -*) ;;
        *) [[ -n $verb ]] || verb=${{COMP_WORDS[i]}} ;;
        esac
    done
    if [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == --home ]]; then
        COMPREPLY=($(compgen -d -- "$cur"))
        return
    fi
    case $verb in
        '') words={_quote(f"{names} {' '.join(GLOBAL)}")} ;;
{cases}
    esac
    if ((groups)); then
        words+=" $("${{COMP_WORDS[0]}}" "${{home[@]}}" completion groups 2>/dev/null)"
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _rigctl rigctl gpurig"""


def zsh(verbs: Sequence[Described]) -> str:
    """For a file `_rigctl` in a folder of $fpath."""
    names = "\n".join(f"        {_quote(_colon(verb.name, verb.help))}" for verb in verbs)
    cases = "\n".join(
        f"        {verb.name}) items=({' '.join(_quote(item) for item in _described(verb))});"
        f" groups={int(verb.groups)} ;;"
        for verb in verbs
    )
    return f"""\
#compdef rigctl gpurig
# zsh completion for rigctl and gpurig
_rigctl() {{
    local verb= i groups=0
    local -a home items found
    for ((i = 2; i < CURRENT; i++)); do
        case ${{words[i]}} in
        --home) home=(--home "${{words[i + 1]}}"); ((i++)) ;;
        --) _command_names -e; return ;;
        -*) ;;
        *) [[ -n $verb ]] || verb=${{words[i]}} ;;
        esac
    done
    if [[ ${{words[CURRENT - 1]}} == --home ]]; then
        _path_files -/
        return
    fi
    case $verb in
        '') items=(
{names}
        {" ".join(GLOBAL)}) ;;
{cases}
    esac
    if ((groups)); then
        found=(${{(f)"$("${{words[1]}}" $home completion groups 2>/dev/null)"}})
        items+=($found)
    fi
    _describe 'rigctl' items
}}
if [[ $funcstack[1] == _rigctl ]]; then
    _rigctl "$@"
else
    compdef _rigctl rigctl gpurig
fi"""


FISH_GROUPS = """\
function __rigctl_groups
    set -l words (commandline -opc)
    set -l home
    if set -l at (contains -i -- --home $words)
        set home --home $words[(math $at + 1)]
    end
    command $words[1] $home completion groups 2>/dev/null
end"""


def fish(verbs: Sequence[Described]) -> str:
    """For ~/.config/fish/completions/rigctl.fish."""
    lines = ["# fish completion for rigctl and gpurig", FISH_GROUPS]
    lines.append("for program in rigctl gpurig")
    start = "    complete -c $program"
    lines.append(f"{start} -f")
    lines.append(f"{start} -l home -x -a '(__fish_complete_directories)' -d 'folder of the rig'")
    lines.append(f"{start} -l no-color -d 'plain text'")
    for verb in verbs:
        lines.append(f"{start} -n __fish_use_subcommand -a {verb.name} -d {_quote(verb.help)}")
        seen = f"{start} -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.choices:
            lines.append(f"{seen} -a {_quote(' '.join(verb.choices))}")
        if verb.groups:
            lines.append(f"{seen} -a '(__rigctl_groups)'")
        lines.extend(
            f"{seen} -l {option.removeprefix('--')}{' -x' if value else ''} -d {_quote(text)}"
            for option, text, value in verb.options
        )
    lines.append("end")
    return "\n".join(lines)


def _words(verb: Described) -> list[str]:
    return [*verb.choices, *(option for option, _, _ in verb.options)]


def _described(verb: Described) -> list[str]:
    return [*verb.choices, *(_colon(option, text) for option, text, _ in verb.options)]


def _colon(name: str, text: str) -> str:
    return f"{name}:{text.replace(':', ' -')}" if text else name


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SCRIPTS: dict[str, Callable[[Sequence[Described]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}

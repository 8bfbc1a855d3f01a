"""SGLang servers that already run here, read from /proc, as groups of rig.toml."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from rigctl.config.cards import parse_card
from rigctl.config.flags import (
    ALWAYS,
    CARD_CHOICE,
    KEY_OF_FLAG,
    human_number,
    launches_sglang,
    secret_name,
    split_command,
)
from rigctl.config.rope import ALLOW_LONGER, override_json
from rigctl.config.schema import CardRef, ConfigError, GroupConfig
from rigctl.core.cards import CardSample
from rigctl.core.ids import GroupName
from rigctl.core.reading import Missing

_KEPT_VARIABLES = ("SGLANG_", "SGL_", "NCCL_", "CUDA_", "HF_", "TORCH_", "PYTORCH_", "FLASHINFER_")
"""What an engine reads from its environment; the rest belongs to the shell it came from."""

_SET_BY_US = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SGLANG_MAX_THINK_TOKENS")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """One server's main process, as /proc shows it."""

    pid: int
    argv: tuple[str, ...]
    env: dict[str, str]
    """As it was started; empty where it belongs to another user."""
    folder: str
    """Its working folder: a relative model path counts from there."""
    pids: frozenset[int]
    """Itself and all its descendants: NVML names these on its cards."""


@dataclass(frozen=True, slots=True)
class DraftGroup:
    """A group to be written: the config, and what goes beside it."""

    config: GroupConfig
    cards: tuple[CardSample, ...] = ()
    """The real cards, for the comments; in the order of `config.cards` where they are known."""
    notes: tuple[str, ...] = ()
    """What a person should look at, written above the group."""
    keys: dict[Literal["api_key", "admin_key"], str] = field(default_factory=dict, repr=False)
    """Keys that stood on the command line: they go to files of their own."""


def find_servers(proc: Path = Path("/proc")) -> tuple[RunningServer, ...]:
    """The main processes of all SGLang servers, in the order of their pids."""
    parents: dict[int, int] = {}
    found: list[tuple[int, tuple[str, ...]]] = []
    for entry in proc.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            argv = tuple(os.fsdecode(word) for word in _words(entry / "cmdline"))
            # The name in parentheses may hold anything, so fields count from the last one.
            stat = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(stat[1])
        if launches_sglang(argv) and stat[0] != "Z":
            found.append((int(entry.name), argv))
    # Workers that are forked keep their parent's command line: only the topmost is the server.
    mains = {pid for pid, _ in found}
    return tuple(
        RunningServer(pid, argv, _environ(proc, pid), _folder(proc, pid), _family(pid, parents))
        for pid, argv in sorted(found)
        if parents.get(pid) not in mains
    )


def draft_group(server: RunningServer, present: Sequence[CardSample]) -> DraftGroup:
    """What rig.toml has to say for rigctl to start the same server."""
    line = split_command(server.argv)
    typed: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    for flag, values in line.flags:
        if flag in KEY_OF_FLAG or flag in CARD_CHOICE or flag == "--json-model-override-args":
            typed[flag] = values
        elif flag not in ALWAYS:
            rest += (flag, *values)
    notes: list[str] = []
    if not server.env:
        notes.append("its variables cannot be read (another user's process): check cards and env")
    cards = _cards(server, typed, rest, present, notes)
    group = GroupConfig(
        name=GroupName(f"port-{_text(typed, '--port', '30000')}"),
        cards=cards,
        port=_number(typed, "--port") or 30000,
        model=_model(server, _text(typed, "--model-path")),
        host=_text(typed, "--host", "127.0.0.1"),
        served_name=_text(typed, "--served-model-name"),
        context_length=_number(typed, "--context-length"),
        max_total_tokens=_number(typed, "--max-total-tokens"),
        max_running_requests=_number(typed, "--max-running-requests"),
        draft_model=_model(server, _text(typed, "--speculative-draft-model-path")),
        draft_tokens=_number(typed, "--speculative-num-draft-tokens"),
        draft_algorithm=_text(typed, "--speculative-algorithm", "DFLASH"),
        reasoning_parser=_text(typed, "--reasoning-parser"),
        tool_call_parser=_text(typed, "--tool-call-parser"),
        grammar_backend=_text(typed, "--grammar-backend"),
        sleep_on_idle="--sleep-on-idle" in typed,
        engine=_program(server, line.program),
        tensor_parallel=_ranks(typed, len(cards)),
        env=_variables(server.env, notes),
    )
    group = _with_thinking(group, server.env, rest, notes)
    group = _with_yarn(group, _text(typed, "--json-model-override-args"), rest)
    keys: dict[Literal["api_key", "admin_key"], str] = {}
    if "--api-key" in typed:
        keys["api_key"] = _text(typed, "--api-key")
    if "--admin-api-key" in typed:
        keys["admin_key"] = _text(typed, "--admin-api-key")
    by_name = {ref.value: card for card in present for ref in (parse_card(str(card.uuid)),)}
    real = tuple(by_name[card.value] for card in cards if card.value in by_name)
    return DraftGroup(replace(group, flags=tuple(rest)), real, tuple(notes), keys)


def _words(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\0")[:-1]


def _environ(proc: Path, pid: int) -> dict[str, str]:
    try:
        pairs = [word.partition(b"=") for word in _words(proc / str(pid) / "environ")]
    except OSError:
        return {}
    return {os.fsdecode(name): os.fsdecode(value) for name, equals, value in pairs if equals}


def _folder(proc: Path, pid: int) -> str:
    try:
        return os.readlink(proc / str(pid) / "cwd")
    except OSError:
        return ""


def _family(pid: int, parents: Mapping[int, int]) -> frozenset[int]:
    """The process and everything below it."""
    family = {pid}
    grown = True
    while grown:
        below = {child for child, parent in parents.items() if parent in family} - family
        family |= below
        grown = bool(below)
    return frozenset(family)


def _text(typed: Mapping[str, tuple[str, ...]], flag: str, default: str = "") -> str:
    return " ".join(typed[flag]) if typed.get(flag) else default


def _number(typed: Mapping[str, tuple[str, ...]], flag: str) -> int | None:
    value = human_number(_text(typed, flag))
    return None if value is None else int(value)


def _model(server: RunningServer, name: str) -> str:
    """The model's path from anywhere; a name of the hub stays as it is."""
    local = Path(server.folder) / name
    return str(local) if name and server.folder and local.exists() else name


def _program(server: RunningServer, program: tuple[str, ...]) -> tuple[str, ...]:
    """What starts it from anywhere: a bare name is looked up in the server's own PATH."""
    first = program[0]
    if "/" in first:
        found: str | None = os.path.join(server.folder, first)
    else:
        found = shutil.which(first, path=server.env.get("PATH", os.defpath))
    return (found or first, *program[1:])


def _ranks(typed: Mapping[str, tuple[str, ...]], cards: int) -> int | None:
    ranks = _number(typed, "--tp-size") or 1
    return None if ranks == (cards or 1) else ranks


def _cards(
    server: RunningServer,
    typed: Mapping[str, tuple[str, ...]],
    rest: Sequence[str],
    present: Sequence[CardSample],
    notes: list[str],
) -> tuple[CardRef, ...]:
    """Its cards: by NVML's own word where it has one, else by the variables it was started with."""
    used = [card for card in present if _holds(card, server.pids)]
    if used:
        return tuple(parse_card(str(card.uuid)) for card in used)
    if server.env.get("SGLANG_USE_CPU_ENGINE") or "cpu" in rest:
        return ()
    visible = server.env.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in visible.split(",")] if visible else []
    listed = names or [str(card.index) for card in present]
    first, step = _number(typed, "--base-gpu-id") or 0, _number(typed, "--gpu-id-step") or 1
    count = _number(typed, "--tp-size") or 1
    chosen = listed[first::step][:count]
    if server.env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and any(n.isdecimal() for n in chosen):
        notes.append(
            "its card numbers count CUDA's way (fastest first), which may be another order than "
            "the one here: check the cards"
        )
    by_index = {str(card.index): str(card.uuid) for card in present}
    cards: list[CardRef] = []
    for name in chosen:
        try:
            cards.append(parse_card(by_index.get(name, name)))
        except ConfigError:
            notes.append(f"CUDA_VISIBLE_DEVICES named {name!r}, which is no card")
    return tuple(cards)


def _holds(card: CardSample, pids: frozenset[int]) -> bool:
    if isinstance(card.processes, Missing):
        return False
    return any(process.pid in pids for process in card.processes)


def _variables(environ: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """What of its environment the engine reads, without secrets and what keys set."""
    kept: dict[str, str] = {}
    for name, value in sorted(environ.items()):
        if not name.startswith(_KEPT_VARIABLES) or name in _SET_BY_US:
            continue
        if secret_name(name):
            notes.append(f"{name} was set and is not written here: export it for the daemon")
        else:
            kept[name] = value
    return kept


def _with_thinking(
    group: GroupConfig, environ: Mapping[str, str], rest: list[str], notes: list[str]
) -> GroupConfig:
    """The think budget as a key, where the server really has one."""
    budget = environ.get("SGLANG_MAX_THINK_TOKENS", "")
    if not budget.isdecimal():
        return group
    xgrammar = group.grammar_backend in ("", "xgrammar")
    if "--enable-strict-thinking" in rest and group.reasoning_parser and xgrammar:
        rest.remove("--enable-strict-thinking")
        return replace(group, think_budget=int(budget), grammar_backend="xgrammar")
    notes.append(
        f"SGLANG_MAX_THINK_TOKENS={budget} had no effect (it needs --enable-strict-thinking, a "
        "reasoning parser and xgrammar) and is left out"
    )
    return group


def _with_yarn(group: GroupConfig, override: str, rest: list[str]) -> GroupConfig:
    """The stretched window as keys, where they give the same override again."""
    if not override:
        return group
    try:
        told = json.loads(override)
        for style, path in _YARN_PLACES.items():
            rope = told
            for name in path:
                rope = rope.get(name, {})
            factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
            if group.context_length is None or not factor or not original:
                continue
            env = {name: value for name, value in group.env.items() if name != ALLOW_LONGER}
            candidate = replace(
                group,
                yarn_factor=float(factor),
                yarn_original=int(original),
                yarn_style=style,
                env=env,
            )
            if json.loads(override_json(candidate)) == told:
                return candidate
    except (ValueError, TypeError, AttributeError):
        pass  # Not a JSON object of that shape: it is passed on as it is.
    rest += ("--json-model-override-args", override)
    return group


_YARN_PLACES: dict[Literal["nested", "flat"], tuple[str, ...]] = {
    "nested": ("text_config", "rope_parameters"),
    "flat": ("rope_scaling",),
}

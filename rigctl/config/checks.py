"""What must hold between the keys of a group, and between groups."""

from __future__ import annotations

from collections.abc import Sequence

from rigctl.config.faults import nearest
from rigctl.config.flags import (
    ALWAYS,
    CARD_CHOICE,
    KEY_OF_FLAG,
    SOMETIMES,
    canonical,
    is_flag,
    mask,
)
from rigctl.config.rope import ALLOW_LONGER, native_window
from rigctl.config.schema import GroupConfig, RigConfig
from rigctl.config.values import Table

NEEDS_DRAFT = ("DFLASH", "DSPARK", "STANDALONE", "EAGLE3", "UNO")
"""Algorithms that cannot run without a draft model."""

_ENV_KEYS = {
    "CUDA_VISIBLE_DEVICES": "cards",
    "CUDA_DEVICE_ORDER": "cards",
    "SGLANG_MAX_THINK_TOKENS": "think_budget",
}


def check_group(group: GroupConfig, table: Table) -> None:
    """Note every fault inside one group."""
    _check_yarn(group, table)
    _check_draft(group, table)
    _check_thinking(group, table)
    _check_cards(group, table)
    _check_flags(group, table)
    _check_env(group, table)


def _check_yarn(group: GroupConfig, table: Table) -> None:
    if group.yarn_factor is None:
        if "yarn_factor" not in table.data and group.yarn_original is not None:
            table.fault("yarn_original", "`yarn_original` does nothing without `yarn_factor`")
        return
    if group.context_length is None:
        if "context_length" not in table.data:
            table.fault(
                "yarn_factor",
                "`yarn_factor` needs `context_length`: without it SGLang keeps the native window; "
                "write context_length = native window × factor",
            )
        return
    if group.yarn_original is None:
        native = group.context_length / group.yarn_factor
        if native != round(native):
            table.fault(
                "yarn_factor",
                f"`context_length` / `yarn_factor` = {native:.1f} is no whole window: write the "
                "model's native one as yarn_original",
            )
        return
    reach = round(native_window(group) * group.yarn_factor)
    if group.context_length > reach:
        table.fault(
            "context_length",
            f"`context_length` = {group.context_length} is more than yarn_original × yarn_factor "
            f"= {reach}: write {reach} or less, or raise yarn_factor",
        )


def _check_draft(group: GroupConfig, table: Table) -> None:
    algorithm = group.draft_algorithm.upper()
    if group.draft_model:
        return
    if "draft_algorithm" in table.data and algorithm in NEEDS_DRAFT:
        table.fault("draft_algorithm", f"`draft_algorithm` {algorithm} needs a `draft_model`")
    elif "draft_algorithm" not in table.data and group.draft_tokens is not None:
        table.fault("draft_tokens", "`draft_tokens` needs a `draft_model` that proposes them")


def _check_thinking(group: GroupConfig, table: Table) -> None:
    if group.think_budget is None:
        return
    lacks: list[str] = []
    if not group.reasoning_parser:
        lacks.append('a reasoning parser, such as reasoning_parser = "qwen3"')
    if group.grammar_backend.lower() != "xgrammar":
        lacks.append('grammar_backend = "xgrammar"')
    if lacks:
        table.fault(
            "think_budget",
            f"`think_budget` needs {' and '.join(lacks)}: without, SGLang ignores the budget",
        )


def _check_cards(group: GroupConfig, table: Table) -> None:
    if group.cards:
        if group.tensor_parallel is not None and group.tensor_parallel > len(group.cards):
            table.fault(
                "tensor_parallel",
                f"`tensor_parallel` = {group.tensor_parallel}, but the group has "
                f"{len(group.cards)} cards: leave the key out for one rank a card",
            )
    elif group.power_limit is not None and table.data.get("cards") == []:
        table.fault("power_limit", "`power_limit` is per card, and the group has no cards")


def _check_flags(group: GroupConfig, table: Table) -> None:
    if group.flags and not is_flag(group.flags[0]):
        table.fault(
            ("flags", 0),
            f"`flags` begins with {group.flags[0]!r}: a flag such as --name comes first",
        )
    for key, words in (("flags", group.flags), ("engine", group.engine)):
        for position, word in enumerate(words):
            if not word.startswith("-"):
                continue
            say = _refused_flag(word, group, key)
            if say:
                table.fault((key, position), say)


def _refused_flag(word: str, group: GroupConfig, key: str) -> str:
    """Why a word of `flags` or `engine` cannot be passed through; empty when it can."""
    flag = canonical(word)
    shown = mask((word,))[0]
    if word in ("-h", "--help"):
        return f"`{key}` has {word}: the engine would print its help and end; remove it"
    if flag in KEY_OF_FLAG:
        typed = KEY_OF_FLAG[flag]
        return f"`{key}` has {shown}, which the key `{typed}` sets: remove it and write {typed} = …"
    if flag in ALWAYS:
        return f"`{key}` has {shown}, which rigctl always sets: remove it"
    if flag in CARD_CHOICE:
        return (
            f"`{key}` has {shown}, which chooses cards a second time: the engine sees only the "
            "group's cards and counts from 0; remove it and write cards = […]"
        )
    if flag in SOMETIMES and _sets(flag, group):
        cause = _cause(flag, group)
        return f"`{key}` has {shown}, which rigctl sets for `{cause}`: remove one of them"
    if word.startswith("--") and " " in word.split("=", 1)[0]:
        name, _, value = word.partition(" ")
        name, value = mask((name, value.strip()))
        return f'`{key}` has "{name} {value}" as one word: write "{name}", "{value}"'
    return ""


def _sets(flag: str, group: GroupConfig) -> bool:
    """Whether rigctl itself sets this flag for this group."""
    match flag:
        case "--json-model-override-args":
            return group.yarn_factor is not None
        case "--enable-strict-thinking":
            return group.think_budget is not None
        case _:
            return group.api_key is not None or group.admin_key is not None


def _cause(flag: str, group: GroupConfig) -> str:
    if flag == "--config" and group.api_key is None:
        return "admin_key"
    return SOMETIMES[flag]


def _check_env(group: GroupConfig, table: Table) -> None:
    for name in group.env:
        typed = _ENV_KEYS.get(name)
        if name == ALLOW_LONGER and group.yarn_factor is not None:
            typed = "yarn_factor"
        if typed:
            say = f"`env` has {name}, which the key `{typed}` sets: remove it and use {typed}"
        elif name.startswith("RIGCTL_"):
            say = f"`env` has {name}: variables that begin with RIGCTL_ are rigctl's own"
        else:
            continue
        table.fault(("env", name), say)


def check_between(
    rig: RigConfig, groups: Sequence[GroupConfig], tables: Sequence[Table], rig_table: Table
) -> None:
    """Note what two groups cannot share: name, port, card; and a `free_group` that is none."""
    for position, group in enumerate(groups):
        for earlier, other in enumerate(groups[:position]):
            table, line = tables[position], tables[earlier].line
            if group.name and group.name == other.name:
                table.fault("name", f"`name` {group.name!r} is taken by the group at line {line()}")
            if group.port and group.port == other.port:
                table.fault(
                    "port",
                    f"`port` {group.port} is taken by group {other.name!r} at line "
                    f"{line('port')}: write another, such as {_free_port(groups)}",
                )
            for place, card in enumerate(group.cards):
                if card in other.cards:
                    table.fault(
                        ("cards", place),
                        f"card {card.value} is in group {other.name!r} too, line "
                        f"{line('cards', other.cards.index(card))}: a card can be in one group",
                    )
    names = [str(group.name) for group in groups]
    if rig.free_group and rig.free_group not in names:
        near = nearest(rig.free_group, names)
        advice = f"did you mean {near!r}?" if near else f"the groups are {', '.join(names)}"
        rig_table.fault("free_group", f"`free_group` {rig.free_group!r} is no group: {advice}")


def _free_port(groups: Sequence[GroupConfig]) -> int:
    taken = {group.port for group in groups}
    return next(port for port in range(max(taken, default=30000) + 1, 2**17) if port not in taken)


def warnings(group: GroupConfig) -> tuple[str, ...]:
    """What is allowed and probably not meant, in words."""
    found: list[str] = []
    if any(card.kind == "index" for card in group.cards):
        found.append(
            f"group {group.name!r} names cards by index: when one card is missing the others move "
            "up, and no start is possible; UUIDs stay (`nvidia-smi -L`)"
        )
    if group.host not in ("127.0.0.1", "localhost", "::1") and group.api_key is None:
        found.append(
            f"group {group.name!r} listens on {group.host} without an api_key: anybody who reaches "
            "this machine can use it"
        )
    return tuple(found)

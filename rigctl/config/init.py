"""A first rig.toml: written from the cards and servers found, each key explained beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rigctl.config.cards import parse_card
from rigctl.config.init_proxy import proxy_lines
from rigctl.config.running import DraftGroup
from rigctl.config.schema import SCHEMA_VERSION, CardRef, ConfigError, GroupConfig, Secret
from rigctl.config.toml_text import commented, toml_value
from rigctl.core.cards import CardSample
from rigctl.core.ids import GroupName
from rigctl.core.reading import Missing

PLACEHOLDER_MODEL = "/path/to/the/model"

HELP = {
    "host": "the address the server listens on",
    "served_name": "what clients call the model; empty: its path",
    "context_length": "tokens; left out: the model's own window",
    "max_total_tokens": "size of the token pool; left out: what fits on the cards",
    "max_running_requests": "answers at a time",
    "yarn_factor": "stretches the window; needs context_length = native window × factor",
    "yarn_original": "the native window",
    "yarn_style": '"nested" (Qwen3.5, Qwen3.8) or "flat" (Qwen3)',
    "draft_model": "speculative decoding: the small model that proposes",
    "draft_tokens": "tokens it proposes at a time",
    "draft_algorithm": "",
    "reasoning_parser": 'such as "qwen3"',
    "tool_call_parser": 'such as "qwen3_coder"',
    "grammar_backend": 'such as "xgrammar"',
    "think_budget": "tokens an answer may think; needs a reasoning parser and xgrammar",
    "sleep_on_idle": "lets the cards rest while nobody asks",
    "api_key": 'from a file of yours (chmod 600), or { env = "NAME" }',
    "admin_key": "",
    "start_with_daemon": "",
    "stop_grace": "seconds from SIGTERM to SIGKILL",
    "drain": "seconds running answers may take to finish before a stop",
    "power_limit": "watts a card; left out: untouched",
    "engine": "the program that takes SGLang's flags",
    "tensor_parallel": "left out: one rank a card",
    "card_names": 'how the engine is told its cards: "index" or "uuid"',
    "flags": "every other SGLang flag, as written",
    "env": "variables for the engine",
}
"""What is said beside a key, in the order in which keys are written."""

_EXAMPLES: dict[str, object] = {
    "context_length": 32768,
    "max_total_tokens": 100_000,
    "max_running_requests": 8,
    "yarn_factor": 2.0,
    "yarn_original": 16384,
    "draft_model": "/path/to/the/draft",
    "draft_tokens": 4,
    "think_budget": 5000,
    "api_key": {"file": "standard.key"},
    "admin_key": {"env": "RIG_ADMIN_KEY"},
    "power_limit": 280.0,
    "tensor_parallel": 2,
    "flags": ["--mem-fraction-static", "0.85"],
    "env": {"NCCL_P2P_DISABLE": "1"},
}
"""What stands behind the `#` of a key that has no default to show."""


_RIG_EXAMPLES = {
    'free_group = "second"': "what a bare `rigctl free` takes; left out: the last group",
    "price_per_kwh = 0.30": "for the cost shown beside the energy",
    'currency = "EUR"': "",
    "stagger = 10.0": "seconds between two engine starts",
    "free_drain = 180.0": "seconds that answers may take to finish on a free",
    'on_event = ["notify-send", "rigctl"]': "run on a crash, a lost card, an overdue lease",
}


def drafts_from_cards(
    cards: Sequence[CardSample], model: str = PLACEHOLDER_MODEL
) -> tuple[DraftGroup, ...]:
    """Two equal groups of the cards in PCI order; one group of a single card, or of none.

    With an odd number the last card is left out: equal groups can take each other's work.
    """
    ordered = sorted(cards, key=lambda card: card.pci)
    half = len(ordered) // 2
    parts = [ordered[:half], ordered[half : 2 * half]] if half else [ordered]
    spare = ordered[2 * half :] if half else []
    drafts: list[DraftGroup] = []
    for number, part in enumerate(parts):
        group = GroupConfig(
            name=GroupName(("first", "second")[number]),
            cards=tuple(parse_card(str(card.uuid)) for card in part),
            port=30001 + number,
            model=model,
        )
        notes = [f"in no group: {_describe(card)}" for card in spare] if number else []
        if not part:
            notes = ["no NVIDIA card was found; with cards = [] the engine runs without one"]
        drafts.append(DraftGroup(group, tuple(part), tuple(notes)))
    return tuple(drafts)


def render(drafts: Sequence[DraftGroup], key_files: Mapping[str, str] | None = None) -> str:
    """The text of rig.toml. `key_files` says in which file a draft's key went: `name.api_key`."""
    lines = [
        "# Written by `rigctl config init`. rigctl never changes this file again.",
        "# `rigctl config check` names every fault in it, `rigctl config show` says where each",
        "# value comes from. A line beginning with `#` shows a key with its default or an example.",
        "",
        f"schema_version = {SCHEMA_VERSION}",
        "",
        "[rig]",
        'name = "rig"',
        *(commented(f"# {example}", words) for example, words in _RIG_EXAMPLES.items()),
    ]
    lines += ["", *proxy_lines([draft.config for draft in drafts])]
    for number, draft in enumerate(drafts):
        lines += ["", *_group(draft, key_files or {}, explained=number == 0)]
    return "\n".join(lines) + "\n"


def write_new(path: Path, drafts: Sequence[DraftGroup]) -> tuple[Path, ...]:
    """Write rig.toml and the key files its drafts need; the files written, rig.toml last.

    ConfigError when any of them exists: nothing is ever overwritten. What was begun is removed
    again when it cannot be finished.
    """
    keys = {
        f"{draft.config.name}.{name}": (path.parent / f"{draft.config.name}-{_file(name)}", key)
        for draft in drafts
        for name, key in draft.keys.items()
    }
    text = render(drafts, {name: file.name for name, (file, _) in keys.items()})
    text = text.encode("utf-8", "replace").decode()  # words out of /proc may hold any byte
    written: list[Path] = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=str(path)) from error
    try:
        for file, key in keys.values():
            _create(file, key + "\n", 0o600, written)
        _create(path, text, 0o600, written)  # `flags` and `env` of a running server are in it
    except OSError as error:
        for file in written:
            file.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise _taken(Path(error.filename or path)) from error
        raise ConfigError(f"cannot be written: {error.strerror}", path=str(path)) from error
    return tuple(written)


def _taken(path: Path) -> ConfigError:
    say = "exists already and is never overwritten: edit it, or move it away first"
    return ConfigError(say, path=str(path))


def _create(path: Path, text: str, mode: int, written: list[Path]) -> None:
    """Create a file that is not there yet, all of it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    written.append(path)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _file(name: str) -> str:
    return {"api_key": "api.key", "admin_key": "admin.key"}[name]


def _group(draft: DraftGroup, key_files: Mapping[str, str], *, explained: bool) -> list[str]:
    """One `[[group]]`; the first one also shows the keys that are not set."""
    group = draft.config
    plain = GroupConfig(GroupName(""), (), 0, "")
    lines = [f"# {note}" for note in draft.notes]
    lines += ["[[group]]", f"name = {toml_value(group.name)}", *_cards(draft)]
    lines += [f"port = {group.port}"]
    placeholder = "a folder, or a name of the hub" if group.model == PLACEHOLDER_MODEL else ""
    lines.append(commented(f"model = {toml_value(group.model)}", placeholder))
    for key, words in HELP.items():
        value = _plain(getattr(group, key))
        comment = words if explained else ""
        written = key_files.get(f"{group.name}.{key}")
        if written:
            lines.append(commented(f"{key} = {toml_value({'file': written})}", comment))
        elif value != _plain(getattr(plain, key)):
            lines.append(commented(f"{key} = {toml_value(value)}", comment))
        elif explained:
            shown = toml_value(_EXAMPLES.get(key, value))
            lines.append(commented(f"# {key} = {shown}", comment))
    return lines


def _plain(value: object) -> object:
    """A schema value as TOML has it."""
    if isinstance(value, Secret):
        return {value.source: value.where}
    return list(value) if isinstance(value, tuple) else value


def _cards(draft: DraftGroup) -> list[str]:
    """The cards, each with what a person knows it by."""
    if not draft.config.cards:
        return ["cards = []"]
    real = {str(card.uuid).lower(): card for card in draft.cards}
    lines = ["cards = ["]
    for reference in draft.config.cards:
        card = real.get(reference.value.lower())
        comment = f"  # {_describe(card)}" if card else ""
        lines.append(f"  {_card_value(reference, card)},{comment}")
    return [*lines, "]"]


def _card_value(reference: CardRef, card: CardSample | None) -> str:
    if reference.kind == "index":
        return reference.value
    return toml_value(str(card.uuid) if card else reference.value)


def _describe(card: CardSample) -> str:
    """`0  0000:0C:00.0  NVIDIA GeForce RTX 3090, 24 GiB`."""
    memory = card.memory_total
    size = "" if isinstance(memory, Missing) else f", {memory / 2**30:.0f} GiB"
    return re.sub(r"[^\x20-\x7e]", "?", f"{card.index}  {card.pci}  {card.name}{size}")

"""One `[[group]]` and the `[rig]` table: from TOML values to typed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from rigctl.config.cards import parse_card
from rigctl.config.faults import nearest
from rigctl.config.schema import CardRef, ConfigError, GroupConfig, RigConfig, Secret
from rigctl.config.secrets import check_secret_file
from rigctl.config.values import Table, field_names
from rigctl.core.ids import GroupName

RIG_KEYS = field_names(RigConfig)
GROUP_KEYS = field_names(GroupConfig)

_NEEDED = ("name", "cards", "port", "model")

_MEANT = {
    "model_path": "model",
    "gpus": "cards",
    "gpu": "cards",
    "tp": "tensor_parallel",
    "tp_size": "tensor_parallel",
    "tensor_parallel_size": "tensor_parallel",
    "served_model_name": "served_name",
    "speculative_draft_model": "draft_model",
    "speculative_draft_model_path": "draft_model",
    "speculative_num_draft_tokens": "draft_tokens",
    "speculative_algorithm": "draft_algorithm",
    "max_think_tokens": "think_budget",
    "sglang_max_think_tokens": "think_budget",
    "thinking_budget": "think_budget",
    "admin_api_key": "admin_key",
    "yarn": "yarn_factor",
    "autostart": "start_with_daemon",
    "environment": "env",
    "args": "flags",
    "power": "power_limit",
}
"""What people and SGLang call things, to the key that means it."""

_MEANT_IN_RIG = {"free": "free_group", "price": "price_per_kwh", "kwh_price": "price_per_kwh"}


def read_rig(table: Table) -> RigConfig:
    """The `[rig]` table; its defaults where a key is absent or faulty."""
    table.refuse_unknown(RIG_KEYS, _MEANT_IN_RIG, f"[rig] knows {', '.join(RIG_KEYS)}")
    default = RigConfig()
    return RigConfig(
        name=table.text("name", default.name, needed=True),
        free_group=GroupName(table.text("free_group")),
        price_per_kwh=table.number("price_per_kwh", default.price_per_kwh),
        currency=table.text("currency", default.currency),
        on_event=table.words("on_event"),
        stagger=table.number("stagger", default.stagger),
        free_drain=table.number("free_drain", default.free_drain),
    )


def read_group(table: Table) -> GroupConfig:
    """One group. Needed keys that are absent are noted and stand as empty values."""
    table.refuse_unknown(
        GROUP_KEYS, _MEANT, 'an SGLang flag goes into flags = ["--the-flag", "value"]'
    )
    for key in _NEEDED:
        if key not in table.data:
            table.fault((), f"`{key}` is missing: {_EXAMPLES[key]}")
    default = GroupConfig(GroupName(""), (), 0, "")
    engine = table.words("engine", default.engine)
    if not engine or not engine[0]:
        table.fault("engine", '`engine` is empty: it is ["python3", "-m", "sglang.launch_server"]')
        engine = default.engine
    elif engine[0].startswith("~/"):
        engine = (str(Path(engine[0]).expanduser()), *engine[1:])
    yarn_style = table.choice("yarn_style", default.yarn_style, ("nested", "flat"))
    card_names = table.choice("card_names", default.card_names, ("index", "uuid"))
    return GroupConfig(
        name=_name(table),
        cards=_cards(table),
        port=table.whole("port", 1, 65535) or 0,
        model=table.argument("model", needed=True),
        host=table.argument("host", default.host, needed=True),
        served_name=_served_name(table),
        context_length=table.whole("context_length"),
        max_total_tokens=table.whole("max_total_tokens"),
        max_running_requests=table.whole("max_running_requests"),
        yarn_factor=table.maybe_number("yarn_factor", 1.0),
        yarn_original=table.whole("yarn_original"),
        yarn_style=cast("Literal['nested', 'flat']", yarn_style),
        draft_model=table.argument("draft_model"),
        draft_tokens=table.whole("draft_tokens"),
        draft_algorithm=table.argument("draft_algorithm", default.draft_algorithm, needed=True),
        reasoning_parser=table.argument("reasoning_parser"),
        tool_call_parser=table.argument("tool_call_parser"),
        grammar_backend=table.argument("grammar_backend"),
        think_budget=table.whole("think_budget", 0),
        sleep_on_idle=table.flag("sleep_on_idle", default.sleep_on_idle),
        api_key=_secret(table, "api_key"),
        admin_key=_secret(table, "admin_key"),
        start_with_daemon=table.flag("start_with_daemon", default.start_with_daemon),
        stop_grace=table.number("stop_grace", default.stop_grace),
        drain=table.number("drain", default.drain),
        power_limit=table.maybe_number("power_limit", 1.0),
        engine=engine,
        tensor_parallel=table.whole("tensor_parallel"),
        card_names=cast("Literal['index', 'uuid']", card_names),
        flags=table.words("flags"),
        env=table.variables("env"),
    )


_EXAMPLES = {
    "name": 'write name = "standard"',
    "cards": 'write cards = ["GPU-…", "GPU-…"]; `nvidia-smi -L` lists them; [] runs on the CPU',
    "port": "write port = 30000",
    "model": 'write model = "/path/to/the/model"',
}


def _name(table: Table) -> GroupName:
    """A group's name goes into file names, commands and variables."""
    name = table.text("name", needed=True)
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    if name.strip() and not (
        plain.isalnum() and plain.isascii() and name[0] not in "-." and len(name) <= 40
    ):
        table.fault(
            "name",
            f"`name` = {name!r}: letters, digits, `-`, `_` and `.`, at most 40, not beginning "
            "with `-` or `.`",
        )
    elif name in ("daemon", "proxy"):
        table.fault("name", f"`name` = {name!r}: that log is rigctl's own; choose another name")
    elif name.rpartition(".")[0] and name.rpartition(".")[2].isdigit():
        table.fault(
            "name",
            f"`name` = {name!r}: a number after a dot names the log of an earlier run; write "
            f"{name.replace('.', '-')!r}",
        )
    return GroupName(name)


def _served_name(table: Table) -> str:
    name = table.argument("served_name")
    if ":" in name:
        table.fault("served_name", f"`served_name` = {name!r}: SGLang keeps `:` for LoRA names")
    return name


def _cards(table: Table) -> tuple[CardRef, ...]:
    """The cards as named; two names that are visibly one card are noted."""
    value = table.data.get("cards", [])
    if not isinstance(value, list):
        table.fault("cards", f"`cards` is a list: write cards = [{_as_item(value)}]")
        return ()
    cards: list[CardRef] = []
    for position, item in enumerate(value):
        try:
            card = parse_card(item)
        except ConfigError as error:
            table.fault(("cards", position), f"`cards`: {error.say}")
            continue
        if card in cards:
            table.fault(("cards", position), f"`cards` names {card.value} twice: remove one")
        cards.append(card)
    return tuple(cards)


def _as_item(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else "…"


def _secret(table: Table, key: str) -> Secret | None:
    """`{ file = "…" }` or `{ env = "…" }`. What is written otherwise is never quoted."""
    value = table.data.get(key)
    if value is None:
        return None
    how = f'{key} = {{ file = "/path/to/the.key" }} or {key} = {{ env = "VARIABLE" }}'
    if isinstance(value, str):
        table.fault(
            key,
            f"`{key}` would keep the key in clear in this file: put it elsewhere and write {how}",
        )
        return None
    if not isinstance(value, dict) or len(value) != 1:
        table.fault(key, f"`{key}` says where the key is read from: write {how}")
        return None
    ((source, where),) = value.items()
    if source not in ("file", "env"):
        near = nearest(source, ("file", "env"))
        advice = f"did you mean `{near}`?" if near else f"write {how}"
        table.fault((key, source), f"`{key}`: unknown source `{source}`: {advice}")
        return None
    if not isinstance(where, str) or not where.strip() or "\0" in where:
        table.fault((key, source), f"`{key}.{source}` is a name: write {how}")
        return None
    if source == "env":
        return Secret("env", where)
    # A relative path counts from the folder of rig.toml, wherever the daemon was started.
    path = Path(table.faults.path).absolute().parent / Path(where).expanduser()
    why = check_secret_file(path)
    if why:
        table.fault((key, source), f"`{key}`: {why}")
    return Secret("file", str(path))

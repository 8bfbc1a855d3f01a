"""Run by the real SGLang's Python: prints its flags as rigctl/sim/sglang/flags.json keeps them.

`RIGCTL_REAL_SGLANG/venv/bin/python tests/engine/dump_flags.py > rigctl/sim/sglang/flags.json`
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found]

_ACTIONS = {
    "_StoreTrueAction": "true",
    "DeprecatedStoreTrueAction": "true",
    "BooleanOptionalAction": "bool",
    "DeprecatedStoreConstAction": "const",
}
_TYPES = {"int": "int", "float": "float", "human_readable_int": "size"}
_JSON = ("loads", "json_list_type")


def row(action: argparse.Action) -> dict[str, Any]:
    """One flag."""
    kind = _ACTIONS.get(type(action).__name__, "")
    name = getattr(action.type, "__name__", "str")
    kind = kind or ("json" if name in _JSON else _TYPES.get(name, "str"))
    hide = "--no-" if kind == "bool" else "\0"
    out: dict[str, Any] = {
        "flags": [flag for flag in action.option_strings if not flag.startswith(hide)],
        "dest": action.dest,
        "kind": kind,
    }
    if action.nargs in ("+", "*", "?"):
        out["nargs"] = action.nargs
    if action.choices:
        choices = action.choices
        out["choices"] = sorted(choices) if isinstance(choices, set) else list(choices)
    default = action.default
    plain = isinstance(default, (int, float, str, list)) or default is None
    default = default if plain else str(default)
    if default is not None and default != argparse.SUPPRESS:
        out["default"] = default
    if action.required:
        out["required"] = True
    if kind == "const":
        out["const"] = action.const if isinstance(action.const, (str, int)) else str(action.const)
    if default == argparse.SUPPRESS:
        out["hidden"] = True
    return out


def main() -> None:
    """Print one flag a line."""
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    rows = [row(action) for action in parser._actions if action.dest != "help"]
    print("[\n" + ",\n".join(json.dumps(each, separators=(",", ":")) for each in rows) + "\n]")


main()

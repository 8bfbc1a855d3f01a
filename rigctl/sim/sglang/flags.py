"""SGLang's command line: every flag of 0.5.23 with its kind and default, and what follows."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

Args = dict[str, Any]
"""Resolved flags by SGLang's own names (`max_running_requests`), as `/server_info` shows them."""

_SIZES = {
    "k": 1000,
    "K": 1000,
    "m": 10**6,
    "M": 10**6,
    "Ki": 1024,
    "ki": 1024,
    "Mi": 1024**2,
    "g": 10**9,
    "Gi": 1024**3,
}


def human_readable_int(text: str) -> int:
    """`262144`, `256k` (256,000) or `256Ki` (262,144)."""
    match = re.fullmatch(r"(-?\d+)([A-Za-z]*)", text)
    if match is None or (match[2] and match[2] not in _SIZES):
        raise argparse.ArgumentTypeError(f"Invalid integer value: {text!r}")
    return int(match[1]) * _SIZES.get(match[2], 1)


_TYPES: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "json": json.loads,
    "size": human_readable_int,
}


def parser() -> argparse.ArgumentParser:
    """The flags as SGLang's own parser takes them: an unknown one exits with 2."""
    it = argparse.ArgumentParser(prog="sglang serve")
    rows = json.loads(files(__package__).joinpath("flags.json").read_text(encoding="utf-8"))
    for row in rows:
        more: dict[str, Any] = {"dest": row["dest"], "default": row.get("default")}
        if row.get("hidden"):
            more["default"] = argparse.SUPPRESS
        kind = row["kind"]
        if kind == "true":
            more["action"] = "store_true"
        elif kind == "bool":
            more["action"] = argparse.BooleanOptionalAction
        elif kind == "const":
            more |= {"action": "store_const", "const": row.get("const")}
        else:
            more["type"] = _TYPES[kind]
            more |= {key: row[key] for key in ("nargs", "choices", "required") if key in row}
        it.add_argument(*row["flags"], **more)
    return it


def with_config_file(argv: Sequence[str]) -> list[str]:
    """The arguments with those of a `--config FILE.yaml` put first: the command line wins.

    Flat `key: value` lines or a JSON object, which is YAML too. ValueError for another file.
    """
    words = list(argv)
    if "--config" not in words:
        return words
    at = words.index("--config")
    path = Path(words[at + 1])
    if path.suffix not in (".yaml", ".yml"):
        raise ValueError(f"Config file must be YAML format, got: {path}")
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("{"):
        row = json.loads(text)
    else:
        pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
        row = {key.strip(): value.strip().strip("'\"") for key, value in pairs}
    more: list[str] = []
    for key, value in row.items():
        if str(value).lower() != "false":
            flag = f"--{key.lstrip('-').replace('_', '-')}"
            more += [flag] if str(value).lower() == "true" else [flag, str(value)]
    return more + words[:at] + words[at + 2 :]


def parse(argv: Sequence[str]) -> Args:
    """The flags with the defaults SGLang would resolve on this rig. SystemExit 2 as argparse."""
    args = vars(parser().parse_args(with_config_file(argv)))
    args.pop("config", None)
    if args.get("tokenizer_path") is None:
        args["tokenizer_path"] = args["model_path"]
    if args.get("served_model_name") is None:
        args["served_model_name"] = args["model_path"]
    if args.get("chunked_prefill_size") is None:
        args["chunked_prefill_size"] = 4096
    if args.get("page_size") is None:
        args["page_size"] = 1
    if args.get("prefill_decode_interval") is None:
        args["prefill_decode_interval"] = 0
    if args.get("random_seed") is None:
        args["random_seed"] = 42
    return args

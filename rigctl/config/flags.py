"""SGLang's flags as far as rigctl sets them itself: their spellings, and reading a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

KEY_OF_FLAG = {
    "--model-path": "model",
    "--host": "host",
    "--port": "port",
    "--tp-size": "tensor_parallel",
    "--served-model-name": "served_name",
    "--context-length": "context_length",
    "--max-total-tokens": "max_total_tokens",
    "--max-running-requests": "max_running_requests",
    "--speculative-algorithm": "draft_algorithm",
    "--speculative-draft-model-path": "draft_model",
    "--speculative-num-draft-tokens": "draft_tokens",
    "--reasoning-parser": "reasoning_parser",
    "--tool-call-parser": "tool_call_parser",
    "--grammar-backend": "grammar_backend",
    "--sleep-on-idle": "sleep_on_idle",
    "--api-key": "api_key",
    "--admin-api-key": "admin_key",
}
"""Flags that have a key of their own in rig.toml."""

ALWAYS = ("--enable-metrics", "--enable-cache-report", "--uvicorn-access-log-exclude-prefixes")
"""Flags that rigctl always sets: it reads those metrics, and its polling stays out of the log."""

QUIET_PREFIXES = ("/metrics", "/v1/loads", "/ready")
"""What rigctl polls; kept out of the engine's access log."""

CARD_CHOICE = ("--base-gpu-id", "--gpu-id-step")
"""Flags that count inside the visible cards: with them the engine leaves its own group's."""

SOMETIMES = {
    "--json-model-override-args": "yarn_factor",
    "--enable-strict-thinking": "think_budget",
    "--config": "api_key",
}
"""Flags that rigctl sets only where the named key is used."""

_ALIASES = {
    "--model": "--model-path",
    "--tp": "--tp-size",
    "--tensor-parallel-size": "--tp-size",
    "--speculative-draft-model": "--speculative-draft-model-path",
}

_OURS = (*KEY_OF_FLAG, *ALWAYS, *CARD_CHOICE, *SOMETIMES)
_SPELLINGS = {**{flag: flag for flag in _OURS}, **_ALIASES}

SECRET_FLAGS = frozenset({"--api-key", "--admin-api-key", "--ssl-keyfile-password"})
"""Flags whose value is never shown."""

MASK = "****"

_SECRET_NAME = re.compile(
    r"(^|[_-])(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_FACTORS = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def canonical(token: str) -> str:
    """The flag's first spelling, without a value: `--tp=4` gives `--tp-size`.

    Underscores count as dashes. argparse takes any unambiguous beginning of a flag, so a beginning
    of one of ours is that flag; no real flag of SGLang is a beginning of one of ours. A flag we do
    not set comes back as it is.
    """
    name = token.split("=", 1)[0].replace("_", "-")
    if name in _SPELLINGS:
        return _SPELLINGS[name]
    if name.startswith("--") and len(name) > 2:
        meant = {first for spelling, first in _SPELLINGS.items() if spelling.startswith(name)}
        if meant:
            return min(meant, key=len)
    return name


def is_flag(token: str) -> bool:
    """Whether a word of a command line is a flag; `-1` and `-` are values."""
    return token.startswith("-") and len(token) > 1 and not re.match(r"-\.?\d", token)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A server's command line, taken apart."""

    program: tuple[str, ...]
    """What starts SGLang: `python -m sglang.launch_server`, `sglang serve`."""
    flags: tuple[tuple[str, tuple[str, ...]], ...]
    """Canonical flag and its values, in order; of a repeated flag the last counts (argparse)."""

    def values(self) -> dict[str, tuple[str, ...]]:
        """Flag to values, the last of each."""
        return dict(self.flags)


def split_command(argv: Sequence[str]) -> CommandLine:
    """Take a command line apart; the model that `sglang serve` takes without a flag included."""
    start = _program_length(argv)
    flags: list[tuple[str, tuple[str, ...]]] = []
    rest = list(argv[start:])
    if rest and not is_flag(rest[0]):
        rest.insert(0, "--model-path")
    for token in rest:
        if is_flag(token):
            _, equals, value = token.partition("=")
            flags.append((canonical(token), (value,) if equals else ()))
        elif flags:
            flag, values = flags[-1]
            flags[-1] = (flag, (*values, token))
    return CommandLine(tuple(argv[:start]), tuple(flags))


def launches_sglang(argv: Sequence[str]) -> bool:
    """Whether this is an SGLang server's main process, not a wrapper that names one."""
    if not argv:
        return False
    first = PurePath(argv[0]).name
    if first == "sglang":
        return argv[1:2] == ["serve"] or tuple(argv[1:2]) == ("serve",)
    if not first.startswith("python"):
        return False
    for position, word in enumerate(argv[1:], start=1):
        if word == "-m":
            return tuple(argv[position + 1 : position + 2]) == ("sglang.launch_server",)
        if not word.startswith("-") and argv[position - 1] not in ("-W", "-X"):
            return PurePath(word).name == "sglang" and tuple(argv[position + 1 : position + 2]) == (
                "serve",
            )
    return False


def _program_length(argv: Sequence[str]) -> int:
    """How many words start SGLang, before its own flags."""
    for position, word in enumerate(argv):
        name = PurePath(word).name
        if word == "sglang.launch_server" or name == "launch_server.py":
            return position + 1
        if word == "serve" and position and PurePath(argv[position - 1]).name == "sglang":
            return position + 1
    # A program of the owner's own: everything before the first long flag.
    return next((at for at, word in enumerate(argv) if word.startswith("--")), len(argv))


def secret_name(name: str) -> bool:
    """Whether a variable's or flag's name says that its value is a secret."""
    return bool(_SECRET_NAME.search(name)) or name in SECRET_FLAGS


def mask(argv: Sequence[str], secrets: Sequence[str] = ()) -> tuple[str, ...]:
    """The command line without the value of any secret flag or variable, or any known secret."""
    shown: list[str] = []
    hide = False
    for token in argv:
        flag, equals, _ = token.partition("=")
        if is_flag(token) and (canonical(token) in SECRET_FLAGS or secret_name(canonical(token))):
            shown.append(f"{flag}={MASK}" if equals else token)
            hide = not equals
            continue
        if hide and not is_flag(token):
            shown.append(MASK)
        elif equals and not is_flag(token) and secret_name(flag):
            shown.append(f"{flag}={MASK}")  # a variable: `env HF_TOKEN=… python3 …`
        else:
            clean = token
            for secret in secrets:
                clean = clean.replace(secret, MASK) if secret else clean
            shown.append(clean)
        hide = False
    return tuple(shown)


def human_number(value: str) -> float | None:
    """A number as SGLang reads it, `256k` and `256Ki` included; None for anything else."""
    match = _NUMBER.fullmatch(value.strip())
    return float(match[1]) * _FACTORS.get(match[2], 1) if match else None

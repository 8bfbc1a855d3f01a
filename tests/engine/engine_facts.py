"""Reduces what an engine said to comparable facts: shapes, orders, words without numbers."""

from __future__ import annotations

import re
from typing import Any

STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( TP\d)?\] (.*)$")
_NOISE = (
    "Ignore import error",
    "The current platform does not support",
    "Fail to set RLIMIT",
    "Cannot detect CUDA",
    "SGLANG_CPU_OMP",
    "init_threads_binding",
    "init_cpu_threads_env",
    "parallel_prompt_encode",
    "Init Unified Radix Cache",
    "Using the Python TreeCore",
    "INFO:     127.0.0.1",
    "INFO:     Waiting for background tasks",  # only where a stream ended in the last 2 s
    "Prefill batch",
    "Decode batch",
)
"""Lines about the machine rather than about the engine's course, and lines judged elsewhere."""


def words(text: str) -> str:
    """A text with what differs from run to run taken out."""
    text = re.sub(r"server_args=\{.*", "server_args={…}", text)
    text = re.sub(r"'?/[\w./-]+/tiny-qwen3'?", "MODEL", text)
    text = re.sub(r"remaining_rids=\[.*?\]", "remaining_rids=[…]", text)
    text = re.sub(r"-?\d+(\.\d+)?", "#", text)
    return re.sub(r"avail(able_cpu)?_? ?mem=# GB", r"avail mem=# GB", text)


def course(log: str) -> list[str]:
    """The log's stamped lines in order, without noise and numbers.

    Library noise that ends without a line break has the next stamped line glued to it.
    """
    found: list[str] = []
    for line in re.sub(r"(?<=[^\n])(\[\d{4}-\d\d-\d\d \d\d:)", r"\n\1", log).splitlines():
        match = STAMP.match(line)
        if match and not match[2].startswith(_NOISE):
            found.append(words(match[2]))
    return found


def batch_keys(log: str, kind: str) -> list[str]:
    """The keys of the last `Prefill batch` or `Decode batch` line, in order."""
    lines = [m[2] for m in map(STAMP.match, log.splitlines()) if m and m[2].startswith(kind)]
    if not lines:
        return []
    return [part.split(":")[0].strip() for part in lines[-1].split(",")[1:]]


def shape(value: Any, path: str = "") -> list[str]:
    """Key paths of a JSON value with their kinds; a list shows its first member's."""
    if isinstance(value, dict):
        return sorted(row for key, part in value.items() for row in shape(part, f"{path}.{key}"))
    if isinstance(value, list):
        return shape(value[0], f"{path}[]") if value else [f"{path}[]"]
    if isinstance(value, bool) or value is None:
        return [f"{path}: {value if value is None else 'bool'}"]
    return [f"{path}: {'text' if isinstance(value, str) else 'number'}"]


def keys(value: Any, path: str = "") -> list[str]:
    """Key paths alone."""
    return sorted({row.split(": ")[0] for row in shape(value, path)})


def frames_shape(frames: list[dict[str, Any]]) -> list[list[str]]:
    """The frames' shapes, runs of equal ones folded to one."""
    folded: list[list[str]] = []
    for frame in frames:
        now = shape(frame)
        if not folded or folded[-1] != now:
            folded.append(now)
    return folded


_SAMPLE = re.compile(r"^([\w:]+)(?:\{(.*)\})? (\S+)$")


def families(page: str) -> dict[str, list[str]]:
    """Each family of a metrics page: its type, help and the label names of its samples."""
    found: dict[str, list[str]] = {}
    labels: dict[str, set[str]] = {}
    current = ""
    for line in page.splitlines():
        if line.startswith("# HELP "):
            current, text = line[7:].split(" ", 1)
            found[current] = [f"help {text}"]
            labels[current] = set()
        elif line.startswith("# TYPE "):
            found[current].append("type " + line.split()[3])
        elif match := _SAMPLE.match(line):
            names = re.findall(r'(\w+)="', match[2] or "")
            suffix = match[1].removeprefix(current)
            labels[current].add(f"{suffix}({','.join(names)})")
    return {name: [*rows, *sorted(labels[name])] for name, rows in sorted(found.items())}


def samples(page: str, name: str, **labels: str) -> float | None:
    """One sample's value, or None where it is absent."""
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match and match[1] == f"sglang:{name}":
            have = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            if all(have.get(key) == value for key, value in labels.items()):
                return float(match[3])
    return None

"""Compares a simulated run with the recorded real one, and lists and counts what differs."""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]

BY_DESIGN = (
    (
        "Scheduling, sampling and the token pool live in the HTTP process; the scheduler processes "
        "hold memory, burn or sleep, answer a message before each batch, and die. A stopped "
        "or killed scheduler 0 stops the engine as in the real one."
    ),
    "A scheduler that polls burns 15 % of a core (SIM_SPIN), the real one all of it.",
    "A token is four bytes of text; `tok:N:name` in a prompt stands for N tokens.",
    "A start takes SIM_LOAD_SECONDS; every duration is divided by SIM_SPEED.",
    (
        "On cards, speeds are fitted to measured figures; with `--device cpu` they are the tiny "
        "model's."
    ),
    "All chunks of one prefill batch are summed in time; no forward of a mixed batch is modelled.",
    "`/server_info` shows flag defaults as given, not the values that SGLang resolves later.",
    "No `resource_tracker` process, no files in /dev/shm, no ZMQ sockets in /tmp.",
    (
        "Ollama paths, `/v1/rerank`, `/v1/score`, audio, LoRA, weights and PD disaggregation are "
        "not served (404); a completion takes one prompt, not a list of several."
    ),
    "`/v1/loads` ignores `include`.",
    (
        "Answers are words of a fixed list, or a script that the prompt names (`say:all`); tools "
        "are called by scripts only, grammars are accepted and ignored where a backend is there."
    ),
    (
        "A thinking budget is kept (with --enable-strict-thinking) but was never compared: the CPU "
        "build ends at the first masked token. Neither were `regex` and `response_format`."
    ),
    "A schema refusal names one fault, the real one all of them, and no CORS header is sent.",
    "A body without any Content-Type is taken; the real one was not asked.",
)
"""Differences that a comparison of runs does not see."""

PATIENCE = 7.0
"""Seconds by which two durations may differ before it is a difference: the watchdog of a drain
looks every 5 s, and machines are not equal."""


def differences(real: Facts, simulated: Facts) -> dict[str, list[str]]:
    """By topic, each difference in one line."""
    out: dict[str, list[str]] = {
        "Start": _courses(real["start"]["course"], simulated["start"]["course"]),
        "Answers": _answers(real["answers"], simulated["answers"]),
        "Refusals": _refusals(real["refusals"], simulated["refusals"]),
        "Work": _work(real["work"], simulated["work"]),
        "Metrics": _families(real["work"]["families"], simulated["work"]["families"]),
        "Drain": _courses(real["drain"]["course"], simulated["drain"]["course"]),
        "Killed scheduler": _courses(real["kill"]["course"], simulated["kill"]["course"]),
        "Taken port": _taken(real["taken"], simulated["taken"]),
        "Ended while loading": _values(real["loading"], simulated["loading"]),
        "Command lines": _values(real["flags"], simulated["flags"]),
        "Durations": _durations(real, simulated),
        "By design": list(BY_DESIGN),
    }
    return {topic: rows for topic, rows in out.items() if rows}


def _sets(what: str, real: list[str], simulated: list[str]) -> list[str]:
    missing = sorted(set(real) - set(simulated))
    extra = sorted(set(simulated) - set(real))
    return [f"{what}: only real: `{row}`" for row in missing] + [
        f"{what}: only simulated: `{row}`" for row in extra
    ]


def _courses(real: list[str], simulated: list[str]) -> list[str]:
    rows = _sets("line", real, simulated)
    common = set(real) & set(simulated)
    orders = [list(dict.fromkeys(r for r in run if r in common)) for run in (real, simulated)]
    if orders[0] != orders[1]:
        at = next(n for n, pair in enumerate(zip(*orders, strict=True)) if pair[0] != pair[1])
        rows.append(f"order: `{orders[0][at]}` comes earlier in the real log")
    return rows


def _values(real: Facts, simulated: Facts) -> list[str]:
    return [
        f"{key}: real `{real.get(key)}`, simulated `{simulated.get(key)}`"
        for key in sorted(real.keys() | simulated.keys())
        if real.get(key) != simulated.get(key)
    ]


def _answers(real: Facts, simulated: Facts) -> list[str]:
    rows = _values(real["status"], simulated["status"])
    rows += _values(real["type"], simulated["type"])
    for path in sorted(real["keys"].keys() | simulated["keys"].keys()):
        rows += _sets(path, real["keys"].get(path, []), simulated["keys"].get(path, []))
    for what in ("server_info", "tokenize", "generate", "completion"):
        rows += _sets(what, real[what], simulated[what])
    rows += _values({"flush": real["flush"]}, {"flush": simulated["flush"]})
    return rows


def _taken(real: Facts, simulated: Facts) -> list[str]:
    rows: list[str] = []
    for case in ("by something", "by an engine"):
        here, there = dict(real[case]), dict(simulated[case])
        rows += _courses(here.pop("course"), there.pop("course"))
        rows += _values(here, there)
    return rows


def _refusals(real: Facts, simulated: Facts) -> list[str]:
    return _values(real, simulated)


def _work(real: Facts, simulated: Facts) -> list[str]:
    rows: list[str] = []
    plain = ("stream_head", "active", "cached", "running", "left", "last_frame", "aborted")
    rows += _values({k: real[k] for k in plain}, {k: simulated[k] for k in plain})
    rows += _sets("chat", real["chat"], simulated["chat"])
    for number, name in ((0, "first frame"), (1, "text frame"), (-2, "finish"), (-1, "usage")):
        rows += _sets(name, real["stream"][number], simulated["stream"][number])
    for what in ("prefill_line", "decode_line"):
        rows += _values({what: real[what]}, {what: simulated[what]})
    return rows


def _families(real: dict[str, list[str]], simulated: dict[str, list[str]]) -> list[str]:
    rows = _sets("family", list(real), list(simulated))
    for name in sorted(real.keys() & simulated.keys()):
        rows += _sets(name, real[name], simulated[name])
    return rows


def _durations(real: Facts, simulated: Facts) -> list[str]:
    pairs = {
        "from the stream's end to the engine's in a drain": ("drain", "seconds"),
        "from kill -9 to the crash line": ("kill", "noticed"),
        "from kill -9 to the engine's end": ("kill", "gone"),
    }
    rows = []
    for say, (topic, key) in pairs.items():
        here, there = (
            run[topic]["seconds"] if topic == "drain" else run[topic]["seconds"][key]
            for run in (real, simulated)
        )
        if abs(here - there) > PATIENCE:
            rows.append(f"{say}: real {here:.0f} s, simulated {there:.0f} s")
    return rows


def report(real: Facts, simulated: Facts, version: str) -> str:
    """The list as a page, with its count first."""
    found = differences(real, simulated)
    total = sum(len(rows) for rows in found.values())
    out = [
        "# Simulated against real",
        "",
        (
            f"{total} differences between the simulated engine and one recorded run of SGLang "
            f"{version} on the CPU (`real.json`). Made by `python tests/engine/record.py`; a test"
        ),
        "makes it again from a fresh simulated run and compares.",
    ]
    for topic, rows in found.items():
        out += ["", f"## {topic} ({len(rows)})", "", *(f"- {row}" for row in rows)]
    return "\n".join(out) + "\n"

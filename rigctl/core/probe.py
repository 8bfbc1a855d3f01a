"""What a running engine says of itself, held against the config: `doctor --probe`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rigctl.core.doctor_finding import FAILURE, OK, SKIPPED, WARNING, Finding

TIGHT_GB = 1.0
"""Left on a card beside weights and pools, for graphs and a prefill's activations."""
BARELY = 1.2
"""Accepted tokens per verify below which drafting costs more than it brings."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine's own words, as few of them as the checks need; never a key."""

    group: str
    error: str = ""
    """Why it could not be asked; the rest is empty then."""
    version: str = ""
    wants_draft: bool = False
    """The config names a draft model."""
    algorithm: str = ""
    """`speculative_algorithm` as resolved; empty for none."""
    accept_length: float | None = None
    """Mean since its start; None before the first verify."""
    wants_budget: int | None = None
    """Thinking tokens the config allows."""
    strict_thinking: bool = False
    reasoning_parser: str = ""
    grammar_backend: str = ""
    budget_variable: str | None = None
    """SGLANG_MAX_THINK_TOKENS in the process's environment; None where it cannot be read."""
    state_slots: float | None = None
    """Size of the recurrent-state pool by its metric series; None where they are absent."""
    weights_gb: float | None = None
    """Memory of a card that holds weights, as the engine counts it; None where it does not tell."""
    tokens_gb: float | None = None
    """Memory of a card that holds the token pools."""
    start_gb: float | None = None
    """Memory that was free on a card before it loaded."""
    memory_saver: bool = False
    wants_sleep: bool = False
    sleeps: bool = False


def probe(engine: EngineFacts) -> tuple[Finding, ...]:
    """The findings of one engine."""
    if engine.error:
        return (
            Finding(
                "probe-answer",
                WARNING,
                f"{engine.group} could not be asked: {engine.error}",
                f"rigctl status; rigctl logs {engine.group}",
            ),
        )
    answer = Finding("probe-answer", OK, f"{engine.group} answers: SGLang {engine.version}")
    return (
        answer,
        _drafting(engine),
        _states(engine),
        _memory(engine),
        *_budget(engine),
        *_others(engine),
    )


def _drafting(engine: EngineFacts) -> Finding:
    name = engine.group
    if engine.wants_draft and not engine.algorithm:
        return Finding(
            "probe-drafting",
            FAILURE,
            f"{name} runs without the draft model that rig.toml names",
            f"rigctl group show {name}",
        )
    if not engine.algorithm:
        return Finding("probe-drafting", SKIPPED, f"{name} drafts nothing")
    if engine.accept_length is None:
        return Finding(
            "probe-drafting",
            SKIPPED,
            f"{name} drafts with {engine.algorithm}, and has verified nothing so far",
        )
    say = f"{name} keeps {engine.accept_length:.1f} tokens a verify ({engine.algorithm})"
    if engine.accept_length < BARELY:
        return Finding(
            "probe-drafting",
            WARNING,
            f"{say}: the draft is nearly never right",
            "check that draft and target belong together, also in quantisation",
        )
    return Finding("probe-drafting", OK, say)


def _states(engine: EngineFacts) -> Finding:
    if engine.state_slots is None:
        return Finding(
            "probe-states",
            SKIPPED,
            f"{engine.group} shows no recurrent-state pool (no mamba series)",
        )
    return Finding(
        "probe-states", OK, f"{engine.group} has {engine.state_slots:.0f} recurrent-state slots"
    )


def _memory(engine: EngineFacts) -> Finding:
    weights, tokens, start = engine.weights_gb, engine.tokens_gb, engine.start_gb
    if not weights or tokens is None or start is None or weights < 0.05:
        return Finding("probe-memory", SKIPPED, f"{engine.group} tells of no memory on a card")
    left = start - weights - tokens
    say = (
        f"{engine.group} holds {weights:.1f} GB of weights and {tokens:.1f} GB of token pools on a "
        f"card that had {start:.1f} GB free"
    )
    if left < TIGHT_GB:
        return Finding(
            "probe-memory",
            WARNING,
            f"{say}: {max(0.0, left):.1f} GB are left for a long prefill",
            f"set a smaller max_total_tokens in rig.toml, then rigctl restart {engine.group}",
        )
    return Finding("probe-memory", OK, say)


def _budget(engine: EngineFacts) -> Iterable[Finding]:
    name, wanted = engine.group, engine.wants_budget
    if wanted is None:
        yield Finding("probe-think-budget", SKIPPED, f"{name} has no think budget in rig.toml")
        return
    lacking = [
        what
        for what, there in (
            ("--enable-strict-thinking", engine.strict_thinking),
            ("a reasoning parser", bool(engine.reasoning_parser)),
            ("the xgrammar backend", engine.grammar_backend == "xgrammar"),
            (
                f"SGLANG_MAX_THINK_TOKENS={wanted}",
                engine.budget_variable in (None, str(wanted)),
            ),
        )
        if not there
    ]
    if lacking:
        yield Finding(
            "probe-think-budget",
            FAILURE,
            f"{name} runs without {', '.join(lacking)}: thinking is not bounded there",
            f"rigctl restart {name}",
        )
    elif engine.budget_variable is None:
        yield Finding(
            "probe-think-budget",
            SKIPPED,
            f"{name} filters thinking, but its environment cannot be read to see the limit",
        )
    else:
        yield Finding("probe-think-budget", OK, f"{name} stops thinking after {wanted} tokens")


def _others(engine: EngineFacts) -> Iterable[Finding]:
    if engine.wants_sleep != engine.sleeps:
        now, wish = ("on", "off") if engine.sleeps else ("off", "on")
        yield Finding(
            "probe-sleep",
            WARNING,
            f"{engine.group} runs with sleep-on-idle {now}, the wish is {wish}",
            f"rigctl restart {engine.group}",
        )
    if engine.memory_saver:
        yield Finding(
            "probe-memory-saver",
            WARNING,
            f"{engine.group} runs with --enable-memory-saver, which rigctl does not use: a free "
            "stops the engine, since released memory has come back incomplete",
            f"take it out of flags in rig.toml, then rigctl restart {engine.group}",
        )

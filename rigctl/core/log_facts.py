"""What one line of an engine's log tells, once read. Made by `parse.sglang_log`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rigctl.core.reading import Missing, Reading, Why

UNTOLD = Missing(Why.UNSUPPORTED, "the line does not tell it")


class Step(Enum):
    """Milestones of a start, in the order a server passes them."""

    ARGUMENTS = 1
    """The `server_args=` line: the process lives and has read its flags."""
    NCCL_BEGUN = 2
    NCCL_ENDED = 3
    WEIGHTS_BEGUN = 4
    WEIGHTS_ENDED = 5
    POOL_MADE = 6
    GRAPHS_BEGUN = 7
    GRAPHS_ENDED = 8
    SCHEDULER_UP = 9
    """The capacity line: the scheduler is complete."""
    LISTENING = 10
    """The port answers; the warm-up request is still to come."""
    FIRED_UP = 11


class Trouble(Enum):
    """Kinds of fault line; the value is the word that is journalled."""

    GPU_MEMORY = "gpu-memory"
    POOL_FULL = "pool-full"
    SCHEDULER_DIED = "scheduler-died"
    CHILD_KILLED = "child-killed"
    WATCHDOG = "watchdog"
    NCCL = "nccl"
    CARD = "card"
    PORT = "port-taken"
    FLAG = "bad-flag"
    CONTEXT = "context-too-long"
    MODEL = "bad-model"
    WARM_UP = "warm-up"
    HEALTH = "health"
    DRIVER = "driver"
    CAPACITY = "capacity"
    """The pool cannot hold one full-length request."""


@dataclass(frozen=True, slots=True)
class Milestone:
    step: Step
    rank: int | None = None
    """The tensor-parallel rank that said so; None where lines carry none."""
    seconds: Reading = UNTOLD
    """How long the engine itself says the step took."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """One prefill chunk has ended."""

    new_requests: Reading = UNTOLD
    new_tokens: Reading = UNTOLD
    cached_tokens: Reading = UNTOLD
    running: Reading = UNTOLD
    queued: Reading = UNTOLD
    pending_tokens: Reading = UNTOLD
    """The queue and the rest of the prompt in work, after this chunk."""
    kv_usage: Reading = UNTOLD
    mamba_usage: Reading = UNTOLD
    tokens_per_second: Reading = UNTOLD
    """Since the line before, idle time included: the first value after a pause means nothing."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Some tens of decode iterations have ended."""

    running: Reading = UNTOLD
    queued: Reading = UNTOLD
    tokens: Reading = UNTOLD
    """Tokens held by the running requests."""
    kv_usage: Reading = UNTOLD
    mamba_usage: Reading = UNTOLD
    mamba_slots: Reading = UNTOLD
    accept_length: Reading = UNTOLD
    tokens_per_second: Reading = UNTOLD


@dataclass(frozen=True, slots=True)
class Capacity:
    """The line with the engine's final sizes."""

    pool_tokens: Reading = UNTOLD
    chunk_tokens: Reading = UNTOLD
    """-1 in the log means no chunking and is left out."""
    slots: Reading = UNTOLD
    context_length: Reading = UNTOLD


@dataclass(frozen=True, slots=True)
class MambaPool:
    """The recurrent-state pool was allocated."""

    slots: Reading = UNTOLD


@dataclass(frozen=True, slots=True)
class SlotsCapped:
    """Fewer requests run at once than configured, because the mamba pool is small."""

    slots: Reading
    mamba_slots: Reading = UNTOLD
    slots_per_request: Reading = UNTOLD


@dataclass(frozen=True, slots=True)
class ZombieOutput:
    """An answer whose client has gone is still being decoded."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The engine has been told to leave and finishes its answers."""

    left: Reading = UNTOLD


@dataclass(frozen=True, slots=True)
class Retracted:
    """Running requests were thrown back for lack of pool."""

    requests: Reading = UNTOLD


@dataclass(frozen=True, slots=True)
class Fault:
    trouble: Trouble
    say: str
    """The engine's own words, redacted."""
    fatal: bool = False
    """The server will not recover from it, whether or not it exits by itself."""


LogFact = (
    Milestone
    | Prefilled
    | Decoded
    | Capacity
    | MambaPool
    | SlotsCapped
    | ZombieOutput
    | Drain
    | Retracted
    | Fault
)

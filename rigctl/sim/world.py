"""The physics of a rig made of numbers: how long work takes, and what cards draw meanwhile.

Every figure here is measured on the owner's rig or fitted to what was measured there; nothing
outside `sim/` knows one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """What one engine needs for its work, in seconds."""

    prefill_token: float
    """For a prompt token at the very start of a context."""
    prefill_context: float
    """More for each token of context before it: attention reads all of them."""
    prefill_fixed: float
    """For each batch, whatever is in it."""
    decode_fixed: float
    """For one decode iteration of one answer with an empty context."""
    decode_context: float
    """More for each token of context that the running answers have together."""
    decode_answer: float
    """More for each answer beyond the first."""
    accept: float
    """Tokens an answer gains in one iteration: 1 without speculation."""

    def prefill_seconds(self, start: int, count: int) -> float:
        """For `count` prompt tokens after `start` tokens of context."""
        context = start * count + count * count / 2
        return self.prefill_fixed + self.prefill_token * count + self.prefill_context * context

    def decode_seconds(self, answers: int, context: int) -> float:
        """For one iteration of `answers` running answers with `context` tokens in all."""
        more = self.decode_answer * (answers - 1)
        return self.decode_fixed + self.decode_context * context + more


FOUR_3090 = EngineSpeed(
    # Fitted to a cold prefill of 80,000 tokens in 67 s and one of 122,000 in 136 s; a chunk of
    # 4,096 then takes 1.4 s at the start and 7.8 s near 120,000, as seen.
    prefill_token=3.094e-4,
    prefill_context=1.3203e-8,
    prefill_fixed=0.0,
    # 124 to 133 tok/s for one answer at 120,000 tokens of context.
    decode_fixed=0.0236,
    decode_context=5.58e-8,
    decode_answer=0.0012,
    accept=3.9,
)
"""Four RTX 3090 with Qwen3.8-27B in FP8 and a DFlash2 draft of 8 tokens."""

TINY_ON_CPU = EngineSpeed(
    prefill_token=2.0e-5,
    prefill_context=2.0e-9,
    prefill_fixed=0.02,
    decode_fixed=0.0065,
    decode_context=0.0,
    decode_answer=0.001,
    accept=1.0,
)
"""The 1.3 M parameter model on two CPU cores that the project's tests run."""


class Duty(Enum):
    """What a card is made to do; the value is what one card draws on average, in watts."""

    OFF = 22.0
    """No process on it."""
    SLEEPING = 255.6 / 8
    """A server waits in a blocking call: the context alone keeps no clocks up."""
    POLLING = 1030.6 / 8
    """A server's scheduler spins for work and keeps the card at boost clocks."""
    LOADING = 118.0
    DECODING = 281.0
    PREFILLING = 331.0


_SPREAD = (-0.021, 0.013, -0.008, 0.016, 0.019, -0.014, 0.006, -0.011)
"""Cards differ; the shares add up to nothing, so that eight cards draw what was measured."""

_PSTATE = {Duty.OFF: 8, Duty.SLEEPING: 8, Duty.POLLING: 2, Duty.LOADING: 2}
_UTILISATION = {Duty.DECODING: 88, Duty.PREFILLING: 99, Duty.LOADING: 12}
_AMBIENT = 27.0
_DEGREES_PER_WATT = 0.145
_SETTLING = 45.0
"""Seconds in which a card's temperature gets most of the way to where its watts lead it."""


@dataclass(frozen=True, slots=True)
class CardPhysics:
    """What a card shows for one duty."""

    watts: float
    pstate: int
    utilisation: int
    clock_mhz: int
    memory_clock_mhz: int
    capped: bool
    """Whether the power limit holds it down."""


def card_at(duty: Duty, index: int, limit: float, phase: float) -> CardPhysics:
    """A card's readings; `phase` (any running number) makes work look alive, idle stays still."""
    wanted = duty.value * (1 + _SPREAD[index % len(_SPREAD)])
    busy = duty in (Duty.DECODING, Duty.PREFILLING, Duty.LOADING)
    if busy:
        wanted += 9.0 * math.sin(phase * 1.7 + index * 2.1)
    watts = min(wanted, limit)
    pstate = _PSTATE.get(duty, 2)
    awake = pstate < 8
    boost = 1695 if busy else 1755
    clock = int(boost * min(1.0, math.sqrt(limit / max(wanted, 1.0)))) if awake else 210
    utilisation = _UTILISATION.get(duty, 0)
    if duty is Duty.DECODING:
        utilisation += int(6 * math.sin(phase * 2.3 + index))
    return CardPhysics(watts, pstate, utilisation, clock, 9501 if awake else 405, wanted > limit)


def celsius_after(celsius: float, watts: float, seconds: float) -> float:
    """A card's temperature `seconds` later, drawing `watts` all the while."""
    target = _AMBIENT + _DEGREES_PER_WATT * watts
    return target + (celsius - target) * math.exp(-seconds / _SETTLING)


def fan_at(celsius: float) -> int:
    """Percent of full speed: the fans of these cards stand still below 50 degrees."""
    return 0 if celsius < 50 else min(100, int(30 + (celsius - 50) * 2.2))


WEIGHTS_BYTES = int(7.62 * 2**30)
"""Of the FP8 weights, on each of four cards."""
CONTEXT_BYTES = int(0.41 * 2**30)
READY_BYTES = int(22.1 * 2**30)
"""On each card once pools and graphs are there."""
RELEASE_SECONDS = 1.6
"""From a process's end until the driver has given its memory back."""
LOAD_SECONDS = 80.0
"""From launch to ready, warm page cache."""
MAMBA_SLOTS = 30
"""Recurrent-state slots; 5 a request with speculation: six requests."""
NATIVE_CONTEXT = 262144

"""How long a prompt is, and whether it fits: proven by bytes, learnt, or counted by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from statistics import median

from rigctl.core.ask import Size
from rigctl.core.clusters import Cluster, Estimate, RoutePolicy

TEMPLATE_TOKENS = 1_024
"""Most that a chat template adds around a whole conversation: the preamble for tools, above all."""
MESSAGE_TOKENS = 32
"""Most that it adds around one message: role, ends, an empty thought, wrappers of a tool result."""
LIKELY_MESSAGE_TOKENS = 5
"""What it usually adds: `<|im_start|>user\\n` … `<|im_end|>\\n`."""
LONGEST_TOKEN = 8.0
"""Bytes a token of real text has on average at the very most: below `bytes / 8` no prompt is."""
LEAST_ROOM = 8
"""Tokens of answer an engine wants room for, whatever was asked: it refuses a prompt that comes
within six of its pool."""

REMEMBERED = 9
"""Requests whose bytes per token are kept; their median counts, so that four of them may lie."""
LEAST_TOKENS = 256
"""Shorter prompts teach nothing: the template outweighs the text."""
_PLAUSIBLE = (0.5, 16.0)
"""Bytes a token; outside of it the engine counted something else than we did."""


class Fit(Enum):
    """Whether a request fits a cluster."""

    YES = "yes"
    """Proven."""
    LIKELY = "likely"
    """By a wide enough margin, or nothing is known of the cluster's limits."""
    NEAR = "near"
    """Too near the limit to tell without counting."""
    NO = "no"


def estimate(
    size: Size, learnt: float | None, policy: RoutePolicy, counted: int | None = None
) -> Estimate:
    """The prompt's tokens. `learnt`: bytes per token of this session, else of this rig.

    `counted` is the engine's own count of text and template; pictures stay flat in it, because
    `/tokenize` renders a placeholder for each.
    """
    pictures = size.pictures * policy.picture_tokens
    if counted is not None:
        exact = counted + pictures
        return Estimate(low=exact, high=exact, likely=exact, how="counted")
    exact = size.token_ids + pictures
    if size.text_bytes == 0 and size.messages == 0:
        return Estimate(low=exact, high=exact, likely=exact, how="ids")
    high = exact + size.text_bytes + TEMPLATE_TOKENS + size.messages * MESSAGE_TOKENS
    low = exact + int(size.text_bytes / LONGEST_TOKEN)
    if learnt is None or learnt <= 0:
        text = size.text_bytes / policy.bytes_per_token + size.messages * LIKELY_MESSAGE_TOKENS
        how = "bytes"
    else:
        text = size.text_bytes / learnt  # what was learnt has the template in it
        how = "learnt"
    return Estimate(low=low, high=high, likely=min(high, max(low, exact + round(text))), how=how)


def exact(guess: Estimate) -> bool:
    """Whether counting could tell nothing more."""
    return guess.low == guess.high


def answer_room(output: int | None, policy: RoutePolicy) -> int:
    """Tokens of answer that must fit behind the prompt (C27)."""
    return policy.default_output if output is None else max(0, output)


def held(guess: Estimate, output: int | None, policy: RoutePolicy) -> int:
    """Tokens of pool to count for a request while it runs: few answers use all they may."""
    return guess.likely + min(answer_room(output, policy), policy.default_output)


def fits(guess: Estimate, output: int, cluster: Cluster, near: float = 0.15) -> Fit:
    """Prompt and `output` tokens of answer together against the cluster's window and pool.

    `near` is the share of the limit within which an estimate that proves nothing decides nothing.
    """
    limit = cluster.limit
    if limit <= 0:
        return Fit.LIKELY
    room = max(output, LEAST_ROOM)
    if guess.high + room <= limit:
        return Fit.YES
    if guess.low + room > limit:
        return Fit.NO
    likely = guess.likely + room
    if likely <= limit * (1.0 - near):
        return Fit.LIKELY
    return Fit.NO if likely > limit * (1.0 + near) else Fit.NEAR


@dataclass(frozen=True, slots=True)
class Learnt:
    """Bytes per token as this rig or this session has shown it: a running median."""

    ratios: tuple[float, ...] = ()

    @property
    def value(self) -> float | None:
        """Bytes per token; None before anything was learnt."""
        return median(self.ratios) if self.ratios else None


def learn(learnt: Learnt, size: Size, prompt_tokens: int) -> Learnt:
    """One answered request more. Pictures and token ids teach nothing of text, nor do prompts so
    short that the template outweighs them, nor counts that cannot be of this text."""
    if size.pictures or size.token_ids or prompt_tokens < LEAST_TOKENS:
        return learnt
    ratio = size.text_bytes / prompt_tokens
    least, most = _PLAUSIBLE
    if not least <= ratio <= most:
        return learnt
    return Learnt((*learnt.ratios, ratio)[-REMEMBERED:])

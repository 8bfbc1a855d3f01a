"""One line of SGLang's log in, one typed fact out; a line that says nothing new is None.

Lines are read as `key: value` pairs by name, in any order: keys come and go with every version,
lines of several processes interleave, and progress bars share the stream. What is torn is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rigctl.core.failure_patterns import PATTERNS
from rigctl.core.log_facts import (
    UNTOLD,
    Capacity,
    Decoded,
    Drain,
    Fault,
    LogFact,
    MambaPool,
    Milestone,
    Prefilled,
    Retracted,
    SlotsCapped,
    Step,
    Trouble,
    ZombieOutput,
)
from rigctl.core.reading import Reading
from rigctl.core.redact import redact
from rigctl.parse.metrics import MOST

__all__ = ["LogFact", "parse", "parse_lines", "redact"]

_PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?P<ranks>(?: [A-Z_]+\d+)*)\] ")
_RANK = re.compile(r"([A-Z]+)(\d+)")
_BATCH = re.compile(r"(Prefill|Decode) batch(?: \[\d+\])?[.,:]? *")
_PAIR = re.compile(r"([^,:]{1,80}): ([^,]*)")
"""A key is short: without that end a torn line of 64 KiB would cost its length squared."""
_ELAPSED = re.compile(r"(?:elapsed=|Time elapsed: )([\d.]+) ?s")
_CAPACITY = re.compile(r"(\w+)=(-?\d+)")
_CAPPED = re.compile(
    r"max_running_requests is capped to (\d+) by the mamba"
    r"(?:.*?max_mamba_cache_size=(\d+))?(?:.*?(\d+) state slots per request)?"
)
_MAMBA = re.compile(r"max_mamba_cache_size[:=] ?(\d+)")
_LEFT = re.compile(r"Remaining number of requests (\d+)")
_RETRACTED = re.compile(r"#retracted_reqs: (\d+)")
_ACCESS = re.compile(r"INFO: +\d")
"""Uvicorn's access lines: by far the most frequent, and they tell nothing."""
_REQUESTS = ("Receive: obj=", "Finish: obj=", "Receive openai", "Receive: ")
"""`--log-requests` prints prompts, in which anything can stand, log lines too."""

_STEPS: tuple[tuple[re.Pattern[str], Step], ...] = (
    (re.compile(r"server_args="), Step.ARGUMENTS),
    (re.compile(r"Init (?:torch distributed|parallel) begin"), Step.NCCL_BEGUN),
    (re.compile(r"Init (?:torch distributed|parallel) ends?\b"), Step.NCCL_ENDED),
    (re.compile(r"Load weight begin"), Step.WEIGHTS_BEGUN),
    (re.compile(r"Load weight end"), Step.WEIGHTS_ENDED),
    (re.compile(r"KV Cache is allocated|Memory pool end"), Step.POOL_MADE),
    (re.compile(r"Capture .*graph begin", re.IGNORECASE), Step.GRAPHS_BEGUN),
    (re.compile(r"Capture .*graph end", re.IGNORECASE), Step.GRAPHS_ENDED),
    (re.compile(r"INFO: +Uvicorn running on"), Step.LISTENING),
    (re.compile(r"The server is fired up and ready to roll"), Step.FIRED_UP),
)
_FAULTS: tuple[tuple[re.Pattern[str], Trouble, bool], ...] = (
    *((each.match, each.trouble, each.fatal) for each in PATTERNS if each.trouble is not None),
    (
        re.compile(
            r"Scheduler hit an exception|DetokenizerManager hit an exception"
            r"|scheduler died during initialization|Subprocess \w+ \(pid=\d+\) crashed"
            r"|SIGQUIT received\.|Received sigquit from a child"
        ),
        Trouble.SCHEDULER_DIED,
        True,
    ),
    (re.compile(r"Health check failed\. Server couldn't"), Trouble.HEALTH, False),
    (re.compile(r"KV pool holds \d+ tokens, fewer than"), Trouble.CAPACITY, False),
)
_FAULT_WORDS = (
    "rror",
    "emory",
    "atchdog",
    "xception",
    "crashed",
    "NCCL",
    "nccl",
    "CUDA",
    "CUBLAS",
    "bad_alloc",
    "oom-kill",
    "Xid",
    "GPU is lost",
    "off the bus",
    "uncorrectable",
    "illegal",
    "assert",
    "misaligned",
    "unspecified",
    "died",
    "igquit",
    "SIGQUIT",
    "Health check",
    "KV pool",
    "ddress already",
    "EADDRINUSE",
    "failed to listen",
    "mismatch",
    "forward compat",
    "invalid literal",
    "Repo id",
    "model",
    "derived context",
    "Errno",
)
"""Every fault line holds one of these: looking for them first spares most lines the patterns."""


def parse(line: str) -> LogFact | None:
    """The first fact of a line, or None."""
    return next(_facts(line), None)


def parse_lines(lines: Iterable[str]) -> tuple[LogFact, ...]:
    """Every fact of these lines; a line that two processes wrote into may hold two."""
    return tuple(fact for line in lines for fact in _facts(line))


def _facts(line: str) -> Iterator[LogFact]:
    starts = list(_PREFIX.finditer(line))
    if not starts:
        # Indented lines are source code in a traceback: they quote exceptions, they are none.
        fault = None if line[:2] == "  " else _fault(line)
        if fault is not None:
            yield fault
        return
    for each, following in zip(starts, [*starts[1:], None], strict=True):
        message = line[each.end() : following.start() if following else None].rstrip()
        if message.startswith(_REQUESTS):
            return
        fact = _message(message, each["ranks"], torn=following is not None)
        if fact is not None:
            yield fact


def _message(message: str, ranks: str, torn: bool) -> LogFact | None:
    if _ACCESS.match(message):
        return None
    batch = _BATCH.match(message)
    if batch is not None:
        # Rank 0 speaks for all: the same batch of another rank would count twice.
        if any(number != "0" for _, number in _RANK.findall(ranks)):
            return None
        return _batch(batch[1], message[batch.end() :], torn)
    for pattern, step in _STEPS:
        if pattern.match(message):
            elapsed = _ELAPSED.search(message)
            return Milestone(step, _tp_rank(ranks), _number(elapsed[1]) if elapsed else UNTOLD)
    return _size(message) or _event(message) or _fault(message)


def _batch(kind: str, text: str, torn: bool) -> LogFact | None:
    pairs = _PAIR.findall(text)
    if torn and pairs:
        # Another process wrote into this line: its last number may lack digits.
        pairs = pairs[:-1]
    values = {key.strip(): number for key, value in pairs if (number := _number(value)) != UNTOLD}

    def take(*keys: str) -> Reading:
        return next((values[key] for key in keys if key in values), UNTOLD)

    if kind == "Prefill":
        prefilled = Prefilled(
            new_requests=take("#new-seq"),
            new_tokens=take("#new-token"),
            cached_tokens=take("#cached-token"),
            running=take("#running-req"),
            queued=take("#queue-req"),
            pending_tokens=take("#pending-token"),
            kv_usage=take("full token usage", "token usage"),
            mamba_usage=take("mamba usage"),
            tokens_per_second=take("input throughput (token/s)"),
        )
        return None if prefilled == Prefilled() else prefilled
    decoded = Decoded(
        running=take("#running-req"),
        queued=take("#queue-req"),
        tokens=take("#full token", "#token"),
        kv_usage=take("full token usage", "token usage"),
        mamba_usage=take("mamba usage"),
        mamba_slots=take("mamba num"),
        accept_length=take("accept len"),
        tokens_per_second=take("gen throughput (token/s)"),
    )
    return None if decoded == Decoded() else decoded


def _size(message: str) -> LogFact | None:
    if message.startswith("max_total_num_tokens="):
        sizes = {key: _number(value) for key, value in _CAPACITY.findall(message)}
        return Capacity(
            pool_tokens=sizes.get("max_total_num_tokens", UNTOLD),
            chunk_tokens=sizes.get("chunked_prefill_size", UNTOLD),
            slots=sizes.get("max_running_requests", UNTOLD),
            context_length=sizes.get("context_len", UNTOLD),
        )
    capped = _CAPPED.match(message)
    if capped is not None:
        return SlotsCapped(*(UNTOLD if each is None else _number(each) for each in capped.groups()))
    if message.startswith("Mamba Cache is allocated"):
        slots = _MAMBA.search(message)
        return MambaPool(_number(slots[1]) if slots else UNTOLD)
    return None


def _event(message: str) -> LogFact | None:
    if "state was deleted in TokenizerManager" in message:
        return ZombieOutput()
    if message.startswith("SIGTERM received") and "raining" in message:
        return Drain()
    if message.startswith("Gracefully exiting"):
        left = _LEFT.search(message)
        return Drain(_number(left[1]) if left else UNTOLD)
    if message.startswith("KV cache pool is full. Retract"):
        number = _RETRACTED.search(message)
        return Retracted(_number(number[1]) if number else UNTOLD)
    return None


def _fault(message: str) -> Fault | None:
    if not any(word in message for word in _FAULT_WORDS) or "Ignore import error" in message:
        return None
    for pattern, trouble, fatal in _FAULTS:
        if pattern.search(message):
            return Fault(trouble, redact(message.strip())[:400], fatal)
    return None


def _tp_rank(ranks: str) -> int | None:
    return next((int(number) for kind, number in _RANK.findall(ranks) if kind == "TP"), None)


def _number(text: str) -> Reading:
    """A finite number from 0 up, else untold: torn text, NaN and the -1 of "switched off"."""
    try:
        value = float(text)
    except ValueError:
        return UNTOLD
    return value if 0 <= value <= MOST else UNTOLD

"""The engine's own words for each kind of failure, most telling first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from rigctl.core.log_facts import Trouble


class Cause(Enum):
    """Which side the fault is on."""

    MEMORY = "GPU memory"
    CARD = "a card"
    HOST = "the host"
    CONFIG = "the configuration"
    ENGINE = "the engine"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Words that, once in the last lines of a log, name the cause of a death."""

    kind: str
    match: re.Pattern[str]
    cause: Cause
    config_error: bool
    say: str
    advice: str
    trouble: Trouble | None = None
    """How the line is reported while the engine still runs; None: only at its end."""
    fatal: bool = True
    """Whether an engine that prints it is lost."""


def _pattern(
    kind: str,
    words: str,
    cause: Cause,
    say: str,
    advice: str,
    *,
    config_error: bool = False,
    trouble: Trouble | None = None,
    fatal: bool = True,
) -> Pattern:
    return Pattern(kind, re.compile(words), cause, config_error, say, advice, trouble, fatal)


PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "port-taken",
        r"\[Errno 98\]|error while attempting to bind on address|[Aa]ddress already in use",
        Cause.HOST,
        "the port is taken",
        "ss -ltnp",
        config_error=True,
        trouble=Trouble.PORT,
    ),
    _pattern(
        "driver-mismatch",
        r"[Dd]river/library version mismatch|CUDA driver version is insufficient"
        r"|forward compatibility was attempted",
        Cause.HOST,
        "the driver was changed under the running system",
        "reboot, then rigctl doctor",
        config_error=True,
        trouble=Trouble.DRIVER,
    ),
    _pattern(
        "card-names",
        r"invalid literal for int\(\) with base 10: '(?:GPU|MIG)-",
        Cause.CONFIG,
        "this engine cannot read card UUIDs",
        'set card_names = "index" in rig.toml, then rigctl start {group}',
        config_error=True,
        trouble=Trouble.FLAG,
    ),
    _pattern(
        "bad-flag",
        r"error: unrecognized arguments|error: argument -|error: the following arguments are"
        r"|: error: ambiguous option",
        Cause.CONFIG,
        "the command line was refused",
        "rigctl group show {group}",
        config_error=True,
        trouble=Trouble.FLAG,
    ),
    _pattern(
        "context-too-long",
        r"context_length \(\d+\) is greater than the derived context_length",
        Cause.CONFIG,
        "the context is longer than the model's",
        "set yarn_factor or a smaller context_length in rig.toml, then rigctl start {group}",
        config_error=True,
        trouble=Trouble.CONTEXT,
    ),
    _pattern(
        "bad-model",
        r"HFValidationError: |Repo id must |not a valid model identifier|Unrecognized model in"
        r"|does not appear to have a file named|RepositoryNotFoundError|LocalEntryNotFoundError"
        r"|OfflineModeIsEnabled|Cannot find any model weights|Can't load the configuration of"
        r"|Model architectures? \[?.* (?:is|are) not supported",
        Cause.CONFIG,
        "the model cannot be loaded from that path",
        "rigctl config show",
        config_error=True,
        trouble=Trouble.MODEL,
    ),
    _pattern(
        "no-program",
        r"No module named '?sglang(?:\.launch_server)?'?\)?$|command not found"
        r"|can't open file '[^']*launch_server",
        Cause.CONFIG,
        "the engine program cannot be run",
        "rigctl config check",
        config_error=True,
    ),
    _pattern(
        "disk-full",
        r"No space left on device|\[Errno 28\]",
        Cause.HOST,
        "a disk is full",
        "df -h, then rigctl start {group}",
    ),
    _pattern(
        "card-missing",
        r"invalid device ordinal|No CUDA GPUs are available|no CUDA-capable device is detected"
        r"|CUDA_VISIBLE_DEVICES.*invalid",
        Cause.CARD,
        "a card the engine was given is not there",
        "rigctl doctor",
        config_error=True,
        trouble=Trouble.CARD,
    ),
    _pattern(
        "card-lost",
        r"GPU is lost|fallen off the bus|\bXid\b|uncorrectable (?:ECC|NVLink)"
        r"|CUDA error: unknown error|CUDA error: (?:the )?(?:launch timed out|hardware stack error)"
        r"|CUDA error: device (?:is lost|not ready)",
        Cause.CARD,
        "a card was lost",
        "journalctl -k --grep 'NVRM|Xid' --since -1h",
        trouble=Trouble.CARD,
    ),
    _pattern(
        "memory-share",
        r"leave no GPU memory for the KV cache|Not enough memory\. Please try to increase"
        r"|Not enough GPU memory for hybrid",
        Cause.MEMORY,
        "the weights leave no GPU memory for the KV pool",
        "rigctl group show {group}",
        config_error=True,
        trouble=Trouble.GPU_MEMORY,
    ),
    _pattern(
        "gpu-memory",
        r"CUDA out of memory|OutOfMemoryError: |CUDA error: out of memory"
        r"|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation",
        Cause.MEMORY,
        "out of GPU memory",
        "rigctl status, to see who holds memory on its cards",
        trouble=Trouble.GPU_MEMORY,
    ),
    _pattern(
        "pool-full",
        r"(?:Prefill|Decode) out of memory\. Try to lower|alloc_req_slots runs out of memory",
        Cause.MEMORY,
        "the token pool ran out",
        "set a smaller max_running_requests in rig.toml, then rigctl restart {group}",
        trouble=Trouble.POOL_FULL,
    ),
    _pattern(
        "illegal-access",
        r"illegal memory access|unspecified launch failure|misaligned address"
        r"|device-side assert|CUBLAS_STATUS_EXECUTION_FAILED|CUDA error: an illegal",
        Cause.CARD,
        "a GPU fault (card or kernel)",
        "journalctl -k --grep 'NVRM|Xid' --since -1h",
        trouble=Trouble.CARD,
    ),
    _pattern(
        "host-memory",
        r"died during initialization \(exit code: -9\)|Cannot allocate memory|std::bad_alloc"
        r"|^MemoryError|oom-kill|DefaultCPUAllocator: can't allocate memory",
        Cause.HOST,
        "killed while it loaded: most likely out of host memory",
        "free -h; journalctl -k --grep 'out of memory|oom-kill' --since -1h",
        trouble=Trouble.CHILD_KILLED,
    ),
    _pattern(
        "nccl-port",
        r"failed to listen on any local network address|EADDRINUSE",
        Cause.HOST,
        "two engines chose the same port among their ranks",
        "rigctl start {group}",
        trouble=Trouble.NCCL,
    ),
    _pattern(
        "nccl",
        r"Watchdog caught collective operation timeout|DistBackendError|NCCL error"
        r"|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError",
        Cause.CARD,
        "the cards could not talk to each other (NCCL)",
        'set env NCCL_P2P_DISABLE = "1" in rig.toml, then rigctl start {group}',
        trouble=Trouble.NCCL,
    ),
    _pattern(
        "watchdog",
        r"[Ww]atchdog timeout \(self\.watchdog_timeout=.*self\.soft=False"
        r"|[Ww]atchdog timeout \(self\.watchdog_timeout=[\d.]+\)",
        Cause.ENGINE,
        "the engine made no progress and its own watchdog ended it",
        "rigctl logs {group}",
        trouble=Trouble.WATCHDOG,
    ),
    _pattern(
        "killed",
        r"Subprocess \w+ \(pid=\d+\) crashed with exit code -9\b",
        Cause.HOST,
        "a process of it was killed from outside, by a person or the kernel out of host memory",
        "journalctl -k --grep 'out of memory|oom-kill' --since -1h",
        trouble=Trouble.CHILD_KILLED,
    ),
    _pattern(
        "warm-up",
        r"Initialization failed\. warmup error",
        Cause.ENGINE,
        "the warm-up request failed",
        "rigctl logs {group}",
        trouble=Trouble.WARM_UP,
    ),
)
"""Tried in this order over all the last lines: a root cause stands before what it drags along
(a lost card ends in NCCL errors on the other ranks, and every death in a dead scheduler)."""

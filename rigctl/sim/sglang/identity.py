"""What this server is: model, window, pools, slots and the limits that follow from its flags."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rigctl.sim.sglang.batching import BatchLimits
from rigctl.sim.sglang.flags import Args
from rigctl.sim.world import FOUR_3090, MAMBA_SLOTS, NATIVE_CONTEXT, TINY_ON_CPU, EngineSpeed

VERSION = "0.5.23"
_HYBRID = ("qwen3.5", "qwen3.8", "qwen3-next")
_STATES = {"no_buffer": 3, "extra_buffer_lazy": 4, "extra_buffer": 5}


class CannotStartError(Exception):
    """The flags contradict the model: the server ends with 1 before it loads anything."""


@dataclass(frozen=True, slots=True)
class Identity:
    args: Args
    ranks: int
    context: int
    """Tokens a request may have in all."""
    pool: int
    """Tokens the KV pool holds."""
    slots: int
    """Requests that may run at once."""
    capped_from: int
    """The configured limit where the mamba pool lowered it, else 0."""
    mamba_total: int
    mamba_each: int
    speculates: bool
    architecture: str
    speed: EngineSpeed
    on_cpu: bool
    efforts: Mapping[str, int]
    """Prompt tokens that each reasoning effort adds; empty where the template takes any."""
    header_overrides: bool = False
    """Whether `x-override-rid` is looked at."""

    @property
    def input_limit(self) -> int:
        """Tokens of the shortest prompt that the scheduler refuses for its pool."""
        return min(self.context, self.pool) - 6

    @property
    def name(self) -> str:
        return str(self.args["served_model_name"])

    @property
    def batch_limits(self) -> BatchLimits:
        return BatchLimits(
            self.slots,
            self.args["chunked_prefill_size"],
            self.args.get("prefill_max_requests") or 0,
            self.args["prefill_decode_interval"],
            self.mamba_total,
            self.mamba_each,
        )


def _native(args: Args) -> tuple[int, str]:
    """Window and class name from the model's config, else the rig's own model's."""
    folder = Path(args["model_path"])
    if not folder.is_dir():
        if args["model_path"].startswith(("/", "./", "~")):
            raise CannotStartError(
                "OSError: Repo id must use alphanumeric chars, '-', '_' or '.'. The name cannot "
                "start or end with '-' or '.' and the maximum length is 96: "
                f"'{args['model_path']}'."
            )
        return NATIVE_CONTEXT, "Qwen3_5ForConditionalGeneration"
    try:
        row = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        text = row.get("text_config", row)
        window = int(text.get("max_position_embeddings", NATIVE_CONTEXT))
        return window, str(row.get("architectures", ["Qwen3ForCausalLM"])[0])
    except (OSError, ValueError) as problem:
        raise CannotStartError(f"OSError: {folder}/config.json: {problem}") from problem


def _efforts(model: str) -> Mapping[str, int]:
    """Qwen3.8's template raises on any effort but three; a model folder's own template says so."""
    picky = "qwen3.8" in model.lower()
    template = Path(model) / "chat_template.jinja"
    if template.is_file():
        picky = "Unexpected reasoning effort" in template.read_text(encoding="utf-8")
    return {"xhigh": 42, "medium": 0, "low": 12} if picky else {}


def identify(args: Args, environ: Mapping[str, str] | None = None) -> Identity:
    """Resolve what the flags mean. CannotStartError carries SGLang's own words."""
    env = os.environ if environ is None else environ
    native, architecture = _native(args)
    context = args.get("context_length") or native
    if context > native and env.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") not in (
        "1",
        "true",
    ):
        raise CannotStartError(
            f"ValueError: Warning: User-specified context_length ({context}) is greater than the "
            f"derived context_length ({native}). This may lead to incorrect model outputs or CUDA "
            "errors. Note that the derived context_length may differ from max_position_embeddings "
            "in the model's config. To allow overriding this maximum, set the env var "
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
        )
    on_cpu = args.get("device") == "cpu"
    speculates = bool(args.get("speculative_algorithm"))
    if on_cpu and speculates:
        raise CannotStartError(
            "ValueError: DFLASH speculative decoding is not supported by CpuSRTPlatform on device "
            "'cpu'."
        )
    pool = args.get("max_total_tokens") or 800_000
    slots = args.get("max_running_requests") or (48 if speculates else max(1, pool // 2))
    hybrid = any(word in args["model_path"].lower() for word in _HYBRID)
    total = (args.get("max_mamba_cache_size") or MAMBA_SLOTS) if hybrid else 0
    strategy = args.get("mamba_radix_cache_strategy") or "auto"
    each = _STATES.get(strategy, 5 if speculates else 3) if hybrid else 0
    cap = total // each if each else slots
    return Identity(
        args,
        args.get("tp_size") or 1,
        context,
        pool,
        min(slots, cap),
        slots if slots > cap else 0,
        total,
        each,
        speculates,
        architecture,
        TINY_ON_CPU if on_cpu else FOUR_3090,
        on_cpu,
        _efforts(args["model_path"]),
        env.get("SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES", "").lower() in ("1", "true"),
    )

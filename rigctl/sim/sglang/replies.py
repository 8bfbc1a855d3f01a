"""Shapes of what SGLang answers: models, info, loads, completions, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rigctl.sim.sglang.identity import VERSION, Identity

Json = dict[str, Any]
WEIGHTS = {"weight_version": "default"}


def dump(value: object) -> bytes:
    """JSON without blanks, as SGLang's encoder writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def models(identity: Identity, started: float) -> Json:
    """`/v1/models`: the cheapest word on the window."""
    return {
        "object": "list",
        "data": [
            {
                "id": identity.name,
                "object": "model",
                "created": int(started),
                "owned_by": "sglang",
                "root": identity.name,
                "parent": None,
                "max_model_len": identity.context,
            }
        ],
    }


def model_info(identity: Identity) -> Json:
    """`/model_info`: no window in it."""
    args = identity.args
    return {
        "model_path": args["model_path"],
        "served_model_name": identity.name,
        "tokenizer_path": args["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": args.get("preferred_sampling_params"),
        "weight_version": "default",
        "load_format": "auto",
        "reasoning_parser": args.get("reasoning_parser"),
        "tool_call_parser": args.get("tool_call_parser"),
        "disaggregation_mode": "null",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": "qwen3",
        "architectures": [identity.architecture],
        "embedding": {
            "family": "none",
            "task": "none",
            "enabled": False,
            "matryoshka_dimensions": [],
            "cache": {
                "kv_cache_disabled": False,
                "radix_cache_disabled": bool(args.get("disable_radix_cache")),
                "chunked_prefill_disabled": args["chunked_prefill_size"] < 0,
            },
        },
    }


def server_info(identity: Identity, command: str, timings: Json, throughput: float) -> Json:
    """`/server_info`: every flag, the keys among them, in clear text as the real one does."""
    args = {key: value for key, value in identity.args.items() if not key.startswith("_")}
    memory = {
        "weight": 0.0 if identity.on_cpu else 7.62,
        "kvcache": 0.004 if identity.on_cpu else 9.1,
        "startup_available": 21.25,
        "token_capacity": identity.pool,
        "token_capacity_swa": None,
        "graph": timings["cuda_graph"],
    }
    state = {
        **args,
        "world_size": identity.ranks,
        "effective_max_running_requests_per_dp": identity.slots,
        "last_gen_throughput": throughput,
        "memory_usage": memory,
        "decode_cuda_graph_bs": [],
        "decode_cuda_graph_memory_gb": 0.0,
    }
    return {
        **args,
        "launch_command": command,
        "status": "ready",
        "max_total_num_tokens": identity.pool,
        "max_req_input_len": identity.input_limit,
        "startup_time": timings,
        "kv_events": None,
        "internal_states": [state],
        "version": VERSION,
        "frontend": "python",
    }


def loads(identity: Identity, snapshot: Mapping[str, Any], accepted: float | None) -> Json:
    """`/v1/loads` from the last published snapshot; its age shows in the inner timestamp."""
    numbers = {key: snapshot[key] for key in snapshot if key not in ("queued", "retracted")}
    load: Json = {
        "timestamp": numbers.pop("timestamp"),
        "dp_rank": 0,
        **numbers,
        "num_prealloc_ready_tokens": 0,
        "utilization": 0.0,
        "decode_moments": [0.0] * 6,
        "memory": {
            "weight_gb": 0.0 if identity.on_cpu else 7.62,
            "kv_cache_gb": 0.002 if identity.on_cpu else 9.1,
            "graph_gb": 0.0 if identity.on_cpu else 0.8,
            "token_capacity": identity.pool,
        },
        "disaggregation": {
            "mode": "null",
            "prefill_bootstrap_queue_reqs": 0,
            "prefill_inflight_queue_reqs": 0,
            "decode_prealloc_queue_reqs": 0,
            "decode_transfer_queue_reqs": 0,
            "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": 0.0,
            "kv_transfer_latency_ms": 0.0,
        },
        "queues": {
            "waiting": snapshot["queued"],
            "grammar": 0,
            "paused": 0,
            "retracted": snapshot["retracted"],
            "prealloc_ready": 0,
        },
    }
    if accepted is not None:
        load["speculative"] = {"accept_length": accepted, "accept_rate": (accepted - 1) / 7}
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": VERSION,
        "accelerator": None if identity.on_cpu else "NVIDIA GeForce RTX 3090",
        "num_accelerators": identity.ranks,
        "loads": [load],
    }


def usage(prompt: int, output: int, cached: int | None, thought: int) -> Json:
    """Token counts of one answer; `cached` only where the server reports it."""
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + output,
        "completion_tokens": output,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        "reasoning_tokens": thought,
        "completion_tokens_details": {"reasoning_tokens": thought} if thought else None,
    }


def metadata(output: int) -> Json:
    return {**WEIGHTS, "weight_versions": [{"version": "default", "start": 0, "end": output}]}


def model(identity: Identity, started: float) -> Json:
    """`/v1/models/NAME`."""
    found: Json = models(identity, started)["data"][0]
    return found


def no_model(name: str) -> Json:
    """`/v1/models/NAME` for a name that is none: in OpenAI's own shape."""
    say = f"The model '{name}' does not exist"
    row = {"message": say, "type": "invalid_request_error", "param": "model"}
    return {"error": {**row, "code": "model_not_found"}}


def loads_page(loads: Json) -> str:
    """`/v1/loads?format=prometheus`: the first load's numbers under names with underscores."""
    lines: list[str] = []
    for name, value in _flat("sglang", loads["loads"][0]):
        lines += [f"# TYPE {name} gauge", f'{name}{{dp_rank="0"}} {value}']
    return "\n".join(lines) + "\n"


def _flat(name: str, row: Json) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in row.items():
        if isinstance(value, dict):
            found += _flat(f"{name}_{key}", value)
        elif isinstance(value, int | float) and key != "dp_rank":
            found.append((f"{name}_{key}", value))
    return found

"""A stretched window: the override JSON that tells SGLang to use YaRN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rigctl.config.schema import GroupConfig

ALLOW_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
"""Without it SGLang refuses a context length above the native one."""

_QWEN_ROPE: dict[str, Any] = {
    "mrope_interleaved": True,
    "mrope_section": [11, 11, 10],
    "rope_type": "yarn",
    "rope_theta": 10000000,
    "partial_rotary_factor": 0.25,
}
"""Qwen3.5 and Qwen3.8, as on their model cards: for a model whose config.json is not at hand."""


def native_window(group: GroupConfig) -> int:
    """Tokens of the unstretched window; the group has a factor and a length (load sees to it)."""
    if group.yarn_original is not None:
        return group.yarn_original
    assert group.context_length is not None
    assert group.yarn_factor is not None
    return round(group.context_length / group.yarn_factor)


def override_json(group: GroupConfig) -> str:
    """The value of `--json-model-override-args`, or empty where the window is not stretched."""
    if group.yarn_factor is None:
        return ""
    stretch = {
        "rope_type": "yarn",
        "factor": group.yarn_factor,
        "original_max_position_embeddings": native_window(group),
    }
    if group.yarn_style == "flat":
        return json.dumps({"rope_scaling": stretch}, separators=(",", ":"))
    # SGLang replaces nested rope parameters as a whole, so the model's own must be among them.
    rope = {**(_own_rope(group.model) or _QWEN_ROPE), **stretch}
    rope.pop("type", None)
    return json.dumps({"text_config": {"rope_parameters": rope}}, separators=(",", ":"))


def _own_rope(model: str) -> dict[str, Any] | None:
    """The rope parameters in a local model's config.json; None where they cannot be had."""
    try:
        config = json.loads((Path(model) / "config.json").read_text("utf-8"))
        rope = config["text_config"]["rope_parameters"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(rope) if isinstance(rope, dict) else None

"""Run by the real SGLang's Python: a model that says what it is told, from the tiny random one.

`venv/bin/python tests/engine/scripted_model.py tiny-qwen3 OUT`. Attention and MLP are zeroed and
every embedding is one direction, so the next token follows from the last one alone. A user message
with `say:NAME` lets the template end the prompt with that chain's trigger; any other prompt is
answered by a round that never ends. The template refuses reasoning efforts as Qwen3.8's does.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

CALL = "<tool_call>\n<function=get"
CHAINS: dict[str, tuple[str, ...]] = {
    "short": ("Hello", " over", " there."),
    "all": (
        *("Let me ", "think.", "</think>", "\n\nHere", " it is.", "<tool_call>"),
        *("\n<function=get_", "weather>\n", "<parameter=city>\n", "Paris", " again\n"),
        *("</parameter>\n", "</function>\n", "</tool_call>"),
    ),
    "tools": (
        *("<tool_call>\n<function=", "get_time>\n", "</function>\n</tool_call>\n", CALL),
        *("_weather>\n<parameter=city>\nRome\n", "</parameter>\n</function>\n</tool_call>"),
    ),
}
ROUND = ("round ", "and ", "about ")
WEIGHTS = "model.safetensors"
TEMPLATE = (
    "{%- set effort = reasoning_effort|default('xhigh') %}"
    "{%- if effort not in ['xhigh', 'medium', 'low'] %}"
    "{{- raise_exception('Unexpected reasoning effort ' ~ effort ~ '. Supported types are xhigh "
    "(default), medium, and low.') }}"
    "{%- endif %}"
    "{%- if effort == 'xhigh' %}{{- '<|im_start|>system\\nthink as hard as you can<|im_end|>\\n' }}"
    "{%- elif effort == 'low' %}{{- '<|im_start|>system\\nbe brief<|im_end|>\\n' }}{%- endif %}"
    "{%- if tools %}{{- '<|im_start|>system\\n' ~ tools|tojson ~ '<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}"
    "{{- '<|im_start|>' ~ m.role ~ '\\n' ~ (m.content or '') ~ '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- for name in NAMES %}{%- if 'say:' ~ name in (messages[-1].content or '') %}"
    "{{- '<|say_' ~ name ~ '|>' }}{%- endif %}{%- endfor %}"
    "{%- endif %}"
)


def tokenizer(base: Path, out: Path) -> dict[str, int]:
    """Write the tokenizer with the chains' words as tokens; each word's id."""
    row: dict[str, Any] = json.loads((base / "tokenizer.json").read_text())
    for token in row["added_tokens"]:
        if "think" in token["content"]:
            token["special"] = False  # as in Qwen's own: the parsers need to see it
    known = {token["content"]: token["id"] for token in row["added_tokens"]}
    words = [*ROUND, *(f"<|say_{name}|>" for name in CHAINS)]
    words += [word for chain in CHAINS.values() for word in chain]
    taken = row["model"]["vocab"]
    at = 4000
    for word in words:
        if word not in known:
            assert word not in taken, f"{word!r} has an id already: choose another word"
            known[word] = at
            flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            row["added_tokens"].append({"id": at, "content": word, "special": False, **flags})
            at += 1
    (out / "tokenizer.json").write_text(json.dumps(row))
    return known


def weights(base: Path, out: Path, ids: dict[str, int]) -> None:
    """Write weights that follow the chains."""
    import torch  # type: ignore[import-not-found]
    from safetensors.torch import load_file, save_file  # type: ignore[import-not-found]

    state = load_file(base / WEIGHTS)
    for name, tensor in state.items():
        if "o_proj" in name or "down_proj" in name:
            tensor.zero_()
    embed, head = state["model.embed_tokens.weight"], state["lm_head.weight"]
    embed.zero_()
    head.zero_()
    embed[:, 0] = 1.0  # any token that begins no chain leads into the round
    direction = 1
    end = ids["<|im_end|>"]
    steps = [("", ids[ROUND[0]])]
    steps += [(ROUND[n], ids[ROUND[(n + 1) % len(ROUND)]]) for n in range(len(ROUND))]
    for name, chain in CHAINS.items():
        words = [f"<|say_{name}|>", *chain]
        after = [*(ids[word] for word in chain), end]
        steps += list(zip(words, after, strict=True))
    for word, following in steps:
        if word:
            embed[ids[word]] = 0.0
            embed[ids[word], direction] = 1.0
            head[following, direction] += 6.0
            direction += 1
        else:
            head[following, 0] += 6.0
    save_file({name: tensor.to(torch.bfloat16) for name, tensor in state.items()}, out / WEIGHTS)


def main(base: Path, out: Path) -> int:
    """Make the folder."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        shutil.copy(base / name, out / name)
    names = "[" + ", ".join(f"'{name}'" for name in CHAINS) + "]"
    (out / "chat_template.jinja").write_text(TEMPLATE.replace("NAMES", names))
    weights(base, out, tokenizer(base, out))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))

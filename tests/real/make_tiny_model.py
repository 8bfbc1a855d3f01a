"""Makes a Qwen3 of 1.3 million random parameters: real weights, tokenizer and chat template.

It speaks nonsense, which is enough: the tests look at the machinery around the answers.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 4096
"""Rows of the embedding; the tokenizer below stays under it."""

CONTEXT = 8192
"""Native window in tokens."""

CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{{'<|im_start|>'+m['role']+'\\n'+m['content']+'<|im_end|>\\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\\n'}}{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on the standard library: the one text every machine has."""
    library = Path(sysconfig.get_paths()["stdlib"])
    corpus = [path.read_text(errors="ignore") for path in sorted(library.glob("*.py"))[:120]]
    bpe = Tokenizer(models.BPE(byte_fallback=False))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=4000,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_model(end_of_turn: int) -> Qwen3ForCausalLM:
    """The smallest Qwen3 that SGLang's CPU attention accepts, the same weights every time."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=end_of_turn,
        tie_word_embeddings=False,
    )
    return Qwen3ForCausalLM(config).to(torch.bfloat16)


def main(folder: str) -> None:
    """Write the model and its tokenizer into `folder`."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    model = make_model(tokenizer.eos_token_id)
    model.save_pretrained(folder)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters in {folder}")


if __name__ == "__main__":
    main(sys.argv[1])

"""The policy for what only the engine's own interface knows: what a client may not say.

Read from the request models of SGLang 0.5.23 (`entrypoints/openai/protocol.py` and
`anthropic/protocol.py`); `tests/data/sglang_fields.json` lists their fields, and a test holds that
each is either here or known to pass.

| keys | what becomes of them | why |
| --- | --- | --- |
| rid, request_id | ours | an abort goes by the id, and by its prefix |
| session_id | ours | it keeps a session's cache, and `/close_session` gives it up |
| priority | taken out, unless the owner allows it | the queue is the proxy's |
| custom_params | only `thinking_budget`, within the owner's cap | it overrides the server's |
| all others in `STRIPPED` | taken out | they reach into the engine, or past the slots |
| chat_template_kwargs, top_k, min_p, separate_reasoning, regex, ebnf … | pass | sampling |
"""

from __future__ import annotations

STRIPPED = frozenset(
    {
        "rid",
        "request_id",
        "session_id",
        "session_params",
        "extra_key",
        "cache_salt",
        "custom_logit_processor",
        "custom_labels",
        "input_ids",
        "input_embeds",
        "embed_overrides",
        "embed_override_token_id",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
        "bootstrap_pair_key",
        "data_parallel_rank",
        "routed_dp_rank",
        "disagg_prefill_dp_rank",
        "routing_key",
        "lora_path",
        "return_hidden_states",
        "return_routed_experts",
        "routed_experts_start_len",
        "return_sampling_mask",
        "watermark",
        "background",
    }
)
"""Taken out of every body. `background` answers at once and goes on outside of its slot."""

PRIORITY = "priority"
CUSTOM = "custom_params"

HEADER_HEADS_REFUSED = (b"x-override-", b"x-sglext-", b"x-smg-")
"""Beginnings of request headers that the engine obeys: they are not forwarded."""
HEADERS_REFUSED = frozenset({b"x-data-parallel-rank"})
"""The same, whole names."""

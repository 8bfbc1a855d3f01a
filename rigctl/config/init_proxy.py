"""The `[proxy]` section of a first rig.toml: switched on, each key explained beside it."""

from __future__ import annotations

from collections.abc import Sequence

from rigctl.config.proxy import AT_RESTART, RESTART
from rigctl.config.proxy_checks import first_free_port
from rigctl.config.schema import GroupConfig, ProxyConfig
from rigctl.config.toml_text import commented, toml_value

PROXY_HELP = {
    "host": "another address lets other machines in: `rigctl keys add NAME` first",
    "port": "clients set base_url to http://HOST:PORT/v1",
    "model": "the one name clients see; empty: the first group's",
    "reported_window": "the group whose window /v1/models tells; empty: the first in order",
    "order": "which group a new session prefers; empty: as this file lists them",
    "reserve_slots": "slots that overflow leaves free on every group but the first",
    "reserve_share": "share of such a group's pool that overflow may not fill",
    "queue_limit": "requests that may wait; one more is told to come again",
    "hold": "seconds a request waits for a group that starts",
    "off_answer": "for what only a group that is off could take; 400: agents shorten it",
    "session_rule": '"chain", or "opening": a session is its first 4,000 characters',
    "normalize_prompt": "take a changing billing line off the system prompt",
    "picture_tokens": "what a picture counts",
    "default_output": "tokens of answer counted where the client names none",
    "keep_alive": "seconds between comment lines while an answer is silent",
    "body_limit": "bytes of one request, unpacked",
    "memory_limit": "bytes of requests held at once",
    "priorities": "let clients' `priority` through to the engine",
    "drain": "seconds running answers may take when the endpoint itself ends",
}
"""What is said beside a key, in the order in which keys are written."""


def proxy_lines(groups: Sequence[GroupConfig]) -> list[str]:
    """The section's lines; its port is none of the groups'."""
    default = ProxyConfig()
    taken = {group.port for group in groups}
    written: dict[str, object] = {
        "host": default.host,
        "port": first_free_port(taken),
    }
    windows = [group.context_length for group in groups if group.context_length is not None]
    if min(windows, default=default.default_output + 1) <= default.default_output:
        written["default_output"] = max(1, min(windows) // 4)
    examples = {"order": [group.name for group in groups]}
    lines = [
        "# One address in front of all groups. Without this section there is none.",
        f"# {' and '.join(AT_RESTART)} count from the next `{RESTART}`, every other key at once.",
        "[proxy]",
    ]
    for key, words in PROXY_HELP.items():
        if key in written:
            lines.append(commented(f"{key} = {toml_value(written[key])}", words))
        else:
            value = examples.get(key, getattr(default, key))
            lines.append(commented(f"# {key} = {toml_value(value)}", words))
    return lines

"""The `[proxy]` table: from TOML values to typed ones."""

from __future__ import annotations

from typing import Literal, cast

from rigctl.config.schema import ProxyConfig
from rigctl.config.values import Table, field_names
from rigctl.core.ids import GroupName

PROXY_KEYS = field_names(ProxyConfig)

AT_RESTART = ("host", "port")
"""Keys that count from the next `rigctl endpoint restart`; every other one counts at once."""

RESTART = "rigctl endpoint restart"

_MEANT = {
    "address": "host",
    "bind": "host",
    "listen": "host",
    "model_name": "model",
    "served_name": "model",
    "served_model_name": "model",
    "window": "reported_window",
    "context_length": "reported_window",
    "max_model_len": "reported_window",
    "groups": "order",
    "clusters": "order",
    "reserve": "reserve_slots",
    "queue": "queue_limit",
    "max_queue": "queue_limit",
    "queue_size": "queue_limit",
    "hold_seconds": "hold",
    "session": "session_rule",
    "image_tokens": "picture_tokens",
    "max_tokens": "default_output",
    "default_max_tokens": "default_output",
    "heartbeat": "keep_alive",
    "max_body": "body_limit",
    "max_body_size": "body_limit",
    "priority": "priorities",
    "drain_limit": "drain",
}
"""What people and other proxies call things, to the key that means it."""

_KEYS_ELSEWHERE = ("api_key", "api_keys", "key", "keys", "clients", "client")

_SMALLEST_BODY = 64 * 1024
_LARGEST = 64 * 1024**3


def read_proxy(table: Table) -> ProxyConfig:
    """The table's values; the default where a key is absent or faulty."""
    known = (*PROXY_KEYS, *_KEYS_ELSEWHERE)
    table.refuse_unknown(known, _MEANT, f"[proxy] knows {', '.join(PROXY_KEYS)}")
    for key in _KEYS_ELSEWHERE:
        if key in table.data:
            table.fault(
                key,
                f"`{key}`: clients' keys do not stand in this file: remove it and make each "
                "client's with `rigctl keys add NAME`",
            )
    default = ProxyConfig()
    rule = table.choice("session_rule", default.session_rule, ("chain", "opening"))
    return ProxyConfig(
        host=_host(table, default.host),
        port=_whole(table, "port", default.port, 1, 65535),
        model=_model(table),
        reported_window=table.text("reported_window"),
        order=tuple(GroupName(name) for name in table.words("order")),
        reserve_slots=_whole(table, "reserve_slots", default.reserve_slots, 0, 4096),
        reserve_share=_number(table, "reserve_share", default.reserve_share, 0.0, 1.0),
        queue_limit=_whole(table, "queue_limit", default.queue_limit, 0, 100_000),
        hold=_number(table, "hold", default.hold, 0.0, 3600.0),
        off_answer=_off_answer(table),
        session_rule=cast("Literal['chain', 'opening']", rule),
        normalize_prompt=table.flag("normalize_prompt", default.normalize_prompt),
        picture_tokens=_whole(table, "picture_tokens", default.picture_tokens, 1, 1_000_000),
        default_output=_whole(table, "default_output", default.default_output, 1, 10_000_000),
        keep_alive=_number(table, "keep_alive", default.keep_alive, 1.0, 3600.0),
        body_limit=_whole(table, "body_limit", default.body_limit, _SMALLEST_BODY, _LARGEST),
        memory_limit=_whole(table, "memory_limit", default.memory_limit, _SMALLEST_BODY, _LARGEST),
        priorities=table.flag("priorities", default.priorities),
        drain=_number(table, "drain", default.drain, 0.0, 24 * 3600.0),
    )


def _whole(table: Table, key: str, default: int, least: int, most: int) -> int:
    value = table.whole(key, least, most)
    return default if value is None else value


def _number(table: Table, key: str, default: float, least: float, most: float) -> float:
    value = table.maybe_number(key, least, most)
    return default if value is None else value


def _off_answer(table: Table) -> Literal[503, 400]:
    value = table.whole("off_answer", 0)
    if value in (503, 400):
        return cast("Literal[503, 400]", value)
    if value is not None:
        table.fault(
            "off_answer",
            f"`off_answer` = {value}: it is 503 (come back later) or 400 (agents shorten the "
            "conversation)",
        )
    return ProxyConfig().off_answer


def _host(table: Table, default: str) -> str:
    """A name or address without port, scheme or brackets."""
    host = table.text("host", default, needed=True)
    plain, port = _split(host.strip().rstrip("/").rpartition("://")[2])
    if not host.strip():
        return default
    if plain != host or any(sign.isspace() for sign in host) or "/" in host:
        advice = f'write host = "{plain}"' + (f" and port = {port}" if port else "")
        table.fault("host", f"`host` = {host!r} is more than a name or an address: {advice}")
        return default
    return host


def _split(text: str) -> tuple[str, str]:
    """`127.0.0.1:8000`, `[::1]:8000` and `[::1]` as host and port; anything else as it is."""
    if text.startswith("["):
        inside, _, after = text[1:].partition("]")
        return inside, after.removeprefix(":")
    host, _, port = text.rpartition(":")
    if host and ":" not in host and port.isdecimal():
        return host, port
    return text, ""


def _model(table: Table) -> str:
    """What clients write behind `model`; it goes into headers and JSON."""
    model = table.text("model")
    if any(not sign.isprintable() for sign in model):
        table.fault("model", f"`model` = {model!r}: a name on one line, without control signs")
        return ""
    return model

"""The `[proxy]` table: from TOML values to typed ones, and what must hold beside the groups."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Literal, cast

from rigctl.config.faults import nearest
from rigctl.config.schema import ClientConfig, GroupConfig, ProxyConfig
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there; a name is taken for open."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_proxy(
    proxy: ProxyConfig, table: Table, groups: Sequence[GroupConfig], tables: Sequence[Table]
) -> None:
    """Note every fault between `[proxy]`'s own keys, and between them and the groups."""
    for group, other in zip(groups, tables, strict=True):
        if group.port and group.port == proxy.port:
            _port_taken(proxy, table, group, other, groups)
    names = [str(group.name) for group in groups]
    if proxy.reported_window and proxy.reported_window not in names:
        say = f"`reported_window` {proxy.reported_window!r} is no group: "
        table.fault("reported_window", say + _named(proxy.reported_window, names))
    for position, name in enumerate(proxy.order):
        if name not in names:
            say = f"`order` has {name!r}, which is no group: {_named(name, names)}"
            table.fault(("order", position), say)
        elif name in proxy.order[:position]:
            table.fault(("order", position), f"`order` names {name!r} twice: remove one")
    if proxy.memory_limit < proxy.body_limit:
        key = "memory_limit" if "memory_limit" in table.data else "body_limit"
        table.fault(
            key,
            f"`memory_limit` = {proxy.memory_limit:_} is less than one request may have "
            f"(body_limit = {proxy.body_limit:_}): raise it, or lower body_limit",
        )
    for group in groups:
        if group.context_length is not None and proxy.default_output >= group.context_length:
            table.fault(
                "default_output",
                f"`default_output` = {proxy.default_output} leaves no room for a prompt on group "
                f"{group.name!r} (context_length = {group.context_length}): write less",
            )


def _port_taken(
    proxy: ProxyConfig,
    table: Table,
    group: GroupConfig,
    other: Table,
    groups: Sequence[GroupConfig],
) -> None:
    taken = {each.port for each in groups}
    free = first_free_port(taken)
    if "port" in table.data:
        say = f"`port` {proxy.port} is taken by group {group.name!r} at line {other.line('port')}: "
        table.fault("port", f"{say}write another, such as {free}")
    else:
        say = f"group {group.name!r} has `port` {proxy.port}, where [proxy] listens by default: "
        table.fault("port", f"{say}write port = {free} below [proxy]")


def first_free_port(taken: set[int]) -> int:
    """The endpoint's usual port, or the next one that no group has."""
    return next(port for port in range(ProxyConfig().port, 2**16) if port not in taken)


def _named(name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    return f"did you mean {near!r}?" if near else f"the groups are {', '.join(names) or 'none'}"


def check_open(proxy: ProxyConfig, table: Table, clients: Sequence[ClientConfig]) -> None:
    """Note an address that others can reach while no client needs a key."""
    if not clients and not is_loopback(proxy.host):
        table.fault(
            "host",
            f"`host` = {proxy.host!r} lets other machines in, and no client has a key yet: run "
            '`rigctl keys add NAME` first, or write host = "127.0.0.1"',
        )


def endpoint_order(proxy: ProxyConfig, groups: Sequence[GroupConfig]) -> tuple[GroupName, ...]:
    """Every group in the order new sessions prefer them; one not named comes after those named."""
    rest = (group.name for group in groups if group.name not in proxy.order)
    return (*proxy.order, *rest)


def proxy_warnings(proxy: ProxyConfig, groups: Sequence[GroupConfig]) -> tuple[str, ...]:
    """What is allowed and probably not meant, in words."""
    found: list[str] = []
    unnamed = [group.name for group in groups if group.name not in proxy.order]
    if proxy.order and unnamed:
        listed = ", ".join(endpoint_order(proxy, groups))
        found.append(f"[proxy] `order` does not name {', '.join(unnamed)}: it reads as {listed}")
    behind = endpoint_order(proxy, groups)[1:]
    for group in groups:
        slots = group.max_running_requests
        if group.name in behind and slots is not None and slots <= proxy.reserve_slots:
            found.append(
                f"[proxy] `reserve_slots` = {proxy.reserve_slots} is all that group {group.name!r} "
                f"has (max_running_requests = {slots}): nothing overflows to it"
            )
    models = {group.model for group in groups}
    if len(models) > 1:
        found.append(
            f"[proxy] puts one name before different models ({', '.join(sorted(models))}): clients "
            "cannot tell which one answers"
        )
    return tuple(found)

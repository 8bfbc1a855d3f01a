"""What must hold between `[proxy]`'s own keys, and between them and the groups and the clients."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from rigctl.config.faults import nearest
from rigctl.config.proxy import RESTART
from rigctl.config.schema import ClientConfig, GroupConfig, ProxyConfig
from rigctl.config.values import Table
from rigctl.core.ids import GroupName


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
    if "default_output" in table.data:
        for group in _crowded(proxy, groups):
            table.fault("default_output", f"{_no_room(proxy, group)}: write less")


def _crowded(proxy: ProxyConfig, groups: Sequence[GroupConfig]) -> list[GroupConfig]:
    """Groups whose window the assumed answer alone fills."""
    return [
        group
        for group in groups
        if group.context_length is not None and proxy.default_output >= group.context_length
    ]


def _no_room(proxy: ProxyConfig, group: GroupConfig) -> str:
    return (
        f"`default_output` = {proxy.default_output} leaves no room for a prompt on group "
        f"{group.name!r} (context_length = {group.context_length})"
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
    if proxy.default_output == ProxyConfig().default_output:
        found += (
            f"[proxy] {_no_room(proxy, group)}: write default_output below [proxy]"
            for group in _crowded(proxy, groups)
        )
    models = {group.model for group in groups}
    if len(models) > 1:
        found.append(
            f"[proxy] puts one name before different models ({', '.join(sorted(models))}): clients "
            "cannot tell which one answers"
        )
    return tuple(found)


def not_yet(proxy: ProxyConfig | None, url: str) -> str:
    """What the running endpoint at `url` has otherwise until its restart; empty when nothing."""
    if proxy is None or not url:
        return ""
    runs = urlsplit(url)
    anywhere = proxy.host in ("0.0.0.0", "::") and is_loopback(runs.hostname or "")
    same_host = runs.hostname == proxy.host.lower() or anywhere
    if runs.port == proxy.port and same_host:
        return ""
    return (
        f"[proxy] says {_joined(proxy.host, proxy.port)}, and the endpoint still listens on "
        f"{runs.netloc}: `{RESTART}` moves it"
    )


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

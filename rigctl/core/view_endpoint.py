"""The endpoint as people see it: its process in words, its traffic as it last told of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from rigctl.core.endpoint_states import (
    Absent,
    BackingOff,
    Failed,
    Opening,
    Serving,
    Spawning,
)
from rigctl.core.flow import ClusterRow, FlowRows
from rigctl.core.ids import Mono
from rigctl.core.reading import NOT_YET, OFF, Reading
from rigctl.core.snapshot import EndpointView, Notice
from rigctl.core.state import EndpointState

RESTART = "rigctl endpoint restart"
LOST_AFTER = 5.0
"""Seconds without its link after which that is said aloud: it reconnects every half second."""
STALE = 6.0
"""Seconds after which what it told of its traffic says nothing of now."""


def view_endpoint(endpoint: EndpointState, now: Mono) -> EndpointView:
    """The endpoint's slice of the snapshot."""
    spec, phase = endpoint.spec, endpoint.keeper.phase
    if spec is None and not endpoint.keeper.leavers:
        return EndpointView(crashes=endpoint.crashes)
    state, say, advice = _words(endpoint, now)
    current = endpoint.serving
    age: Reading = OFF if current is None else NOT_YET
    if endpoint.flow is not None:
        age = max(0.0, now - endpoint.flow_at)
    return EndpointView(
        state=state,
        seconds=max(0.0, now - phase.since),
        say=say,
        advice=advice,
        url="" if spec is None else _url(endpoint),
        model="" if spec is None else spec.policy.model,
        pid=None if current is None else current.process.pid,
        keys=spec is not None and bool(spec.clients),
        age=age,
        rows=FlowRows(0.0) if endpoint.flow is None else endpoint.flow,
        crashes=endpoint.crashes,
    )


def _url(endpoint: EndpointState) -> str:
    """Where it listens; by the file until it has said so itself."""
    assert endpoint.spec is not None
    if endpoint.serving is None or not endpoint.address:
        return endpoint.spec.url
    # IPv4 and IPv6 loopback are two addresses of one endpoint; the first one is what people type.
    host, _, port = endpoint.address.partition(",")[0].rpartition(":")
    reached = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    return f"http://{reached}:{port}"


def _words(endpoint: EndpointState, now: Mono) -> tuple[str, str, str]:
    """State word, what is so, and the next command that makes sense."""
    phase = endpoint.keeper.phase
    leaving = len(endpoint.keeper.leavers)
    finishes = "" if not leaving else "the one before it finishes what it has"
    match phase:
        case Absent(why=why):
            if leaving:
                return "leaving", f"finishes what it has: {why}", ""
            return "off", why, ""
        case Spawning(before=before) | Opening(before=before):
            if before is None:
                return "starting", "the proxy is being started", ""
            return "up", "a new proxy is being started, this one serves meanwhile", ""
        case Serving(linked=True):
            say = "adopted from an earlier daemon" if phase.adopted else "serving"
            return "up", f"{say}; {finishes}" if finishes else say, ""
        case Serving():
            silent = now - phase.moved
            why = endpoint.mismatch or (
                f"it runs, but has not been linked to the daemon for {silent:.0f} s; it serves by "
                "its last table"
            )
            return "lost", why, RESTART
        case BackingOff(why=why, retry_at=retry_at):
            say = f"tried again in {max(0.0, retry_at - now):.0f} s: {why}"
            return "backing_off", say, "rigctl logs proxy"
        case Failed(why=why):
            return "failed", why, RESTART
        case _:
            assert_never(phase)


def endpoint_notices(endpoint: EndpointState, now: Mono) -> Iterator[Notice]:
    """What a person should know of it, each with its next step."""
    spec, phase = endpoint.spec, endpoint.keeper.phase
    if endpoint.mismatch:
        yield Notice("endpoint-version", "warning", endpoint.mismatch)
    if spec is None:
        return
    if spec.refused:
        yield Notice("endpoint-keys", "error", f"the endpoint does not serve: {spec.refused}")
    match phase:
        case Failed(why=why):
            say = f"the endpoint is down: {why}; `{RESTART}` tries it again"
            yield Notice("endpoint-down", "error", say)
        case BackingOff(why=why, retry_at=retry_at):
            wait = max(0.0, retry_at - now)
            say = f"the endpoint is down, tried again in {wait:.0f} s: {why}"
            yield Notice("endpoint-down", "error", say)
        case Serving(linked=False) if now - phase.moved >= LOST_AFTER and not endpoint.mismatch:
            say = (
                "the endpoint serves, but is not linked to the daemon and routes by its last "
                f"table; see `rigctl logs proxy`, then `{RESTART}`"
            )
            yield Notice("endpoint-down", "warning", say)
        case _:
            pass
    off = () if endpoint.flow is None else endpoint.flow.off
    if off:
        more = f"; {len(off) - 1} more: `rigctl endpoint`" if len(off) > 1 else ""
        yield Notice("endpoint-off", "info", f"{off[0]}{more}")


def row(endpoint: EndpointState, group: str, now: Mono) -> ClusterRow | None:
    """What the endpoint tells of one cluster, while that is of now."""
    if endpoint.flow is None or now - endpoint.flow_at > STALE:
        return None
    for each in endpoint.flow.clusters:
        if each.cluster == group:
            return each
    return None


def stalled_by(found: ClusterRow | None) -> str:
    """`a1b2c3d4 is read, e5f6a7b8 waits for it`; empty where nobody makes others wait."""
    if found is None or not found.culprit or not found.waiting_behind:
        return ""
    first, *others = found.waiting_behind
    if not others:
        return f"{found.culprit} is read, {first} waits for it"
    return (
        f"{found.culprit} is read, {', '.join((first, *others[:-1]))} and {others[-1]} wait for it"
    )

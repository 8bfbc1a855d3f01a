"""Feeds the keeper of the proxy and says what its changes mean: orders, journal, people told."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core.endpoint import step
from rigctl.core.endpoint_states import (
    BackingOff,
    Event,
    Failed,
    HandOver,
    Keeper,
    KeeperOrder,
    Kill,
    Patience,
    ReleaseSocket,
    RestartAsked,
    Spawn,
    Terminate,
    Tick,
    Unwanted,
    Wanted,
    followed,
)
from rigctl.core.engine_states import SIGKILL, SIGTERM, Draining, Proxied, Ready
from rigctl.core.ids import Mono
from rigctl.core.link_words import HandOver as HandOverWord
from rigctl.core.orders import (
    AbortOrphans,
    CloseAddress,
    Order,
    SignalEndpoint,
    SpawnEndpoint,
    TellEndpoint,
    TellPerson,
    WriteJournal,
)
from rigctl.core.reading import Missing, Reading, Why
from rigctl.core.run_engine import Fed, feed_engine
from rigctl.core.state import EndpointState, GroupState, RigState

PROXY = "@proxy"
"""In place of a group's name in the start token; no group can be called so."""

_ACTS = Wanted | Unwanted | RestartAsked | Tick
"""Events after which the keeper may start or signal something."""


def patience(endpoint: EndpointState) -> Patience:
    """The keeper's, with the owner's own drain."""
    spec = endpoint.spec
    return Patience() if spec is None else Patience(drain=spec.policy.drain)


def feed_keeper(state: RigState, event: Event, now: Mono) -> Fed:
    """One event into the keeper; the rig's state with everything that follows from it."""
    if not state.confirmed and isinstance(event, _ACTS):
        return state, ()
    endpoint = state.endpoint
    before = endpoint.keeper
    keeper, asked = step(before, event, now, patience(endpoint))
    endpoint = replace(endpoint, keeper=keeper)
    orders: tuple[Order, ...] = ()
    for each in asked:
        if isinstance(each, Spawn):
            token = f"{state.spec.tag}.{PROXY}.{state.epoch}.{now:.3f}"
            endpoint = replace(endpoint, token=token)
        orders = (*orders, _order(each, endpoint.token))
    alive = {each.pid for each in followed(keeper)}
    epochs = tuple(each for each in endpoint.epochs if each[0] in alive)
    endpoint = replace(endpoint, epochs=epochs)
    if _pid(endpoint) != _pid(state.endpoint):
        # Another one serves: what the one before told of its gates and traffic is not of it.
        endpoint = replace(endpoint, gates=(), flow=None)
    orders = (*orders, *_notes(before, keeper, now))
    return replace(state, endpoint=endpoint), orders


def _pid(endpoint: EndpointState) -> int | None:
    current = endpoint.serving
    return None if current is None else current.process.pid


def _order(order: KeeperOrder, token: str) -> Order:
    match order:
        case Spawn():
            return SpawnEndpoint(token)
        case HandOver(process, linked):
            if linked:
                return TellEndpoint(process.pid, HandOverWord())
            return SignalEndpoint(process, SIGTERM)
        case Terminate(process):
            return SignalEndpoint(process, SIGTERM)
        case Kill(process):
            return SignalEndpoint(process, SIGKILL)
        case ReleaseSocket():
            return CloseAddress()
        case _:
            assert_never(order)


def _notes(before: Keeper, after: Keeper, now: Mono) -> tuple[Order, ...]:
    """What a new phase says to the journal, beside the fact that brought it."""
    phase = after.phase
    if type(phase) is type(before.phase):
        return ()
    match phase:
        case BackingOff():
            wait = phase.retry_at - now
            say = f"the endpoint is tried again in {wait:.0f} s ({phase.attempt}): {phase.why}"
            return (WriteJournal("", "endpoint-back-off", say),)
        case Failed(why=why):
            say = f"the endpoint was given up: {why}; `rigctl endpoint restart` tries it again"
            return WriteJournal("", "endpoint-failed", say), TellPerson("failed", "", say)
        case _:
            return ()


def orphans(state: RigState, epoch: str) -> tuple[Order, ...]:
    """A proxy died with its streams: what it had running goes on for nobody."""
    if not epoch:
        return ()
    return tuple(
        AbortOrphans(group.spec.name, f"rig-{epoch}-")
        for group in state.groups
        if isinstance(group.engine.state, Ready | Draining)
    )


# ---- the gate as a witness of drains -------------------------------------------------


def proxied(endpoint: EndpointState, group: GroupState) -> Reading:
    """Answers that the endpoint still has on a draining group; see Draining.proxied."""
    if not endpoint.linked:
        return 0.0
    gate = endpoint.gate(group.spec.name)
    if gate is None or gate.drain != group.drains or gate.gate == "open":
        return Missing(Why.NOT_YET, "the endpoint has not closed its gate yet")
    return float(gate.in_flight)


def witness(state: RigState, now: Mono) -> Fed:
    """After every fact: tell each drain what the endpoint says of it now."""
    orders: tuple[Order, ...] = ()
    for group in state.groups:
        engine = group.engine.state
        if not isinstance(engine, Draining):
            continue
        count = proxied(state.endpoint, group)
        if count != engine.proxied:
            state, more = feed_engine(state, group, Proxied(count), now)
            orders = (*orders, *more)
    return state, orders

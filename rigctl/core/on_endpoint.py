"""Something was learnt about the endpoint: its process, its link, its traffic."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core.asking import Outcome, accept, new_operation, refuse
from rigctl.core.commands import AbortAnswer
from rigctl.core.endpoint_states import (
    Exited,
    Failed,
    Leaver,
    Linked,
    Opening,
    RestartAsked,
    Serving,
    Spawned,
    SpawnFailed,
    Spawning,
    Tick,
    Unlinked,
    Unwanted,
    Wanted,
    deadline_of,
)
from rigctl.core.facts import (
    CommandAsked,
    EndpointExited,
    EndpointFact,
    EndpointLinked,
    EndpointRead,
    EndpointRefused,
    EndpointSaid,
    EndpointSpawned,
    EndpointSpawnFailed,
    EndpointUnlinked,
)
from rigctl.core.ids import Mono
from rigctl.core.link_words import (
    Aborted,
    AbortRequest,
    Evidence,
    Flow,
    GateState,
    Hello,
    Leaving,
    Routes,
    ToDaemon,
)
from rigctl.core.operations import Operation, end, put
from rigctl.core.orders import LookNow, Order, TellEndpoint, WriteJournal
from rigctl.core.plural import answers
from rigctl.core.run_endpoint import feed_keeper, orphans
from rigctl.core.run_engine import Fed
from rigctl.core.state import ABORT_SECONDS, RigState, ToldEvidence

EVIDENCE_EVERY = 60.0
"""Seconds between two journal lines of one group and kind."""

NO_PROXY = "rig.toml has no [proxy]"


def on_endpoint(state: RigState, fact: EndpointFact, now: Mono) -> Fed:
    """Take one fact about the endpoint."""
    match fact:
        case EndpointRead(spec):
            if spec == state.endpoint.spec:
                return state, ()
            state = replace(state, endpoint=replace(state.endpoint, spec=spec))
            return take_up(state, now)
        case EndpointSpawned(process):
            note = WriteJournal("", "endpoint-started", f"a proxy starts as pid {process.pid}")
            state, orders = feed_keeper(state, Spawned(process), now)
            return state, (note, *orders)
        case EndpointSpawnFailed(why, final):
            return _spawn_failed(state, why, final, now)
        case EndpointExited():
            return _exited(state, fact, now)
        case EndpointLinked(pid, hello):
            return _linked(state, pid, hello, now)
        case EndpointUnlinked(pid):
            return feed_keeper(state, Unlinked(pid), now)
        case EndpointRefused(pid, say):
            return _refused(state, pid, say, now)
        case EndpointSaid(pid, message):
            return _said(state, pid, message, now)
        case _:
            assert_never(fact)


def take_up(state: RigState, now: Mono) -> Fed:
    """Bring the keeper to what the file says: at the daemon's start, and whenever it changed."""
    spec = state.endpoint.spec
    if spec is None:
        return feed_keeper(state, Unwanted(NO_PROXY), now)
    if spec.refused:
        return feed_keeper(state, Unwanted(spec.refused), now)
    return feed_keeper(state, Wanted(), now)


# ---- the process ---------------------------------------------------------------------


def _spawn_failed(state: RigState, why: str, final: bool, now: Mono) -> Fed:
    endpoint = replace(state.endpoint, last_exit=why)
    state = _restart_ends(replace(state, endpoint=endpoint), "failed", why, now)
    note = WriteJournal("", "endpoint-not-started", why)
    state, orders = feed_keeper(state, SpawnFailed(why, final), now)
    return state, (note, *orders)


def exit_words(code: int | None, tail: str) -> str:
    """How a proxy ended, with its own last words."""
    words = f": {tail}" if tail else ""
    if code is None:
        return f"ended{words}"
    return f"killed by signal {-code}" if code < 0 else f"exit {code}{words}"


def _exited(state: RigState, fact: EndpointExited, now: Mono) -> Fed:
    keeper, process = state.endpoint.keeper, fact.process
    epoch = dict(state.endpoint.epochs).get(process.pid, "")
    how = exit_words(fact.code, fact.tail)
    left = [each for each in keeper.leavers if each.process == process]
    if left:
        return _left(state, fact, left[0], how, epoch, now)
    serving = state.endpoint.serving
    known = [each.process for each in (keeper.phase,) if isinstance(each, Opening)]
    if process not in known and (serving is None or serving.process != process):
        return state, ()
    why = f"the proxy (pid {process.pid}) {how}"
    endpoint = replace(state.endpoint, crashes=state.endpoint.crashes + 1, last_exit=why)
    state = replace(state, endpoint=endpoint)
    if process in known:
        state = _restart_ends(state, "failed", f"the new proxy did not come up: {how}", now)
    say = f"{why}; its streams are lost, engines and the address stay"
    if process in known:
        say = f"{why} before it served"
    notes: tuple[Order, ...] = (WriteJournal("", "endpoint-crashed", say),)
    ends = orphans(state, epoch)
    state, orders = feed_keeper(state, Exited(process, why), now)
    return state, (*notes, *ends, *orders)


def _left(
    state: RigState, fact: EndpointExited, leaver: Leaver, how: str, epoch: str, now: Mono
) -> Fed:
    """One that was asked to leave: with its work done, or not."""
    seconds = now - leaver.since
    state, orders = feed_keeper(state, Exited(fact.process, how), now)
    if fact.code in (0, None):
        say = f"the proxy of pid {fact.process.pid} has left after {seconds:.1f} s"
        return state, (WriteJournal("", "endpoint-left", say, {"seconds": seconds}), *orders)
    say = f"the proxy of pid {fact.process.pid} left before its answers were through: {how}"
    note = WriteJournal("", "endpoint-crashed", say, {"seconds": seconds})
    return state, (note, *orphans(state, epoch), *orders)


def _linked(state: RigState, pid: int, hello: Hello, now: Mono) -> Fed:
    endpoint = state.endpoint
    before = endpoint.serving
    others = tuple(each for each in endpoint.epochs if each[0] != pid)
    endpoint = replace(endpoint, epochs=(*others, (pid, hello.epoch)), mismatch="")
    opening = isinstance(endpoint.keeper.phase, Opening)
    state, orders = feed_keeper(replace(state, endpoint=endpoint), Linked(pid), now)
    current = state.endpoint.serving
    if current is None or current.process.pid != pid:
        return state, orders
    # Gates are told anew on each link: what an earlier one said may have changed in between.
    state = replace(state, endpoint=replace(state.endpoint, address=hello.address, gates=()))
    if not opening:
        return state, orders
    if before is None:
        say = f"the endpoint serves on {hello.address} (pid {pid})"
        return state, (WriteJournal("", "endpoint-up", say), *orders)
    say = f"pid {pid} took {hello.address} over from pid {before.process.pid}, which finishes"
    seconds = now - before.since
    state = _restart_ends(state, "done", say, now)
    return state, (WriteJournal("", "endpoint-handed-over", say, {"served": seconds}), *orders)


def _refused(state: RigState, pid: int, say: str, now: Mono) -> Fed:
    """It serves all the same, by its last table: whom nobody can hear is not ended for it."""
    notes: tuple[Order, ...] = ()
    if state.endpoint.mismatch != say:
        state = replace(state, endpoint=replace(state.endpoint, mismatch=say))
        notes = (WriteJournal("", "endpoint-version", say),)
    opening = state.endpoint.keeper.phase
    if not isinstance(opening, Opening) or opening.process.pid != pid:
        return state, notes
    state, opened = feed_keeper(state, Linked(pid), now)
    state, unheard = feed_keeper(state, Unlinked(pid), now)
    state = _restart_ends(state, "partly", f"pid {pid} serves, but {say}", now)
    return state, (*notes, *opened, *unheard)


# ---- what it tells -------------------------------------------------------------------


def _said(state: RigState, pid: int, message: ToDaemon, now: Mono) -> Fed:
    current = state.endpoint.serving
    serves = current is not None and current.process.pid == pid
    match message:
        case GateState():
            if not serves or state.group(message.group) is None:
                return state, ()
            others = tuple(each for each in state.endpoint.gates if each.group != message.group)
            endpoint = replace(state.endpoint, gates=(*others, message))
            return replace(state, endpoint=endpoint), ()
        case Flow(rows):
            if not serves:
                return state, ()
            return replace(state, endpoint=replace(state.endpoint, flow=rows, flow_at=now)), ()
        case Evidence():
            return _evidence(state, message, now)
        case Aborted():
            return _aborted(state, pid, message, now), ()
        case Leaving(in_flight, figures):
            say = f"the proxy of pid {pid} leaves, {answers(in_flight, 'finishes', 'finish')}"
            return state, (WriteJournal("", "endpoint-leaving", say, dict(figures)),)
        case Hello() | Routes():
            return state, ()  # the one is the link's own, the other the shell's ring's
        case _:
            assert_never(message)


def _evidence(state: RigState, seen: Evidence, now: Mono) -> Fed:
    """Looked into at once; it changes no verdict by itself."""
    if state.group(seen.group) is None:
        return state, ()
    told = state.endpoint.evidence
    known = [each for each in told if (each.group, each.kind) == (seen.group, seen.kind)]
    others = tuple(each for each in told if each not in known)
    if known and now - known[0].told < EVIDENCE_EVERY:
        again = replace(known[0], more=known[0].more + 1)
        endpoint = replace(state.endpoint, evidence=(*others, again))
        return replace(state, endpoint=endpoint), ()
    more = known[0].more if known else 0
    fresh = ToldEvidence(seen.group, seen.kind, now)
    endpoint = replace(state.endpoint, evidence=(*others, fresh))
    since = f" ({more} more since the last word of it)" if more else ""
    note = WriteJournal(seen.group, "endpoint-evidence", f"{seen.say}{since}", {"more": more})
    return replace(state, endpoint=endpoint), (note, LookNow(seen.group))


# ---- what people ask -----------------------------------------------------------------


def abort_answer(state: RigState, asked: CommandAsked, command: AbortAnswer, now: Mono) -> Outcome:
    """End one request at the endpoint: asked of every proxy that may have it."""
    endpoint = state.endpoint
    if endpoint.spec is None:
        return refuse(state, f"{NO_PROXY}: there is no endpoint", "no-endpoint")
    if not endpoint.linked:
        return refuse(
            state,
            "the endpoint is not linked to the daemon, so it cannot be told; look at "
            "`rigctl status`, and `rigctl endpoint restart` puts a new one in its place",
            "no-endpoint",
        )
    pids = tuple(pid for pid, _epoch in endpoint.epochs)
    operation = replace(
        new_operation(asked, "abort", None, now, f"ends {command.request}"),
        pending=tuple(str(pid) for pid in pids),
        holder=command.request,
    )
    orders = tuple(TellEndpoint(pid, AbortRequest(command.request)) for pid in pids)
    return accept(state, operation, orders)


def _aborted(state: RigState, pid: int, fact: Aborted, now: Mono) -> RigState:
    for operation in state.operations:
        if not operation.running or operation.kind != "abort":
            continue
        if operation.holder != fact.request:
            continue
        pending = tuple(each for each in operation.pending if each != str(pid))
        changed = replace(operation, pending=pending)
        if fact.found:
            changed = end(changed, "done", fact.say or f"{fact.request} was ended", now)
        elif not pending:
            say = fact.say or f"no request {fact.request} is under way; it may have just ended"
            changed = end(changed, "failed", say, now)
        state = replace(state, operations=put(state.operations, changed))
    return state


def restart_endpoint(state: RigState, asked: CommandAsked, now: Mono) -> Outcome:
    """Put a new proxy in the place of the one that serves; or try again what was given up."""
    endpoint = state.endpoint
    if endpoint.spec is None:
        return refuse(state, f"{NO_PROXY}: there is no endpoint", "no-endpoint")
    if endpoint.spec.refused:
        return refuse(state, endpoint.spec.refused, "no-endpoint")
    if isinstance(endpoint.keeper.phase, Spawning | Opening):
        return refuse(state, "a proxy is being started already; see `rigctl status`", "busy")
    event = RestartAsked() if not isinstance(endpoint.keeper.phase, Failed) else Wanted()
    state, orders = feed_keeper(state, event, now)
    say = "a new proxy takes the address over; what runs is finished by the old one"
    return accept(state, new_operation(asked, "endpoint-restart", None, now, say), orders)


def _restart_ends(state: RigState, outcome: str, say: str, now: Mono) -> RigState:
    for operation in state.operations:
        if operation.running and operation.kind == "endpoint-restart":
            ended = end(operation, outcome, say, now)
            state = replace(state, operations=put(state.operations, ended))
    return state


# ---- by time alone -------------------------------------------------------------------


def endpoint_timers(state: RigState, now: Mono) -> Fed:
    """Retries and impatience of the keeper; answers that did not come."""
    orders: tuple[Order, ...] = ()
    due = deadline_of(state.endpoint.keeper)
    if due is not None and now >= due:
        state, orders = feed_keeper(state, Tick(), now)
    for operation in state.operations:
        if operation.running and operation.kind in ("abort", "endpoint-restart"):
            ended = _overdue(state, operation, now)
            if ended is not None:
                state = replace(state, operations=put(state.operations, ended))
    return state, orders


def _overdue(state: RigState, operation: Operation, now: Mono) -> Operation | None:
    if operation.kind == "abort":
        if now - operation.since < ABORT_SECONDS:
            return None
        say = f"the endpoint has not said for {ABORT_SECONDS:.0f} s whether it ended"
        return end(operation, "failed", say, now)
    phase = state.endpoint.keeper.phase
    if isinstance(phase, Spawning | Opening):
        return None
    if isinstance(phase, Serving) and phase.since >= operation.since:
        return end(operation, "done", f"pid {phase.process.pid} serves", now)
    if isinstance(phase, Serving):
        return end(operation, "failed", "the new proxy did not come up; the old one serves", now)
    return end(operation, "failed", phase.why, now)

"""What an act means to those who ask at the endpoint, in numbers from its own rows."""

from __future__ import annotations

from rigctl.core import gate_says
from rigctl.core.clusters import RoutePolicy, Standing
from rigctl.core.flow import ClusterRow, SessionRow
from rigctl.core.reading import Missing, known
from rigctl.core.snapshot import GroupView
from rigctl.tui import words
from rigctl.tui.endpoint import cluster, in_flight, told
from rigctl.tui.state import PanelState

_ADMITS = frozenset(standing.value for standing in Standing if standing.admits)


def gate(state: PanelState, group: GroupView, comes_back: bool) -> list[str]:
    """Where new requests go and which sessions go cold; nothing without an endpoint.

    `comes_back`: the engine is started again at once, so that what only fits there is held.
    """
    row = cluster(state.endpoint, group.name)
    if row is None:
        return []
    others = [
        one.cluster
        for one in state.endpoint.rows.clusters
        if one.cluster != group.name and one.gate == "open" and one.standing in _ADMITS
    ]
    small = _smaller(state, group, others)
    over = words.window(small) if small else ""
    lines = [gate_says.new_requests(others, over, comes_back=comes_back)]
    return [*lines, *_cold(state, group, row)]


def _smaller(state: PanelState, group: GroupView, others: list[str]) -> int:
    """The largest window among the others, where this group's is larger; else 0."""
    windows = [view.window for name in others if (view := state.find_group(name)) is not None]
    most = max(windows, default=0)
    return most if 0 < most < group.window else 0


def _cold(state: PanelState, group: GroupView, row: ClusterRow) -> list[str]:
    sessions = [one for one in state.endpoint.rows.sessions if one.cluster == group.name]
    count = max(row.homes, len({one.session for one in sessions}))
    if not count:
        return []
    contexts = [one.context for one in sessions]
    tokens = sum(known(context, 0.0) for context in contexts)
    rate, measured = _prefill_rate(group)
    said = gate_says.cold(
        count,
        words.tokens(tokens) if tokens else "",
        words.whole_seconds(tokens / rate),
        least=len(sessions) < count or any(isinstance(each, Missing) for each in contexts),
        assumed="" if measured else f"{rate:.0f}",
    )
    return [said]


def _prefill_rate(group: GroupView) -> tuple[float, bool]:
    """Prompt tokens a second, and whether that was measured.

    Only while a prompt is read and nothing else does the counter's pace tell what the engine can.
    """
    rate, flow = known(group.rates.prefill, 0.0), group.flow
    left, eta = known(flow.tokens_left, 0.0), known(flow.eta, 0.0)
    if flow.state in {"prefilling", "stalled", "slowed"} and left > 0 and eta > 0:
        return left / eta, True
    if flow.state in {"prefilling", "stalled"} and rate > 0:
        return rate, True
    return RoutePolicy().prefill_prior, False


def request_name(state: PanelState) -> str:
    """`a1b2c3d4 of anna`, for the title of a question and its answer."""
    row = state.session_row
    if row is None:
        return ""
    return row.session if not row.client.strip("-") else f"{row.session} of {row.client}"


def abort(state: PanelState) -> tuple[str, ...]:
    """Whose request, how long it ran, what it made, and what its client will see."""
    row = state.session_row
    if row is None:
        return ()
    who = row.client if row.client.strip("-") else "A client without a key"
    where = f" on {row.cluster}" if row.cluster else ""
    return (
        f"{who} asked it{where}: turn {row.turn} of session {row.session}, request {row.request}.",
        _so_far(row),
        "Its client gets an error that says it was ended here; nothing is tried elsewhere.",
        "What was read of its prompt stays cached.",
    )


def _so_far(row: SessionRow) -> str:
    made = words.plural(row.produced, "token") if row.produced else "no token"
    context = row.context
    prompt = "" if isinstance(context, Missing) else f", {words.tokens(context)} of context"
    lasts = words.duration(round(row.seconds))
    return f"It has been {row.state} for {lasts}; it made {made} so far{prompt}."


def restart_endpoint(state: PanelState) -> tuple[str, ...]:
    """Nobody is cut off: the old process finishes what it has."""
    endpoint = state.endpoint
    if not told(endpoint):
        return (
            f"Starts a new process behind {endpoint.url}.",
            "Requests that an old one still carries are cut off where it does not answer.",
        )
    flight = in_flight(endpoint)
    runs = (
        "No answer runs."
        if not flight
        else f"{words.plural(flight, 'answer')} {'runs' if flight == 1 else 'run'}: "
        "finished by the old process, within its limit."
    )
    queued = endpoint.rows.queued
    wait = f" {words.plural(queued, 'request')} queued there go on waiting." if queued else ""
    return (
        f"A new process takes {endpoint.url} over; no connection is refused meanwhile.",
        f"{runs}{wait}",
    )

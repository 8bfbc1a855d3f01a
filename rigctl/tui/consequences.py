"""What an act would do, in numbers from the snapshot: the text of every question."""

from __future__ import annotations

from rigctl.core.reading import Missing, Reading, known
from rigctl.core.snapshot import CardView, GroupView
from rigctl.tui import gate_words, words
from rigctl.tui.endpoint import cluster
from rigctl.tui.state import PanelState

RUNNING = frozenset({"starting", "ready", "draining", "stopping", "backing_off"})


def free(state: PanelState, group: GroupView) -> tuple[str, ...]:
    """Drain, stop, verify, lend: what ends, what is lost, who else holds the cards."""
    snapshot = state.snapshot
    limit = snapshot.free_drain_limit if snapshot else group.drain_limit
    lines = [_cards(state, group)]
    if group.state in RUNNING:
        lines += [*_answers(state, group, limit), *_price(group), *_processes(group)]
    else:
        lines.append("No engine runs there: nothing ends.")
    lines += _foreign(state.cards_of(group.name))
    lines += _elsewhere(state, group, comes_back=False)
    return tuple(lines)


def start(state: PanelState) -> tuple[str, ...]:
    """Nothing ends by a start; asked all the same while power limits are not what they should be.

    The first burst of an engine at the default limits is what trips a supply (C09).
    """
    found = () if state.snapshot is None else state.snapshot.notices
    return tuple(f"Power {each.say}" for each in found if each.id == "power-limits")


def stop(state: PanelState, group: GroupView) -> tuple[str, ...]:
    """What a stop ends and what the way back costs."""
    lines = [*_answers(state, group, group.drain_limit), *_price(group), *_processes(group)]
    return (*lines, *_elsewhere(state, group, comes_back=False))


def restart(state: PanelState, group: GroupView) -> tuple[str, ...]:
    """A stop and a start in one."""
    lines = [*_answers(state, group, group.drain_limit), *_away(group), *_processes(group)]
    if group.differs:
        lines.append(
            f"{words.plural(len(group.differs), 'setting')} will differ: {group.differs[0]}"
        )
    return (*lines, *_elsewhere(state, group, comes_back=True))


def sleep(state: PanelState, group: GroupView) -> tuple[str, ...]:
    """The sleep toggle needs a restart; say what that costs and what is drawn now."""
    wish = "off" if group.sleep.wanted else "on"
    lines = [f"sleep-on-idle {wish} needs a restart of {group.name}."]
    if group.state in RUNNING:
        lines += [*_answers(state, group, group.drain_limit), *_away(group)]
        busy = group.scheduler_cpu
        if not isinstance(busy, Missing):
            lines.append(
                f"Now: {words.watts(group.power.watts, 'cards')}, "
                f"scheduler {words.share(busy)} of a core."
            )
    else:
        lines.append("No engine runs: the wish is noted for its next start.")
    return (*lines, *_elsewhere(state, group, comes_back=True))


def reclaim(state: PanelState, group: GroupView) -> tuple[str, ...]:
    """Ends the lease, ends nobody's process; the engine waits for the cards."""
    lease = group.lease
    if lease is None:
        return ()
    held = lease.held_bytes
    lines = [
        f"Ends the lease of {lease.holder}.",
        (
            f"Cards {_indexes(state, group)} hold "
            f"{words.at_least(held, words.gib(held.value) + ' GiB', 'cards')} now."
        ),
    ]
    if lease.pid is not None:
        command = f" ({lease.command})" if lease.command else ""
        lines.append(f"pid {lease.pid}{command} is not ended by this: end it yourself.")
    lines.append(f"{group.name} starts once NVML shows its cards free{_after(group)}.")
    return tuple(lines)


def leftovers(state: PanelState, group: GroupView) -> tuple[str, ...]:
    """Which pids of the group's own past engine are ended, and nothing else."""
    pids = " ".join(str(pid) for pid in group.leftovers)
    return (
        (
            f"Ends {words.plural(len(group.leftovers), 'process', 'processes')} "
            f"of {group.name}'s own past engine: {pids}."
        ),
        "Each is checked again first; nothing else is signalled.",
    )


def confirm_state(state: PanelState, group: GroupView | None) -> tuple[str, ...]:
    """Accept what was rebuilt from /proc: from then on engines are signalled again."""
    groups = state.snapshot.groups if state.snapshot else ()
    running = [f"{view.name} (pid {view.pid})" for view in groups if view.pid is not None]
    found = ", ".join(running) or "no running engine"
    return (
        "The state file could not be read; the state was rebuilt from /proc:",
        f"{found}.",
        "Accepting lets rigctl signal these processes again.",
    )


def release(state: PanelState, group: GroupView | None) -> tuple[str, ...]:
    """Close every NVML handle for a while."""
    cards = len(state.snapshot.cards) if state.snapshot else 0
    return (
        f"All {words.plural(cards, 'card')} go unwatched for 60 s, so that one can be reset.",
        "Engines go on; a card in use by one cannot be reset.",
    )


def stop_daemon(state: PanelState, group: GroupView | None) -> tuple[str, ...]:
    """Engines go on without the daemon; nobody watches them."""
    groups = state.snapshot.groups if state.snapshot else ()
    running = sum(view.pid is not None for view in groups)
    return (
        f"{words.plural(running, 'engine')} go on running, unwatched, until a daemon starts.",
        "Crashes are not noticed and leases not warned about meanwhile.",
    )


def _answers(state: PanelState, group: GroupView, limit: Reading) -> list[str]:
    """By the endpoint's own count, where there is one: the engine's gauges lag behind it."""
    waiting = known(group.slots.queued, 0)
    running = group.in_flight if not isinstance(group.in_flight, Missing) else group.slots.running
    row = cluster(state.endpoint, group.name)
    if row is not None:
        running, waiting = max(float(row.in_flight), known(group.in_flight, 0.0)), row.waiting
    if isinstance(running, Missing):
        return [f"How many answers run cannot be told now: {words.why(running)}."]
    if running == 0 and waiting == 0:
        return ["No answer runs."]
    queue = f", {waiting:.0f} queued" if waiting else ""
    grace = (
        "the group's drain limit"
        if isinstance(limit, Missing)
        else f"up to {words.duration(limit)}"
    )
    run = "runs" if round(running) == 1 else "run"
    return [f"{words.plural(running, 'answer')} {run}{queue}: {grace} to finish, then cut off."]


def _price(group: GroupView) -> list[str]:
    lost = _cached(group)
    back = group.start_estimate
    if isinstance(back, Missing):
        return [f"{lost} Coming back takes as long as a start; no start was timed yet."]
    return [f"{lost} Coming back takes about {words.whole_seconds(back)}."]


def _away(group: GroupView) -> list[str]:
    back = group.start_estimate
    away = (
        "for one start (none was timed yet)"
        if isinstance(back, Missing)
        else f"for about {words.whole_seconds(back)}"
    )
    return [f"{group.name} is away {away}. {_cached(group)}"]


def _cached(group: GroupView) -> str:
    used, cached = group.kv.used, group.kv.cached
    if isinstance(cached, Missing):
        return "All cached prompts are lost."
    gone = cached + known(used, 0)
    return f"{words.tokens(gone)} cached tokens are lost."


def _processes(group: GroupView) -> list[str]:
    if group.pid is None:
        return []
    count = max(1, group.process_count)
    return [f"Ends {words.plural(count, 'process', 'processes')} of pid {group.pid}'s session."]


def _foreign(cards: tuple[CardView, ...]) -> list[str]:
    lines: list[str] = []
    blocked = 0
    for card in cards:
        if card.use != "foreign" or isinstance(card.processes, Missing):
            continue
        blocked += 1
        for process in card.processes:
            name = process.name or "not visible here"
            owner = f" of {process.user}" if process.user else ""
            held = words.gib(process.used_bytes)
            lines.append(f"Card {card.index}: pid {process.pid} {name}{owner} holds {held} GiB.")
    if blocked:
        lines.append(f"Not ours, so not ended: {len(cards) - blocked} of {len(cards)} free then.")
    return lines


def _elsewhere(state: PanelState, group: GroupView, *, comes_back: bool) -> list[str]:
    """Who answers meanwhile: by the endpoint's gates where it is, else by the other engines."""
    if group.state not in RUNNING:
        return _others(state, group)
    return gate_words.gate(state, group, comes_back) or _others(state, group)


def _others(state: PanelState, group: GroupView) -> list[str]:
    groups = state.snapshot.groups if state.snapshot else ()
    others = [view for view in groups if view.name != group.name and view.state == "ready"]
    if not others:
        return ["No other engine is ready: nobody answers meanwhile."]
    parts = []
    for view in others:
        running, slots = view.slots.running, view.slots.effective
        parts.append(f"{view.name} ({words.number(running)} of {words.number(slots)} slots busy)")
    return [f"{', '.join(parts)} {'goes' if len(parts) == 1 else 'go'} on."]


def _cards(state: PanelState, group: GroupView) -> str:
    cards = state.cards_of(group.name)
    return f"Takes {words.plural(len(cards), 'card')} from {group.name}: {_indexes(state, group)}."


def _indexes(state: PanelState, group: GroupView) -> str:
    return words.ranges([card.index for card in state.cards_of(group.name)]) or "none"


def _after(group: GroupView) -> str:
    back = group.start_estimate
    return "" if isinstance(back, Missing) else f", about {words.whole_seconds(back)} later"

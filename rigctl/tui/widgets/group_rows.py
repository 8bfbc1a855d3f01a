"""One group as rows of spans: pure, so that every state can be looked at without a terminal."""

from __future__ import annotations

from rigctl.core.flow import ClusterRow
from rigctl.core.reading import OFF, Missing, Reading, known
from rigctl.core.snapshot import GroupView, Phase
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, bar, joined, stacked, wrapped
from rigctl.tui.widgets.flow_rows import Ranked, flow_rows, standing_row

LABEL = 7
NONE = OFF
"""Stands for a share that nothing tells: an empty bar."""


def label(text: str) -> tuple[str, str]:
    """A dim label in the first column."""
    return (f"{text:<{LABEL}}", "dim")


def sign(view: GroupView, glyphs: Glyphs) -> tuple[str, str, str]:
    """Glyph, word and role of the group's state: never colour alone."""
    if view.state == "ready" and view.flow.state in {"hung", "broken"}:
        return glyphs.failed, view.flow.state.upper(), "bad"
    if view.lease is not None and view.state in {"off", "failed"}:
        if view.lease.overdue:
            return glyphs.warning, "OVERDUE", "warn"
        return glyphs.open_ring, "lent", "text"
    return {
        "off": (glyphs.open_ring, "off", "dim"),
        "starting": (glyphs.busy, "starting", "accent"),
        "ready": (glyphs.ready, "watched" if view.watched else "ready", "good"),
        "draining": (glyphs.busy, "draining", "accent"),
        "stopping": (glyphs.busy, "stopping", "accent"),
        "backing_off": (glyphs.warning, "backing off", "warn"),
        "failed": (glyphs.failed, "FAILED", "bad"),
    }.get(view.state, ("?", view.state, "dim"))


def title(view: GroupView, marked: bool, glyphs: Glyphs, cells: int = 999) -> Line:
    """Name, window where there is room, and whether it is the group that keys act on."""
    stretched = f" {view.stretched.split()[0]}" if view.stretched else ""
    window = words.window(view.window)
    tail = f" {glyphs.dot} {window}{stretched}" if window else ""
    mark = ((f"{glyphs.marker} ", "accent"),) if marked else ()
    name: Line = (*mark, (view.name, "strong"))
    for more in (tail, f" {glyphs.dot} {window}" if window else "", ""):
        if sum(len(text) for text, _ in name) + len(more) <= cells:
            return (*name, (more, "text")) if more else name
    return name


def state_line(view: GroupView, now: float, glyphs: Glyphs) -> Line:
    """`● ready 3d 04h`, for the right end of the upper edge."""
    glyph, word, role = sign(view, glyphs)
    seconds = view.seconds
    if view.state == "ready":
        seconds = known(view.up_seconds, view.seconds)
    if view.lease is not None and word in {"lent", "OVERDUE"}:
        seconds = max(0.0, now - view.lease.since)
    # What lasts is told in minutes, so that the screen of a calm rig stands still.
    lasts = view.state in ("ready", "off", "failed")
    age = words.age(seconds) if lasts else words.duration(round(seconds))
    return ((f"{glyph} ", role), (word, role), (f" {age}", "dim"))


def edge(view: GroupView, marked: bool) -> str:
    """The role of the frame."""
    if view.state == "failed" and view.lease is None:
        return "edge-bad"
    if view.state == "ready" and view.flow.state in {"hung", "broken"}:
        return "edge-bad"
    overdue = view.lease is not None and view.lease.overdue
    if overdue or view.state == "backing_off" or view.flow.state in {"stalled", "slowed"}:
        return "edge-warn"
    return "edge-marked" if marked else "edge"


def rows(
    view: GroupView,
    indexes: list[int],
    now: float,
    cells: int,
    height: int,
    glyphs: Glyphs,
    hint: Line = (),
    free: Reading = OFF,
    row: ClusterRow | None = None,
    culprit: str = "",
) -> list[Line]:
    """What the panel says inside the frame, at most `height` rows.

    The hint names a key; `free` is the memory of its cards that nobody holds, in bytes; `row` is
    how the endpoint counts and judges it, `culprit` the client whose prompt makes others wait.
    """
    if view.lease is not None and view.state in {"off", "failed"}:
        ranked = [*_lent(view, indexes, now, cells, glyphs, free), (6, hint)]
    elif view.state == "starting":
        ranked = _starting(view, cells, glyphs)
    elif view.state in {"ready", "draining", "stopping"}:
        ranked = _running(view, cells, glyphs, row, culprit)
    else:
        ranked = _down(view, indexes, cells, glyphs)
    spare = len(ranked) - height
    if spare > 0:
        drop = set(sorted(range(len(ranked)), key=lambda at: (-ranked[at][0], -at))[:spare])
        ranked = [row for at, row in enumerate(ranked) if at not in drop]
    return [line for _, line in ranked] + [()] * (height - len(ranked))


def pool_row(view: GroupView, cells: int, glyphs: Glyphs) -> Line:
    """Used, cached and free of the KV pool in one bar; over 100 % is marked, not hidden (C74)."""
    pool = view.kv
    total = pool.total
    if isinstance(total, Missing) or total <= 0:
        percent = words.share(pool.usage)
        over = _over(pool.usage, glyphs)
        meter = bar(pool.usage, max(3, cells - LABEL - 20), glyphs)
        known_share = not isinstance(pool.usage, Missing)
        noun = (" of the pool", "dim") if known_share else ("", "dim")
        figure: Line = ((f"  {percent}", "strong"), over, noun)
        return (label("pool"), *meter, *figure)
    used = pool.used
    used_share: Reading = used if isinstance(used, Missing) else used / total
    cached: Reading = pool.cached if isinstance(pool.cached, Missing) else pool.cached / total
    over = _over(used_share, glyphs)
    figure = (
        (f"{words.tokens(used):>6}", "strong"),
        over,
        (f" / {words.tokens(total)}", "dim"),
    )
    room, roomy = _pool_room(view, cells)
    extra: Line = ((f"  cached {words.share(cached)}", "dim"),) if roomy else ()
    meter = stacked(((used_share, "used"), (cached, "cached")), room - len(over[0]), glyphs)
    return (label("pool"), *meter, (" ", "text"), *figure, *extra)


def _pool_room(view: GroupView, cells: int) -> tuple[int, bool]:
    """Cells of the pool's bar, and whether the cached share fits beside its figures."""
    room = cells - LABEL - 1 - 6 - 3 - len(words.tokens(view.kv.total))
    roomy = room - 15 >= 16
    return max(3, min(30, room - 15 if roomy else room)), roomy


def _over(share: Reading, glyphs: Glyphs) -> tuple[str, str]:
    over = not isinstance(share, Missing) and share > 1
    return ("!", "warn") if over else ("", "text")


def state_pool_row(view: GroupView, cells: int, glyphs: Glyphs) -> Line:
    """The recurrent-state pool, apart from the tokens; nothing where the engine has none."""
    usage = view.mamba.usage
    if isinstance(usage, Missing):
        return ()
    meter = stacked(((usage, "used"),), _pool_room(view, cells)[0], glyphs)
    return (label("mamba"), *meter, (f" {words.share(usage):>6}", "text"), _over(usage, glyphs))


def slots_row(view: GroupView, cells: int, glyphs: Glyphs, row: ClusterRow | None = None) -> Line:
    """One sign a slot, how many run, and the queue: by the endpoint's count where it counts."""
    slots = view.slots
    running, limit, queued = slots.running, slots.effective, slots.queued
    if row is not None and row.slots > 0:
        running, limit = float(row.in_flight), float(row.slots)
        # What the engine itself queues was sent, and is in the endpoint's count.
        queued = float(row.waiting)
    signs: Line = ()
    if not isinstance(running, Missing) and not isinstance(limit, Missing) and 0 < limit <= 16:
        busy = min(int(running), int(limit))
        signs = (
            (glyphs.slot_used * busy, "used"),
            (glyphs.slot_free * (int(limit) - busy), "dim"),
            ("  ", "text"),
        )
    bare = isinstance(running, Missing) and isinstance(limit, Missing)
    of = "" if bare else f" of {words.number(limit)}"
    count: Line = ((words.number(running), "strong"), (of, "dim"))
    role = "warn" if known(queued, 0) > 0 else "text"
    queue: Line = (("queue ", "dim"), (words.number(queued), role))
    return (label("slots"), *signs, *joined([count, queue], limit=cells - LABEL - 10))


def rates_row(view: GroupView, cells: int) -> Line:
    """Decode, prefill, accept length and cache hits, each in its place: what fits, in that order.

    Without any figure the row says why.
    """
    rates, flow = view.rates, view.flow
    if isinstance(rates.decode, Missing) and isinstance(rates.prefill, Missing):
        return (label("decode"), (f"{words.ABSENT}  {words.why(rates.decode)}", "dim"))
    stalled = flow.state in {"stalled", "hung"}
    role = "bad" if stalled else "strong"
    parts: list[Line] = [
        _placed("", words.number(rates.decode), " tok/s", 10, role),
        _placed("prefill ", words.number(rates.prefill), "", 12),
        _placed("accept ", words.number(rates.accept_length, 1), "", 10),
        _placed("cache ", words.share(rates.hit), "", 0),
    ]
    return (label("decode"), *joined(parts, gap="  ", limit=cells - LABEL))


def _placed(before: str, figure: str, after: str, cells: int, role: str = "text") -> Line:
    """A figure between dim words, as wide as it may become: its neighbours do not move."""
    pad = " " * max(0, cells - len(before) - len(figure) - len(after))
    spans = ((before, "dim"), (figure, role), (after + pad, "dim"))
    return tuple(span for span in spans if span[0])


def power_row(view: GroupView, cells: int) -> Line:
    """Watts of the group, what one full session takes, and the sleep switch."""
    sleep = view.sleep.say or ("on" if view.sleep.wanted else "off")
    limit = view.power.limit
    of = f" of {limit.value:.0f}" if limit.counted and view.power.watts.complete else ""
    parts: list[Line] = [
        _placed("", words.watts(view.power.watts), of, 14),
        _placed("sleep ", sleep, "", 9),
    ]
    if not isinstance(view.window_share, Missing):
        role = "warn" if view.window_share > 1 else "text"
        parts.append((("full window ", "dim"), (words.share(view.window_share), role)))
    return (label("power"), *joined(parts, limit=cells - LABEL))


def _running(
    view: GroupView, cells: int, glyphs: Glyphs, row: ClusterRow | None, culprit: str
) -> list[Ranked]:
    out: list[Ranked] = []
    if view.state in {"draining", "stopping"}:
        out += _leaving(view, cells, glyphs)
    if view.state != "stopping":
        out.append((2, pool_row(view, cells, glyphs)))
        state_pool = state_pool_row(view, cells, glyphs)
        if state_pool:
            out.append((7, state_pool))
        out.append((3, slots_row(view, cells, glyphs, row)))
        out.append((4, rates_row(view, cells)))
    flow = flow_rows(view, cells, glyphs, row, culprit)
    judged = standing_row(view, row, cells, glyphs) if row is not None else ()
    power: Ranked = (5, power_row(view, cells))
    out.append(power)
    if judged:
        out.append((0, judged))
    if flow:
        out += [(8, ()), *flow]
    elif view.leftovers:
        out.append((1, ((f"{glyphs.warning} ", "warn"), (_leftover_text(view), "text"))))
    stale = view.sample_age
    if not isinstance(stale, Missing) and stale > 10:
        out.append((1, ((f"{glyphs.warning} figures are {words.duration(stale)} old", "warn"),)))
    return out


def _leaving(view: GroupView, cells: int, glyphs: Glyphs) -> list[Ranked]:
    left = view.countdown
    running = view.in_flight if not isinstance(view.in_flight, Missing) else view.slots.running
    left_over = known(running, 0)
    what = f"{words.plural(left_over, 'answer')} left" if left_over >= 0.5 else "no answer runs"
    what = what if view.state == "draining" else ""
    limit = "" if isinstance(left, Missing) else f"at most {words.whole_seconds(left)} more"
    text = ", ".join(part for part in (what, limit) if part) or view.say
    # The frame has the word already; where it is narrow the figures need the room.
    lead = f"{glyphs.busy} {view.state}  " if cells >= 50 else f"{glyphs.busy} "
    return [(0, ((lead, "accent"), (text, "text")))]


def _leftover_text(view: GroupView) -> str:
    pids = " ".join(str(pid) for pid in view.leftovers)
    return f"leftovers of a past engine: {pids}"


def _starting(view: GroupView, cells: int, glyphs: Glyphs) -> list[Ranked]:
    estimate = view.start_estimate
    share: Reading = NONE
    figure: Line = ((words.duration(round(view.seconds)), "strong"),)
    if not isinstance(estimate, Missing) and estimate > 0:
        share = min(1.0, view.seconds / estimate)
        figure = (*figure, (f" of about {words.whole_seconds(estimate)}", "dim"))
    room = max(6, min(26, cells - LABEL - 2 - sum(len(text) for text, _ in figure)))
    out: list[Ranked] = [
        (0, (label("start"), *bar(share, room, glyphs, "accent"), ("  ", "text"), *figure))
    ]
    for place, phase in enumerate(view.phases):
        out.append((2 + len(view.phases) - place, phase_row(phase, glyphs)))
    if view.say:
        out.append((9, ((view.say, "dim"),)))
    return out


def phase_row(phase: Phase, glyphs: Glyphs) -> Line:
    """One phase of a start with its time and the usual one."""
    glyph, role = (glyphs.done, "good") if phase.done else (glyphs.now, "accent")
    usual = phase.usual
    begun = phase.done or phase.seconds > 0
    if not begun:
        glyph, role = glyphs.dot, "dim"
    seconds = words.duration(round(phase.seconds)) if begun else ""
    tail = "" if isinstance(usual, Missing) else f"usually {words.whole_seconds(usual)}"
    late = not isinstance(usual, Missing) and phase.seconds > max(usual * 1.5, usual + 5)
    return (
        (f"{glyph} ", role),
        (f"{phase.name:<9}", "text" if begun else "dim"),
        (f"{seconds:>7}", "warn" if late else "strong"),
        (f"   {tail}", "dim"),
    )


def _lent(
    view: GroupView,
    indexes: list[int],
    now: float,
    cells: int,
    glyphs: Glyphs,
    free: Reading,
) -> list[Ranked]:
    lease = view.lease
    assert lease is not None
    opening, closing = glyphs.quotes[0], glyphs.quotes[1]
    who: Line = ((f"{opening}{lease.holder}{closing}", "strong"),)
    process: Line = ()
    if lease.pid is not None:
        process = ((f"pid {lease.pid} {lease.command}".rstrip(), "dim"),)
    until: Line = (("until ", "dim"), ("open end", "text"))
    left: Line = ()
    if lease.until is not None:
        until = (("until ", "dim"), (words.day_clock(lease.until, now), "text"))
        over = now - lease.until
        if lease.overdue:
            left = ((f"{glyphs.warning} {words.duration(round(max(0, over)))} over", "warn"),)
        else:
            left = ((f"{words.duration(round(max(0.0, -over)))} left", "dim"),)
    since: Line = ((words.day_clock(lease.since, now), "text"),)
    held = lease.held_bytes
    cards: Line = ((words.ranges(indexes, glyphs), "text"),)
    if held.complete and held.counted and held.value < 2**29 and not isinstance(free, Missing):
        cards = (*cards, ("   free ", "dim"), (words.gib(free), "strong"), (" GiB", "dim"))
    else:
        memory = words.at_least(held, f"{words.gib(held.value)} GiB")
        cards = (*cards, ("   held ", "dim"), (memory, "text"))
    room = cells - LABEL
    out: list[Ranked] = [
        (0, (label("to"), *joined([who, process], limit=room))),
        (1, (label("since"), *joined([since, until, left], limit=room))),
        (3, (label("cards"), *cards)),
        (4, (label("power"), (words.watts(view.power.watts), "text"))),
        (8, ()),
    ]
    if not isinstance(view.start_estimate, Missing):
        back = words.whole_seconds(view.start_estimate)
        out.append(
            (
                5,
                (
                    ("back about ", "dim"),
                    (back, "text"),
                    (" after a reclaim" if cells >= 31 else "", "dim"),
                ),
            )
        )
    return out


def _down(view: GroupView, indexes: list[int], cells: int, glyphs: Glyphs) -> list[Ranked]:
    glyph, word, role = sign(view, glyphs)
    out: list[Ranked] = []
    text = view.say or {"off": "nothing runs here"}.get(view.state, word)
    loud = role if view.state == "failed" else "text"
    for place, row in enumerate(wrapped(text, cells - 2)):
        lead = f"{glyph} " if place == 0 and view.state == "failed" else "  "
        out.append((min(place, 2), ((lead if view.state == "failed" else "", role), (row, loud))))
    if not isinstance(view.countdown, Missing):
        again = f"next try in {words.whole_seconds(view.countdown)}"
        out.append((1, ((again, "text"),)))
    if view.leftovers:
        out.append((1, ((f"{glyphs.warning} ", "warn"), (_leftover_text(view), "text"))))
    if view.crashes:
        crashes = words.plural(view.crashes, "crash", "crashes")
        out.append((3, ((f"{crashes} since a person started it", "dim"),)))
    if view.advice:
        out += [
            (2, (("next  ", "dim"), (row, "accent"))) for row in wrapped(view.advice, cells - 6)[:1]
        ]
    out.append((4, (label("cards"), (words.ranges(indexes, glyphs) or "none seen", "text"))))
    out.append((5, (label("power"), (words.watts(view.power.watts), "text"))))
    if not isinstance(view.start_estimate, Missing):
        back = words.whole_seconds(view.start_estimate)
        out.append((6, (("a start takes about ", "dim"), (back, "text"))))
    return out

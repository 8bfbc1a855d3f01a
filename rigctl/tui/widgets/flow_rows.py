"""What stands in an engine's way, or the prompt it reads: since when, how much left, who waits."""

from __future__ import annotations

from rigctl.core.clusters import Standing
from rigctl.core.flow import ClusterRow
from rigctl.core.reading import OFF, Missing, Reading, known
from rigctl.core.snapshot import GroupView
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, bar, fit

Ranked = tuple[int, Line]
"""A row and its rank: where height is short, the highest ranks go first."""


def flow_rows(
    view: GroupView,
    cells: int,
    glyphs: Glyphs,
    row: ClusterRow | None = None,
    culprit: str = "",
) -> list[Ranked]:
    """Stall, slowed, hung, broken, or the prompt being read: with since, left, ETA and who."""
    flow = view.flow
    names = {
        "stalled": ("PREFILL STALL", "warn"),
        "slowed": ("SLOWED by prefill", "warn"),
        "hung": ("HUNG", "bad"),
        "broken": ("BROKEN", "bad"),
        "prefilling": ("prefilling", "accent"),
    }
    if flow.state not in names:
        return []
    name, role = names[flow.state]
    glyph = {"prefilling": glyphs.now}.get(flow.state, glyphs.warning)
    since = f" {words.duration(round(flow.since))}"
    told = flow.say
    if row is not None and row.culprit:
        # Who is read and who waits has a row of its own below.
        told = told.partition(f"{row.culprit} is read")[0].rstrip(": ")
    waits = known(flow.waiting, 0)
    wait = f"{words.plural(waits, 'answer')} wait{'s' if round(waits) == 1 else ''}"
    short = wait if waits > 0 else ""
    least = f"{waits:.0f} wait" if waits > 0 else ""
    # Who waits is worth more than the whole sentence, and that more than the whole name.
    brief = name.replace("PREFILL ", "").replace(" by prefill", "")
    name, say = next(
        (
            (noun, text)
            for noun, text in (
                (name, told or short),
                (name, short),
                (brief, short),
                (brief, least),
            )
            if len(glyph) + 1 + len(noun) + len(since) + 2 + len(text) <= cells
            and (text or not told)
        ),
        (brief, least or told),
    )
    head: Line = ((f"{glyph} ", role), (name, role), (since, "strong"))
    gap = "   " if sum(len(text) for text, _ in head) + 3 + len(say) <= cells else "  "
    out: list[Ranked] = [(0, (*head, (gap, "text"), (say, "text")))]
    if row is not None and row.culprit:
        out.append((2, who_row(row, culprit, cells, glyphs)))
    left, total = flow.tokens_left, flow.tokens_total
    if isinstance(left, Missing) or left <= 0:
        return out
    figure: Line = ((f"{words.tokens(left)} left", "text"),)
    share: Reading = OFF
    if not isinstance(total, Missing) and total > 0:
        share = max(0.0, 1 - left / total)
        figure = ((words.tokens(left), "text"), (f" of {words.tokens(total)} left", "dim"))
    if not isinstance(flow.eta, Missing):
        eta = (f", ~{words.whole_seconds(flow.eta)}", "text")
        if sum(len(text) for text, _ in (*figure, eta)) > cells - 7:
            figure = ((f"{words.tokens(left)} left", "text"),)
        figure = (*figure, eta)
    room = max(3, min(22, cells - 4 - sum(len(text) for text, _ in figure)))
    out.append((1, (("  ", "text"), *bar(share, room, glyphs, role), ("  ", "text"), *figure)))
    return out


def who_row(row: ClusterRow, client: str, cells: int, glyphs: Glyphs) -> Line:
    """Whose prompt is read and who waits for it: as many names as fit, and how many more."""
    whose = f"  {client} {row.culprit}" if client else f"  {row.culprit}"
    if len(whose) + 18 > cells:
        whose = f"  {row.culprit}"
    waiting = row.waiting_behind
    if not waiting:
        return fit(((whose, "strong"), (" is read", "dim")), cells, glyphs)
    verb = " makes wait: "
    if len(whose) + len(verb) + len(" ".join(waiting)) > cells:
        verb = " holds "
    room = cells - len(whose) - len(verb)
    for count in range(len(waiting), 0, -1):
        more = f" +{len(waiting) - count}" if count < len(waiting) else ""
        names = " ".join(waiting[:count]) + more
        if len(names) <= room:
            break
    return fit(((whose, "strong"), (verb, "dim"), (names, "text")), cells, glyphs)


def standing_row(view: GroupView, row: ClusterRow, cells: int, glyphs: Glyphs) -> Line:
    """How the endpoint judges it, with its evidence; nothing where the group's own rows say so."""
    if row.gate != "open" and view.state == "ready":
        shut = {"finish": "nothing new comes here, what runs ends"}.get(row.gate, "nothing is sent")
        return fit(((f"{glyphs.warning} gate {row.gate}: {shut}", "warn"),), cells, glyphs)
    told = {"up", "busy"} if view.state == "ready" else {word.value for word in Standing}
    if row.standing in told:
        return ()
    role = "bad" if row.standing == "down" else "warn"
    word = f"{row.standing.upper()} {words.age(row.seconds)}"
    sign = glyphs.failed if row.standing == "down" else glyphs.warning
    say = row.say or "by the endpoint's own evidence"
    return fit(((f"{sign} ", role), (word, role), ("  ", "text"), (say, "text")), cells, glyphs)

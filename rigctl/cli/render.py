"""The status page for people, from the snapshot's JSON; no core type is loaded for it."""

from __future__ import annotations

from rigctl.cli import endpoint_words, words
from rigctl.cli.card_table import card_table
from rigctl.cli.words import ABSENT, clock, count, number, percent, span, tokens, total

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rigctl.cli.paint import Paint

QUIET_REASONS = ("not sampled yet", "nothing runs that could report it")
"""Absences that explain themselves; the others get a footnote."""

TONES = {
    "ready": "good",
    "failed": "bad",
    "backing_off": "bad",
    "starting": "warning",
    "draining": "warning",
    "stopping": "warning",
}

STATE_WORDS = {"backing_off": "backing off"}


class Absences:
    """Collects why figures are missing, so that a page says each reason once."""

    def __init__(self) -> None:
        self._labels: dict[str, list[str]] = {}

    def see(self, label: str, value: Any) -> None:
        """Remember the reason of an absent value."""
        reason = words.why(value)
        if reason and reason not in QUIET_REASONS:
            self._labels.setdefault(reason, []).append(label)

    def lines(self) -> list[str]:
        """One line a reason."""
        return [
            f"{ABSENT} {reason}: {', '.join(dict.fromkeys(labels))}"
            for reason, labels in self._labels.items()
        ]


def page(snap: dict[str, Any], paint: Paint, width: int) -> list[str]:
    """The whole status, line by line, each at most `width` columns where it can be helped."""
    absences = Absences()
    lines = list(_head(snap, paint, width))
    lines.extend(_endpoint(snap, paint, width))
    for group in snap["groups"]:
        lines.append("")
        lines.extend(_group(group, snap, paint, width, absences))
    if snap["cards"]:
        lines.append("")
        lines.extend(card_table(snap["cards"], paint, width))
        _card_absences(snap["cards"], absences)
    running = [op for op in snap["operations"] if op["state"] == "running"]
    if running:
        lines.append("")
        lines.extend(
            cut(f"{op['kind']} {op['group']}: {op['say']} ({span(op['seconds'])})", width)
            for op in running
        )
    if snap["notices"]:
        lines.append("")
        lines.extend(_notices(snap["notices"], paint, width))
    notes = absences.lines()
    if notes:
        lines.append("")
        lines.extend(paint(cut(note, width), "dim") for note in notes)
    return lines


def cut(text: str, width: int) -> str:
    """The text, ended by an ellipsis where it does not fit; never cut from the left."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def wrap(text: str, width: int, indent: str = "", first: str = "") -> list[str]:
    """Whole words in lines of at most `width`, later ones indented; a longer word stays whole."""
    lines: list[str] = []
    line, start = "", first
    for word in text.split():
        if line and len(start) + len(line) + 1 + len(word) > width:
            lines.append(start + line)
            line, start = word, indent
        else:
            line = f"{line} {word}" if line else word
    return [*lines, start + line] if line else lines


def flow(parts: Iterable[str], width: int, indent: str = "  ") -> list[str]:
    """Parts side by side with two spaces, on as many lines as they need."""
    lines, line = [], ""
    for part in parts:
        if not part:
            continue
        if line and len(indent) + len(line) + 2 + len(part) > width:
            lines.append(indent + line)
            line = part
        else:
            line = f"{line}  {part}" if line else part
    return [*lines, indent + line] if line else lines


def _head(snap: dict[str, Any], paint: Paint, width: int) -> Iterable[str]:
    power = snap["power"]
    parts = [f"rigctl · {snap['rig']}"]
    drawn = total(power["watts"], "W", "cards")
    limit = total(power["limit"], "W", "cards")
    parts.append(drawn if limit == ABSENT else f"{drawn} of {limit}")
    energy = number(power["kwh_today"])
    if energy is not None:
        about = "about " if power["estimated"] else ""
        parts.append(f"{about}{energy:.1f} kWh today")
        cost = number(power["cost_today"])
        if cost is not None and snap["price_per_kwh"]:
            parts.append(f"{cost:.2f} {snap['currency']}")
    pool = snap["pool"]
    if number(pool["total"]) is not None:
        parts.append(f"pool {tokens(pool['used'])} of {tokens(pool['total'])} in use")
    parts.append(clock(snap["wall"], snap["wall"]))
    if snap["simulated"]:
        parts.append("simulated")
    first, *others = flow(parts, width, "")
    yield paint(first, "bold")
    yield from others
    if snap["nvml"]:
        yield from (paint(line, "bad") for line in wrap(f"! NVML: {snap['nvml']}", width, "  "))


def _endpoint(snap: dict[str, Any], paint: Paint, width: int) -> Iterable[str]:
    """One line: address, in flight, queued, oldest wait; below it why it does not serve."""
    view = endpoint_words.endpoint_of(snap)
    if view["state"] == "none":
        return
    title = endpoint_words.state(view)
    name = f"{'endpoint':<10}"
    parts = [endpoint_words.base_url(view["url"]), endpoint_words.traffic(view)]
    if not view["pid"]:
        parts.pop()
    first, *others = flow([f"{name} {title}", *parts], width, "")
    tone = endpoint_words.TONES.get(view["state"], "")
    painted = f"{paint(name, 'bold')} {paint(title, tone)}"
    yield painted + first.removeprefix(f"{name} {title}")
    yield from (f"  {line}" for line in others)
    trouble = endpoint_words.trouble(view)
    if trouble:
        yield from (paint(line, "bad") for line in wrap(f"! {trouble}", width, "  "))


def _group(
    group: dict[str, Any], snap: dict[str, Any], paint: Paint, width: int, absences: Absences
) -> Iterable[str]:
    state, tone = group["state"], TONES.get(group["state"], "")
    title = f"{STATE_WORDS.get(state, state)} {span(group['seconds'])}"
    if group["lease"] and group["lease"]["overdue"]:
        title, tone = f"{title}, OVERDUE", "warning"
    if group["watched"]:
        title += " (watched, not ours)"
    name = f"{group['name']:<10}"
    head = f"{paint(name, 'bold')} {paint(title, tone)}"
    if group["say"] and len(name) + len(title) + len(group["say"]) + 4 <= width:
        yield f"{head} · {group['say']}"
    else:
        yield head
        yield from wrap(group["say"], width, "  ", "  ")
    if group["lease"]:
        yield from _lease(group["lease"], snap["wall"], width)
    if state == "starting":
        yield from _phases(group, width)
    countdown = number(group["countdown"])
    if countdown is not None:
        in_flight = number(group["in_flight"])
        waits = f", {words.plural(in_flight, 'answer')} in flight" if in_flight else ""
        yield f"  {span(countdown)} until the limit{waits}"
    if number(group["kv"]["total"]) is not None or state in ("ready", "draining"):
        yield from _figures(group, paint, width, absences)
    window = f"window {tokens(group['window'])}" if group["window"] else ""
    if group["stretched"]:
        window += f" ({group['stretched']})"
    version = f"SGLang {group['engine_version']}" if group["engine_version"] else ""
    pid = f"pid {group['pid']}" if group["pid"] else ""
    sleep = f"sleep-on-idle {group['sleep']['say']}" if group["sleep"]["say"] else ""
    yield from (
        paint(line, "dim")
        for line in flow([group["model"], window, version, group["url"], pid, sleep], width)
    )
    if group["differs"]:
        yield f"  runs otherwise than configured: rigctl group show {group['name']}"
    if group["advice"]:
        yield from wrap("next: " + group["advice"], width, "  ", "  ")


def _lease(lease: dict[str, Any], wall: float, width: int) -> Iterable[str]:
    until = f"until {clock(lease['until'], wall)}" if lease["until"] is not None else "open-ended"
    held = total(
        lease["held_bytes"] | {"value": lease["held_bytes"]["value"] / 2**30}, "GiB", "cards"
    )
    runs = f"pid {lease['pid']} {lease['command']}".rstrip() if lease["pid"] else lease["command"]
    yield from flow(
        [
            f'lent to "{lease["holder"]}" since {clock(lease["since"], wall)}, {until}',
            runs,
            f"held {held}" if held != ABSENT else "",
        ],
        width,
    )


def _phases(group: dict[str, Any], width: int) -> Iterable[str]:
    parts = []
    for phase in group["phases"]:
        usual = number(phase["usual"])
        about = f" of ~{span(usual)}" if usual is not None and not phase["done"] else ""
        sign = "" if phase["done"] else "> "
        parts.append(f"{sign}{phase['name']} {span(phase['seconds'])}{about}")
    estimate = number(group["start_estimate"])
    if estimate is not None:
        parts.append(f"usually {span(estimate)} in all")
    yield from flow(parts, width)


def _figures(group: dict[str, Any], paint: Paint, width: int, absences: Absences) -> Iterable[str]:
    kv, mamba, slots, rates = group["kv"], group["mamba"], group["slots"], group["rates"]
    for label, value in (
        ("pool", kv["used"]),
        ("slots", slots["effective"]),
        ("decode", rates["decode"]),
        ("accept length", rates["accept_length"]),
        ("cache hit rate", rates["hit"]),
    ):
        absences.see(f"{group['name']} {label}", value)
    share = number(group["window_share"])
    in_use = f"{tokens(kv['used'])} of {tokens(kv['total'])}"
    yield from flow(
        [
            f"pool {in_use} in use, {tokens(kv['cached'])} cached",
            f"states {count(mamba['used'])} of {count(mamba['total'])}"
            if number(mamba["total"]) is not None
            else "",
            f"a full window takes {percent(share)}" if share is not None else "",
        ],
        width,
    )
    limit = count(slots["effective"])
    note = f" ({slots['note']})" if slots["note"] else ""
    yield from flow(
        [
            f"slots {count(slots['running'])} of {limit}{note}",
            f"queue {count(slots['queued'])}",
            f"decode {count(rates['decode'])} tok/s",
            f"prefill {count(rates['prefill'])} tok/s",
            f"accept {_one(rates['accept_length'])}",
            f"cache {percent(rates['hit'])}",
            f"{total(group['power']['watts'], 'W', 'cards')}",
        ],
        width,
    )
    yield from _flow_line(group["flow"], paint, width)


def _one(value: Any) -> str:
    got = number(value)
    return ABSENT if got is None else f"{got:.1f}"


def _flow_line(now: dict[str, Any], paint: Paint, width: int) -> Iterable[str]:
    if now["state"] in ("idle", "decoding", "unknown") and not now["say"]:
        return
    loud = now["state"] in ("stalled", "slowed", "hung", "broken")
    state = {"stalled": "PREFILL STALL"}.get(now["state"], now["state"])
    left = number(now["tokens_left"])
    eta = number(now["eta"])
    parts = [f"{'! ' if loud else ''}{state.upper() if loud else state} {span(now['since'])}"]
    parts.append(now["say"])
    if left is not None:
        whole = number(now["tokens_total"])
        parts.append(f"{tokens(left)} of {tokens(whole)} left" if whole else f"{tokens(left)} left")
    if eta is not None:
        parts.append(f"~{span(eta)}")
    tone = "bad" if now["state"] in ("hung", "broken") else "warning" if loud else ""
    yield from (paint(line, tone) for line in flow(parts, width))


def _notices(notices: list[dict[str, Any]], paint: Paint, width: int) -> Iterable[str]:
    signs = {"error": ("!!", "bad"), "warning": ("! ", "warning"), "info": ("i ", "")}
    for notice in notices:
        sign, tone = signs.get(notice["level"], ("i ", ""))
        where = notice["group"] or ""
        text = f"{sign} {where + ': ' if where else ''}{notice['say']}"
        yield from (paint(line, tone) for line in wrap(text, width, "   "))


def _card_absences(cards: list[dict[str, Any]], absences: Absences) -> None:
    for card in cards:
        if card["lost"]:
            continue
        for label, name in (
            ("watts", "watts"),
            ("memory", "memory_used"),
            ("temperature", "celsius"),
            ("fan", "fan"),
            ("clock", "clock_mhz"),
            ("P-state", "pstate"),
        ):
            absences.see(f"{label} of card {card['index']}", card[name])

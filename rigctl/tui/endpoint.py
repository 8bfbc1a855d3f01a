"""The endpoint in words: is what it told of now, where is it, what does it carry."""

from __future__ import annotations

from rigctl.core.flow import ClusterRow
from rigctl.core.reading import Missing
from rigctl.core.snapshot import EndpointView
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line

OLD_SECONDS = 10.0
"""Without a word for so long, what the endpoint told last is said to be old."""


def told(endpoint: EndpointView) -> bool:
    """Whether its rows are of now; a calm endpoint is silent because nothing changes."""
    old = not isinstance(endpoint.age, Missing) and endpoint.age > OLD_SECONDS
    works = in_flight(endpoint) > 0 or endpoint.rows.queued > 0
    return endpoint.state in {"up", "leaving"} and not (old and works)


def cluster(endpoint: EndpointView, name: str) -> ClusterRow | None:
    """The endpoint's own row of a group, while it is of now."""
    rows = endpoint.rows.clusters if told(endpoint) else ()
    return next((row for row in rows if row.cluster == name), None)


def client_of(endpoint: EndpointView, session: str) -> str:
    """Whose session that is; empty without keys."""
    found = (row.client for row in endpoint.rows.sessions if row.session == session)
    return next((name for name in found if name.strip("-")), "")


def sign(endpoint: EndpointView, glyphs: Glyphs) -> tuple[str, str, str]:
    """Glyph, word and role of its state."""
    return {
        "none": (glyphs.open_ring, "none", "dim"),
        "off": (glyphs.open_ring, "off", "dim"),
        "starting": (glyphs.busy, "starting", "accent"),
        "up": (glyphs.ready, "up", "good"),
        "lost": (glyphs.warning, "LOST", "warn"),
        "leaving": (glyphs.busy, "leaving", "accent"),
        "backing_off": (glyphs.warning, "backing off", "warn"),
        "failed": (glyphs.failed, "FAILED", "bad"),
    }.get(endpoint.state, ("?", endpoint.state, "dim"))


def in_flight(endpoint: EndpointView) -> int:
    """Requests sent and not ended, all clusters together."""
    return sum(row.in_flight for row in endpoint.rows.clusters)


def queue(endpoint: EndpointView) -> Line:
    """`2 queued, oldest 41 s`, or that nothing waits."""
    rows = endpoint.rows
    if not rows.queued:
        return (("none queued", "dim"),)
    oldest = words.age(rows.oldest_wait)
    return ((f"{rows.queued} queued", "warn"), (f", oldest {oldest}", "text"))


def address(endpoint: EndpointView) -> str:
    """`127.0.0.1:8000`, as people say it."""
    return endpoint.url.partition("://")[2] or endpoint.url

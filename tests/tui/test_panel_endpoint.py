"""The endpoint on the overview, in group details and in questions: counts, culprits, gates."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import sample_traffic
import samples
from open_panels import OpenPanel
from sample_parts import LONG, STANDARD
from sample_traffic import BEHIND, CLUSTERS, CULPRIT, ROWS, THIRD, UP

from rigctl.core import commands
from rigctl.core.flow import ClusterRow
from rigctl.core.reading import OFF
from rigctl.core.snapshot import EndpointView, GroupView, Snapshot
from rigctl.tui import consequences
from rigctl.tui.actions import BY_ID
from rigctl.tui.glyphs import ASCII, UNICODE, Glyphs
from rigctl.tui.paint import width
from rigctl.tui.screens.asking import ARM_SECONDS
from rigctl.tui.state import PanelState
from rigctl.tui.widgets import group_rows
from rigctl.tui.widgets.endpoint_line import endpoint_line
from rigctl.tui.widgets.pager import plain

HINT = (("S", "accent"), (" sessions", "text"))


def rows(view: GroupView, row: ClusterRow | None, cells: int = 56, height: int = 8) -> str:
    """A group's rows as text."""
    drawn = group_rows.rows(
        view, [0, 1, 2, 3], 0.0, cells, height, UNICODE, row=row, culprit="anna"
    )  # fmt: skip
    assert all(width(line) <= cells for line in drawn)
    return "\n".join(plain(line) for line in drawn)


def with_clusters(*clusters: ClusterRow, **changes: object) -> Snapshot:
    """Traffic with other rows of the endpoint."""
    flow = replace(ROWS, clusters=clusters)
    endpoint = replace(UP, rows=flow, **changes)  # type: ignore[arg-type]
    return replace(sample_traffic.traffic(), endpoint=endpoint)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (56, f"anna {CULPRIT} makes wait: {BEHIND} {THIRD}"),
        (36, f"{CULPRIT} holds {BEHIND}"),
        (26, CULPRIT),
    ],
)
def test_a_stall_names_whose_prompt_is_read_and_who_waits(cells: int, said: str) -> None:
    """Beside since, left and ETA; names that do not fit are counted."""
    text = rows(sample_traffic.stalled_group(), CLUSTERS[0], cells, 6)
    assert said in text
    assert "STALL 41 s" in text
    assert "46k" in text


def test_many_waiting_sessions_are_counted() -> None:
    """Six wait: as many names as fit and how many more."""
    behind = tuple(f"{at:08x}" for at in range(6))
    text = rows(sample_traffic.stalled_group(), replace(CLUSTERS[0], waiting_behind=behind), 36, 6)
    line = next(row for row in text.splitlines() if CULPRIT in row)
    shown = sum(name in line for name in behind)
    assert line.endswith(f"+{6 - shown}")
    assert shown >= 1


def test_without_the_endpoint_a_stall_is_told_as_before() -> None:
    """No row, or one without a culprit: the engine's own words, and its own counts."""
    for row in (None, replace(CLUSTERS[0], culprit="", waiting_behind=())):
        text = rows(sample_traffic.stalled_group(), row)
        assert "2 answers wait" in text
        assert "makes wait" not in text
    assert "2 of 6" in rows(sample_traffic.stalled_group(), None)


def test_slots_are_counted_by_the_endpoint() -> None:
    """Its in-flight and its queue: the engine's gauges lag."""
    row = replace(CLUSTERS[1], in_flight=4, slots=4, waiting=2)
    text = rows(sample_traffic.traffic().groups[1], row)
    assert "●●●●  4 of 4   queue 2" in text


@pytest.mark.parametrize(
    ("standing", "gate", "said"),
    [
        ("suspect", "open", "SUSPECT 7 s  reset 2 of the last 3 requests"),
        ("down", "open", "DOWN 7 s  reset 2 of the last 3 requests"),
        ("slowed", "open", "SLOWED 7 s"),
        ("up", "finish", "gate finish: nothing new comes"),
        ("up", "open", ""),
        ("busy", "open", ""),
    ],
)
def test_a_standing_that_is_not_well_is_said_with_its_evidence(
    standing: str, gate: str, said: str
) -> None:
    """Up says nothing; anything else is a word, a sign and why."""
    say = "reset 2 of the last 3 requests"
    row = ClusterRow(LONG, standing, 7.0, say, gate, 2, 4)
    for cells, height in ((56, 8), (36, 6)):
        text = rows(sample_traffic.traffic().groups[1], row, cells, height)
        if said:
            assert said[:30] in text
        else:
            assert say not in text


@pytest.mark.parametrize("cells", [60, 80, 120, 300])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("mood", sorted(sample_traffic.ALL))
def test_the_endpoint_has_one_line_that_fits(mood: str, glyphs: Glyphs, cells: int) -> None:
    """State as a word, and either the address or the next command, at every width."""
    endpoint = sample_traffic.ALL[mood]().endpoint
    line = endpoint_line(endpoint, HINT, cells, glyphs)
    assert width(line) <= cells
    text = plain(line)
    assert {"up": "up", "failed": "FAILED", "lost": "LOST"}[endpoint.state] in text
    assert (endpoint.advice or "127.0.0.1:8000") in text


def test_an_endpoint_that_fell_silent_shows_no_counts() -> None:
    """What it told a minute ago is not what is so."""
    text = plain(endpoint_line(replace(UP, age=61.0), HINT, 120, UNICODE))
    assert "silent for 61 s" in text
    assert "in flight" not in text


def test_a_calm_endpoint_may_be_silent() -> None:
    """It tells of its traffic while there is some: an hour without any is no fault."""
    calm = replace(sample_traffic.quiet_endpoint().endpoint, age=3_600.0)
    text = plain(endpoint_line(calm, HINT, 120, UNICODE))
    assert "0 in flight   none queued" in text
    assert "silent" not in text


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 20)])
async def test_the_overview_has_the_endpoint_only_where_there_is_one(
    open_panel: OpenPanel, size: tuple[int, int]
) -> None:
    """A rig without [proxy] keeps the row for its events."""
    async with open_panel(sample_traffic.traffic(), size) as opened:
        line = next(row for row in opened.rows if "endpoint" in row)
        for part in ("● up", "127.0.0.1:8000", "5 in flight"):
            assert part in line
        assert "2 queued" in line
        opened.rig.show(samples.busy())
        await opened.until(lambda: "endpoint" not in opened.text, "a rig without one")


async def test_an_endpoint_that_is_away_is_told_with_the_next_command(
    open_panel: OpenPanel,
) -> None:
    """On its own line at every size, and the daemon's notice of it in full."""
    async with open_panel(sample_traffic.endpoint_failed(), (80, 24)) as opened:
        line = next(row for row in opened.rows if "endpoint ✗ FAILED" in row)
        assert "next  rigctl endpoint restart" in line
        assert "the endpoint is down: exit 1 three times: 127.0.0.1:8000 is taken" in opened.text
        opened.rig.show(sample_traffic.endpoint_lost())
        await opened.until_text("endpoint ▲ LOST")


async def test_the_groups_detail_has_its_row_of_the_endpoint(open_panel: OpenPanel) -> None:
    """Standing, gate, in flight, homes, sent and overflow, failed, sent anew, who is read."""
    async with open_panel(sample_traffic.traffic(), (120, 60)) as opened:
        await opened.pilot.press("1", "enter")
        await opened.until_text("At the endpoint")
        for part in ("busy for 41 s", "3 of 6, 1 queued for it", "1100, of which overflow 0",
                     f"{CULPRIT}; waiting for it: {BEHIND}"):  # fmt: skip
            assert part in " ".join(opened.text.split()), part


def said(name: str, shot: Snapshot, group: str = LONG) -> str:
    """The text of an act's question."""
    question = BY_ID[name].question
    assert question is not None
    return " ".join(question(PanelState(shot, group=group)))


@pytest.mark.parametrize("name", ["free", "toggle", "restart", "sleep"])
def test_an_act_says_what_the_gate_does_to_clients(name: str) -> None:
    """Where new requests go, how many may finish and how long, which sessions go cold at what."""
    text = said(name, sample_traffic.traffic())
    assert "2 answers run, 1 queued: up to 180 s to finish" in text, "3 by the engine's gauge"
    assert "New requests are routed to standard" in text
    away = "held until it is back" if name in {"restart", "sleep"} else "refused (503)"
    assert f"prompts over 262k tokens are {away}" in text
    assert "2 sessions go cold: 347k tokens, about 6 min of prefill at an assumed" in text


def test_a_group_whose_window_the_others_have_refuses_nothing() -> None:
    """Everything that fits standard fits long: no prompt is refused by standard's going."""
    text = said("toggle", sample_traffic.traffic(), STANDARD)
    assert "New requests are routed to long." in text
    assert "refused" not in text
    tokens = (122_000 + 4 * 46_000) / 1000
    assert f"5 sessions go cold: {tokens:.0f}k tokens, about 6 min of prefill." in text


@pytest.mark.parametrize(
    "other",
    [
        replace(CLUSTERS[0], standing="down"),
        replace(CLUSTERS[0], standing="lent", gate="closed"),
        replace(CLUSTERS[0], gate="finish"),
    ],
)
def test_with_no_other_gate_open_new_requests_are_refused(other: ClusterRow) -> None:
    """An engine that runs behind a closed gate takes nobody's requests."""
    text = said("free", with_clusters(other, CLUSTERS[1]))
    assert "No other cluster takes requests: new ones are refused (503)." in text
    text = said("restart", with_clusters(other, CLUSTERS[1]))
    assert "new ones are held until it is back" in text


@pytest.mark.parametrize("gone", [EndpointView(), replace(UP, state="lost"), replace(UP, age=99.0)])
def test_without_word_of_the_endpoint_the_engines_own_counts_stand(gone: EndpointView) -> None:
    """No promise is made in the name of a proxy that does not answer."""
    text = said("free", replace(sample_traffic.traffic(), endpoint=gone))
    assert "routed" not in text
    assert "standard (2 of 6 slots busy) goes on" in text


def test_a_group_that_runs_nothing_closes_no_gate() -> None:
    """Freeing what is off ends nothing and moves nobody."""
    shot = sample_traffic.traffic()
    off = replace(shot.groups[1], state="off", pid=None, in_flight=OFF)
    state = PanelState(replace(shot, groups=(shot.groups[0], off)), group=LONG)
    text = " ".join(consequences.free(state, off))
    assert "nothing ends" in text
    assert "New requests" not in text


async def test_restarting_the_endpoint_is_asked_and_sent(open_panel: OpenPanel) -> None:
    """From the palette: what goes on, what waits; Y says yes."""
    async with open_panel(sample_traffic.traffic(), (100, 36)) as opened:
        await opened.panel.run_action("act('restart-endpoint')")
        await opened.until_text("Y again: restart endpoint")
        assert f"A new process takes {sample_traffic.URL} over" in opened.text
        assert "5 answers run: finished by the old process" in opened.text
        assert "requests queued there go on waiting" in opened.text
        await asyncio.sleep(ARM_SECONDS + 0.15)
        await opened.pilot.press("Y")
        await opened.until(lambda: bool(opened.rig.sent), "the command")
        assert opened.rig.sent == [commands.RestartEndpoint()]


def test_a_rig_without_an_endpoint_says_so_for_each_act() -> None:
    """Restart and copy are not offered, with the reason."""
    state = PanelState(samples.busy(), group=LONG)
    for name in ("restart-endpoint", "copy-address"):
        assert "no [proxy]" in BY_ID[name].unavailable(state)

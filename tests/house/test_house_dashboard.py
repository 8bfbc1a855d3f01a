"""The Grafana dashboard asks for nothing that the endpoint does not serve, and for all it does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rigctl.core.clusters import Standing
from rigctl.proxy.metrics import Gauges, GaugesOfCluster, Metrics

BOARD = Path(__file__).resolve().parents[2] / "assets" / "dashboards" / "rigctl.json"

QUERY = re.compile(r"(rigctl_[a-z0-9_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
SCRAPE_LABELS = {"instance", "job", "le"}
"""What Prometheus itself adds, and a histogram's own."""


def panels() -> list[dict[str, Any]]:
    """Every panel that draws something."""
    found: list[dict[str, Any]] = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, str]]:
    """Panel, expression and legend."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


@pytest.fixture(scope="module")
def served() -> dict[str, set[str]]:
    """Each name on the page with its labels, once everything has happened once."""
    cluster = GaugesOfCluster("long", 1, 4, 2, Standing.UP, True)
    metrics = Metrics(lambda: Gauges((cluster,), 1, 2, 3, True), lambda: None)
    for value in vars(metrics).values():
        names = getattr(value, "_labelnames", ())
        if not names:
            continue
        child = value.labels(*names)
        child.observe(1.0) if hasattr(child, "observe") else child.inc()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_name_and_label_of_the_dashboard_is_served(served: dict[str, set[str]]) -> None:
    """A panel that asks for what is not there stays empty for ever, and nobody is told."""
    for title, expr, legend in queries():
        found = QUERY.findall(expr)
        assert found, title
        kept = set()
        for name, selector in found:
            assert name in served, f"{title}: {name} is not served"
            known = served[name] | SCRAPE_LABELS
            used = set(LABEL.findall(selector))
            used |= {one.strip() for by in GROUPED.findall(expr) for one in by.split(",")}
            assert used <= known, f"{title}: {name} has no label {used - known}"
            kept |= known
        if GROUPED.search(expr):
            kept = {one.strip() for by in GROUPED.findall(expr) for one in by.split(",")}
        named = set(re.findall(r"\{\{(\w+)\}\}", legend))
        assert named <= kept, f"{title}: {named - kept} is gone before the legend names it"


def test_everything_served_is_on_the_dashboard(served: dict[str, set[str]]) -> None:
    """A metric that no panel shows is a cost without a reader."""
    shown = {name for _, expr, _ in queries() for name, _ in QUERY.findall(expr)}
    ends = ("_created", "_sum", "_count")
    left = {name for name in served if name.startswith("rigctl_") and not name.endswith(ends)}
    assert left - shown == set()


def test_the_variables_ask_for_what_is_served(served: dict[str, set[str]]) -> None:
    """Data source, rig and cluster can be chosen, from names that are there."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for name in ("instance", "cluster"):
        metric, label = re.findall(r"(rigctl_\w+), (\w+)", variables[name]["query"]["query"])[0]
        assert label in served[metric] | SCRAPE_LABELS


def test_panels_stand_in_a_grid_and_say_what_they_are() -> None:
    """Nothing overlaps or hangs over the edge; ids are unique; the data source is a variable."""
    taken: set[tuple[int, int]] = set()
    found = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    for panel in found:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert at["x"] + at["w"] <= 24
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"

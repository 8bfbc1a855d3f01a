"""`/metrics`: what the endpoint did, in base units, with labels of bounded number.

No session, request or client is ever a label. Gauges are read from the living parts at each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from rigctl import __version__
from rigctl.core.clusters import Standing

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 300)
_LONG = (*_SECONDS, 600, 1200, 2400)

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the page, and nobody reads them

OUTCOMES = ("complete", "truncated", "failed", "refused", "cancelled")
CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()


@dataclass(frozen=True, slots=True)
class GaugesOfCluster:
    """One cluster at the moment of a scrape."""

    name: str
    in_flight: int
    slots: int
    sessions: int
    standing: Standing
    gate_open: bool


@dataclass(frozen=True, slots=True)
class Gauges:
    """The endpoint at the moment of a scrape."""

    clusters: tuple[GaugesOfCluster, ...]
    queued: int
    connections: int
    bodies_bytes: int
    link_up: bool


class Metrics:
    """Counters and histograms, each written where the thing happens."""

    def __init__(self, gauges: Callable[[], Gauges], settle: Callable[[], object]) -> None:
        """`settle` writes down what was put off."""
        self._settle = settle
        self.registry = registry = CollectorRegistry(auto_describe=True)
        self.requests = Counter(
            "rigctl_requests",
            "Requests that came to an end",
            ("endpoint", "cluster", "outcome"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "rigctl_request_seconds",
            "From arrival to the last byte",
            ("cluster",),
            buckets=_LONG,
            registry=registry,
        )
        self.first_byte = Histogram(
            "rigctl_time_to_first_byte_seconds",
            "From arrival to the first byte of answer",
            ("cluster",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.queue_wait = Histogram(
            "rigctl_queue_wait_seconds",
            "From arrival to being sent to an engine",
            ("rule",),
            buckets=(0.001, 0.01, *_SECONDS),
            registry=registry,
        )
        self.routed = _counter(registry, "routed", "Requests sent", "cluster", "rule")
        self.refused = _counter(
            registry, "refused", "Requests refused at the door or by the rules", "code"
        )
        self.resent = _counter(
            registry, "resent", "Requests sent anew, lost before a byte", "cluster"
        )
        self.cancelled = _counter(registry, "cancelled", "Requests whose client left", "cluster")
        self.aborts = _counter(registry, "aborts", "Aborts sent to the engine", "cluster")
        self.tokens = _counter(
            registry, "tokens", "Tokens by the engines' usage", "cluster", "kind"
        )
        self.uncounted = _counter(
            registry, "uncounted_answers", "Answers whose engine told no usage", "cluster"
        )
        self.all_thought = _counter(
            registry, "all_thought", "Answers that were thought and nothing else", "cluster"
        )
        self.repeats = _counter(registry, "repeats", "Answers that repeat themselves", "cluster")
        self.stall_seconds = _counter(
            registry,
            "stall_seconds",
            "Seconds that answers were silent while a prompt was read",
            "cluster",
        )
        self.relayed = _counter(
            registry, "relayed_bytes", "Body bytes carried, decoded", "direction"
        )
        registry.register(_Living(gauges))

    def text(self) -> bytes:
        """The page."""
        self._settle()
        page: bytes = generate_latest(self.registry)
        return page


def _counter(registry: CollectorRegistry, name: str, say: str, *labels: str) -> Counter:
    return Counter(f"rigctl_{name}", say, labels, registry=registry)


class _Living:
    """Gauges that are read rather than kept."""

    def __init__(self, gauges: Callable[[], Gauges]) -> None:
        self._gauges = gauges

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        now = self._gauges()
        yield _one("up", "The endpoint serves", 1)
        build = GaugeMetricFamily("rigctl_build_info", "Which rigctl this is", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield from _by_cluster(now.clusters)
        standing = GaugeMetricFamily(
            "rigctl_cluster_standing", "1 for how it stands", labels=["cluster", "standing"]
        )
        for each in now.clusters:
            for word in Standing:
                standing.add_metric([each.name, word.value], each.standing is word)
        yield standing
        yield _one("queued", "Requests that wait for a place", now.queued)
        yield _one("connections", "Clients connected", now.connections)
        yield _one("bodies_bytes", "Bytes of request bodies held", now.bodies_bytes)
        yield _one("link_up", "Whether the daemon is linked", now.link_up)


def _by_cluster(clusters: Iterable[GaugesOfCluster]) -> Iterable[Metric]:
    rows = tuple(clusters)
    for name, say, values in (
        ("in_flight", "Requests sent and not ended", [each.in_flight for each in rows]),
        ("slots", "Requests an engine runs at once", [each.slots for each in rows]),
        ("sessions", "Sessions whose home it is", [each.sessions for each in rows]),
        ("gate_open", "Whether new work may go there", [int(each.gate_open) for each in rows]),
    ):
        family = GaugeMetricFamily(f"rigctl_{name}", say, labels=["cluster"])
        for each, value in zip(rows, values, strict=True):
            family.add_metric([each.name], value)
        yield family


def _one(name: str, say: str, value: float) -> Metric:
    return GaugeMetricFamily(f"rigctl_{name}", say, value=value)

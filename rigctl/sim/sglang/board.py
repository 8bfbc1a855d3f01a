"""The metrics page: every family of 0.5.23, laid out as prometheus_client does over processes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from importlib.resources import files

Labels = tuple[tuple[str, str], ...]

_FAMILIES = json.loads(files(__package__).joinpath("families.json").read_text(encoding="utf-8"))


@dataclass(slots=True)
class _Histogram:
    counts: list[float]
    total: float = 0.0


@dataclass(slots=True)
class _Family:
    name: str
    type: str
    help: str
    ranks: str
    """`all`, `first`, or `none` for the HTTP process's own."""
    bare: bool
    pid: bool
    bounds: tuple[float, ...]
    bound_texts: tuple[str, ...]
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, _Histogram] = field(default_factory=dict)


def number(value: float) -> str:
    """As the reference client prints: `4096.0`, `1.514336e+06`, `NaN`."""
    if math.isnan(value):
        return "NaN"
    if value == math.inf:
        return "+Inf"
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+0{dot - 1}"
    return text


def _labels(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


class Board:
    """Values by family and label; what SGLang creates lazily is absent until its first event."""

    def __init__(self, model: str, ranks: int, scheduler_pids: list[int]) -> None:
        self._common = {"engine_type": "unified", "model_name": model}
        self._ranks = ranks
        self._pids = scheduler_pids
        self._families: dict[str, _Family] = {}
        for row in _FAMILIES:
            bounds = tuple(row.get("buckets", ()))
            family = _Family(
                row["name"],
                row["type"],
                row["help"],
                row["ranks"],
                row.get("bare", False),
                row.get("pid", False),
                tuple(math.inf if text == "+Inf" else float(text) for text in bounds),
                bounds,
            )
            self._families[row["name"]] = family
            for seed in row.get("seeds", ()):
                if family.type == "histogram":
                    family.histograms[_labels(seed)] = _Histogram([0.0] * len(bounds))
                else:
                    family.values[_labels(seed)] = 0.0

    def set(self, name: str, value: float, **labels: str) -> None:
        self._families[name].values[_labels(labels)] = value

    def add(self, name: str, value: float = 1.0, **labels: str) -> None:
        values = self._families[name].values
        key = _labels(labels)
        values[key] = values.get(key, 0.0) + value

    def get(self, name: str, **labels: str) -> float:
        """A value, 0 where the series does not exist yet."""
        return self._families[name].values.get(_labels(labels), 0.0)

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Count a value into a histogram."""
        family = self._families[name]
        key = _labels(labels)
        histogram = family.histograms.get(key)
        if histogram is None:
            histogram = family.histograms[key] = _Histogram([0.0] * len(family.bounds))
        histogram.total += value * times
        for at, bound in enumerate(family.bounds):
            if value <= bound:
                histogram.counts[at] += times
                break

    def text(self) -> str:
        """The page."""
        out: list[str] = []
        for family in self._families.values():
            if not family.values and not family.histograms:
                continue
            out.append(f"# HELP sglang:{family.name} {family.help}")
            out.append(f"# TYPE sglang:{family.name} {family.type}")
            for labels, value in family.values.items():
                shown = self._shown(family, labels)
                out.extend(f"sglang:{family.name}{text} {number(value)}" for text in shown)
            for labels, histogram in family.histograms.items():
                self._histogram(out, family, labels, histogram)
        return "\n".join(out) + "\n"

    def _shown(self, family: _Family, labels: Labels, **more: str) -> list[str]:
        """The label part, once for each rank that reports this family."""
        fields = dict(labels) | more
        if not family.bare:
            fields |= self._common
        if family.ranks == "none":
            return [_braces(fields)]
        fields |= {"moe_ep_rank": "0", "pp_rank": "0"}
        if family.pid:
            fields["pid"] = str(self._pids[0] if self._pids else 0)
        ranks = self._ranks if family.ranks == "all" else 1
        return [_braces(fields | {"tp_rank": str(rank)}) for rank in range(ranks)]

    def _histogram(
        self, out: list[str], family: _Family, labels: Labels, histogram: _Histogram
    ) -> None:
        name = f"sglang:{family.name}"
        bounds = [self._shown(family, labels, le=text) for text in family.bound_texts]
        for rank, plain in enumerate(self._shown(family, labels)):
            out.append(f"{name}_sum{plain} {number(histogram.total)}")
            running = 0.0
            for shown, count in zip(bounds, histogram.counts, strict=True):
                running += count
                out.append(f"{name}_bucket{shown[rank]} {number(running)}")
            out.append(f"{name}_count{plain} {number(running)}")


def _braces(fields: dict[str, str]) -> str:
    if not fields:
        return ""
    inner = ",".join(f'{key}="{fields[key]}"' for key in sorted(fields))
    return f"{{{inner}}}"

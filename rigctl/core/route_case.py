"""Everything that one routing decision looks at, and the plain questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rigctl.core import lengths
from rigctl.core.ask import Ask
from rigctl.core.clusters import Cluster, Estimate, RoutePolicy, Standing, Why
from rigctl.core.home import Found
from rigctl.core.ids import GroupName, Mono
from rigctl.core.lengths import Fit
from rigctl.core.reading import Missing


@dataclass(frozen=True, slots=True)
class Case:
    """One request, the clusters in the order of preference, and what is known beside."""

    ask: Ask
    estimate: Estimate
    clusters: tuple[Cluster, ...]
    found: Found
    policy: RoutePolicy
    now: Mono
    waited: float
    tried: frozenset[GroupName]
    queue: int
    alone_in_prefill: bool
    countable: bool
    claimed: frozenset[GroupName]
    fits: dict[GroupName, Fit]
    """Of every cluster; see `_fit`."""
    first: Cluster | None
    """The cluster for short prompts: the unstretched one."""
    short: bool
    """Whether the first cluster could take it, however that one stands now."""
    able: tuple[Cluster, ...]
    """Those long enough."""
    usable: tuple[Cluster, ...]
    """Those of them that may be sent to, and have not failed this request."""
    trusted: tuple[Cluster, ...]
    """Those of them that are not suspect; all where every one is."""

    # ---- length ------------------------------------------------------------------------

    @property
    def output(self) -> int:
        return lengths.answer_room(self.ask.output, self.policy)

    @property
    def needed(self) -> int:
        """Tokens of prompt and answer, as likely as it is known."""
        return self.estimate.likely + self.output

    @property
    def counts(self) -> bool:
        """Whether the engine's own count would tell more."""
        return self.countable and not lengths.exact(self.estimate)

    def fit(self, cluster: Cluster) -> Fit:
        return self.fits[cluster.name]

    # ---- who could take it -------------------------------------------------------------

    def admits(self, cluster: Cluster) -> bool:
        return cluster.admits and cluster.name not in self.tried

    def named(self, name: GroupName) -> Cluster | None:
        for each in self.clusters:
            if each.name == name:
                return each
        return None

    def overflows(self, cluster: Cluster) -> bool:
        """Whether a new session would go there only because the first cluster is full."""
        return self.short and cluster is not self.first and self.first in self.trusted

    def full(self, cluster: Cluster, *, at_home: bool = False) -> str:
        """Why there is no room there now; empty where there is.

        Slots and pool are two ceilings. A short request leaves the reserve of a cluster that is
        not for short ones; at home only its slots, because its prefix lies in the pool already.
        """
        if cluster.name in self.claimed:
            return f"an earlier request waits for `{cluster.name}`"
        policy = self.policy
        slots, pool = cluster.slots, cluster.pool
        reserved = ""
        if self.overflows(cluster):
            slots -= policy.reserve_slots
            if not at_home:
                pool = int(pool * (1.0 - policy.reserve_share))
            reserved = " that short prompts may take"
        wanted = min(max(1, self.ask.choices), max(1, cluster.slots))
        if cluster.in_flight + wanted > slots:
            return f"the {max(0, slots)} slots of `{cluster.name}`{reserved} are taken"
        tokens = lengths.held(self.estimate, self.ask.output, policy)
        if cluster.pool > 0 and cluster.held_tokens + tokens > pool:
            if cluster.in_flight == 0 and not reserved:
                return ""  # alone it is the engine's to judge
            return (
                f"{cluster.held_tokens:,} of the {pool:,} tokens of `{cluster.name}`'s pool"
                f"{reserved} are in use"
            )
        return ""

    # ---- words -------------------------------------------------------------------------

    def why(self, rule: str, say: str) -> Why:
        return Why(
            rule=rule,
            say=say,
            source=self.found.source,
            tokens=self.estimate.likely,
            how=self.estimate.how,
        )

    @property
    def size(self) -> str:
        """`about 300,000 tokens and 8,192 of answer`."""
        about = "" if lengths.exact(self.estimate) else "about "
        return f"{about}{self.estimate.likely:,} tokens and {self.output:,} of answer"


def case_of(
    ask: Ask,
    estimate: Estimate,
    clusters: Sequence[Cluster],
    found: Found,
    policy: RoutePolicy,
    now: Mono,
    waited: float,
    tried: frozenset[GroupName],
    queue: int,
    alone_in_prefill: bool,
    countable: bool,
    claimed: frozenset[GroupName],
) -> Case:
    """What does not change while one request is decided is worked out once."""
    ordered = in_order(clusters, policy)
    output = lengths.answer_room(ask.output, policy)
    largest = max([each.limit for each in ordered], default=0)
    fits: dict[GroupName, Fit] = {}
    able: list[Cluster] = []
    for each in ordered:
        fits[each.name] = fit = _fit(estimate, output, each, policy.near, largest, countable)
        if fit is not Fit.NO:
            able.append(each)
    usable = [each for each in able if each.admits and each.name not in tried]
    first = ordered[0] if ordered else None
    return Case(
        ask=ask,
        estimate=estimate,
        clusters=ordered,
        found=found,
        policy=policy,
        now=now,
        waited=max(0.0, waited),
        tried=tried,
        queue=max(0, queue),
        alone_in_prefill=alone_in_prefill,
        countable=countable,
        claimed=claimed,
        fits=fits,
        first=first,
        short=first is not None and fits[first.name] is not Fit.NO,
        able=tuple(able),
        usable=tuple(usable),
        trusted=trusted(usable),
    )


def _fit(
    estimate: Estimate, output: int, cluster: Cluster, near: float, largest: int, countable: bool
) -> Fit:
    """Where counting is not possible the likely length decides, and a guess refuses nobody: the
    largest cluster is asked itself."""
    fit = lengths.fits(estimate, output, cluster, near)
    if countable or fit in (Fit.YES, Fit.LIKELY):
        return fit
    if fit is Fit.NEAR and estimate.likely + output <= cluster.limit:
        return Fit.LIKELY
    possible = estimate.low + output <= cluster.limit
    return Fit.LIKELY if possible and cluster.limit >= largest else Fit.NO


def trusted(clusters: Sequence[Cluster]) -> tuple[Cluster, ...]:
    """Without the suspect ones; all where nothing else is left."""
    sound = [each for each in clusters if each.standing is not Standing.SUSPECT]
    return tuple(sound or clusters)


def in_order(clusters: Sequence[Cluster], policy: RoutePolicy) -> tuple[Cluster, ...]:
    """As the owner lists them; those he does not name come after, as they were given."""
    if [each.name for each in clusters] == list(policy.order):
        return tuple(clusters)
    place = {name: at for at, name in enumerate(policy.order)}
    return tuple(sorted(clusters, key=lambda each: place.get(each.name, len(place))))


def comes(cluster: Cluster) -> bool:
    """Whether it will take work by itself before long: it starts, is looked after or looked at,
    or drains for a restart (then its time is told)."""
    if cluster.untried:
        return cluster.standing.admits
    if cluster.standing is Standing.DRAINING:
        return not isinstance(cluster.eta, Missing)
    return cluster.standing in (Standing.STARTING, Standing.DOWN)


def how_it_is(cluster: Cluster) -> str:
    """`long` is lent: lent to “training”."""
    said = f": {cluster.say}" if cluster.say and cluster.say != cluster.standing.value else ""
    return f"`{cluster.name}` is {cluster.standing.value}{said}"

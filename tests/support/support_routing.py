"""Conversations, the rig's two clusters, and a small dispatcher that counts what is in flight."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from support_homes import settle

from rigctl.core import lengths
from rigctl.core.ask import Ask, Dialect, Endpoint, SessionId, Size
from rigctl.core.clusters import Cluster, Decision, Estimate, Refuse, RoutePolicy, Send, Standing
from rigctl.core.home import Found, Home
from rigctl.core.homes import Homes
from rigctl.core.ids import GroupName, Mono
from rigctl.core.routing import route

STANDARD, LONG = GroupName("standard"), GroupName("long")
POLICY = RoutePolicy(order=(STANDARD, LONG))


def standard(**changes: object) -> Cluster:
    """The rig's first cluster, idle."""
    base = Cluster(STANDARD, Standing.UP, window=262_144, pool=800_000, slots=6, run="s1")
    return base._replace(**changes)  # type: ignore[arg-type]


def long(**changes: object) -> Cluster:
    """The stretched one, idle."""
    base = Cluster(LONG, Standing.UP, window=524_288, pool=650_000, slots=6, run="l1")
    return base._replace(**changes)  # type: ignore[arg-type]


def talk(
    *messages: str,
    head: str = "system and tools",
    session: str = "",
    source: str = "x-session-id",
    tokens: int = 5_000,
    output: int | None = 1_000,
    endpoint: Endpoint = Endpoint.CHAT,
    previous: str = "",
) -> Ask:
    """An ask whose messages are the given texts: `a:` begins an assistant's."""
    chain, turns, answered = [_digest(head)], [], 0
    so_far = b""
    for at, message in enumerate(messages):
        so_far = _digest(so_far + message.encode())
        turns.append(so_far)
        chain.append(_digest(_digest(head) + so_far))
        if message.startswith("a:") and not answered:
            answered = at
    return Ask(
        endpoint,
        Dialect.OPENAI,
        size=Size(text_bytes=tokens * 3, messages=len(messages)),
        output=output,
        session=SessionId(source, session) if session else None,
        chain=tuple(chain),
        turns=tuple(turns),
        answered_at=answered,
        opening=_digest((head + "".join(messages))[:4_000]),
        previous_response=previous,
    )


def _digest(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return blake2b(data, digest_size=16).digest()


@dataclass
class Rig:
    """Routes, and keeps count like the proxy does."""

    clusters: dict[GroupName, Cluster] = field(
        default_factory=lambda: {STANDARD: standard(), LONG: long()}
    )
    policy: RoutePolicy = POLICY
    homes: Homes = field(default_factory=Homes)
    now: float = 1_000.0
    under_way: list[Home] = field(default_factory=list)

    def ask(self, ask: Ask, **more: object) -> tuple[Decision, Home | None]:
        """Route it, and settle it where it was sent."""
        self.now += 0.001
        now = Mono(self.now)
        found = self.homes.find(ask, now, self.policy)
        estimate = lengths.estimate(ask.size, found.learnt, self.policy)
        decision = route(
            ask,
            estimate,
            tuple(self.clusters.values()),
            found,
            self.policy,
            now,
            **more,  # type: ignore[arg-type]
        )
        if not isinstance(decision, Send):
            return decision, None
        cluster = self.clusters[decision.to]
        self.change(
            decision.to,
            in_flight=cluster.in_flight + 1,
            held_tokens=cluster.held_tokens + lengths.held(estimate, ask.output, self.policy),
        )
        home = settle(self.homes, ask, decision.to, cluster.run, now, estimate.likely, self.policy)
        self.under_way.append(home)
        return decision, home

    def sent(self, ask: Ask, **more: object) -> tuple[GroupName, Home]:
        """The same where it must be sent."""
        decision, home = self.ask(ask, **more)
        assert isinstance(decision, Send), decision
        assert home is not None
        return decision.to, home

    def change(self, name: GroupName, **changes: object) -> None:
        self.clusters[name] = self.clusters[name]._replace(**changes)  # type: ignore[arg-type]

    def all_end(self) -> None:
        """Every answer ends."""
        for name in self.clusters:
            self.change(name, in_flight=0, held_tokens=0)
        for home in self.under_way:
            self.homes.ended(home)
        self.under_way.clear()


NOW = Mono(1_000.0)


def exactly(tokens: int) -> Estimate:
    """An estimate that leaves nothing to count."""
    return Estimate(tokens, tokens, tokens, "counted")


def go(
    *clusters: Cluster,
    tokens: int = 5_000,
    found: Found | None = None,
    policy: RoutePolicy = POLICY,
    ask: Ask | None = None,
    guess: Estimate | None = None,
    **more: object,
) -> Decision:
    """Route a short new session, or what the arguments make of it."""
    return route(
        ask or talk("q"),
        guess or exactly(tokens),
        clusters or (standard(), long()),
        found or Found(),
        policy,
        NOW,
        **more,  # type: ignore[arg-type]
    )


def home_on(
    cluster: GroupName = STANDARD, run: str = "s1", tokens: int = 100_000, cold: str = ""
) -> Found:
    """A session found by its chain, at home there."""
    home = Home("0a1b2c3d", cluster, run, tokens, since=Mono(0.0), seen=Mono(900.0), cold=cold)
    return Found(home=home, source="chain", tokens=tokens)


def sent(decision: Decision, to: GroupName, rule: str) -> str:
    """It was sent there by that rule; returns what is said."""
    assert isinstance(decision, Send), decision
    assert (decision.to, decision.why.rule) == (to, rule), decision
    return decision.why.say


def refused_with(decision: Decision, status: int, code: str) -> Refuse:
    """It was refused so; what every refusal must hold is checked."""
    assert isinstance(decision, Refuse), decision
    assert (decision.status, decision.code) == (status, code), decision
    assert decision.retry_after is None or 1 <= decision.retry_after <= 60
    return decision

"""Sessions over generated conversations: no false merge, no false split, each at its home."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support_homes import settle
from support_routing import LONG, POLICY, STANDARD, talk

from rigctl.core.ask import Ask
from rigctl.core.home import Home
from rigctl.core.homes import Homes
from rigctl.core.ids import GroupName, Mono

steps = st.lists(
    st.tuples(
        st.sampled_from(["start", "turn", "turn", "turn", "resend", "edit", "compact", "restart"]),
        st.integers(0, 7),
        st.integers(0, 2),
        st.booleans(),
    ),
    min_size=5,
    max_size=60,
)


@dataclass
class Agent:
    """One conversation as its client sees it."""

    kind: int
    """Which system prompt: agents of one kind share it, and some first questions."""
    messages: list[str]
    session: str
    clock: bool
    """Its system prompt changes with every request."""
    home: Home | None = None
    turns: int = 0
    heads: int = 0

    def ask(self) -> Ask:
        self.heads += self.clock
        clock = f" at {id(self)} {self.heads}" if self.clock else ""
        return talk(*self.messages, head=f"kind {self.kind}{clock}", session=self.session)


class Play:
    """All agents, one after another or at once, over one set of homes."""

    def __init__(self) -> None:
        self.homes = Homes()
        self.saved: list[object] = []
        """What the file of homes holds."""
        self.agents: list[Agent] = []
        self.now = 0.0
        self.words = 0

    def word(self, what: str) -> str:
        """Nobody ever says the same twice."""
        self.words += 1
        return f"{what} {self.words}"

    def send(self, agent: Agent, to: GroupName, expected: Home | None) -> None:
        """Its next request; where one is expected, exactly that session's home is found."""
        self.now += 1.0
        ask = agent.ask()
        found = self.homes.find(ask, Mono(self.now), POLICY)
        if expected is not None:
            assert found.label == expected.label, (agent, found)
            assert found.home is not None
            assert found.home.cluster == expected.cluster
        agent.home = settle(self.homes, ask, to, "run", self.now, 1_000, POLICY)
        if expected is not None:
            assert agent.home.label == expected.label
        self.homes.ended(agent.home)

    def step(self, what: str, who: int, kind: int, flag: bool) -> None:
        to = LONG if (who + self.words) % 3 == 0 else STANDARD
        if what == "restart":
            self.saved += json.loads(json.dumps(self.homes.changes()))
            self.homes, bad = Homes.from_json(self.saved, Mono(self.now))
            assert bad == 0
            return
        if what == "start" or not self.agents:
            session = f"id {kind}" if flag else ""
            agent = Agent(kind, [f"question {who % 2}"], session, clock=kind == 2)
            self.agents.append(agent)
            self.send(agent, to, None)
            return
        agent = self.agents[who % len(self.agents)]
        if what == "compact":
            agent.messages = [self.word("summary")]
            agent.turns = 0
            before = agent.home
            self.send(agent, to, None)
            assert agent.home is not None
            assert before is not None
            assert agent.home.label != before.label
            return
        # Before its second turn nothing tells two apart that began with the same words; with a
        # clock before them not even one from itself.
        known = agent.home if agent.turns >= 1 else None
        if what == "turn":
            agent.messages += [self.word("a: answer")]
            agent.messages += [self.word("a: call"), self.word("result")] if flag else []
            agent.messages += [self.word("question")]
            agent.turns += 1
            self.send(agent, to, known)
        elif what == "resend":
            self.send(agent, to, known)
        elif known is not None:
            trunk = known
            agent.messages[-1] = self.word("edited")
            self.now += 1.0
            found = self.homes.find(agent.ask(), Mono(self.now), POLICY)
            assert found.home is not None, "an edit goes where its trunk is cached"
            assert (found.home.label, found.branch) == (trunk.label, True)
            self.send(agent, trunk.cluster, None)
            assert agent.home is not None
            assert agent.home.label != trunk.label


@seed(20261130)
@settings(max_examples=250, deadline=None)
@given(steps)
def test_no_false_merge_and_no_false_split(play: list[tuple[str, int, int, bool]]) -> None:
    """From the second turn on every conversation has one label, its own, and is found at home:
    over resends, edits, compaction, changing clocks, equal beginnings, shared ids, restarts."""
    rig = Play()
    for step in play:
        rig.step(*step)
        told_apart = [each.home.label for each in rig.agents if each.home and each.turns]
        assert len(told_apart) == len(set(told_apart))


@seed(20261130)
@settings(max_examples=60, deadline=None)
@given(steps, st.integers(1, 6))
def test_bounded_whatever_comes(play: list[tuple[str, int, int, bool]], most: int) -> None:
    """No more sessions than allowed, and an index without a digest of one that is gone."""
    homes = Homes(most)
    for at, (_, who, kind, flag) in enumerate(play):
        texts = [f"q{who}", "a: x", f"r{kind}"][: 1 + 2 * flag]
        settle(homes, talk(*texts, session=f"s{who}"), STANDARD, "r", at, 10, POLICY)
        assert len(homes) <= most
        index = homes._index
        for table in (index.chain, index.turns, index.opening, index.ids):
            assert all(index.sessions.keys() >= set(labels) for labels in table.values())
            assert all(table.values())

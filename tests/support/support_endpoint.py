"""A rig held in the hand whose endpoint is there: the proxy's words, one call each."""

from __future__ import annotations

from support_rig import Rig, identity

from rigctl.core.facts import (
    EndpointLinked,
    EndpointRead,
    EndpointSaid,
    EndpointSpawned,
    EngineCounted,
)
from rigctl.core.ids import GroupName, Mono, ProcessIdentity
from rigctl.core.link_words import GateState, Hello, TablePolicy, ToDaemon
from rigctl.core.spec import EndpointSpec
from rigctl.core.view import view

STANDARD, LONG = GroupName("standard"), GroupName("long")
SPEC = EndpointSpec("127.0.0.1", 8000, TablePolicy(model="m", order=(STANDARD, LONG)))


class Endpoint(Rig):
    """The rig with an endpoint whose proxy lives and is linked."""

    proxy: ProcessIdentity

    def serve(self, pid: int = 7000) -> None:
        """A proxy is spawned and says hello."""
        self.proxy = identity(pid)
        self.feed(EndpointSpawned(self.proxy))
        self.link(pid)

    def link(self, pid: int) -> None:
        hello = Hello(1, "0", pid, f"{pid:08x}", "127.0.0.1:8000, [::1]:8000")
        self.feed(EndpointLinked(pid, hello))

    def says(self, message: ToDaemon) -> None:
        self.feed(EndpointSaid(self.proxy.pid, message))

    def gate(self, name: str, drain: int, in_flight: int, gate: str = "finish") -> None:
        self.says(GateState(GroupName(name), drain, gate, in_flight))

    def quiet(self, name: str) -> None:
        """The engine's own counters see nothing, twice."""
        for _ in range(2):
            self.feed(EngineCounted(GroupName(name), 0.0))

    def notices(self) -> dict[str, str]:
        shown = view(self.state, Mono(self.now), (), "0", 1)
        return {each.id: each.say for each in shown.notices}

    def shown(self) -> tuple[str, str]:
        endpoint = view(self.state, Mono(self.now), (), "0", 1).endpoint
        return endpoint.state, endpoint.say


def endpoint() -> Endpoint:
    """Both groups serve, the proxy is linked."""
    rig = Endpoint()
    rig.feed(EndpointRead(SPEC))
    rig.serve()
    for name in ("standard", "long"):
        rig.start(name)
        rig.sample(name, active=0.0)
        rig.gate(name, 0, 0, "open")
    return rig

"""What keeps the endpoint from serving well: its port, its keys, and what its engines lack."""

from __future__ import annotations

from collections.abc import Iterable

from rigctl.core.doctor_facts import EndpointFacts, ServedEngine
from rigctl.core.doctor_finding import FAILURE, OK, WARNING, Finding


def check_endpoint(endpoint: EndpointFacts | None) -> Iterable[Finding]:
    """Every check of it; nothing where rig.toml asks for none."""
    if endpoint is None:
        return
    yield _port(endpoint)
    yield _keys(endpoint)
    for engine in endpoint.engines:
        yield from _engine(engine)


def _port(endpoint: EndpointFacts) -> Finding:
    where = f"{endpoint.host}:{endpoint.port}"
    if endpoint.listening == "ours":
        return Finding("endpoint-port", OK, f"the endpoint listens on {where}")
    if endpoint.listening:
        return Finding(
            "endpoint-port",
            FAILURE,
            f"{endpoint.listening} listens on port {endpoint.port}, which is the endpoint's",
            "write another port below [proxy] in rig.toml, then rigctl endpoint restart",
        )
    if endpoint.state in ("", "none"):
        # Without a daemon, or before it has read the section, nobody is meant to listen.
        return Finding("endpoint-port", OK, f"port {endpoint.port} is free for the endpoint")
    if endpoint.state == "up":
        return Finding(
            "endpoint-port",
            WARNING,
            f"the endpoint is up, and nobody listens on {where}: it has the address of an earlier "
            "rig.toml",
            "rigctl endpoint restart",
        )
    why = f": {endpoint.say}" if endpoint.say else ""
    state = endpoint.state.replace("_", " ")
    return Finding("endpoint-port", WARNING, f"the endpoint is {state}{why}", "rigctl endpoint")


def _keys(endpoint: EndpointFacts) -> Finding:
    if endpoint.clients_fault:
        return Finding("endpoint-keys", FAILURE, endpoint.clients_fault, "rigctl keys list")
    if endpoint.clients:
        many = "client has" if endpoint.clients == 1 else "clients have"
        say = f"{endpoint.clients} {many} a key, kept as hashes that only their owner reads"
        if not endpoint.loopback:
            say += "; over the network keys and prompts travel unencrypted"
        return Finding("endpoint-keys", OK, say)
    if not endpoint.loopback:
        return Finding(
            "endpoint-keys",
            FAILURE,
            f"the endpoint listens on {endpoint.host} for other machines, and no client has a key",
            "rigctl keys add NAME",
        )
    return Finding("endpoint-keys", OK, "only this machine reaches the endpoint; no key is needed")


def _engine(engine: ServedEngine) -> Iterable[Finding]:
    name = engine.group
    again = f"below [[group]] {name} in rig.toml, then rigctl restart {name}"
    lacks = (
        (
            engine.session_cache,
            "endpoint-session-cache",
            (
                f"{name} runs without --enable-session-radix-cache: the prompt of a session at "
                "work may be pushed out of the cache by another's, and is read again from cold"
            ),
            f'write flags = ["--enable-session-radix-cache"] {again}',
        ),
        (
            engine.cache_report,
            "endpoint-cache-report",
            (
                f"{name} runs without --enable-cache-report: how much of a prompt came from the "
                "cache is not told, in sessions and in clients' sums"
            ),
            f"rigctl restart {name}: rigctl starts it with that flag",
        ),
        (
            engine.header_rid,
            "endpoint-header-rid",
            (
                f"{name} takes no request id from a header: a request on /v1/messages whose client "
                "has gone keeps its slot until the engine notices by itself"
            ),
            f"rigctl restart {name}: rigctl starts it with the variable that allows that",
        ),
    )
    found = [Finding(name, WARNING, say, fix) for there, name, say, fix in lacks if not there]
    found += _thinking(engine, again)
    found += _slots(engine)
    if not found:
        found = [Finding("endpoint-engine", OK, f"{name} has all that the endpoint makes use of")]
    yield from found


def _thinking(engine: ServedEngine, again: str) -> list[Finding]:
    name = engine.group
    if engine.strict_thinking and engine.think_budget is None:
        return [
            Finding(
                "endpoint-thinking",
                WARNING,
                f"{name} takes thinking budgets from clients and has none of its owner's: an "
                "answer may be all thought",
                f"write think_budget = 5000 {again}",
            )
        ]
    if not engine.strict_thinking:
        cap, fix = "", f"write think_budget = 5000 {again}"
        if engine.think_budget is not None:
            cap = f", and think_budget = {engine.think_budget} is not kept either"
            fix = f"rigctl restart {name}: rigctl starts it with that flag"
        return [
            Finding(
                "endpoint-thinking",
                WARNING,
                f"{name} runs without --enable-strict-thinking: clients' thinking budgets have no "
                f"effect there{cap}",
                fix,
            )
        ]
    return []


def _slots(engine: ServedEngine) -> list[Finding]:
    wanted, real = engine.configured_slots, engine.slots
    if wanted is None or real is None or real == wanted:
        return []
    return [
        Finding(
            "endpoint-slots",
            WARNING,
            f"the endpoint sends {engine.group} {real} requests at a time, though its "
            f"max_running_requests is {wanted}: more would wait inside the engine, unseen",
            f"rigctl group show {engine.group}; a pool may be too small for {wanted}, or a restart "
            "is due",
        )
    ]

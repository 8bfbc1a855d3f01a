"""Doctor's checks of the endpoint: its port, its keys, and what its engines lack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigctl.core.doctor_endpoint import check_endpoint
from rigctl.core.doctor_facts import EndpointFacts, ServedEngine
from rigctl.core.doctor_finding import FAILURE, OK, WARNING, Finding

ENGINE = ServedEngine("long", True, True, True, True, 5000, 6, 6)
WELL = EndpointFacts(
    host="127.0.0.1",
    port=8000,
    loopback=True,
    state="up",
    listening="ours",
    clients=2,
    engines=(replace(ENGINE, group="standard"), ENGINE),
)


def found(facts: EndpointFacts) -> dict[str, Finding]:
    """Findings by id; of two engines the later one's."""
    return {finding.id: finding for finding in check_endpoint(facts)}


def test_without_an_endpoint_nothing_is_said() -> None:
    """rig.toml asks for none."""
    assert list(check_endpoint(None)) == []


def test_an_endpoint_that_lacks_nothing_is_clean() -> None:
    """One line for its port, one for its keys, one an engine."""
    findings = list(check_endpoint(WELL))
    assert [finding.id for finding in findings] == [
        "endpoint-port",
        "endpoint-keys",
        "endpoint-engine",
        "endpoint-engine",
    ]
    assert {finding.severity for finding in findings} == {OK}


@pytest.mark.parametrize(
    ("state", "listening", "severity", "says"),
    [
        ("up", "ours", OK, "listens on 127.0.0.1:8000"),
        ("up", "", WARNING, "nobody listens on 127.0.0.1:8000"),
        ("up", "nginx (pid 7)", FAILURE, "nginx (pid 7) listens on port 8000"),
        ("", "", OK, "is free for the endpoint"),
        ("none", "", OK, "is free for the endpoint"),
        ("", "a process of another user", FAILURE, "another user listens on port 8000"),
        ("backing_off", "", WARNING, "the endpoint is backing off: it crashed"),
    ],
)
def test_the_port(state: str, listening: str, severity: str, says: str) -> None:
    """Ours, free, or somebody else's, who is named."""
    facts = replace(WELL, state=state, listening=listening, say="it crashed")
    finding = found(facts)["endpoint-port"]
    assert finding.severity == severity
    assert says in finding.say
    assert bool(finding.fix) is (severity != OK)


@pytest.mark.parametrize(
    ("loopback", "clients", "fault", "severity", "says"),
    [
        (True, 0, "", OK, "no key is needed"),
        (True, 1, "", OK, "1 client has a key"),
        (False, 2, "", OK, "keys and prompts travel unencrypted"),
        (False, 0, "", FAILURE, "for other machines, and no client has a key"),
        (True, 0, "clients.toml: chmod 600 it", FAILURE, "chmod 600 it"),
    ],
)
def test_the_keys(loopback: bool, clients: int, fault: str, severity: str, says: str) -> None:
    """An open address without keys is a failure, whatever else is well."""
    facts = replace(WELL, loopback=loopback, clients=clients, clients_fault=fault)
    finding = found(facts)["endpoint-keys"]
    assert finding.severity == severity
    assert says in finding.say
    assert bool(finding.fix) is (severity != OK)


@pytest.mark.parametrize(
    ("changes", "check", "says"),
    [
        ({"session_cache": False}, "endpoint-session-cache", "is read again from cold"),
        ({"cache_report": False}, "endpoint-cache-report", "is not told"),
        ({"header_rid": False}, "endpoint-header-rid", "keeps its slot"),
        ({"strict_thinking": False}, "endpoint-thinking", "think_budget = 5000 is not kept"),
        (
            {"strict_thinking": False, "think_budget": None},
            "endpoint-thinking",
            "clients' thinking budgets have no effect",
        ),
        ({"think_budget": None}, "endpoint-thinking", "an answer may be all thought"),
        ({"slots": 2}, "endpoint-slots", "sends long 2 requests at a time"),
    ],
)
def test_what_an_engine_lacks_is_lost_and_said(
    changes: dict[str, object], check: str, says: str
) -> None:
    """One thing lacks: one warning, what is lost by it, and how to mend it for that group."""
    facts = replace(WELL, engines=(replace(ENGINE, **changes),))
    findings = [each for each in check_endpoint(facts) if each.severity != OK]
    (finding,) = findings
    assert (finding.id, finding.severity) == (check, WARNING)
    assert says in finding.say
    assert "long" in finding.fix


@pytest.mark.parametrize(("configured", "slots"), [(None, 6), (6, None), (6, 6)])
def test_slots_that_cannot_be_compared_are_no_finding(
    configured: int | None, slots: int | None
) -> None:
    """The engine chose its own number, or has told none yet."""
    engine = replace(ENGINE, configured_slots=configured, slots=slots)
    assert "endpoint-slots" not in found(replace(WELL, engines=(engine,)))

"""Doctor's checks: facts in, findings with a stable id, a severity and a cure out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigctl.core import doctor
from rigctl.core.doctor import examine, exit_code
from rigctl.core.doctor_facts import (
    CardFacts,
    ConfigFacts,
    DiskFacts,
    DriverFacts,
    Facts,
    LoginFacts,
    NoticeFacts,
    ProgramFacts,
    SocketFacts,
)
from rigctl.core.doctor_finding import FAILURE, OK, SKIPPED, WARNING, Finding

GIB = 2**30
SHELL = "this shell"

HOT = NoticeFacts("idle-but-hot", "warning", "hot")

WELL = Facts(
    program=ProgramFacts("/v/bin/rigctl", True, "/v/bin/gpurig"),
    socket=SocketFacts("/s/rigctl.sock", "answers", 0o700, True, 0o600, False, "1.0", "1.0"),
    config=ConfigFacts("/c/rig.toml", True),
    driver=DriverFacts("560.35", "560.35"),
    cards=tuple(CardFacts(n, f"{n:04x}", f"0000:0{n}:00.0", "RTX 3090", "", 1.0) for n in range(8)),
    nvml_packages=("nvidia-ml-py",),
    disks=(DiskFacts("/s", 100 * GIB, 200 * GIB),),
    login=LoginFacts("anna", True, True, False, "/u/rigctl.service", "default.target", True),
    tmux_clipboard="on",
)


def found(facts: Facts, name: str) -> Finding:
    """The finding of that id; there must be exactly one."""
    matching = [finding for finding in examine(facts) if finding.id == name]
    assert len(matching) == 1, (name, matching)
    return matching[0]


def test_a_well_machine_is_clean() -> None:
    """Everything in order: every finding is ok and the exit code 0."""
    findings = examine(WELL)
    assert {finding.severity for finding in findings} == {OK}
    assert exit_code(findings) == 0


def test_ids_are_stable() -> None:
    """Scripts look for these ids."""
    assert [finding.id for finding in examine(WELL)] == [
        "path",
        "daemon",
        "socket",
        "config",
        "driver-library",
        "index-order",
        "persistence",
        "idle-but-hot",
        "proxies",
        "pynvml",
        "disk",
        "linger",
        "tmux-clipboard",
    ]


def test_what_is_wrong_has_a_cure() -> None:
    """No warning or failure of ours without the command or step that mends it."""
    ill = Facts(
        program=ProgramFacts("/usr/bin/rigctl", False, ""),
        socket=SocketFacts("/s/rigctl.sock", "nobody", 0o777),
        config=ConfigFacts("/c/rig.toml", False),
        driver=DriverFacts("", ""),
        cards=(CardFacts(0, "c2f1", "0000:01:00.0", "A", "Xid 79", 0.0),),
        cuda_order="FASTEST_FIRST",
        proxies={SHELL: ("http_proxy",)},
        disks=(DiskFacts("/s", 0, 200 * GIB),),
        login=LoginFacts("anna", True, False, True),
        tmux_clipboard="external",
    )
    wrong = [each for each in examine(ill) if each.severity in (WARNING, FAILURE)]
    assert len(wrong) >= 11
    assert all(each.fix for each in wrong), wrong
    assert exit_code(wrong) == 2


@pytest.mark.parametrize(
    ("name", "changes", "severity", "say"),
    [
        ("path", {"program": ProgramFacts("/bin/rigctl", False, "/v/gpurig")}, WARNING, "hamlib"),
        ("path", {"program": ProgramFacts("", False, "")}, WARNING, "nothing"),
        (
            "daemon",
            {"socket": SocketFacts("/s/x", "answers", 0o700, True, 0o600, False, "1", "2")},
            WARNING,
            "rigctl 2",
        ),
        ("daemon", {"socket": SocketFacts("/s/x", "nobody", 0o700)}, WARNING, "no daemon runs"),
        ("daemon", {"socket": SocketFacts("/s/x", "it is stuck", 0o700)}, FAILURE, "stuck"),
        ("config", {"config": ConfigFacts("/c", False)}, WARNING, "there is no /c"),
        ("config", {"config": ConfigFacts("/c", True, ("/c:3: no",))}, FAILURE, "/c:3: no"),
        ("disk", {"disks": (DiskFacts("/s", 3 * GIB, 9 * GIB),)}, WARNING, "3.0 of 9 GiB free"),
        ("disk", {"disks": (DiskFacts("/s", GIB / 4, 9 * GIB),)}, FAILURE, "0.2 of 9 GiB free"),
        ("tmux-clipboard", {"tmux_clipboard": "external"}, WARNING, "external"),
        ("pynvml", {"nvml_packages": ("pynvml",)}, FAILURE, "does not come from"),
        ("pynvml", {"nvml_packages": ()}, FAILURE, "does not come from"),
        ("pynvml", {"nvml_packages": ("nvidia-ml-py", "pynvml")}, WARNING, "pynvml brings"),
        ("driver-library", {"driver": DriverFacts("", "")}, FAILURE, "no NVIDIA kernel module"),
        ("driver-library", {"driver": DriverFacts("1", "1", "no")}, FAILURE, "NVML: no"),
        ("driver-library", {"simulated": True}, SKIPPED, "simulated"),
        ("idle-but-hot", {"notices": (HOT,)}, WARNING, "hot"),
        ("nvml-silent", {"notices": (NoticeFacts("nvml-silent", "error", "no"),)}, FAILURE, "no"),
    ],
)  # fmt: skip
def test_each_check_sees_its_fault(name, changes, severity, say) -> None:
    """One fault, one finding of the right weight that says what it is."""
    finding = found(replace(WELL, **changes), name)
    assert finding.severity == severity
    assert say in finding.say


def test_rights_on_the_socket() -> None:
    """Others who may write in the folder or connect are a failure; denied access too."""
    for socket in (
        SocketFacts("/s/x", "answers", 0o770, True, 0o600),
        SocketFacts("/s/x", "answers", 0o700, True, 0o666),
    ):
        assert found(replace(WELL, socket=socket), "socket").severity == FAILURE
    denied = replace(WELL, socket=SocketFacts("/s/x", "denied"))
    assert found(denied, "socket").severity == FAILURE


@pytest.mark.case("C16")
def test_a_driver_that_differs_from_its_library_is_named_with_both() -> None:
    """Both versions are said, and that nothing stopped comes back before a reboot."""
    finding = found(replace(WELL, driver=DriverFacts("520.56.06", "525.85.12")), "driver-library")
    assert finding.severity == FAILURE
    assert "kernel module 520.56.06, library 525.85.12" in finding.say
    assert "reboot" in finding.fix


@pytest.mark.case("C81")
def test_persistence_mode_off_names_the_cards() -> None:
    """The cards are listed and nvidia-persistenced proposed; unknown is not off."""
    cards = tuple(
        replace(card, persistence=0.0 if card.index in (2, 5) else 1.0) for card in WELL.cards
    )
    finding = found(replace(WELL, cards=cards), "persistence")
    assert finding.severity == WARNING
    assert "card 2, 5" in finding.say
    assert "nvidia-persistenced" in finding.fix
    unknown = tuple(replace(card, persistence=None) for card in WELL.cards)
    assert found(replace(WELL, cards=unknown), "persistence").severity == SKIPPED


@pytest.mark.case("C13")
@pytest.mark.parametrize(
    "changes",
    [
        {"config": ConfigFacts("/c", True, by_index=("long",))},
        {"cuda_order": "FASTEST_FIRST"},
        {"cards": (*WELL.cards[:7], replace(WELL.cards[7], name="RTX 4090"))},
        {"cards": (replace(WELL.cards[0], index=1), replace(WELL.cards[1], index=0))},
    ],
)
def test_numbers_that_may_mean_other_cards_are_warned_about(changes) -> None:
    """Index names in the config, another CUDA order, mixed models, NVML out of PCI order."""
    assert found(replace(WELL, **changes), "index-order").severity == WARNING
    right = replace(WELL, cuda_order="PCI_BUS_ID")
    assert found(right, "index-order").severity == OK


@pytest.mark.case("C44")
@pytest.mark.parametrize(
    ("no_proxy", "severity"),
    [
        ("", WARNING),
        ("localhost", WARNING),
        ("127.0.0.0/8", WARNING),
        ("localhost, 127.0.0.1", OK),
        ("*", OK),
    ],
)
def test_proxies_that_catch_loopback_are_named(no_proxy: str, severity: str) -> None:
    """`NO_PROXY=localhost` does not cover 127.0.0.1, nor do most clients read CIDR."""
    facts = replace(
        WELL,
        proxies={SHELL: ("http_proxy", "ALL_PROXY"), "the systemd user environment": ()},
        no_proxy={SHELL: no_proxy},
    )
    finding = found(facts, "proxies")
    assert finding.severity == severity
    if severity == WARNING:
        assert "http_proxy, ALL_PROXY in this shell" in finding.say


@pytest.mark.case("C93")
@pytest.mark.parametrize(
    ("login", "expected"),
    [
        (LoginFacts("a", True, False, False, "/u", "default.target", True), {"linger": WARNING}),
        (
            LoginFacts("a", True, True, False, "/u", "multi-user.target", True),
            {"linger": OK, "service-target": WARNING},
        ),
        (
            LoginFacts("a", True, True, False, "/u", "default.target", False),
            {"linger": OK, "service-target": WARNING},
        ),
        (LoginFacts("a", True, False, True), {"linger": WARNING}),
        (LoginFacts("a", True, False, False), {"linger": OK}),
        (LoginFacts("a", False, False, False), {"linger": SKIPPED}),
    ],
)
def test_what_logout_and_reboot_do(login: LoginFacts, expected: dict[str, str]) -> None:
    """Linger, the unit's target and its enabled state each have their word."""
    findings = {each.id: each.severity for each in doctor.check_login(login)}
    assert findings == expected


@pytest.mark.case("C69")
def test_series_that_an_engine_does_not_serve_are_named() -> None:
    """After an upgrade the figures that went are told apart from figures that are zero."""
    names = ("kv_available_tokens", "mamba_usage")
    (finding,) = doctor.check_metrics({"standard": names, "long": ()})
    assert finding.id == "metrics-missing"
    assert all(name in finding.say for name in names)

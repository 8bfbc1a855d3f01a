"""A group as the command line and variables that start its engine on the cards really there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rigctl.config.cards import resolve_group
from rigctl.config.checks import NEEDS_DRAFT
from rigctl.config.flags import ALWAYS, QUIET_PREFIXES, mask
from rigctl.config.paths import find_home
from rigctl.config.rope import ALLOW_LONGER, override_json
from rigctl.config.schema import Config, GroupConfig, LaunchPlan
from rigctl.config.secrets import key_file
from rigctl.core.cards import CardSample

LOOPBACK = ("127.0.0.1", "localhost", "::1")

HEADER_OVERRIDES = "SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES"


def launch_plan(
    group: GroupConfig,
    config: Config,
    present: Sequence[CardSample],
    environ: Mapping[str, str],
    sleep_on_idle: bool,
    state: Path | None = None,
) -> LaunchPlan:
    """The start of one engine. Writes nothing and reads no key.

    `environ` is what the engine will inherit; `sleep_on_idle` is the wish of this moment, which may
    differ from the file's; `state` is the folder of key files (default: that of the home). Before
    the spawn `secrets.write_key_file` has to write what `--config` names. ConfigError says in words
    which card is missing, lost or shared.
    """
    cards = resolve_group(group, config, present)
    keys = key_file(group, state or find_home(environ=environ).state)
    argv = (*group.engine, *own_flags(group, len(cards), sleep_on_idle, keys), *group.flags)
    return LaunchPlan(
        group=group.name,
        argv=argv,
        env=_around_endpoint(config, environ) | _variables(group, cards, environ),
        masked=mask(argv),
        cards=tuple(card.uuid for card in cards),
    )


def speculates(group: GroupConfig) -> bool:
    """Whether the group uses speculative decoding: a draft model, or an algorithm without one."""
    return bool(group.draft_model) or group.draft_algorithm.upper() not in NEEDS_DRAFT


def own_flags(
    group: GroupConfig, cards: int, sleep_on_idle: bool, keys: Path | None
) -> tuple[str, ...]:
    """Everything rigctl sets by itself, in a fixed order, so that two plans compare by eye."""
    ranks = group.tensor_parallel or cards or None
    valued: tuple[tuple[str, str | int | None], ...] = (
        ("--model-path", group.model),
        ("--host", group.host),
        ("--port", group.port),
        ("--tp-size", ranks),
        ("--served-model-name", group.served_name),
        ("--context-length", group.context_length),
        ("--max-total-tokens", group.max_total_tokens),
        ("--max-running-requests", group.max_running_requests),
        ("--json-model-override-args", override_json(group)),
        ("--speculative-algorithm", group.draft_algorithm if speculates(group) else None),
        ("--speculative-draft-model-path", group.draft_model),
        ("--speculative-num-draft-tokens", group.draft_tokens),
        ("--reasoning-parser", group.reasoning_parser),
        ("--tool-call-parser", group.tool_call_parser),
        ("--grammar-backend", group.grammar_backend),
        ("--config", str(keys) if keys else None),
    )
    flags: list[str] = []
    for flag, value in valued:
        if value is not None and value != "":
            flags += (flag, str(value))
    if group.think_budget is not None:
        flags.append("--enable-strict-thinking")
    if sleep_on_idle:
        flags.append("--sleep-on-idle")
    for flag in ALWAYS:
        flags.append(flag)
    # Takes any number of values, so it stands last of ours: the next word is a flag or the end.
    return (*flags, *QUIET_PREFIXES)


def _variables(
    group: GroupConfig, cards: Sequence[CardSample], environ: Mapping[str, str]
) -> dict[str, str]:
    """What is set on top of the inherited environment."""
    env = dict(group.env)
    if cards:
        # Without it CUDA counts fastest first, and 4 is another card than NVML's 4 (C13).
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        names = (str(card.index) if group.card_names == "index" else card.uuid for card in cards)
        env["CUDA_VISIBLE_DEVICES"] = ",".join(names)
    if group.yarn_factor is not None:
        env[ALLOW_LONGER] = "1"
    if group.think_budget is not None:
        env["SGLANG_MAX_THINK_TOKENS"] = str(group.think_budget)
    return env | _around_proxies(group, {**environ, **env})


def _around_endpoint(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """With the endpoint in front, a request on `/v1/messages` can carry an id in a header, which
    is the only way to end it there when its client leaves. A value that is set already counts."""
    if config.proxy is None or HEADER_OVERRIDES in environ:
        return {}
    return {HEADER_OVERRIDES: "1"}


def _around_proxies(group: GroupConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Keep the engine's call to itself away from a proxy of the environment (C44).

    SGLang warms up by a request to its own address, and its client obeys `http_proxy`.
    """
    names = ("http_proxy", "https_proxy", "all_proxy")
    if not any(environ.get(name) or environ.get(name.upper()) for name in names):
        return {}
    before = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    listed = [host.strip() for host in before.split(",") if host.strip()]
    if "*" in listed:
        return {}
    own = (*LOOPBACK, group.host) if group.host not in ("0.0.0.0", "::") else LOOPBACK
    around = ",".join((*listed, *(host for host in dict.fromkeys(own) if host not in listed)))
    # The lower-case one wins where both are set, so both say the same.
    return {"no_proxy": around, "NO_PROXY": around}

"""A conversation's messages told to its chain: what is known is counted, what is new is read."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw

from rigctl.parse.beginnings import Beginning, Beginnings, ends_of, list_start
from rigctl.parse.chains import NOTHING, Chain, Part, Past, digest
from rigctl.parse.known import Known
from rigctl.parse.messages import SYSTEM, read_message, read_system, read_tools
from rigctl.parse.opened import Opened, open_body, plain_value


def read_conversation(
    system: object,
    tools: Part,
    messages: object,
    chain: Chain,
    known: Known,
    past: Past | None = None,
) -> None:
    """Fill the chain. `messages` are those that come after what is `past`."""
    found = messages if isinstance(messages, list) else []
    if past is not None:
        chain.begin(_after(past.system, system, chain), tools)
        chain.resume(past)
        lead = 0
    else:
        leading = _leading(found)
        chain.begin(_system(system, leading, chain), tools)
        chain.messages = lead = len(leading)
    while lead < len(found) and (chain.opening_left > 0 or not isinstance(found[lead], Raw)):
        _read_opening(plain_value(found[lead]), chain)
        lead += 1
    if lead < len(found):
        chain.extend(known.read(found[lead:], _read_part))
    if isinstance(messages, str):
        _read_opening({"role": "user", "content": messages}, chain)


def tools_of(tools: object, known: Known) -> Part:
    """The tools that are offered."""
    if tools is UNSET:
        return NOTHING
    if isinstance(tools, Raw):
        return known.read((tools,), lambda raw: read_tools(plain_value(raw)))[0]
    return read_tools(tools)


def remember(opened: Opened, known: Known, beginnings: Beginnings) -> None:
    """Let the next turn be read from where this one ends. Nobody should wait for it."""
    raw, messages, before = opened.raw, opened.body.messages, opened.beginning
    usable = opened.plain is None and isinstance(messages, list) and messages
    if not usable or not beginnings.takes(raw) or not isinstance(messages[0], Raw):
        return
    chain, lead = Chain(), 0
    if before is not None:
        start, at = before.start, before.end
        system = before.past.system
        chain.resume(before.past)
    else:
        leading = _leading(messages)
        found = list_start(raw)
        if found is None or (leading and opened.body.system is not UNSET):
            return
        start = at = found
        chain.messages = lead = len(leading)
        system = read_system(None, leading)[0]
    ends = ends_of(raw, at, messages)
    if ends is None or (before is None and not _proven(raw, start, ends[-1])):
        return
    parts = known.read(messages[lead:], _read_part)
    done = 0

    def past_at(place: int) -> Past:
        nonlocal done
        chain.extend(parts[done:place])
        done = place
        return chain.past(system)

    beginnings.remember(raw, start, ends[lead:], past_at)


def _proven(raw: bytes, start: int, end: int) -> bool:
    """Whether what stands there is the body's own list: without it, that is empty."""
    rest = open_body(Beginning(start, end, Past(NOTHING)).rest(raw))
    found: object = rest.body.messages
    return not rest.fault and found == []


def _leading(messages: list[Any]) -> list[Any]:
    """The system messages at the head."""
    leading: list[Any] = []
    for each in messages:
        message = plain_value(each)
        if not isinstance(message, dict) or message.get("role") not in SYSTEM:
            break
        leading.append(message)
    return leading


def _system(system: object, leading: list[Any], chain: Chain) -> Part:
    part, text = read_system(None if system is UNSET else system, leading)
    chain.open(text)
    return part


def _after(leading: Part, system: object, chain: Chain) -> Part:
    """The system text of a body whose leading messages were read before."""
    if system is UNSET:
        return leading
    own = _system(system, [], chain)
    if not leading.text_bytes:
        return own
    sizes = own.text_bytes + leading.text_bytes, own.pictures + leading.pictures
    return Part(digest(own.digest + leading.digest), *sizes)


def _read_opening(message: Any, chain: Chain) -> None:
    """A message whose text may be among the first characters."""
    part, text = read_message(message)
    chain.open("".join(text))
    chain.extend((part,))


def _read_part(raw: Raw) -> Part:
    return read_message(plain_value(raw))[0]

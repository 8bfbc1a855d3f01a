"""What a relay is measured by, against which peers, and what the bars are."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.bench.plan import Bar, Row
from rigctl.bench.relay_loads import Load
from rigctl.bench.relay_peers import NGINX, ROUTER

OURS, DIRECT = "rigctl", "direct"

MIB = 1 << 20
MEMORY_LIMIT = 1024 * MIB
"""Bytes of request bodies that our table lets the proxy hold: `[proxy] memory_limit`'s default."""

BODY = 32 * MIB
BODIES = 12

METHOD = (
    "every round measures every relay in turn, direct too; a figure is the median of its rounds "
    "[lowest to highest]; added: direct's of the same round taken off; a bar holds in three of "
    "four rounds at least, or it is too close to call and not met"
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long the run is."""

    rounds: int
    stream: Load
    """One stream at a time."""
    twelve: Load
    body: Load
    short: Load
    day: Load
    """One slice of the simulated day."""
    slices: int
    """Of the simulated day; the first two are warm-up."""
    words: str


def _effort(words: str, rounds: int, share: float, slices: int) -> Effort:
    """A run with that share of the full one's requests."""
    return Effort(
        rounds=rounds,
        stream=Load(1, max(3, round(8 * share)), tokens=100, gap=0.005, seed="stream"),
        twelve=Load(12, 2 if share == 1 else 1, tokens=round(300 * share), gap=0.01, seed="twelve"),
        body=Load(1, max(8, round(20 * share)), tokens=5, body=480_000, conversation=20),
        short=Load(12, 10**9, stream=False, seconds=2 * share, seed="short"),
        day=Load(12, 150, tokens=20, body=4_000, conversation=15, named=0.5, limit=300),
        slices=slices,
        words=words,
    )


FULL = _effort("full", 7, 1.0, 12)
QUICK = _effort("quick: fewer rounds and requests, for finding problems", 3, 0.4, 5)

ROWS: tuple[Row, ...] = (
    Row(
        "first-byte",
        "added time to first byte, one stream",
        "at most nginx's + 0.25 ms, and at most a third of sglang-router's",
        (Bar(OURS, 1.0, NGINX, plus=0.25), Bar(OURS, 1 / 3, ROUTER)),
        beside=NGINX,
        how="median over streams of 100 tokens at 5 ms, one after the other",
    ),
    Row(
        "chunk",
        "added latency of a chunk, 12 streams at 1,200 chunks/s, p99",
        "at most 1 ms, and below sglang-router",
        (Bar(OURS, 1.0), Bar(OURS, 1.0, ROUTER, below=True)),
        beside=NGINX,
        how="each event carries the time it was written; p99 of all events",
    ),
    Row(
        "body",
        "added time to first byte of a 480 kB prompt",
        "at most half of sglang-router's",
        (Bar(OURS, 0.5, ROUTER),),
        beside=NGINX,
        how="turns of one conversation of a hundred messages",
    ),
    Row(
        "cpu",
        "CPU for 1,000 chunks",
        "below sglang-router's and at most 2 × nginx's",
        (Bar(OURS, 1.0, ROUTER, below=True), Bar(OURS, 2.0, NGINX)),
        beside=NGINX,
        how="user and system time of the whole process tree over the 12 streams, from schedstat",
    ),
    Row(
        "ten",
        "ten short requests at once on the simulated rig",
        "six on standard, four on long, none waits",
        (
            Bar("on standard", 6, exact=True),
            Bar("on long", 4, exact=True),
            Bar("waited", 0, exact=True),
        ),
        how="`rigctl demo` with its daemon, engines and proxy; by the proxy's decision headers",
    ),
    Row(
        "bodies",
        "memory with 12 streams of 32 MiB bodies",
        f"at most [proxy] memory_limit ({MEMORY_LIMIT // MIB} MiB) more at its peak, and given "
        "back: at most 32 MB more ten seconds later",
        (Bar("rigctl peak", MEMORY_LIMIT / 1e6), Bar("rigctl kept", 32.0)),
        beside="nginx peak",
        how="proportional set size of the process tree every 20 ms, over what it was before; "
        "nginx keeps 4 MiB of a body in memory and the rest in files",
    ),
    Row(
        "day",
        "memory over a simulated day of traffic",
        "flat: at most 5 MB above that after the first slices",
        (Bar("rigctl growth", 5.0),),
        beside="nginx growth",
        how="conversations of 15 turns come and go, streamed, every other one with an id of its "
        "own; at full speed, so that none of them expires as it would over a day",
    ),
    Row(
        "short",
        "short answers a second, 12 connections",
        "",
        (),
        beside=NGINX,
        how="each request a session of its own; the client's own making of it is in the figure",
    ),
)


def row(identity: str) -> Row:
    """The row of that id; KeyError where there is none."""
    for candidate in ROWS:
        if candidate.id == identity:
            return candidate
    raise KeyError(identity)

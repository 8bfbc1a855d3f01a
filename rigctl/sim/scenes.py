"""What happens on the demo rig: who works, and what goes wrong when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """One agent's work on one engine; tokens and simulated seconds."""

    engine: int
    """0 is the first group's engine, 1 the second's."""
    context: int
    """Prompt tokens it begins with: files and history, cold the first time."""
    grows: int = 1800
    """Prompt tokens each turn adds."""
    answer: int = 320
    pause: float = 6.0
    """Between an answer and the next turn."""
    after: float = 0.0
    """When it begins."""
    turns: int = 0
    """How many turns; 0 goes on until its context reaches `full`, then begins anew."""
    full: int = 110_000
    every: float = 0.0
    """Turns begin on this beat, all sessions of a scene together; 0 after `pause`."""
    helpers: int = 0
    """A sub-agent is sent out after each so many turns; 0 never."""
    habit: str = ""
    """Which client it is (`asking.HABITS`); empty takes the next one in turn."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """Something told to the world `after` so many simulated seconds."""

    after: float
    do: str
    """`crash`, `lose` or `leftover`."""
    card: int


@dataclass(frozen=True, slots=True)
class Scene:
    name: str
    say: str
    """What there is to see, in one line."""
    sessions: tuple[Session, ...] = ()
    mishaps: tuple[Mishap, ...] = ()


_TEAM = (
    *(
        Session(
            0,
            5_000 + 4_000 * n,
            grows=1_200 + 300 * n,
            pause=4.0 + 2 * n,
            after=2.0 * n,
            helpers=3 if n in (0, 3) else 0,
        )
        for n in range(4)
    ),
    Session(1, 24_000, grows=2_600, pause=9.0, after=4.0, full=240_000),
    Session(1, 9_000, grows=1_500, pause=12.0, after=9.0),
)
_COLD = 122_000

SCENES: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        Scene("quiet", "nobody asks: what the rig draws with and without sleep-on-idle"),
        Scene("team", "six agents, contexts that grow, nine of ten prompt tokens cached", _TEAM),
        Scene(
            "wall",
            "one cold prompt of 122k tokens holds three running answers still for 136 s",
            (
                *(Session(0, 6_000, answer=6_000, turns=4, after=n) for n in range(3)),
                Session(0, _COLD, answer=400, after=25.0, turns=1),
            ),
        ),
        Scene(
            "collapse",
            "six cold prompts of 122k tokens at once: next to nothing is answered",
            tuple(
                Session(number % 2, _COLD, answer=600, turns=2, after=5.0 + number * 0.5)
                for number in range(6)
            ),
        ),
        Scene(
            "burst",
            "ten short requests at once, again and again: six and four, and none waits",
            tuple(
                Session(number % 2, 700, grows=120, answer=220, every=45.0, full=8_000)
                for number in range(10)
            ),
        ),
        Scene(
            "long-context",
            "one session of 300k tokens, that only the long engine takes, beside five short ones",
            (
                Session(1, 300_000, grows=4_000, answer=500, pause=12.0, full=480_000),
                *(
                    Session(0, 4_000 + 2_000 * n, grows=900, pause=5.0 + n, after=2.0 * n)
                    for n in range(5)
                ),
            ),
        ),
        Scene(
            "crash",
            "the second engine's scheduler raises in the middle of work and is started again",
            _TEAM,
            (Mishap(30.0, "crash", 4),),
        ),
        Scene(
            "lost-card",
            "card 5 falls off the bus: its engine dies, the other cards stay in view",
            _TEAM,
            (Mishap(30.0, "lose", 5),),
        ),
        Scene(
            "leftover",
            "free the second group: one process stays behind with its memory until rigctl ends it",
            _TEAM[:4],
            (Mishap(5.0, "leftover", 4),),
        ),
    )
}

"""What goes wrong with an answer on demand: `fault:WORD` in a prompt, or SIM_FAULT=WORD for all.

| word               | what happens                                                             |
| ------------------ | ------------------------------------------------------------------------ |
| `die:N`            | the scheduler raises after N tokens: the whole engine dies as SGLang dies |
| `cut:N`            | the connection is torn after N tokens; the engine goes on                 |
| `error:N`          | an error event after N tokens, 0 is the first event; then SGLang's ending |
| `refuse:STATUS`    | the answer is that status, before anything is computed                    |
| `no-done`          | the stream closes without `[DONE]` (`message_stop`, the last event)       |
| `no-finish`        | the stream closes without its finish and without `[DONE]`                 |
| `silence:N:S`      | after N tokens nothing is sent for S real seconds                         |
| `repeat`           | one sentence over and over, up to the limit                               |
| `think`            | thought up to the limit, never an answer                                  |
| `split`            | an answer of wide characters, each frame in two writes cut inside one     |

`say:short`, `say:all` and `say:tools` in a prompt give a fixed short answer, one with thought, text
and a tool call, and one of two tool calls: the words of `tests/engine/scripted_model.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(
    r"fault:(die|cut|error|refuse|no-done|no-finish|silence|repeat|think|split)"
    r"(?::(\d+))?(?::(\d+(?:\.\d+)?))?"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: str = ""
    """A word of the table, empty when nothing does."""
    after: int = 0
    """Tokens of the answer after which it happens; a status for `refuse`."""
    seconds: float = 0.0
    """Real seconds of silence."""


def find_fault(text: str, always: str = "") -> Fault:
    """The fault that a prompt's text asks for, else the one that `always` names."""
    match = _MARK.search(text) or (_MARK.search(f"fault:{always}") if always else None)
    if match is None:
        return Fault()
    return Fault(match[1], int(match[2] or 0), float(match[3] or 0.0))

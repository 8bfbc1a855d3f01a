"""The exit codes, which are an API, and the exception that ends a verb with one of them."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
NOT_RUNNING = 3
PARTLY = 4
TIMED_OUT = 124
LEND_FAILED = 125
"""`lend`: rigctl's own failure; 126 and 127 as in the shell, else the command's own code."""
NOT_EXECUTABLE = 126
NOT_FOUND = 127
INTERRUPTED = 130

DEGRADED = 1
"""`status --check`: something needs a look."""
DOWN = 3
"""`status --check`: no daemon, or a wanted group does not run."""

HELP = """\
exit codes:
  0    done (status: 0 whatever it shows)
  1    failed, or refused by the daemon
  2    wrong usage, or a question that nobody was there to answer
  3    no daemon runs
  4    partly done: 3 of 4 cards free
  124  timed out; what was asked for goes on
  130  interrupted; what was asked for goes on
  lend           its command's own code; 125 rigctl failed, 126 not executable, 127 not found
  doctor         0 clean, 1 warnings, 2 failures
  status --check 0 well, 1 degraded, 3 down
"""


class End(Exception):  # noqa: N818 - not every end is an error
    """Ends the verb: the exit code, and what to say on stderr (nothing when empty)."""

    def __init__(self, code: int, say: str = "") -> None:
        super().__init__(say)
        self.code = code
        self.say = say

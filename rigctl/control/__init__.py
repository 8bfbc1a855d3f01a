"""The control socket: its two ends and the words between.

One JSON object a line, UTF-8. A client asks, the daemon answers; a connection carries one
question at a time, and a question that streams (`watch`, or `follow`) has its connection to
itself until either side closes it.

Client to daemon::

    {"do": "snapshot"}                              one snapshot line
    {"do": "watch"}                                 snapshot lines as they come, newest wins
    {"do": "act", "command": "free", "args": {…}}   args are the fields of core.commands.FreeGroup
    {"do": "journal", "after": 0, "limit": 200, "follow": false}
    {"do": "log", "group": "long", "lines": 200, "follow": false, "previous": 0}
    {"do": "history", "seconds": 900}
    {"do": "hello", "protocol": 1, "rigctl": "0.1.0", "role": "panel"}

Daemon to client::

    {"kind": "snapshot", …}                          core.snapshot.Snapshot
    {"kind": "answer", "accepted": {"operation": 3, "say": "…"}}
    {"kind": "answer", "refused": {"say": "…", "code": "…"}}
    {"kind": "journal", "entry": {"seq": …, …}}     core.snapshot.JournalEntry, then
    {"kind": "gap", "missed": 12}                    where a slow reader lost entries
    {"kind": "log", "line": "…"}
    {"kind": "history", "step": 2.0, "end": <wall>, "series": {"rig.watts": [412.0, null, …]}}
    {"kind": "hello", "protocol": 1, "rigctl": "0.1.0", "epoch": "…", "read_only": false}
    {"kind": "end"}                                  after the last line of a list that ends
    {"kind": "error", "say": "…", "code": "…"}

History series, one value a step, null where there was none: `rig.watts`, `card.<uuid>.watts`,
`group.<name>.decode`, `group.<name>.prefill`, `group.<name>.pool_used`.
"""

PROTOCOL = 1

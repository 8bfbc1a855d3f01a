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
    {"do": "routes", "limit": 50, "follow": false}  the endpoint's newest decisions, oldest first
    {"do": "hello", "protocol": 1, "rigctl": "0.1.0", "role": "panel"}
    {"do": "link", "protocol": 1, …}                the proxy's own question, see below

Daemon to client::

    {"kind": "snapshot", …}                          core.snapshot.Snapshot
    {"kind": "answer", "accepted": {"operation": 3, "say": "…"}}
    {"kind": "answer", "refused": {"say": "…", "code": "…"}}
    {"kind": "journal", "entry": {"seq": …, …}}     core.snapshot.JournalEntry, then
    {"kind": "gap", "missed": 12}                    where a slow reader lost entries
    {"kind": "log", "line": "…"}
    {"kind": "route", "record": {"seq": …, …}}      core.flow.RouteRecord; with `follow` one comes
                                                    again when its status is known
    {"kind": "history", "step": 2.0, "end": <wall>, "series": {"rig.watts": [412.0, null, …]}}
    {"kind": "hello", "protocol": 1, "rigctl": "0.1.0", "epoch": "…", "read_only": false}
    {"kind": "end"}                                  after the last line of a list that ends
    {"kind": "error", "say": "…", "code": "…"}

History series, one value a step, null where there was none: `rig.watts`, `card.<uuid>.watts`,
`group.<name>.decode`, `group.<name>.prefill`, `group.<name>.pool_used`.

The link of daemon and proxy
----------------------------
The proxy connects, and again whenever the connection ends; the daemon never dials. Its first line
is the question `link`, the fields of core.link_words.Hello, sent only once it accepts clients::

    {"do": "link", "protocol": 1, "rigctl": "0.1.0", "pid": 4711, "epoch": "3f0c…",
     "address": "127.0.0.1:8000", "table": ["<the daemon's epoch>", 12]}

From then on the connection is a link: both sides send one object a line (`link_wire` has both
ends), whenever they like, at most 1 MiB each; there are no answers. The daemon begins with the
whole `table`, unasked. The proxy begins with one `gate` for each group of that table::

    {"kind": "gate", "body": {"group": "long", "drain": 3, "gate": "finish", "in_flight": 2, …}}

    daemon to proxy   table, progress, abort, hand-over, give-socket
    proxy to daemon   gate, flow, routes, evidence, aborted, leaving

A kind that the other side does not know is passed over, so is a field. Where the link is refused
the daemon says so in an `error` line and closes: `version` (another link protocol; `say` names the
older one and the command that mends it), `not-allowed` (another user's process), `busy` (the
daemon is just ending). The proxy then serves on by its last table and tries again, every half
second, after `version` every 10 s. A table of an older `seq` in the same `epoch` is dropped.

The daemon starts the proxy as `python -m rigctl.proxy.main --home HOME --listen-fd N`, with
`--listen-fd` once for each socket (IPv4 and IPv6 loopback are two), listening already, and
`--lifeline SOCKET` on a simulated rig. HOME is left out where it is the XDG one.
`give-socket` is asked of a proxy that another daemon started: `hand_socket.give(path, sockets)`.
"""

PROTOCOL = 1

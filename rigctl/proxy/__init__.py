"""The data plane: carries the clients' bytes, decides where each request goes, lives through a
restart of the daemon.

Where to begin: `app` holds the parts, `front` takes a request in, `admission` finds it a place,
`serving` carries it through its attempts, `attempt` is one exchange with one engine (the hot path).
What it knows of the engines is the daemon's last `Table` (`link`, `board`); what it knows of its
own traffic is in `live`. It decides nothing by itself that `core` can decide.
"""

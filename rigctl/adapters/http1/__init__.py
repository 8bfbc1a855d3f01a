"""HTTP/1.1 for everything that speaks it here: pollers, the simulated engines, the endpoint.

Parsing (`parsing`) touches no socket. The asking end is `client`, over kept connections (`link`),
by callbacks for a relay or read by a coroutine (`stream`); the listening end is `server`, a
`connection` a client, an `exchange` a request. Both set TCP_NODELAY and run on asyncio's loop and
on uvloop. Environment proxies are never looked at: every peer is named by host and port.
"""

from rigctl.adapters.http1.client import HttpClient
from rigctl.adapters.http1.connection import Handler, Wording
from rigctl.adapters.http1.errors import (
    AnswerTooLargeError,
    BrokenAnswerError,
    ClientGoneError,
    DisconnectedError,
    HttpError,
    PeerError,
    RequestError,
    TimedOutError,
    UnreachableError,
)
from rigctl.adapters.http1.exchange import Exchange
from rigctl.adapters.http1.link import Relayed, Sink
from rigctl.adapters.http1.messages import (
    Headers,
    Limits,
    RequestHead,
    Response,
    ResponseHead,
    write_fields,
)
from rigctl.adapters.http1.server import HttpServer
from rigctl.adapters.http1.stream import ANSWER_LIMIT, ResponseStream

__all__ = [
    "ANSWER_LIMIT",
    "AnswerTooLargeError",
    "BrokenAnswerError",
    "ClientGoneError",
    "DisconnectedError",
    "Exchange",
    "Handler",
    "Headers",
    "HttpClient",
    "HttpError",
    "HttpServer",
    "Limits",
    "PeerError",
    "Relayed",
    "RequestError",
    "RequestHead",
    "Response",
    "ResponseHead",
    "ResponseStream",
    "Sink",
    "TimedOutError",
    "UnreachableError",
    "Wording",
    "write_fields",
]

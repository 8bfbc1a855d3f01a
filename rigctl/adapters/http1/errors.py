"""What can go wrong between two ends of HTTP, ours and theirs kept apart."""

from __future__ import annotations


class HttpError(Exception):
    """The root: catch this at the edge, once."""


class PeerError(HttpError):
    """As a client: the server did not give us a whole answer."""


class UnreachableError(PeerError):
    """No connection could be made; nothing was sent."""


class TimedOutError(PeerError):
    """The answer was not there in time."""


class DisconnectedError(PeerError):
    """The connection ended before the answer did."""

    def __init__(self, say: str, *, answered: bool) -> None:
        super().__init__(say)
        self.answered = answered
        """Whether any byte of this answer had arrived: only without one may a request be resent."""


class BrokenAnswerError(PeerError):
    """The server spoke something that is not HTTP/1.1."""


class AnswerTooLargeError(PeerError):
    """The answer passed the limit its reader set."""


class RequestError(HttpError):
    """As a server: the request is not one we serve; the status says which kind."""

    def __init__(self, status: int, say: str) -> None:
        super().__init__(say)
        self.status = status


class ClientGoneError(HttpError):
    """As a server: the client closed before the answer was written."""

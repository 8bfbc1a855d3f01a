"""Reads an answer on its way to the client: what it says, how it ends, what it cost.

The bytes are not touched, but for one chunk: usage that the proxy asked for and the client did not.
"""

from __future__ import annotations

from collections.abc import Callable

from rigctl.core.answer import Answer, Doing, Ending, StreamError, Usage
from rigctl.core.ask import Endpoint
from rigctl.core.said import Said
from rigctl.core.sse import Event, Events
from rigctl.parse import take_chat, take_messages, take_responses

MOST_BODY = 32 * 1024 * 1024
"""Bytes of an answer that is not a stream that are kept; of a longer one only the end is known."""
MOST_HELD = 64 * 1024
"""Bytes of one event held back until it is known not to be our usage chunk."""
MOST_LATER = 64 * 1024
"""Bytes of whole events that are put off; past it they are read unasked."""
_FIELDS = (b"data: ", b"event:")
"""How the first line of an event begins, in six bytes."""
_SIZE_LINES = {
    len(line) + size + 2: (line, len(line))
    for size in range(1, 0x1000)
    for line in (b"%x\r\n" % size,)
}
"""Bytes of a whole chunk in its frame -> its first line, as servers write it. No two sizes make
frames of one length, and to look a line up is faster than to read it."""

_NO_LINE = (b"?", 0)

_TAKE: dict[Endpoint, Callable[[Answer, Event], bool]] = {
    Endpoint.MESSAGES: take_messages.take,
    Endpoint.RESPONSES: take_responses.take,
}
_TAKE_BODY: dict[Endpoint, Callable[[Answer, bytes], None]] = {
    Endpoint.MESSAGES: take_messages.take_body,
    Endpoint.RESPONSES: take_responses.take_body,
}


class AnswerReader:
    """Reads one answer, from its first byte to its last.

    Whole events that cannot be ours to take out are passed on unread, and read later, many in a
    row: that costs a third of reading each as it comes. Who feeds it says when (`catch_up`), and
    whoever asks for anything gets all of it.

    Memory: at most `MOST_TEXT` characters of text, one event of `core.sse.MOST_EVENT` bytes,
    `MOST_LATER` bytes put off, or a body of `MOST_BODY`.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_body_bytes",
        "_drop_lf",
        "_even",
        "_events",
        "_held",
        "_held_bytes",
        "_later",
        "_scanner",
        "_sent",
        "_swallow",
        "_take",
        "behind",
        "endpoint",
        "stream",
    )

    def __init__(
        self, endpoint: Endpoint, stream: bool, *, swallow: bool = False, choices: int = 1
    ) -> None:
        """`stream`: whether the answer is one, by its content type. `swallow`: the proxy added
        `include_usage` to the request. `choices`: how many were asked for."""
        self.endpoint = endpoint
        self.stream = stream
        self._answer = Answer(choices)
        self._events = 0
        self._even = False
        """What came so far ends between two events, with nothing held back."""
        self._later: list[bytes] = []
        self.behind = 0
        """Bytes that were passed on and not read yet."""
        self._take = _TAKE.get(endpoint, take_chat.take)
        self._scanner = Events()
        self._swallow = swallow and stream
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._sent = 0
        self._drop_lf = False
        self._body: list[bytes] = []
        self._body_bytes = 0

    @property
    def answer(self) -> Answer:
        """All that was read of it, what came a moment ago included."""
        if self._later:
            self.catch_up()
        return self._answer

    @property
    def events(self) -> int:
        """Events with data so far."""
        if self._later:
            self.catch_up()
        return self._events

    @property
    def choices(self) -> dict[int, Said]:
        """What the client has received, by choice."""
        return self.answer.choices

    @property
    def progress(self) -> int:
        """Events with content; comments and empty deltas are none (C38)."""
        answer = self.answer
        return answer.progress + self._scanner.passed_over

    @property
    def begun(self) -> bool:
        """Whether more than a preamble has come: text, an error, an end.

        A role, `message_start`, `response.created` are sent before the engine has looked at the
        prompt's length on some paths (SGLang's `/v1/messages` and `/v1/responses` answer 200 at
        once): while nothing else came, another engine may try, unnoticed.
        """
        answer = self.answer
        return (
            self.progress > 0
            or answer.done
            or answer.first_error is not None
            or any(said.finish for said in answer.choices.values())
        )

    @property
    def doing(self) -> Doing:
        """What the model was last seen to write."""
        return self.answer.doing

    @property
    def first_error(self) -> StreamError | None:
        """The first error in-band (C34)."""
        return self.answer.first_error

    @property
    def usage(self) -> Usage | None:
        """The engine's count; None where it told none."""
        return self.answer.usage

    @property
    def ended(self) -> Ending:
        """How the answer stands, or ended (C33)."""
        return self.answer.ended

    @property
    def done(self) -> bool:
        """Whether the dialect's last event was seen; where it was not, one has to be added."""
        return self.answer.done

    @property
    def at_boundary(self) -> bool:
        """Whether what was forwarded so far ends between two events."""
        if self._later:
            return True
        if self._held_bytes:
            return self._sent <= self._scanner.open_at
        return self._scanner.at_boundary

    @property
    def carried(self) -> int:
        """Bytes of the body that the engine has sent."""
        return self._scanner.seen + self.behind if self.stream else self._body_bytes

    def feed(self, data: bytes) -> None:
        """Bytes of the body as they came."""
        if not self.stream:
            if self._body_bytes <= MOST_BODY:
                self._body.append(data)
            self._body_bytes += len(data)
            return
        if not (self._even and self._put_off(data)):
            self._read(data)

    def skim(self, frame: bytes) -> bool:
        """Take one chunk of a body with its frame, to be passed on as it is and read later.

        False, and nothing was taken: it is not one whole chunk of whole events that need no change.
        """
        line, at = _SIZE_LINES.get(len(frame), _NO_LINE)
        if not self._even or frame[:at] != line or frame[-2:] != b"\r\n":
            return False
        return self._put_off(frame[at:-2])

    def begins(self, data: bytes) -> bool:
        """Take how a stream begins, to be passed on as it is and read later.

        False, and nothing was taken: it is not whole events, or may be an error, after which
        another engine may still try (C34).
        """
        if self._scanner.seen or self._later or data[:7] != b"data: {" or b"error" in data:
            return False
        self._even = self._put_off(data)
        return self._even

    def _put_off(self, data: bytes) -> bool:
        """To be read later, where it is whole events and nothing else, to whoever stands between
        two, and no usage of ours among them."""
        # Slices: `startswith` and `endswith` take three times as long, and this is every token.
        if data[-2:] != b"\n\n" or data[:6] not in _FIELDS or b"\r" in data:
            return False
        if self._swallow and b'"usage"' in data:
            return False
        self._later.append(data)
        self.behind += len(data)
        if self.behind > MOST_LATER:
            self.catch_up()
        return True

    def catch_up(self) -> None:
        """Read what was put off."""
        if not self._later:
            return
        data = b"".join(self._later)
        self._later.clear()
        self.behind = 0
        self._sent += len(data)
        if self._take is take_chat.take:
            found = take_chat.take_many(self._answer, data)
            if found:
                self._events += found
                self._scanner.skip(len(data))
                return
        for event in self._scanner.feed(data):
            self._events += 1
            self._take(self._answer, event)

    def _read(self, data: bytes) -> list[Event]:
        """Read at once; the events that are ours to take out."""
        if self._later:
            self.catch_up()
        ours: list[Event] = []
        for event in self._scanner.feed(data):
            self._events += 1
            if self._take(self._answer, event):
                ours.append(event)
        self._even = self._scanner.at_boundary and not self._swallow
        return ours

    def filter(self, data: bytes) -> bytes:
        """Feed, and say what of it to forward: everything but the usage chunk that we asked for.

        An event that may be the one is held back until its end, if it is no longer than
        `MOST_HELD`. Call `finish` at the end for what is still held.
        """
        if not self._swallow:
            self.feed(data)
            return data
        if self._even and self._put_off(data):
            return data
        passed = self._filter(data)
        self._even = not self._held_bytes and not self._drop_lf and self._scanner.at_boundary
        return passed

    def _filter(self, data: bytes) -> bytes:
        if self._drop_lf and data:
            self._drop_lf = False
            if data[0] == 10:
                self._scanner.feed(data[:1])
                self._sent += 1
                data = data[1:]
        cuts = self._read(data)
        seen = self._sent + self._held_bytes + len(data)
        open_at = self._scanner.open_at
        if open_at < self._sent or seen - open_at > MOST_HELD:
            open_at = seen
        if not cuts and open_at == seen and not self._held_bytes:
            self._sent = seen
            return data
        if not cuts and open_at == self._sent:
            self._held.append(data)
            self._held_bytes += len(data)
            return b""
        return self._without(data, cuts, open_at)

    def _without(self, data: bytes, cuts: list[Event], upto: int) -> bytes:
        """What is held and new, up to that offset of the stream, without the events cut out."""
        whole = b"".join((*self._held, data))
        base = at = self._sent
        kept: list[bytes] = []
        for event in cuts:
            if event.start < base:
                continue  # its head has gone already
            kept.append(whole[at - base : event.start - base])
            at = event.end
            self._drop_lf = at == base + len(whole) and whole[-1] == 13
        kept.append(whole[at - base : upto - base])
        rest = whole[upto - base :]
        self._held = [rest] if rest else []
        self._held_bytes = len(rest)
        self._sent = upto
        return b"".join(kept)

    def finish(self) -> bytes:
        """The connection has closed: what `filter` still held, to be forwarded."""
        self.answer.closed = True
        if not self.stream and self._body:
            body, self._body = b"".join(self._body), []
            if self._body_bytes <= MOST_BODY:
                _TAKE_BODY.get(self.endpoint, take_chat.take_body)(self.answer, body)
            else:
                self.answer.whole = False
        held = b"".join(self._held)
        self._sent += len(held)
        self._held, self._held_bytes = [], 0
        return held

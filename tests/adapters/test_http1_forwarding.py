"""Header fields that travel on, and those of one connection only (C50)."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.adapters.http1 import forwardable
from rigctl.adapters.http1.messages import write_request_head, write_response_head

pytestmark = pytest.mark.case("C50")

OF_A_CONNECTION = (
    b"connection keep-alive te trailer transfer-encoding upgrade proxy-authorization "
    b"proxy-connection proxy-authenticate content-length host http2-settings"
).split()


def test_a_request_as_clients_send_it() -> None:
    """Of `Connection: upgrade`, `TE: trailers` and `Host: other` nothing goes on; the rest does."""
    fields = [
        (b"host", b"other"),
        (b"connection", b"upgrade, X-Hop"),
        (b"connection", b"HTTP2-Settings"),
        (b"upgrade", b"h2c"),
        (b"te", b"trailers"),
        (b"x-hop", b"1"),
        (b"authorization", b"Bearer k"),
        (b"x-session-id", b"s"),
        (b"accept", b"a"),
        (b"accept", b"b"),
    ]
    assert forwardable(fields) == tuple(fields[6:])


def test_an_answer_as_servers_send_it() -> None:
    """Framing is made anew, Date and Content-Type come once, cookies all."""
    fields = [
        (b"date", b"Sat, 28 Nov 2026 09:00:00 GMT"),
        (b"date", b"Sat, 28 Nov 2026 09:00:01 GMT"),
        (b"transfer-encoding", b"chunked"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"keep-alive"),
        (b"keep-alive", b"timeout=5"),
        (b"content-length", b"0"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
    ]
    assert forwardable(fields) == (fields[0], fields[7], fields[8])


NAMES = st.sampled_from([*OF_A_CONNECTION, b"x-a", b"x-b", b"accept", b"date", b"cookie"])
VALUES = st.sampled_from([b"x-a", b"X-B , close", b"", b",,", b"chunked", b"5"])


@seed(50)
@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_nothing_of_a_connection_goes_on_and_a_second_pass_changes_nothing(
    fields: list[tuple[bytes, bytes]],
) -> None:
    """What is kept is in order, free of hop-by-hop fields, and stays so; it can be written."""
    kept = forwardable(fields)
    assert not {name for name, _ in kept} & set(OF_A_CONNECTION)
    assert forwardable(kept) == kept
    remaining = iter(fields)
    assert all(field in remaining for field in kept)
    if (b"connection", b"x-a") in fields:
        assert b"x-a" not in {name for name, _ in kept}
    assert write_response_head(200, kept).count(b"\r\n") == len(kept) + 2
    assert write_request_head("GET", "/", "h", 1, kept).count(b"host: ") == 1

"""What cannot be reached through the endpoint: the engines' control paths, by any spelling."""

from __future__ import annotations

import socket

import pytest
from support_served import Endpoint

pytestmark = pytest.mark.timeout(300)

CONTROL = (
    "/flush_cache",
    "/abort_request",
    "/server_info",
    "/get_server_info",
    "/model_info",
    "/v1/loads",
    "/release_memory_occupation",
    "/resume_memory_occupation",
    "/pause_generation",
    "/set_internal_state",
    "/configure_logging",
    "/update_weights_from_disk",
    "/start_profile",
    "/generate",
    "/close_session",
    "/open_session",
    "/shutdown",
)

TRICKS = (
    "//flush_cache",
    "/v1/../flush_cache",
    "/v1/chat/completions/../../../flush_cache",
    "/v1/chat/completions/..;/flush_cache",
    "/%66lush_cache",
    "/v1/%2e%2e/flush_cache",
    "/v1/chat/completions%2f..%2f..%2fflush_cache",
    "/./flush_cache",
    "/v1/models/../../flush_cache",
    "/v1/models/%2e%2e/%2e%2e/flush_cache",
    "/flush_cache?x=/v1/chat/completions",
    "/v1/chat/completions#/../flush_cache",
    "\\flush_cache",
    "/v1\\..\\flush_cache",
    "http://{engine}/flush_cache",
    "http://127.0.0.1/flush_cache",
    "HTTP://{engine}/flush_cache",
    "*",
    "/flush_cache\tHTTP/1.1",
)


def raw(rig: Endpoint, data: bytes) -> bytes:
    """Send bytes as they are; everything that comes back until the close or a second's silence."""
    with socket.create_connection(("127.0.0.1", rig.port), 10) as line:
        line.sendall(data)
        line.settimeout(1.0)
        said = b""
        try:
            while part := line.recv(65536):
                said += part
        except TimeoutError:
            pass
        return said


def untouched(rig: Endpoint, word: str) -> bool:
    """Whether no engine's access log has that word."""
    return all(word not in engine.said() for engine in rig.engines.values())


@pytest.mark.parametrize("path", CONTROL)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_control_paths_are_not_there(rig: Endpoint, path: str, method: str) -> None:
    """404 from the endpoint itself; it names what is served and not what is behind."""
    answer = rig.ask(method, path, {} if method == "POST" else None)
    assert answer.status == 404
    assert "/v1/chat/completions" in answer.json["error"]["message"]
    assert "x-rig-cluster" not in answer.headers


@pytest.mark.parametrize("target", TRICKS)
def test_no_spelling_reaches_the_engine(rig: Endpoint, target: str) -> None:
    """Dots, slashes, escapes, absolute forms: refused, and no engine flushes anything."""
    engine = rig.engines["standard"]
    target = target.replace("{engine}", f"127.0.0.1:{engine.port}")
    for method in ("GET", "POST"):
        length = "content-length: 0\r\n" if method == "POST" else ""
        said = raw(rig, f"{method} {target} HTTP/1.1\r\nhost: x\r\n{length}\r\n".encode())
        assert not said or said.split()[1][:1] == b"4", said
    assert untouched(rig, "flush_cache")
    assert untouched(rig, "Cache flushed")


def test_no_second_request_hides_in_a_body(rig: Endpoint) -> None:
    """Conflicting lengths are refused before an engine could read them differently."""
    inner = b"POST /flush_cache HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    for lengths in (
        b"content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"content-length: 0\r\ncontent-length: %d\r\n\r\n" % len(inner),
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"content-length: +0\r\n\r\n",
        b"content-length : 0\r\n\r\n",
    ):
        said = raw(rig, head + lengths + inner)
        assert not said or said.split()[1][:1] in (b"4", b"5"), said
    assert untouched(rig, "flush_cache")


def test_no_header_line_is_smuggled(rig: Endpoint) -> None:
    """A folded or bare-CR header is refused; none of ours can be set from outside."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
    for line in (b"x-a: 1\r\n x-b: 2\r\n", b"x-a: 1\rx-b: 2\r\n", b"x-a\0: 1\r\n"):
        said = raw(rig, head + line + b"content-length: 2\r\n\r\n{}")
        assert not said or said.split()[1][:1] == b"4", said
    answer = rig.chat(
        "what nobody has said here before", headers={"x-rig-cluster": "long", "x-rig-rule": "mine"}
    )
    assert answer.cluster == "standard"
    assert answer.headers["x-rig-rule"] != "mine"

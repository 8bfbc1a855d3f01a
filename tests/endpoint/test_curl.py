"""curl at the endpoint: old HTTP, compressed and chunked bodies, IPv6, large bodies, headers."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
import support_served
import zstandard
from support_served import MODEL, Endpoint, Engine

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]

JSON = ("-H", "Content-Type: application/json")
ASK = {"model": MODEL, "messages": [{"role": "user", "content": "say:short"}], "max_tokens": 32}


def curl(*words: str, data: bytes | None = None, env: dict[str, str] | None = None) -> str:
    """Run curl; status line and headers, then the body. Its own failure fails the test."""
    argv = ["curl", "-sS", "-i", "--max-time", "60", *words]
    done = subprocess.run(argv, input=data, capture_output=True, env=env, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr, done.stdout[-300:])
    return done.stdout.decode()


def head_and_body(said: str) -> tuple[int, dict[str, list[str]], str]:
    """The last answer's status, its headers by name, its body."""
    while True:
        head, _, body = said.partition("\r\n\r\n")
        if not body.startswith("HTTP/"):
            break
        said = body
    status = int(head.split()[1])
    fields: dict[str, list[str]] = {}
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    return status, fields, body


def post(
    rig: Endpoint, *words: str, body: bytes | None = None
) -> tuple[int, dict[str, list[str]], str]:
    """A chat request by curl, its body from stdin."""
    data = json.dumps(ASK).encode() if body is None else body
    url = f"{rig.url}/v1/chat/completions"
    return head_and_body(curl(*JSON, *words, "--data-binary", "@-", url, data=data))


@pytest.mark.case("C53")
def test_http_1_0_is_answered_to_the_close(rig: Endpoint) -> None:
    """A stream for HTTP/1.0: no chunk sizes in the text, ended by the close, whole."""
    ask = json.dumps(ASK | {"stream": True}).encode()
    status, fields, body = post(rig, "--http1.0", "-N", body=ask)
    assert status == 200
    assert "transfer-encoding" not in fields
    assert body.endswith("data: [DONE]\n\n")
    assert not re.search(r"(?m)^[0-9a-f]+\r$", body)
    status, fields, body = post(rig, "--http1.0")
    assert json.loads(body)["choices"][0]["message"]["content"] == "Hello over there."
    assert "transfer-encoding" not in fields


@pytest.mark.case("C53")
def test_http_1_0_without_a_host(rig: Endpoint) -> None:
    """Old clients send no Host at all."""
    status, _, _ = post(rig, "--http1.0", "-H", "Host:")
    assert status == 200


@pytest.mark.case("C50")
def test_headers_of_a_stream(rig: Endpoint) -> None:
    """One of each, none of them hop-by-hop from the engine, and no buffering on the way."""
    ask = json.dumps(ASK | {"stream": True}).encode()
    words = ("-H", "Connection: upgrade, x-odd", "-H", "TE: trailers", "-H", "x-odd: 1")
    status, fields, _ = post(rig, *words, "-H", "Host: other.example", body=ask)
    assert status == 200
    assert fields["content-type"][0].startswith("text/event-stream")
    assert fields["transfer-encoding"] == ["chunked"]
    assert fields["x-accel-buffering"] == ["no"]
    assert "no-cache" in fields["cache-control"][0]
    assert "content-length" not in fields
    assert all(len(values) == 1 for values in fields.values()), fields


ENCODINGS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "identity": bytes,
}


@pytest.mark.case("C43")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_compressed_bodies_are_read(rig: Endpoint, encoding: str) -> None:
    """Codex sends zstd, others gzip or deflate: the engine gets plain JSON."""
    body = ENCODINGS[encoding](json.dumps(ASK).encode())
    status, _, said = post(rig, "-H", f"Content-Encoding: {encoding}", body=body)
    assert status == 200, said
    assert json.loads(said)["choices"][0]["message"]["content"] == "Hello over there."


@pytest.mark.case("C43")
def test_two_encodings_and_one_that_is_not_named(rig: Endpoint) -> None:
    """Zstandard inside gzip, and zstandard that no header mentions."""
    inner = zstandard.compress(json.dumps(ASK).encode())
    both = ("-H", "Content-Encoding: zstd, gzip")
    assert post(rig, *both, body=gzip.compress(inner))[0] == 200
    assert post(rig, body=inner)[0] == 200


@pytest.mark.case("C43")
@pytest.mark.parametrize(
    ("encoding", "body", "wanted"),
    [
        ("x-foo", b"{}", 415),
        ("zstd", zstandard.compress(b"x" * 10_000)[:-20], 400),
        ("gzip", b"no gzip at all", 400),
        ("gzip", gzip.compress(b"\0" * 200_000_000), 413),
        ("zstd", zstandard.compress(b"\0" * 200_000_000), 413),
    ],
)
def test_bodies_that_cannot_be_decoded(
    rig: Endpoint, encoding: str, body: bytes, wanted: int
) -> None:
    """Unknown, cut off, not what it says, or a bomb: an error in JSON, and never an engine's."""
    status, fields, said = post(rig, "-H", f"Content-Encoding: {encoding}", body=body)
    assert status == wanted, said
    assert fields["content-type"] == ["application/json"]
    assert json.loads(said)["error"]["message"]


@pytest.mark.case("C42")
def test_chunked_upload_with_continue(rig: Endpoint) -> None:
    """A body of unknown length that waits to be asked for."""
    words = ("-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue")
    assert post(rig, *words)[0] == 200


@pytest.mark.case("C42")
def test_a_real_agents_body_passes_and_an_abusive_one_gets_json(
    rig: Endpoint, tmp_path: Path
) -> None:
    """1.3 MB reach the engine, which counts them; past the limit 413 in JSON, mid-upload."""
    real = json.dumps(ASK | {"padding": "x" * 1_309_000}).encode()
    status, _, said = post(rig, body=real)
    assert status in (200, 400), said  # 400 would be the engine's own word on `padding`
    rig.tell(body_limit=1_000_000)
    rig.wait_for(lambda: post(rig, body=real)[0] == 413, 5, "the new limit to count")
    abusive = json.dumps(ASK | {"padding": "x" * 30_000_000}).encode()
    for words in ((), ("-H", "Transfer-Encoding: chunked")):
        status, fields, said = post(rig, *words, body=abusive)
        assert status == 413
        assert fields["content-type"] == ["application/json"]
        assert json.loads(said)["error"]["message"]


def test_ipv6_loopback(engines: dict[str, Engine]) -> None:
    """The endpoint answers on ::1 as on 127.0.0.1."""
    with support_served.endpoint(engines, host="::1") as six:
        url = f"http://[::1]:{six.port}/v1/chat/completions"
        said = curl(*JSON, "--data-binary", "@-", "-g", url, data=json.dumps(ASK).encode())
        assert head_and_body(said)[0] == 200


@pytest.mark.case("C44")
def test_environment_proxies_do_not_catch_what_is_ours(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A desktop proxy in the environment is not asked for the way to 127.0.0.1."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost")
    with support_served.endpoint(engines) as made:
        assert made.chat().status == 200


@pytest.mark.case("C47")
def test_head_of_the_root(rig: Endpoint) -> None:
    """Claude Code looks at `HEAD /` before anything else."""
    status, _, body = head_and_body(curl("-I", f"{rig.url}/"))
    assert status == 200
    assert body == ""

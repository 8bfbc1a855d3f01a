"""Chunks that are passed on in their frames: whole ones, between two others, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from http1_kit import Remembered, peer

from rigctl.adapters.http1 import HttpClient

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
HOST = "127.0.0.1"

FRAMES = (b"3\r\nabc\r\n", b"4\r\n3\r\n\n\r\n", b"2\r\n\r\n\r\n", b"1\r\n0\r\n")
"""Chunks whose text looks like frames."""
FRAMED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("cut", range(1, len(b"".join(FRAMES))))
async def test_only_whole_chunks_are_passed_on_in_their_frames(cut: int) -> None:
    """Wherever the network cuts: frames that come whole, between two, are told whole; the rest is
    parsed, and the body is the same."""
    stream = b"".join(FRAMES)
    pieces = [FRAMED + b"1\r\n>\r\n", stream[:cut], stream[cut:], *FRAMES, b"0\r\n\r\n"]

    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.002)
        await reader.read()

    async with peer(script) as port:
        client, sink = HttpClient(), Remembered(frames=True)
        await client.relay("GET", HOST, port, "/", [], [], sink)
        assert await sink.done is None
        assert sink.body == b">" + b"abc3\r\n\n\r\n0" * 2
        assert set(sink.framed) <= set(FRAMES)
        assert sink.framed[-1] == FRAMES[-1]
        await client.close()


async def test_the_next_answer_on_a_connection_begins_with_its_head() -> None:
    """What ended between two chunks was the last answer's body: nothing is told before the head."""

    async def script(reader: Reader, writer: Writer) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            for piece in (FRAMED + FRAMES[0], FRAMES[0], b"0\r\n\r\n"):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
        await reader.read()

    async with peer(script) as port:
        client = HttpClient()
        for turn in range(2):
            sink = Remembered(frames=True)
            handle = await client.relay("GET", HOST, port, "/", [], [], sink)
            assert handle.reused == (turn > 0)
            assert await sink.done is None
            assert sink.calls == ["head", "data", "frame", "end"]
        await client.close()

"""The process that talks to NVML: one JSON line in, one JSON line out, until stdin closes.

NVML hangs in the kernel and crashes in its library, so it lives here and not in the daemon.
Requests: `{"do":"sample","cheap":false,"skip":[]}` answers with a `GpuSweep`,
`{"do":"limit","card":"GPU-…","watts":280}` with `{"said":""}`. The process is kept small: no
asyncio, no msgspec.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from rigctl.adapters.nvml import NvmlReader
from rigctl.adapters.nvml_mark import marker
from rigctl.adapters.nvml_versions import Versions, versions
from rigctl.core.cards import CardProcess, CardSample, GpuSweep
from rigctl.core.ids import CardId
from rigctl.core.reading import NOT_YET, Missing

_PR_SET_PDEATHSIG = 1


def encode(sweep: GpuSweep) -> bytes:
    """A sweep as one JSON line; fields that were never asked are left out."""
    return json.dumps(_fields(sweep), separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    if isinstance(value, Missing):
        return {"why": value.why.value, "note": value.note}
    if isinstance(value, CardSample | CardProcess):
        return _fields(value)
    raise TypeError(f"a sweep holds no {type(value).__name__}")


def _fields(value: GpuSweep | CardSample | CardProcess) -> dict[str, object]:
    return {name: part for name in value.__slots__ if (part := getattr(value, name)) is not NOT_YET}


def answer(reader: NvmlReader, request: Mapping[str, Any]) -> bytes:
    """Do what one request asks."""
    match request:
        case {"do": "sample"}:
            skip = frozenset(request.get("skip", ()))
            return encode(reader.sample(bool(request.get("cheap")), skip))
        case {"do": "limit", "card": card, "watts": watts}:
            said = reader.set_power_limit(CardId(card), float(watts))
        case _:
            said = "the NVML worker knows `sample` and `limit`"
    return json.dumps({"said": said}).encode() + b"\n"


def serve(read_versions: Versions = versions) -> None:
    """Answer until stdin closes, which is how the daemon's end is learnt."""
    # Should a call hang while the daemon dies, nobody reads stdin: then this signal ends us.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    reader = NvmlReader(versions=read_versions, mark=marker(os.environ))
    gc.collect()
    gc.freeze()
    try:
        for line in sys.stdin.buffer:
            _write(out, answer(reader, json.loads(line)))
    except BrokenPipeError:
        pass  # nobody listens any more
    reader.close()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    serve()

"""Feed the HTTP parsers what libFuzzer makes up, by the same law as `test_http_fuzz.py`.

Not part of the tests: atheris installs only where a wheel of it does.

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris hypothesis pytest . h11
    /tmp/fuzz/bin/python tests/fuzz/atheris_http.py -max_total_time=600 -max_len=600

An input begins with a byte whose lowest bit says which side reads (0 requests, 1 answers), three
places to cut at, and then the bytes. What it stops at goes to `http_findings/` once it is mended
or listed in `http_differences.py`, under a name that says what it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parent))

with atheris.instrument_imports(include=["rigctl.adapters.http1", "h11"]):
    from test_http_fuzz import ANSWERS, REQUESTS, check


def one(data: bytes) -> None:
    """One input."""
    if len(data) > 4:
        check(data[4:], [int(sign) for sign in data[1:4]], answers=bool(data[0] & 1))


def main() -> None:
    """Begin from the whole messages that the hypothesis tests damage."""
    corpus = Path("/tmp/rigctl-fuzz-http")
    corpus.mkdir(exist_ok=True)
    for side, seeds in enumerate((REQUESTS, ANSWERS)):
        for number, seed in enumerate(seeds):
            (corpus / f"{side}-{number}").write_bytes(bytes([side, 7, 40, 90]) + seed)
    atheris.Setup([*sys.argv, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

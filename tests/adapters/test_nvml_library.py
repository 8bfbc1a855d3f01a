"""The worker over a compiled library, through the real dlopen: the structures are C's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rigctl.core.cards import GpuSweep

SOURCE = Path(__file__).parent.parent / "data" / "nvml_stub.c"
MIB = 1 << 20

pytestmark = pytest.mark.cc


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libnvidia-ml.so.1, compiled from the source in tests/data."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None
    folder = tmp_path_factory.mktemp("library")
    real = folder / "libnvidia-ml.so.580.95.05"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(real), str(SOURCE)], check=True
    )
    (folder / "libnvidia-ml.so.1").symlink_to(real.name)
    return folder


def ask(library: Path, cards: Path, *requests: dict[str, Any]) -> list[bytes]:
    """What a fresh worker answers to these requests."""
    done = subprocess.run(
        [sys.executable, "-m", "rigctl.adapters.nvml_worker"],
        input=b"".join(json.dumps(request).encode() + b"\n" for request in requests),
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "NVML_STUB_CARDS": str(cards)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.splitlines()


def test_cards_are_read_through_the_real_library(library: Path, tmp_path: Path) -> None:
    """Every structure has C's layout: what the library wrote is what the sweep holds."""
    cards = tmp_path / "cards.txt"
    rows = [
        f"{110_000 + index} 280000 2 97 {20_000 + index} 61 55 1695 9501 {5_000_000 + index} 4 "
        f"{os.getpid() if index == 2 else 0}"
        for index in range(8)
    ]
    cards.write_text("\n".join(rows) + "\n")
    (answer,) = ask(library, cards, {"do": "sample"})
    sweep = msgspec.json.decode(answer, type=GpuSweep)
    assert (sweep.error, len(sweep.cards), sweep.driver) == ("", 8, "580.95.05")
    card = sweep.cards[2]
    assert (card.uuid[:12], card.pci, card.name) == (
        "GPU-57080002",
        "0000:03:00.0",
        "NVIDIA GeForce RTX 3090",
    )
    assert (card.watts, card.limit_watts, card.max_limit_watts) == (110.002, 280.0, 350.0)
    assert (card.pstate, card.utilisation, card.celsius, card.fan) == (2, 97, 61, 55)
    assert (card.memory_used, card.memory_reserved) == (20_002 * MIB, 346 * MIB)
    assert (card.clock_mhz, card.memory_clock_mhz, card.joules) == (1695, 9501, 5000.002)
    assert card.throttle == ("power cap",)
    assert isinstance(card.processes, tuple)
    assert [(one.pid, one.used_bytes) for one in card.processes] == [(os.getpid(), 20_002 * MIB)]
    assert sweep.cards[0].processes == ()


def test_a_refused_limit_comes_back_as_a_command(library: Path, tmp_path: Path) -> None:
    """The library's NO_PERMISSION ends as what root would have to type."""
    cards = tmp_path / "cards.txt"
    cards.write_text("22000 350000 8 0 5 34 0 210 405 1000 1 0\n")
    uuid = "GPU-57080000-7374-4662-8000-000000000000"
    request = {"do": "limit", "card": uuid, "watts": 280}
    (answer,) = ask(library, cards, request)
    assert json.loads(answer)["said"] == f"needs root: `sudo nvidia-smi -i {uuid} -pl 280`"


def test_without_a_library_there_is_an_answer(tmp_path: Path) -> None:
    """A library that cannot be loaded is a sentence with a remedy, not a dead worker."""
    # An unloadable file comes before whatever the machine has, so that this holds on a rig too.
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library" * 1000)
    (answer,) = ask(tmp_path, tmp_path / "none", {"do": "sample"})
    sweep = msgspec.json.decode(answer, type=GpuSweep)
    assert sweep.error.endswith("libnvidia-ml.so.1 not found - install the NVIDIA driver")

"""Driver and library versions out of the files that tell them (C16)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rigctl.adapters.nvml_versions import library_version, module_version, versions

CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.56.06  Thu Oct  6 21:38:55 UTC 2022\n"
    "GCC version:  gcc version 11.3.0 (Ubuntu 11.3.0-1ubuntu1~22.04)\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  "
    "(dvs-builder@U22)  Tue Sep 23 09:55:41 UTC 2025\n"
)


@pytest.mark.case("C16")
@pytest.mark.parametrize(("text", "version"), [(CLOSED, "520.56.06"), (OPEN, "580.95.05")])
def test_the_module_tells_its_version(text: str, version: str) -> None:
    """Closed and open module write it in different places of one line."""
    assert module_version(text) == version


@pytest.mark.case("C16")
def test_both_halves_are_read_from_files(tmp_path: Path) -> None:
    """The loaded library by its mapping; where none is mapped, the installed one by its link."""
    module, maps = tmp_path / "version", tmp_path / "maps"
    module.write_text(CLOSED)
    maps.write_text("7f00 r-xp 0 08:01 42 /usr/lib64/libnvidia-ml.so.525.85.12 (deleted)\n")
    assert versions(module, maps, ()) == ("520.56.06", "525.85.12")
    maps.write_text("")
    library = tmp_path / "libnvidia-ml.so.530.30.02"
    library.touch()
    (tmp_path / "libnvidia-ml.so.1").symlink_to(library)
    assert versions(module, maps, [tmp_path / "none", tmp_path]) == ("520.56.06", "530.30.02")


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    """A machine without driver has no version rather than an error."""
    assert versions(tmp_path / "none", tmp_path / "none", [tmp_path]) == ("", "")
    assert library_version("libnvidia-ml.so.1") == ""


def test_the_worker_stays_small() -> None:
    """Each of these costs megabytes or start time in a process that lives as long as the rig."""
    code = (
        "import sys, rigctl.adapters.nvml_worker; "
        "print([name for name in ('asyncio', 'msgspec', 'psutil', 'logging') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_daemon_side_loads_no_nvml() -> None:
    """The binding's four megabytes belong to the worker alone."""
    code = "import sys, rigctl.adapters.gpus; print('pynvml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

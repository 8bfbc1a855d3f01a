"""The wheel: built without a network, installed into a fresh environment, and run from there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CARRIED = {
    "themes": "rigctl/_themes",
    "assets/examples": "rigctl/_assets/examples",
    "assets/shortcuts": "rigctl/_assets/shortcuts",
    "assets/units": "rigctl/_assets/units",
}
"""Folder of the repository -> where its files lie in the wheel."""


def run(*argv: str | Path, cwd: Path) -> str:
    """Run a program to its end; its output. A failure shows all that it said."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{argv} exited {done.returncode}:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("rigctl-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that has the wheel; its dependencies are this one's."""
    env = tmp_path_factory.mktemp("wheel") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", env, cwd=ROOT)
    python = env / "bin/python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--no-deps", "--no-index", wheel),
        cwd=ROOT,
    )
    site = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=ROOT).strip()
    )
    # The .pth files inside that folder are not read, so the checkout cannot come in through it.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return env / "bin"


def test_the_wheel_carries_what_rigctl_reads_at_run_time(wheel: Path) -> None:
    """Every theme, example, shortcut and unit of the checkout is in the wheel, byte for byte."""
    with zipfile.ZipFile(wheel) as archive:
        for source, target in CARRIED.items():
            files = [path for path in (ROOT / source).rglob("*") if path.is_file()]
            assert files, f"{source} is empty"
            for path in files:
                name = f"{target}/{path.relative_to(ROOT / source)}"
                assert archive.read(name) == path.read_bytes()


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    """No test, screenshot or byte-code file travels in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folders = {name.split("/")[0] for name in names}
    assert len(folders) == 2, f"the package and its dist-info, not {folders}"
    assert not [name for name in names if "__pycache__" in name or "screenshots" in name]
    assert not [name for name in names if name.startswith("rigctl/tests")]


@pytest.mark.parametrize("command", ["rigctl", "gpurig"])
def test_both_entry_points_run_from_the_wheel(
    installed: Path, command: str, tmp_path: Path
) -> None:
    """`rigctl` and `gpurig` (hamlib owns the first name on some machines) start and say who."""
    said = run(installed / command, "version", cwd=tmp_path)
    assert "0.1.0" in said


def test_the_code_that_runs_is_the_wheels(installed: Path, tmp_path: Path) -> None:
    """What runs is the installed package, not the checkout it was built from."""
    where = run(installed / "python", "-c", "import rigctl; print(rigctl.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)

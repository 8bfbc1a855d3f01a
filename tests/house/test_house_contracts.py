"""The import contracts, held as a test so that no change can land that breaks one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS

ROOT = Path(__file__).resolve().parents[2]

COMMAND = "from importlinter.cli import lint_imports_command as run; run()"
"""What the console script does, without needing it on PATH."""


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package in `folder` with that folder's pyproject.toml."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_go_down_only() -> None:
    """Every contract of pyproject.toml is kept: floors, purity, Textual only in the panel."""
    done = lint_imports(ROOT)
    assert done.returncode == EXIT_STATUS_SUCCESS, done.stdout + done.stderr


def test_a_broken_contract_is_seen(tmp_path: Path) -> None:
    """The check above can fail: a core that imports the clock is refused."""
    shutil.copytree(ROOT / "rigctl", tmp_path / "rigctl")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "rigctl/core/broken.py").write_text('"""Reads the clock."""\nimport time\n')
    done = lint_imports(tmp_path)
    assert done.returncode != EXIT_STATUS_SUCCESS
    assert "rigctl.core.broken -> time" in done.stdout

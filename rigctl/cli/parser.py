"""argparse without its start-up cost: the stock formatter imports shutil to ask the width."""

from __future__ import annotations

import argparse
import os


class Parser(argparse.ArgumentParser):
    """Every verb's parser, and those below it."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(self.prog, width=_columns())


def _columns() -> int:
    try:
        return min(int(os.environ.get("COLUMNS") or os.get_terminal_size().columns), 100) - 2
    except (OSError, ValueError):
        return 78

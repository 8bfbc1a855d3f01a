"""Watches the processes that cards are lent to, and says when one has ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from rigctl.adapters import proc
from rigctl.core.facts import Fact, HolderGone
from rigctl.core.ids import GroupName, ProcessIdentity


class Holders:
    """One pidfd a holder; a holder that is gone already is reported at once."""

    def __init__(self, post: Callable[[Fact], None]) -> None:
        self._post = post
        self._watched: dict[tuple[GroupName, ProcessIdentity], int] = {}

    def watch(self, group: GroupName, process: ProcessIdentity) -> None:
        """Begin to watch; a second time changes nothing."""
        if (group, process) in self._watched:
            return
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError:
            self._post(HolderGone(group, process))
            return
        if proc.same(process) is None:
            os.close(descriptor)  # the number belongs to somebody else by now
            self._post(HolderGone(group, process))
            return
        self._watched[group, process] = descriptor
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, self._ended, group, process)

    def _ended(self, group: GroupName, process: ProcessIdentity) -> None:
        self._drop(group, process)
        self._post(HolderGone(group, process))

    def _drop(self, group: GroupName, process: ProcessIdentity) -> None:
        descriptor = self._watched.pop((group, process))
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    def close(self) -> None:
        """Stop watching; nobody is ended."""
        for group, process in tuple(self._watched):
            self._drop(group, process)

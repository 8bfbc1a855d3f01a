"""The variables by which other work finds the lent cards."""

from __future__ import annotations

from typing import Any

from rigctl.cli.exits import FAILED, End


def variables(snap: dict[str, Any], group: dict[str, Any], *, uuids: bool) -> dict[str, str]:
    """CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES for exactly this group's cards.

    Numbers in PCI order by default, since programs that parse the variable crash on UUIDs (C14).
    A lost card shifts every later number (C13), so it ends the verb instead.
    """
    known = {card["uuid"]: card for card in snap["cards"]}
    lost = [uuid for uuid in group["cards"] if uuid not in known or known[uuid]["lost"]]
    if lost or not group["cards"]:
        what = ", ".join(lost) or "no card is known"
        raise End(
            FAILED,
            f"{group['name']}: {what}: not there, so the cards' numbers cannot be told.\n"
            "See `rigctl status` and `rigctl doctor`.",
        )
    numbers = [str(known[uuid]["index"]) for uuid in group["cards"]]
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(group["cards"] if uuids else numbers),
    }

"""A server that rigctl did not start: watched while it runs, and noticed when it has gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib

from daemon_kit import PATIENCE, Rig


def test_a_foreign_server_that_leaves_makes_room_for_ours(rig: Rig) -> None:
    """Shown as running outside rigctl; once its owner has ended it, the group can be started."""
    rig.begin()
    table = tomllib.loads(rig.paths.places.config.read_text())["group"][0]
    flags = rig.group("standard")["command"][3:]
    program = rig.home / "sglang"
    program.write_text(
        "import sys\n"
        "del sys.argv[1]\n"
        "from rigctl.sim.sglang.__main__ import main\n"
        "sys.exit(main())\n"
    )
    devices = {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    server = subprocess.Popen(
        [sys.executable, str(program), "serve", *flags],
        env={**os.environ, **devices, **table["env"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        rig.wait(lambda: rig.group("standard")["watched"], "the foreign server to show")
        assert rig.group("standard")["pid"] == server.pid
        refused = rig.run("start", "standard")
        assert f"pid {server.pid}" in refused.stderr
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(PATIENCE)
    rig.wait(lambda: not rig.group("standard")["watched"], "it to be missed")
    group = rig.until("standard", "off")
    assert group["pid"] is None
    rig.start("standard")

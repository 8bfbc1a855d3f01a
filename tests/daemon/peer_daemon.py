"""The daemon with `peer_proxy` in the proxy's place; the daemon's code is the daemon's."""

from __future__ import annotations

import sys

from rigctl.daemon import endpoint_host
from rigctl.daemon.main import main

if __name__ == "__main__":
    endpoint_host.PROXY_MODULE = "peer_proxy"
    sys.exit(main())

"""What holds for every test: loopback only, a clean environment, no silent skip, the case table."""

from __future__ import annotations

pytest_plugins = [
    "support_environment",
    "support_loopback",
    "support_needs",
    "support_cases",
    "support_sglang",
]

"""The endpoint's slice of the snapshot: one address that people can type."""

from __future__ import annotations

import pytest

from rigctl.core.endpoint_states import Keeper, Serving
from rigctl.core.ids import Mono, ProcessIdentity
from rigctl.core.link_words import TablePolicy
from rigctl.core.spec import EndpointSpec
from rigctl.core.state import EndpointState
from rigctl.core.view_endpoint import view_endpoint

PROCESS = ProcessIdentity(4711, 1, "boot", 4711, "hash")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:8000, [::1]:8000", "http://127.0.0.1:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("0.0.0.0:8000, [::]:8000", "http://127.0.0.1:8000"),
        ("192.168.1.4:9000", "http://192.168.1.4:9000"),
        ("", "http://127.0.0.1:8088"),
    ],
)
def test_the_url_is_one_that_this_host_reaches(address: str, url: str) -> None:
    """IPv4 and IPv6 loopback are two sockets of one endpoint; before it has told, by the file."""
    state = EndpointState(
        spec=EndpointSpec("127.0.0.1", 8088, TablePolicy()),
        keeper=Keeper(Serving(Mono(1.0), PROCESS, linked=True)),
        address=address,
    )
    view = view_endpoint(state, Mono(5.0))
    assert (view.state, view.url, view.pid) == ("up", url, 4711)

"""The rules that hold for every test, held themselves: each is seen to refuse what it must."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support_cases import register
from support_loopback import LeftLoopbackError

SUPPORT = Path(__file__).resolve().parents[1] / "support"
PLUGINS = ("environment", "loopback", "needs", "cases", "sglang")


def run_pytest(folder: Path, body: str, *options: str, **env: str) -> tuple[int, str]:
    """Run one test file under the tree's own rules; its exit status and output."""
    file = folder / "test_inner.py"
    file.write_text(body)
    plugins = [word for name in PLUGINS for word in ("-p", f"support_{name}")]
    markers = "markers=case(number)\n tmux\n cc\n sglang"
    quiet = ["-q", "-o", markers, "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, f"--rootdir={folder}", *plugins, *options, file],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SUPPORT), **env},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    return done.returncode, done.stdout + done.stderr


SKIPS = "import pytest\n\ndef test_it():\n    pytest.skip('no such card here')\n"
SKIPS_WHOLE = "import pytest\n\npytest.skip('no such module', allow_module_level=True)\n"
NEEDS_SGLANG = "import pytest\n\n@pytest.mark.sglang\ndef test_it():\n    pass\n"


@pytest.mark.parametrize("body", [SKIPS, SKIPS_WHOLE, NEEDS_SGLANG])
def test_a_skip_fails_where_nothing_may_be_missing(tmp_path: Path, body: str) -> None:
    """With RIGCTL_REQUIRE any skip is a failure that gives the skip's reason; else it skips."""
    assert run_pytest(tmp_path, body)[0] in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    status, output = run_pytest(tmp_path, body, RIGCTL_REQUIRE="tmux,cc,sglang")
    assert status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "RIGCTL_REQUIRE=tmux,cc,sglang makes a skip a failure" in output
    assert "no such" in output or "no real SGLang" in output


def test_an_unknown_requirement_ends_the_run(tmp_path: Path) -> None:
    """A misspelt RIGCTL_REQUIRE does not pass as a requirement that is met."""
    status, output = run_pytest(tmp_path, "def test_it(): pass\n", RIGCTL_REQUIRE="tmuks")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "tmuks" in output


@pytest.mark.parametrize(
    "leave",
    [
        "socket.create_connection(('192.0.2.1', 9), 0.1)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
        "socket.socket().bind(('0.0.0.0', 0))",
        "socket.socket(socket.AF_INET6).bind(('::', 0))",
        "socket.getaddrinfo('example.invalid', 80)",
    ],
)
def test_leaving_loopback_fails_even_when_swallowed(tmp_path: Path, leave: str) -> None:
    """A connection, bind or look-up beyond loopback fails the test, whatever the code caught."""
    body = f"import socket\n\ndef test_it():\n    try:\n        {leave}\n"
    body += "    except Exception:\n        pass\n"
    status, output = run_pytest(tmp_path, body)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "left loopback" in output


def test_loopback_and_local_sockets_are_open(tmp_path: Path) -> None:
    """The guard leaves 127.0.0.0/8, ::1, localhost and local sockets alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    with socket.create_server(("127.9.9.9", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
    assert socket.getaddrinfo("localhost", 80)


def test_the_refusal_names_the_address(attempts_to_leave: list[str]) -> None:
    """What the guard refuses says where the code wanted to go."""
    with pytest.raises(LeftLoopbackError, match=r"192\.0\.2\.1"), socket.socket() as out:
        out.connect(("192.0.2.1", 9))
    assert len(attempts_to_leave) == 1


def test_homes_are_private() -> None:
    """No test sees the person's own home, proxies or desktop."""
    home = Path(os.environ["HOME"])
    assert home.name.startswith("rigctl-")
    assert os.environ["RIGCTL_HOME"].startswith(str(home))
    assert not Path(os.environ["RIGCTL_HOME"]).exists()
    assert not [name for name in os.environ if name.lower().endswith("_proxy")]


ONE_CASE = "import pytest\n\n@pytest.mark.case('C57')\ndef test_it():\n    pass\n"


def test_the_case_table_fails_on_a_case_without_test_or_reason(tmp_path: Path) -> None:
    """`--case-report` names each case with its test, and fails where a listed one has nothing."""
    status, output = run_pytest(tmp_path, ONE_CASE, "--case-report")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "passed   test_inner.py::test_it" in output
    assert "NO TEST AND NO REASON" in output
    assert f"1 of {len(register()[0])} listed cases held by tests" in output
    assert run_pytest(tmp_path, ONE_CASE)[0] == pytest.ExitCode.OK


def test_a_need_that_nobody_requires_may_be_missing(tmp_path: Path) -> None:
    """`RIGCTL_REQUIRE=tmux,cc`: a test of the real engine may skip, any other skip fails."""
    assert run_pytest(tmp_path, NEEDS_SGLANG, RIGCTL_REQUIRE="tmux,cc")[0] == pytest.ExitCode.OK
    by_fixture = "def test_it(real_sglang):\n    pass\n"
    assert run_pytest(tmp_path, by_fixture, RIGCTL_REQUIRE="tmux,cc")[0] == pytest.ExitCode.OK
    assert run_pytest(tmp_path, SKIPS, RIGCTL_REQUIRE="tmux,cc")[0] == pytest.ExitCode.TESTS_FAILED

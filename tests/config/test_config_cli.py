"""`rigctl config …` and `rigctl group show`: what is printed where, and the exit codes."""

from __future__ import annotations

import json
import os
import socketserver
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from config_kit import GROUP, make_card

from rigctl.cli.main import main
from rigctl.config.clients import write_clients
from rigctl.config.overrides import Override, set_override
from rigctl.config.paths import find_home
from rigctl.config.schema import ClientConfig
from rigctl.control import wire
from rigctl.core.ids import GroupName, Wall
from rigctl.core.reading import NOT_YET, Total
from rigctl.core.snapshot import (
    CardView,
    EndpointView,
    GroupView,
    HostView,
    PowerView,
    Snapshot,
    TokenPool,
)

NO_CARDS = GROUP.replace("[0]", "[]").replace("/models/tiny", "tiny/model")


class Said:
    """What a run of the command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


Run = Callable[..., Said]


@pytest.fixture
def rigctl(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run


@pytest.fixture
def config() -> Path:
    """Where this test's rig.toml lies; its folder exists."""
    path = find_home().config
    path.parent.mkdir(parents=True)
    return path


def test_path_prints_where_the_file_lies(rigctl: Run, config: Path) -> None:
    """Whether or not it exists; all places on request."""
    assert (rigctl("config", "path").out, config.exists()) == (f"{config}\n", False)
    places = json.loads(rigctl("config", "path", "--json").out)
    assert places["config"] == str(config)
    assert places["overrides"] == str(find_home().overrides)
    assert str(find_home().socket) in rigctl("config", "path", "--all").out
    elsewhere = rigctl("--home", "/srv/rig", "config", "path").out
    assert elsewhere == "/srv/rig/rig.toml\n"


def test_init_writes_once(rigctl: Run, config: Path) -> None:
    """The path on stdout, talk on stderr; a second run changes nothing and fails."""
    said = rigctl("config", "init", "--model", "tiny/model")
    assert (said.code, said.out) == (0, f"{config}\n")
    assert "rigctl config check" in said.err
    before = config.read_bytes()
    assert tomllib.loads(before.decode())["group"][0]["model"] == "tiny/model"
    again = rigctl("config", "init")
    assert (again.code, again.out) == (1, "")
    assert "never overwritten" in again.err
    assert config.read_bytes() == before


def test_init_from_running_writes_the_servers_that_run(
    rigctl: Run,
    config: Path,
    tmp_path: Path,
) -> None:
    """A real process in, its group out, its key in a file of its own; the process stays."""
    package = tmp_path / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(
        "import time\nprint('up', flush=True)\ntime.sleep(60)\n"
    )
    words = ["--model", "hub/model", "--port", "31777", "--api-key", "sk-12345678"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sglang.launch_server", *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        said = rigctl("config", "init", "--from-running")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
    assert said.code == 0
    assert "rigctl watches them until their next restart" in said.err
    groups = {group["port"]: group for group in tomllib.loads(config.read_text())["group"]}
    assert groups[31777]["api_key"] == {"file": "port-31777-api.key"}
    key = config.parent / "port-31777-api.key"
    assert (key.read_text(), stat.S_IMODE(key.stat().st_mode)) == ("sk-12345678\n", 0o600)
    assert "sk-12345678" not in config.read_text() + said.out + said.err


def test_show_says_where_each_value_came_from(rigctl: Run, config: Path) -> None:
    """File and line, default, or who overrode it; secrets masked."""
    config.write_text(
        NO_CARDS + 'env = { HF_TOKEN = "hush" }\nflags = ["--ssl-keyfile-password=hush"]\n'
        'api_key = { env = "KEY" }\n'
    )
    change = Override(GroupName("standard"), "sleep_on_idle", True, Wall(1.0), "anna")
    set_override(find_home().overrides, change)
    said = rigctl("config", "show")
    assert said.code == 0
    assert "hush" not in said.out
    lines = {line.split(" = ")[0]: line for line in said.out.splitlines() if " = " in line}
    assert lines["port"].split() == ["port", "=", "30001", "#", "rig.toml:4"]
    assert lines["stop_grace"].endswith("# default")
    assert lines["sleep_on_idle"].startswith("sleep_on_idle = true")
    assert "# overrides: set by anna on 19" in lines["sleep_on_idle"]
    assert lines["sleep_on_idle"].endswith("instead of false (default)")
    assert "context_length is not set" in said.out
    table = json.loads(rigctl("config", "show", "--json").out)
    values = {one["key"]: one for one in table["values"]}
    assert values["group.standard.port"] == {
        "key": "group.standard.port",
        "value": 30001,
        "origin": "rig.toml:4",
        "after": "",
    }
    assert values["group.standard.env"]["value"] == {"HF_TOKEN": "****"}
    assert values["group.standard.api_key"]["value"] == {"env": "KEY"}
    assert values["group.standard.context_length"]["value"] is None


def test_check_names_every_fault(rigctl: Run, config: Path) -> None:
    """In the file first; when it is sound, on the machine. Faults are data, warnings talk."""
    config.write_text(NO_CARDS + "modle = 1\nport2 = 1\n")
    said = rigctl("config", "check")
    assert said.code == 1
    assert [line.split(":")[1] for line in said.out.splitlines()] == ["6", "7"]
    world = 'engine = ["no-such-engine"]\nhost = "0.0.0.0"\ndraft_model = "/no/such"\n'
    config.write_text(NO_CARDS + world + 'api_key = { env = "RIG_KEY" }\n')
    said = rigctl("config", "check")
    assert said.code == 1
    assert f"{config}:6: group 'standard': engine program 'no-such-engine' is not found" in said.out
    assert f"{config}:9: group 'standard': variable RIG_KEY is not set" in said.out
    assert f"{config}:8: group 'standard': `draft_model` /no/such does not exist" in said.out
    config.write_text(NO_CARDS + 'host = "0.0.0.0"\n')
    said = rigctl("config", "check")
    assert (said.code, said.out) == (0, f"{config}: no faults\n")
    assert "warning: group 'standard' listens on 0.0.0.0 without an api_key" in said.err
    found = json.loads(rigctl("config", "check", "--json").out)
    assert found["faults"] == []
    assert len(found["warnings"]) == 1


def test_show_says_from_when_a_key_of_the_endpoint_counts(rigctl: Run, config: Path) -> None:
    """The address needs a restart of the endpoint, everything else counts at once."""
    config.write_text(NO_CARDS)
    assert "no [proxy]: rigctl runs no endpoint" in rigctl("config", "show").out
    config.write_text(NO_CARDS + "[proxy]\nport = 8088\n")
    said = rigctl("config", "show").out
    (port,) = [line for line in said.splitlines() if line.startswith("port = 8088")]
    assert port.endswith("# rig.toml:7, a change counts after `rigctl endpoint restart`")
    (hold,) = [line for line in said.splitlines() if line.startswith("hold = ")]
    assert hold.endswith("# default")
    assert "clients with a key: none, no key is asked for" in said
    write_clients(find_home().clients, [ClientConfig("anna", "a" * 64)])
    assert "clients with a key: anna (" in rigctl("config", "show").out
    table = json.loads(rigctl("config", "show", "--json").out)
    after = {one["key"]: one["after"] for one in table["values"] if one["after"]}
    assert after == dict.fromkeys(("proxy.host", "proxy.port"), "rigctl endpoint restart")
    assert table["clients"] == ["anna"]


def test_check_says_when_the_endpoint_listens_elsewhere(rigctl: Run, config: Path) -> None:
    """A new port was written; the running endpoint keeps the old one until its restart."""
    config.write_text(NO_CARDS + "[proxy]\nport = 8088\n")
    runs = EndpointView(state="up", url="http://127.0.0.1:8000")
    with daemon(replace(snapshot(group_view(), 0), endpoint=runs)):
        said = rigctl("config", "check")
    assert said.code == 0
    assert "still listens on 127.0.0.1:8000: `rigctl endpoint restart` moves it" in said.err
    assert "endpoint" not in rigctl("config", "check").err


def test_check_without_a_file_says_how_to_make_one(rigctl: Run, config: Path) -> None:
    """The next command."""
    said = rigctl("config", "check")
    assert said.code == 1
    assert "rigctl config init" in said.out
    assert (rigctl("config", "show").code, rigctl("config").code) == (1, 2)


def group_view(**changes: object) -> GroupView:
    """A group as the daemon shows it."""
    view = GroupView(
        name="standard",
        cards=(str(make_card(0).uuid),),
        state="ready",
        seconds=1.0,
        say="",
        advice="",
        url="",
        model="/models/tiny",
        window=0,
        stretched="",
        wanted=True,
        watched=False,
        adopted=False,
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def snapshot(view: GroupView, cards: int) -> Snapshot:
    """A rig of one group."""
    power = PowerView(Total(0, 0, 0), Total(0, 0, 0), NOT_YET, NOT_YET)
    none: dict[str, object] = {
        name: NOT_YET for name in CardView.__dataclass_fields__ if name not in ("uuid", "index")
    }
    text = dict.fromkeys(("pci", "name", "short", "group", "use", "lost"), "")
    views = tuple(
        CardView(
            **{  # type: ignore[arg-type]
                **none,
                **text,
                "uuid": str(make_card(n).uuid),
                "index": n,
                "pci": make_card(n).pci,
                "pstate_share": {},
                "age": 0.0,
            }
        )
        for n in range(cards)
    )
    return Snapshot(
        seq=1,
        epoch="e",
        rigctl="0",
        at=0.0,
        wall=0.0,
        rig="rig",
        free_means="standard",
        currency="EUR",
        price_per_kwh=0.0,
        power=power,
        pool=TokenPool(),
        pool_total_configured=0,
        groups=(view,),
        cards=views,
        host=HostView(),
        operations=(),
        notices=(),
        journal=(),
        nvml="",
        driver="",
        home="",
        simulated=False,
    )


@contextmanager
def daemon(shown: Snapshot) -> Iterator[None]:
    """Something on this home's socket that answers with one snapshot."""
    line = wire.encode_snapshot(shown).rstrip(b"\n") + b"\n"

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            assert json.loads(self.rfile.readline()) == {"do": "snapshot"}
            self.wfile.write(line)

    path = find_home().socket
    path.parent.mkdir(parents=True, exist_ok=True)
    with socketserver.UnixStreamServer(str(path), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            path.unlink()


def test_group_show_without_a_daemon_is_computed(rigctl: Run, config: Path) -> None:
    """Ready to paste, and it says that there was nothing to compare with."""
    config.write_text(NO_CARDS + 'env = { A = "b c", X_KEY = "hush" }\napi_key = { env = "K" }\n')
    said = rigctl("group", "show", "standard")
    assert said.code == 0
    assert "no daemon runs for this rig: computed from rig.toml alone" in said.err
    script = said.out.replace("python3 -m sglang.launch_server", 'sh -c \'echo "$A" "$@"\' sh')
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("b c --model-path tiny/model --host 127.0.0.1 --port 30001")
    assert "hush" not in said.out
    table = json.loads(rigctl("group", "show", "standard", "--json").out)
    assert table["command"][:3] == ["python3", "-m", "sglang.launch_server"]
    assert (table["daemon"], table["differs"]) == (False, None)


def test_group_show_with_a_daemon_compares(rigctl: Run, config: Path) -> None:
    """The command from rig.toml on the real cards, and the daemon's word on the running one."""
    config.write_text(GROUP)
    command = (
        *("python3", "-m", "sglang.launch_server", "--model-path", "/models/tiny", "--port"),
        *("30001", "--enable-metrics", "--enable-cache-report", "--sleep-on-idle"),
        *("--uvicorn-access-log-exclude-prefixes", "/metrics", "/v1/loads", "/ready"),
    )
    differs = ("--port: 30001 planned, 30000 running",)
    with daemon(snapshot(group_view(command=command, differs=differs, pid=7), cards=1)):
        said = rigctl("group", "show", "standard")
        table = json.loads(rigctl("group", "show", "standard", "--json").out)
    assert said.code == 0
    assert "CUDA_VISIBLE_DEVICES=0 \\\n" in said.out
    assert "#   --port: 30001 planned, 30000 running" in said.out
    assert "the daemon has read rig.toml before this change" in said.err
    assert "--sleep-on-idle: in the daemon, not in rig.toml" in said.err
    assert table["differs"] == list(differs)
    assert table["cards"] == [str(make_card(0).uuid)]


def test_group_show_without_cards_falls_back_to_the_daemon(rigctl: Run, config: Path) -> None:
    """What rig.toml cannot give now is said, with the reason."""
    config.write_text(GROUP.replace("[0]", "[3]"))
    with daemon(snapshot(group_view(command=("engine", "--port", "1"), pid=None), cards=1)):
        said = rigctl("group", "show", "standard")
    assert said.out == "engine \\\n  --port 1\n"
    assert "rig.toml:3: group 'standard' names its cards by index" in said.err
    assert "the engine does not run (ready)" in said.err


def test_an_unknown_group_names_the_nearest(rigctl: Run, config: Path) -> None:
    """A typing mistake is no reason to read a file."""
    config.write_text(NO_CARDS)
    said = rigctl("group", "show", "standrad")
    assert (said.code, said.out) == (2, "")
    assert "did you mean 'standard'?" in said.err
    assert rigctl("group", "show").code == 2


def test_check_takes_the_cards_from_a_running_daemon(rigctl: Run, config: Path) -> None:
    """A simulated rig's cards are known to its daemon only; a missing card names its line."""
    text = GROUP.replace("/models/tiny", "tiny")
    config.write_text(text.replace("[0]", f'["{make_card(5).uuid}"]'))
    with daemon(snapshot(group_view(), cards=2)):
        said = rigctl("config", "check")
    assert said.code == 1
    assert f"{config}:3: group 'standard': card {make_card(5).uuid} is missing" in said.out
    with daemon(snapshot(group_view(), cards=6)):
        assert rigctl("config", "check").code == 0


def test_no_verb_here_loads_the_panel() -> None:
    """Textual, and whatever else only the panel needs, stays out."""
    program = (
        "import sys\nfrom rigctl.cli.main import main\n"
        "main(['config', 'check'])\nmain(['group', 'show', 'x'])\n"
        "print([name for name in ('textual', 'rich', 'httpx', 'plotext') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"

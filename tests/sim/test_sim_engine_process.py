"""What the simulated engine does on demand: fail, hang, ignore, burn, think, build walls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from support_sglang import FIRED_UP, free_port

from rigctl.adapters.http1 import HttpClient
from rigctl.parse.metrics import parse
from rigctl.sim.agents import Rig, play
from rigctl.sim.scenes import SCENES
from rigctl.sim.sglang.children import CHILD

CHAT = "/v1/chat/completions"


class Engine:
    """A started engine and its log."""

    def __init__(self, folder: Path, *flags: str, **env: str) -> None:
        self.port = free_port()
        self.log = folder / f"{self.port}.log"
        place = ["--model-path", "Qwen/Qwen3.8-27B", "--port", str(self.port), "--enable-metrics"]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rigctl.sim.sglang", *place, *flags],
                env={**os.environ, "SIM_LOAD_SECONDS": "1", "SIM_ORPHAN_SECONDS": "5", **env},
                stdout=output,
                start_new_session=True,
            )
        self.client = HttpClient()

    def text(self) -> str:
        return self.log.read_text()

    async def until(self, what: Callable[[], object], say: str, seconds: float = 40.0) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, f"{say} not within {seconds} s:\n{self.text()[-1500:]}"
            await asyncio.sleep(0.05)

    async def ready(self) -> Engine:
        await self.until(lambda: FIRED_UP in self.text(), "the ready line")
        return self

    async def metrics(self) -> Any:
        return parse((await self.client.get("127.0.0.1", self.port, "/metrics")).body)

    async def loads(self) -> dict[str, Any]:
        answer = await self.client.get("127.0.0.1", self.port, "/v1/loads")
        load: dict[str, Any] = json.loads(answer.body)["loads"][0]
        return load

    async def post(self, path: str, body: object, timeout: float = 30.0) -> Any:
        data = json.dumps(body).encode()
        answer = await self.client.request(
            "POST", "127.0.0.1", self.port, path, [], data, timeout=timeout
        )
        return json.loads(answer.body)

    async def chat(self, text: str, tokens: int) -> Any:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens}
        return await self.post(CHAT, {**body, "ignore_eos": True})

    def members(self) -> dict[int, str]:
        """Living members of its session, by title."""
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    if int(fields[3]) == self.process.pid and fields[0] not in "ZX":
                        title = (entry / "cmdline").read_bytes().split(b"\0")[0]
                        found[int(entry.name)] = title.decode()
        return found

    async def exit_code(self, seconds: float = 30.0) -> int:
        await self.until(lambda: self.process.poll() is not None, "the end", seconds)
        return self.process.returncode

    async def close(self) -> None:
        await self.client.close()
        for pid in [*self.members(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[..., Engine]]:
    """Start engines; they are ended at the test's end."""
    engines: list[Engine] = []

    def begin(*flags: str, **env: str) -> Engine:
        engines.append(Engine(tmp_path, *flags, **env))
        return engines[-1]

    yield begin
    for engine in engines:
        await engine.close()


@pytest.mark.parametrize(
    ("fail", "words"),
    [("oom", "torch.OutOfMemoryError: CUDA out of memory"), ("weights", "OSError: No such device")],
)
async def test_a_start_that_fails(start: Callable[..., Engine], fail: str, words: str) -> None:
    """A scheduler that raises while loading ends the server by its own SIGKILL, in its words."""
    engine = start(SIM_FAIL=fail)
    assert await engine.exit_code() == -signal.SIGKILL
    assert words in engine.text()
    assert "Received sigquit from a child process." in engine.text()


async def test_a_start_that_hangs(start: Callable[..., Engine]) -> None:
    """Stuck at NCCL initialisation: alive, silent, and never past that line."""
    engine = start(SIM_FAIL="nccl")
    await engine.until(lambda: "Init parallel begin." in engine.text(), "the first phase")
    await asyncio.sleep(1.5)
    assert engine.process.poll() is None
    assert "Init parallel ends." not in engine.text()


async def test_a_crash_on_demand(start: Callable[..., Engine]) -> None:
    """SIM_CRASH_AFTER: an exception in the scheduler, then the usual end."""
    engine = await start(SIM_CRASH_AFTER="0.5", SIM_SPEED="5").ready()
    assert await engine.exit_code() == -signal.SIGKILL
    assert "Scheduler hit an exception" in engine.text()
    assert "crashed with exit code -9" in engine.text()


async def test_sigterm_can_be_ignored(start: Callable[..., Engine]) -> None:
    """SIM_IGNORE_SIGTERM: the polite way does nothing."""
    engine = await start(SIM_IGNORE_SIGTERM="1", SIM_SPEED="20").ready()
    engine.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(1.0)
    assert engine.process.poll() is None


async def test_titles_of_four_ranks(start: Callable[..., Engine]) -> None:
    """One scheduler a rank under SGLang's names, and the log names the rank."""
    engine = await start("--tp", "4").ready()
    titles = sorted(t for t in engine.members().values() if t.startswith("sglang::"))
    assert titles == ["sglang::detokenizer", *(f"sglang::scheduler_TP{n}" for n in range(4))]
    assert " TP3] Load weight end." in engine.text()


async def test_a_polling_scheduler_burns(start: Callable[..., Engine]) -> None:
    """Without --sleep-on-idle the CPU time shows it, with it there is next to none."""
    awake = await start(SIM_SPIN="0.3").ready()
    asleep = await start("--sleep-on-idle").ready()

    def used(engine: Engine) -> float:
        (pid,) = (p for p, t in engine.members().items() if t == "sglang::scheduler")
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used(awake), used(asleep)
    await asyncio.sleep(3.0)
    after = used(awake), used(asleep)
    assert after[0] - before[0] > 0.2
    assert after[1] - before[1] < 0.1


async def test_a_stopped_scheduler_hangs_the_engine(start: Callable[..., Engine]) -> None:
    """SIGSTOP: requests wait, no counter moves, the HTTP side still answers; SIGCONT mends it."""
    engine = await start("--sleep-on-idle").ready()
    (pid,) = (p for p, t in engine.members().items() if t == "sglang::scheduler")
    os.kill(pid, signal.SIGSTOP)
    task = asyncio.create_task(engine.chat("hello", 20))
    await asyncio.sleep(1.0)
    before = await engine.metrics()
    await asyncio.sleep(1.0)
    after = await engine.metrics()
    assert after.active() == 1
    assert before.tokens == after.tokens
    assert not task.done()
    os.kill(pid, signal.SIGCONT)
    assert (await asyncio.wait_for(task, 20))["usage"]["completion_tokens"] == 20


async def test_health_wakes_an_idle_engine(start: Callable[..., Engine]) -> None:
    """The probe is a forward pass: a Prefill line, a token counted, never faster than a second."""
    engine = await start("--sleep-on-idle").ready()
    before = (await engine.metrics()).counted_tokens("prefill_compute")
    lines = engine.text().count("Prefill batch")
    began = time.monotonic()
    assert (await engine.client.get("127.0.0.1", engine.port, "/health")).status == 200
    assert time.monotonic() - began >= 1.0
    assert (await engine.metrics()).counted_tokens("prefill_compute") == before + 1
    assert engine.text().count("Prefill batch") == lines + 1


async def test_pool_and_counters_add_up(start: Callable[..., Engine]) -> None:
    """used + cached + free is the pool, and the decode counter has every token."""
    engine = await start("--max-total-tokens", "50000", SIM_SPEED="20").ready()
    before = await engine.metrics()
    said = await engine.chat("tok:9000:files", 100)
    assert said["usage"]["completion_tokens"] == 100
    again = await engine.chat("tok:9000:files", 10)
    assert again["usage"]["prompt_tokens"] == said["usage"]["prompt_tokens"]
    after = await engine.metrics()
    pool = [after.value(f"kv_{name}") for name in ("used", "cached", "free")]
    assert sum(pool) == 50_000
    assert pool[0] == 0
    assert after.counted_tokens("prefill_cache") >= 9000
    decoded = after.counted_tokens("decode") - before.counted_tokens("decode")
    assert decoded == 99 + 9  # the first token of each comes from its prefill


async def test_the_wall(start: Callable[..., Engine]) -> None:
    """The scene: a cold prompt of 122k holds three answers still, and everything shows it."""
    flags = ("--tp", "4", "--speculative-algorithm", "DFLASH", "--max-running-requests", "6")
    engine = await start(*flags, "--max-total-tokens", "800000", SIM_SPEED="40").ready()
    scene = asyncio.create_task(play(Rig((engine.port, engine.port), 40.0, ""), SCENES["wall"]))
    stalled = 0
    for _ in range(120):
        load = await engine.loads()
        left = load["num_waiting_uncached_tokens"]
        if load["num_running_reqs"] == 3 and 30_000 < left < 110_000:
            first = await engine.metrics()
            await asyncio.sleep(0.5)
            second = await engine.metrics()
            assert second.counted_tokens("decode") == first.counted_tokens("decode")
            assert second.counted_tokens("prefill_compute") > first.counted_tokens(
                "prefill_compute"
            )
            assert second.active() == 4
            stalled += 1
            break
        await asyncio.sleep(0.1)
    scene.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await scene
    assert stalled


def test_a_child_born_after_the_world_ended_does_not_stay(tmp_path: Path) -> None:
    """Its lifeline cannot be tied any more, so it ends at once instead of waiting."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = subprocess.run(
            [
                *(sys.executable, "-S", "-E", str(CHILD), "sglang::scheduler"),
                *(str(theirs.fileno()), "0", str(tmp_path / "gone.sock"), "600", "plain"),
            ],
            pass_fds=[theirs.fileno()],
            timeout=20,
            check=False,
        )
    assert child.returncode == 0

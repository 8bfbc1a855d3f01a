"""One engine's life played through: what a suite on both kinds judges, and what is recorded."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from engine_facts import batch_keys, course, families, frames_shape, keys, samples, shape, words
from engine_kit import AUTH, FLAGS, Engine, Kind, Stream, cpu_seconds, engine
from support_sglang import FIRED_UP

Facts = dict[str, Any]
CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello there, this is a prompt"}]


def play(kind: Kind, folder: Path, facts: Facts) -> Facts:
    """Start, ask, drain; start again and kill; meet a taken port; be ended while loading.

    `facts` is filled as they come, so that a run broken off can be read too.
    """
    facts["kind"] = kind.name
    with engine(kind, folder, *FLAGS) as it:
        facts["start"] = _start(it)
        facts["answers"] = _answers(it)
        facts["refusals"] = _refusals(it)
        facts["work"] = _work(it)
        facts["idle"] = _idle(it)
        facts["taken"] = _port_taken(kind, folder, it.port)
        facts["drain"] = _drain(it)
    with engine(kind, folder, *FLAGS) as it:
        it.wait_ready()
        facts["kill"] = _kill(it)
    facts["loading"] = _end_while_loading(kind, folder)
    facts["flags"] = _flags(kind)
    return facts


def _start(it: Engine) -> Facts:
    listening = it.wait_for(it.listening, 300, "a listening port")
    early = {path: it.ask("GET", path).status for path in ("/v1/models", "/v1/loads", "/metrics")}
    early_ready = it.ask("GET", "/ready").status
    early_health = it.ask("GET", "/health").status if FIRED_UP not in it.text() else 503
    ready = it.wait_ready()
    it.wait_for(lambda: it.ask("GET", "/ready").status == 200, 10, "/ready 200")
    log = it.text()
    return {
        "course": course(log),
        "early": early,
        "early_ready": early_ready,
        "early_health": early_health,
        "children": sorted(t for t in it.children().values() if t.startswith("sglang::")),
        "seconds": {"listening": listening, "ready": ready},
        "capacity": [line.split("] ")[1] for line in log.splitlines() if "] max_total_num" in line],
    }


def _answers(it: Engine) -> Facts:
    out: Facts = {"status": {}, "type": {}, "keys": {}}
    paths = "/v1/models /model_info /server_info /v1/loads /metrics /ready /ping /get_load /health"
    for path in paths.split():
        answer = it.ask("GET", path)
        out["status"][path] = answer.status
        out["type"][path] = answer.headers.get("content-type", "")
        if "json" in out["type"][path] and path != "/server_info":
            out["keys"][path] = shape(answer.json)
    out["server_info"] = sorted(it.ask("GET", "/server_info").json)
    out["leaks_key"] = it.ask("GET", "/server_info").json["api_key"] == AUTH["Authorization"][7:]
    out["window"] = it.ask("GET", "/v1/models").json["data"][0]["max_model_len"]
    out["tokenize"] = keys(it.ask("POST", "/tokenize", {"model": "tiny", "messages": HELLO}).json)
    out["generate"] = keys(
        it.ask("POST", "/generate", {"text": "hi", "sampling_params": {"max_new_tokens": 4}}).json
    )
    out["completion"] = keys(
        it.ask("POST", "/v1/completions", {"model": "tiny", "prompt": "hi", "max_tokens": 4}).json
    )
    flushed = it.ask("POST", "/flush_cache")
    out["flush"] = [flushed.status, flushed.body.decode()]
    return out


def _refusals(it: Engine) -> Facts:
    long = [{"role": "user", "content": "word " * 20_000}]
    wide = {"model": "tiny", "messages": HELLO, "max_tokens": 8190}
    asks: dict[str, tuple[str, str, object, dict[str, str] | None]] = {
        "too long": ("POST", CHAT, {"model": "tiny", "messages": long}, None),
        "too long with its answer": ("POST", CHAT, wide, None),
        "no messages": ("POST", CHAT, {"model": "tiny", "messages": []}, None),
        "no such path": ("GET", "/nothing", None, None),
        "wrong method": ("GET", CHAT, None, None),
        "no key": ("GET", "/v1/models", None, {}),
        "wrong key": ("GET", "/v1/models", None, {"Authorization": "Bearer no"}),
        "no key for metrics": ("GET", "/metrics", None, {}),
        "no json": ("POST", CHAT, b"{", None),
        "wrong model": ("POST", CHAT, {"model": "x", "messages": HELLO, "max_tokens": 2}, None),
    }
    out: Facts = {}
    for name, (method, path, body, headers) in asks.items():
        answer = it.ask(method, path, body, headers)
        said: object = ""
        with contextlib.suppress(ValueError):
            said = answer.json
        if not isinstance(said, dict) or answer.status == 200:
            out[name] = [answer.status]
        else:
            text = str(said.get("message", said.get("detail", said.get("error", ""))))
            out[name] = [answer.status, keys(said), words(text) if name != "no json" else ""]
    return out


def _work(it: Engine) -> Facts:
    out: Facts = {}
    whole = it.ask("POST", CHAT, {"model": "tiny", "messages": HELLO, "max_tokens": 8})
    out["chat"] = shape(whole.json)
    again = it.ask("POST", CHAT, {"model": "tiny", "messages": HELLO, "max_tokens": 8})
    cached = again.json["usage"]["prompt_tokens_details"]
    out["cached"] = bool(cached and cached["cached_tokens"] > 0)
    stream = Stream(it, 150)
    out["stream_head"] = {
        key: stream.answer.headers.get(key) for key in ("content-type", "transfer-encoding")
    }
    frames = [stream.frame() for _ in range(5)]
    out["running"] = _running(it)
    page = it.ask("GET", "/metrics").body.decode()
    out["active"] = samples(page, "http_requests_active", endpoint=CHAT)
    time.sleep(0.7)
    later = it.ask("GET", "/metrics").body.decode()
    decode = [samples(p, "realtime_tokens_total", mode="decode") or 0 for p in (page, later)]
    out["decode_counter_moves"] = decode[1] > decode[0]
    frames += stream.rest()
    stream.close()
    out["last_frame"] = frames[-1]
    out["stream"] = frames_shape([json.loads(frame) for frame in frames if frame != "[DONE]"])
    out["aborted"] = _aborted(it)
    out["left"] = _client_left(it)
    out["prefill_line"] = batch_keys(it.text(), "Prefill batch")
    out["decode_line"] = batch_keys(it.text(), "Decode batch")
    out["families"] = families(it.ask("GET", "/metrics").body.decode())
    return out


def _running(it: Engine) -> int:
    """What runs, told some iterations late; asked at once, while a short stream still does."""
    deadline = time.monotonic() + 2.0
    while True:
        running: int = it.ask("GET", "/v1/loads").json["loads"][0]["num_running_reqs"]
        if running or time.monotonic() > deadline:
            return running
        time.sleep(0.02)


def _aborted(it: Engine) -> Facts:
    """A part of an id does nothing; the whole id ends the stream."""
    stream = Stream(it, 3000, rid="abort-me-please")
    stream.frame()
    unknown = it.ask("POST", "/abort_request", {"rid": "abort-me"}).status
    goes_on = bool(stream.frame() and stream.frame())
    began = time.monotonic()
    status = it.ask("POST", "/abort_request", {"rid": "abort-me-please"}).status
    frames = stream.rest()
    stream.close()
    tail = [json.loads(frame) for frame in frames if frame != "[DONE]"]
    return {
        "status": status,
        "unknown": unknown,
        "goes_on": goes_on,
        "soon": time.monotonic() - began < 5,
        "done": bool(frames) and frames[-1] == "[DONE]",
        "tail": [shape(frame) for frame in tail[-2:]],
    }


def _client_left(it: Engine) -> bool:
    """A client that closes frees its slot."""
    stream = Stream(it, 3500)
    stream.frame()
    stream.answer.close()
    stream.close()

    def free() -> bool:
        load = it.ask("GET", "/v1/loads").json["loads"][0]
        return bool(load["num_running_reqs"] == 0)

    it.wait_for(free, 15, "a free slot after a client left")
    return True


def _idle(it: Engine) -> Facts:
    time.sleep(1.5)
    pid = it.scheduler()
    before = cpu_seconds(pid)
    time.sleep(4.0)
    load = it.ask("GET", "/v1/loads").json["loads"][0]
    return {
        "cpu_share": (cpu_seconds(pid) - before) / 4.0,
        "used": load["num_used_tokens"],
        "running": load["num_running_reqs"],
    }


def _port_taken(kind: Kind, folder: Path, port: int) -> Facts:
    """By something else, and by another engine, whose answers the second takes for its own."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        elsewhere = other.getsockname()[1]
        with (
            engine(kind, folder, *FLAGS, port=elsewhere) as first,
            engine(kind, folder, *FLAGS, port=port) as second,
        ):
            for it in (first, second):
                it.wait_for(lambda it=it: "[Errno 98]" in it.text(), 300, "Errno 98")
            second.wait_for(lambda: "kill_process_tree" in second.text(), 60, "the second's end")
            time.sleep(5.0)
            facts = {"by something": _after_errno(first), "by an engine": _after_errno(second)}
    return facts


def _after_errno(it: Engine) -> Facts:
    log = course(it.text())
    at = next(n for n, line in enumerate(log) if "Errno #" in line)
    members = [title for title in it.children().values() if title.startswith("sglang::")]
    return {"code": it.process.poll(), "course": log[at:], "left": sorted(members)}


def _drain(it: Engine) -> Facts:
    """SIGTERM with a stream in flight."""
    stream = Stream(it, 400)
    stream.frame()
    mark = len(it.text())
    began = time.monotonic()
    it.process.send_signal(signal.SIGTERM)
    it.wait_for(lambda: "SIGTERM received" in it.text(), 10, "the SIGTERM line")
    health = it.ask("GET", "/health").status
    frames = stream.rest()
    streamed = time.monotonic() - began
    stream.close()
    code = it.process.wait(60)
    return {
        "code": code,
        "health": health,
        "done": frames[-1] == "[DONE]",
        "ended_after_stream": time.monotonic() - began >= streamed,
        "seconds": time.monotonic() - began - streamed,
        "course": course(it.text()[mark:]),
        "left": len(it.children()),
    }


def _kill(it: Engine) -> Facts:
    """kill -9 of the scheduler."""
    mark = len(it.text())
    began = time.monotonic()
    os.kill(it.scheduler(), signal.SIGKILL)
    it.wait_for(lambda: "crashed with exit code" in it.text()[mark:], 20, "the crash line")
    noticed = time.monotonic() - began
    code = it.process.wait(60)
    return {
        "code": code,
        "seconds": {"noticed": noticed, "gone": time.monotonic() - began},
        "course": course(it.text()[mark:]),
    }


def _end_while_loading(kind: Kind, folder: Path) -> Facts:
    """SIGTERM to the main process as soon as it has children: it dies at once, they stay."""
    with engine(kind, folder, *FLAGS) as it:
        it.wait_for(lambda: len(it.children()) >= 2, 120, "child processes")
        titled = any(t.startswith("sglang::") for t in it.children().values())
        it.process.send_signal(signal.SIGTERM)
        code = it.process.wait(20)
        time.sleep(2.0)
        return {"code": code, "titled": titled, "left": len(it.children()) >= 2}


def _flags(kind: Kind) -> Facts:
    """Command lines that cannot start."""
    wrong: dict[str, list[str]] = {
        "unknown": ["--model-path", kind.model, "--sleep-while-idle"],
        "missing": ["--port", "1"],
        "no model": ["--model-path", "/nope", "--device", "cpu"],
        "window": ["--model-path", kind.model, "--device", "cpu", "--context-length", "999999"],
    }
    program = kind.argv(1)[: kind.argv(1).index("--model-path")]
    out: Facts = {}
    threads = [
        threading.Thread(target=_end_of, args=(program, words, kind.env, out, name))
        for name, words in wrong.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(sorted(out.items()))


def _end_of(
    program: list[str], flags: list[str], env: dict[str, str], out: Facts, name: str
) -> None:
    done = subprocess.run([*program, *flags], env=env, capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    out[name] = [done.returncode, words(lines[-1]).replace("'", "")]

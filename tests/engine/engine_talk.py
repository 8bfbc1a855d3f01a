"""What an engine says in every dialect the endpoint relays: asked of both kinds, and reduced."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine_facts import keys, shape, words
from engine_kit import AUTH, FLAGS, Engine, Kind, engine
from engine_talk_asks import ABORTS, ASKS, CHAT, COMPLETIONS, FLAGS_OF_TALK, HELLO

Facts = dict[str, Any]
HERE = Path(__file__).parent


def scripted(kind: Kind, folder: Path) -> str:
    """A model folder that says what it is told: made for the real engine, named for the other."""
    model = folder / "scripted-qwen3"
    if kind.installed is not None:
        command = [kind.installed.python, "-W", "ignore", str(HERE / "scripted_model.py")]
        subprocess.run([*command, kind.installed.model, str(model)], check=True)
        return str(model)
    model.mkdir(exist_ok=True)
    shutil.copy(Path(kind.model) / "config.json", model / "config.json")
    (model / "chat_template.jinja").write_text("{# Unexpected reasoning effort #}")
    return str(model)


def talk(kind: Kind, folder: Path) -> Facts:
    """Ask everything of an engine with all parsers, then what differs without its switches."""
    model = ("--model-path", scripted(kind, folder))
    facts: Facts = {}
    able = replace(kind, more=(("SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES", "1"),))
    with engine(able, folder, *FLAGS, *FLAGS_OF_TALK, *model) as it:
        it.wait_ready()
        for name, (method, path, body, headers) in ASKS.items():
            facts[name] = reduced(it.ask(method, path, body, {**AUTH, **headers}))
        facts["rid"] = _rids(it)
        facts["override"] = _override(it)
        facts["abort"] = {name: _aborted(it, *ask) for name, ask in ABORTS.items()}
        facts["abort queued"] = _aborted_in_queue(it)
        facts["several"] = _abort_of_several(it)
        facts["left"] = _left(it)
        facts["session"] = _session(it)
        facts["cached"] = _cached(it)
    plain = [flag for flag in FLAGS if flag != "--enable-cache-report"]
    with engine(kind, folder, *plain, *model) as it:
        it.wait_ready()
        facts["plain"] = _plain(it)
    return facts


def reduced(answer: Any) -> Facts:
    """Status, kind, and what was said: of a stream its events and their shapes, folded."""
    kind = answer.headers.get("content-type", "")
    out: Facts = {"status": answer.status, "type": kind}
    if kind.startswith("text/event-stream"):
        frames = frames_of(answer.body.decode())
        return {**out, "frames": folded(frames), "said": said(frames)}
    with contextlib.suppress(ValueError):
        row = answer.json
        if answer.status == 200:
            parts = [part for part in shape(row) if "cache_read_input" not in part]
            return {**out, "shape": parts, "said": said([("", row)])}
        return {**out, "keys": keys(row), "say": _message(row)}
    return {**out, "say": answer.body.decode()[:200]}


def _message(row: Any) -> str:
    error = row.get("error", row) if isinstance(row, dict) else row
    if not isinstance(error, dict):
        return str(error)
    text = str(error.get("message", error.get("detail", "")))
    kind = f"{error.get('type')} {error.get('code')}: "
    if "validation error" in text:
        told = "with what was sent" if "'input'" in text else ""
        return kind + f"validation errors {told}"
    if text.startswith("messages.0.content"):
        text = text.split(";")[0]
    return kind + words(text)


def frames_of(text: str) -> list[tuple[str, Any]]:
    """Each event's name and JSON; `[DONE]` as it is."""
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n"):
        name, row = "", None
        for line in block.splitlines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                row = line[6:] if line == "data: [DONE]" else json.loads(line[6:])
        if row is not None:
            found.append((name, row))
    return found


def folded(frames: list[tuple[str, Any]]) -> list[list[Any]]:
    """Events with their shapes, runs of equal ones once."""
    out: list[list[Any]] = []
    for name, row in frames:
        now = [name, row if isinstance(row, str) else shape(row)]
        if not out or out[-1] != now:
            out.append(now)
    return out


def said(frames: list[tuple[str, Any]]) -> Facts:
    """The words of an answer in any dialect, where a script made them; and how it ended."""
    text, thought, calls, ends = "", "", "", []
    for _, row in frames:
        if not isinstance(row, dict):
            continue
        delta = row.get("delta") if isinstance(row.get("delta"), dict) else {}
        thought += delta.get("thinking", "")
        text += delta.get("text", "")
        calls += delta.get("partial_json", "") + row.get("content_block", {}).get("name", "")
        ends += [delta["stop_reason"]] if "stop_reason" in delta else []
        ends += [row["stop_reason"]] if "stop_reason" in row else []
        for block in row.get("content", []) if row.get("type") == "message" else []:
            thought += block.get("thinking", "")
            text += block.get("text", "")
            calls += block.get("name", "") + (
                json.dumps(block["input"]) if "input" in block else ""
            )
        for choice in row.get("choices", []):
            part = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
            thought += part.get("reasoning_content") or ""
            text += part.get("content") or ""
            for call in part.get("tool_calls") or ():
                calls += (call["function"]["name"] or "") + call["function"]["arguments"]
            if choice.get("finish_reason"):
                matched = choice["matched_stop"]
                told = "a token" if isinstance(matched, int) else matched
                ends.append([choice["finish_reason"], told])
        if str(row.get("type", "")).startswith("response."):
            ends += [row["type"]] if "response" in row else []
    scripted_words = "Let me" in thought or "Hello" in thought + text or calls
    out: Facts = {"ends": ends}
    if scripted_words:
        out |= {"text": text.strip(), "thought": thought, "calls": calls}
    return out


class Asked:
    """A request under way, its answer gathered by a thread."""

    def __init__(self, it: Engine, path: str, body: Facts, headers: dict[str, str]) -> None:
        self.link = http.client.HTTPConnection("127.0.0.1", it.port, timeout=60)
        self.headers_at: float | None = None
        self.body = b""
        self.status = 0
        head = {"Content-Type": "application/json", **AUTH, **headers}
        self.link.request("POST", path, json.dumps(body).encode(), head)
        self.sock = self.link.sock
        """Kept aside: the link lets go of it when the answer begins."""
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        broken = contextlib.suppress(OSError, http.client.HTTPException)
        with broken, self.link.getresponse() as answer:
            self.status, self.headers_at = answer.status, time.monotonic()
            self.body = answer.read()
        self.link.close()

    @property
    def over(self) -> bool:
        return not self.thread.is_alive()

    def wait(self, seconds: float = 10.0) -> str:
        self.thread.join(seconds)
        return self.body.decode()


def _load(it: Engine) -> Facts:
    load: Facts = it.ask("GET", "/v1/loads").json["loads"][0]
    return load


def _free(it: Engine, seconds: float = 15.0) -> float:
    """Seconds until nothing runs or waits."""
    began = time.monotonic()
    it.wait_for(lambda: _quiet(it), seconds, "an empty engine")
    return time.monotonic() - began


def _quiet(it: Engine) -> bool:
    load = _load(it)
    idle = load["num_running_reqs"] == load["num_waiting_reqs"] == 0
    return bool(idle and load["num_waiting_uncached_tokens"] == 0)


def _tail(asked: Asked) -> Facts:
    """How an answer that was aborted ended."""
    text = asked.wait()
    if text.startswith(("data:", "event:")):
        frames = frames_of(text)
        rows = [row for _, row in frames if isinstance(row, dict)]
        last = [[name, row if isinstance(row, str) else keys(row)] for name, row in frames[-3:]]
        return {
            "status": asked.status,
            "over": asked.over,
            "last": last,
            **_usage(rows),
            **said(frames),
        }
    row = json.loads(text)
    return {"status": asked.status, "over": asked.over, **_usage([row]), **said([("", row)])}


def _usage(rows: list[Facts]) -> Facts:
    counts: Facts = {}
    for row in rows:
        usage = row.get("usage") or (row.get("response") or {}).get("usage") or {}
        counts |= {key: value > 0 for key, value in usage.items() if isinstance(value, int)}
    return {"counts": counts}


def _aborted(it: Engine, path: str, body: Facts, rid: str, headers: dict[str, str]) -> Facts:
    """Abort one request by its id: while it decodes, or in its chunked prefill."""
    asked = Asked(it, path, body, headers)
    it.wait_for(lambda: not _quiet(it), 10, "a request that runs")
    time.sleep(0.25)
    if "prompt" not in body or isinstance(body["prompt"], str):
        it.wait_for(lambda: _load(it)["num_running_reqs"] == 1, 10, "a request that decodes")
    status = it.ask("POST", "/abort_request", {"rid": rid}).status
    out = {"abort": status, **_tail(asked)}
    _free(it)
    return out


def _endless(rid: str, **more: object) -> Facts:
    body = {"model": "tiny", "messages": HELLO, "max_tokens": 1500, "ignore_eos": True}
    return {**body, "rid": rid, "stream": True, **more}


def _aborted_in_queue(it: Engine) -> Facts:
    """With both slots taken: what the waiting ones are told when they are aborted."""
    holders = [Asked(it, CHAT, _endless(f"hold-{n}"), {}) for n in range(2)]
    it.wait_for(lambda: _load(it)["num_running_reqs"] == 2, 10, "two that run")
    messages = {"model": "tiny", "messages": HELLO, "max_tokens": 1500, "stream": True}
    usage = {"stream_options": {"include_usage": True}}
    waiting = {
        "chat": Asked(it, CHAT, _endless("wait-1", **usage), {}),
        "chat whole": Asked(it, CHAT, _endless("wait-2", stream=False), {}),
        "messages": Asked(it, "/v1/messages", messages, {"x-override-rid": "wait-3"}),
    }
    time.sleep(0.5)
    early = {name: asked.headers_at is not None for name, asked in waiting.items()}
    for number in range(1, 4):
        it.ask("POST", "/abort_request", {"rid": f"wait-{number}"})
    out: Facts = {name: _tail(asked) for name, asked in waiting.items()}
    out["status before the first token"] = early
    out["others go on"] = not any(asked.over for asked in holders)
    it.ask("POST", "/abort_request", {"rid": "hold"})
    out["a part of an id does nothing"] = not any(asked.over for asked in holders)
    it.ask("POST", "/abort_request", {"abort_all": True})
    _free(it)
    return out


def _abort_of_several(it: Engine) -> Facts:
    """`n` choices live under ids of their own: the id that was given ends nothing."""
    asked = Asked(it, CHAT, _endless("pair", n=2), {})
    it.wait_for(lambda: _load(it)["num_running_reqs"] == 2, 10, "two choices")
    it.ask("POST", "/abort_request", {"rid": "pair"})
    time.sleep(0.7)
    out = {"by the given id": not asked.over}
    it.ask("POST", "/abort_request", {"abort_all": True})
    frames = frames_of(asked.wait())
    rows = [row for _, row in frames[:-1] if row.get("choices")]
    spoken = {row["id"] for row in rows if not row["choices"][0]["finish_reason"]}
    ended = [row["id"] for row in rows if row["choices"][0]["finish_reason"]]
    out["an id a choice"] = len(spoken) == 2 and "pair" not in spoken
    out["finishes come last, under one id"] = [len(ended), len(set(ended))]
    out["the last frames"] = [bool(row["choices"][0]["finish_reason"]) for row in rows[-3:]]
    _free(it)
    return out


def _rids(it: Engine) -> Facts:
    """Which ids are taken, and a second one of the same in flight."""
    base = {"model": "tiny", "messages": HELLO, "max_tokens": 2}
    out: Facts = {}
    shapes: dict[str, Facts] = {
        "text": {"rid": "mine"},
        "list": {"rid": ["mine"]},
        "number": {"rid": 7},
        "empty": {"rid": ""},
        "with n": {"rid": "mine", "n": 2},
        "list with n": {"rid": ["a", "b"], "n": 2},
    }
    for name, more in shapes.items():
        answer = it.ask("POST", CHAT, {**base, **more})
        row = answer.json
        out[name] = [answer.status, row["id"] == "mine" if answer.status == 200 else _message(row)]
    first = Asked(it, CHAT, _endless("twice"), {})
    it.wait_for(lambda: _load(it)["num_running_reqs"] == 1, 10, "the first")
    second = it.ask("POST", CHAT, _endless("twice", max_tokens=3))
    out["twice"] = [second.status, _message(second.json), not first.over]
    it.ask("POST", "/abort_request", {"rid": "twice"})
    first.wait()
    _free(it)
    return out


def _override(it: Engine) -> Facts:
    """Where the header names the request."""
    base = {"model": "tiny", "messages": HELLO, "max_tokens": 2, "rid": "body"}
    head = {**AUTH, "x-override-rid": "head"}
    chat = it.ask("POST", CHAT, base, head).json["id"]
    response = {"model": "tiny", "input": "hello", "max_output_tokens": 5, "request_id": "resp_b"}
    answer = it.ask("POST", "/v1/responses", response, head).json["id"]
    return {"chat": chat, "responses": answer}


def _left(it: Engine) -> Facts:
    """A client that goes away: a stream's slot is free at once, another's within 5 s."""
    out: Facts = {}
    for name, more in {"stream": {}, "n": {"n": 2}, "whole": {"stream": False}}.items():
        asked = Asked(it, CHAT, _endless(f"left-{name}", max_tokens=3500, **more), {})
        it.wait_for(lambda: _load(it)["num_running_reqs"] > 0, 10, "a request that runs")
        time.sleep(0.3)
        sock = asked.sock
        with contextlib.suppress(OSError):
            sock.shutdown(2)
        took = _free(it)
        asked.wait()
        out[name] = "at once" if took < 1.0 else "within 5 s" if took < 5.0 else "late"
    return out


def _session(it: Engine) -> Facts:
    body = {"model": "tiny", "messages": HELLO, "max_tokens": 2, "session_id": "s-1"}
    status = it.ask("POST", CHAT, body).status
    closed = [it.ask("POST", "/close_session", {"session_id": n}).status for n in ("s-1", "s-2")]
    lines = [line.split("] ")[1] for line in it.text().splitlines() if "release_session" in line]
    return {"status": status, "closed": closed, "lines": lines}


def _cached(it: Engine) -> Facts:
    """A second turn's usage in three dialects: what was cached is told."""
    base = {"model": "tiny", "messages": HELLO, "max_tokens": 2}
    it.ask("POST", CHAT, base)
    chat = it.ask("POST", CHAT, base).json["usage"]["prompt_tokens_details"]
    messages = it.ask("POST", "/v1/messages", base).json["usage"]
    text = {"model": "tiny", "prompt": "a longer text than before " * 200, "max_tokens": 2}
    it.ask("POST", COMPLETIONS, text)
    completion = it.ask("POST", COMPLETIONS, text).json["usage"]["prompt_tokens_details"]
    return {
        "chat": chat["cached_tokens"] > 0,
        "messages": messages.get("cache_read_input_tokens", 0) > 0,
        "completions": completion["cached_tokens"] > 0,
    }


def _plain(it: Engine) -> Facts:
    """Without the switches: no cache report, no header override, no store, no session cache."""
    base = {"model": "tiny", "messages": HELLO, "max_tokens": 2}
    head = {**AUTH, "x-override-rid": "head"}
    chat = it.ask("POST", CHAT, base, head)
    stored = {"model": "tiny", "input": "x", "previous_response_id": "resp_x"}
    closed = it.ask("POST", "/close_session", {"session_id": "s"})
    return {
        "header ignored": chat.json["id"] != "head",
        "details": chat.json["usage"]["prompt_tokens_details"],
        "previous": reduced(it.ask("POST", "/v1/responses", stored)),
        "stored": reduced(it.ask("GET", "/v1/responses/resp_x")),
        "close": closed.status,
        "lines": it.text().count("release_session"),
        "thoughts without a parser": chat.json["choices"][0]["message"]["reasoning_content"],
        "key by x-api-key": it.ask(
            "POST", CHAT, base, {"x-api-key": AUTH["Authorization"][7:]}
        ).status,
    }

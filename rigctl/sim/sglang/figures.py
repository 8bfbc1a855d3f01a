"""What the engine tells of itself: batch log lines, gauges, counters, the load snapshot."""

from __future__ import annotations

import time
from typing import Any

from rigctl.sim.sglang.batching import Batcher, Decode, Prefill
from rigctl.sim.sglang.board import Board
from rigctl.sim.sglang.logs import Log
from rigctl.sim.sglang.settings import Settings

DECODE_LOG_INTERVAL = 40
"""Decode iterations between two Decode lines and gauge refreshes."""
LOADS_INTERVAL = 15
"""Decode iterations between two load snapshots."""
IDLE_REPORT_SECONDS = 30.0


class Figures:
    """Refreshes each value when SGLang does: chunk ends, every n-th iteration, or when idle."""

    def __init__(
        self,
        batcher: Batcher,
        board: Board,
        log: Log,
        settings: Settings,
        graph_word: str,
        speculates: bool,
    ) -> None:
        self._batcher = batcher
        self._board = board
        self._log = log
        self._settings = settings
        self._graph = graph_word
        self._graphs = graph_word == "cuda graph"
        self._speculates = speculates
        self._last_prefill = time.monotonic()
        self._since_prefill = 0
        self._last_decode = time.monotonic()
        self._decoded_tokens = 0
        self._verified = 0
        self._iterations = 0
        self._idle_since = time.monotonic()
        self._idle_reported = 0.0
        self._was_idle = True
        self.snapshot: dict[str, Any] = {}
        """The numbers of `/v1/loads`, as last published."""
        self.uncached_tokens = 0
        self.busy_microseconds = 0
        self.accepted = 0
        self.verifies = 0
        self.throughput = 0.0
        self.publish()

    def _simulated(self, real: float) -> float:
        return max(real, 1e-9) * self._settings.speed

    def arrived(self) -> None:
        """A request came: the idle time ends."""
        self._count_idle()
        self.publish()

    def _count_idle(self) -> None:
        now = time.monotonic()
        if self._was_idle:
            gone = now - self._idle_since
            self._board.add("scheduler_idle_seconds_total", gone)
            self._board.add(
                "scheduler_stage_seconds_total", gone, category="idle", forward_overlap="none"
            )
            self._was_idle = self._batcher.idle
        self._idle_since = now

    def prefilling(self, batch: Prefill) -> None:
        """A batch begins: the log tells of it at once."""
        now = time.monotonic()
        gap = self._simulated(now - self._last_prefill)
        self._last_prefill = now
        rate = self._since_prefill / gap
        self._since_prefill = batch.tokens
        b = self._batcher
        pending = b.waiting_tokens
        if b.chunked is None:
            pending += sum(
                part.request.to_compute - part.start - part.count for part in batch.parts
            )
        else:
            pending -= batch.parts[0].count
        usage, mamba = self._usage_words()
        self._log.rank(
            0,
            f"Prefill batch, #new-seq: {len(batch.parts)}, #new-token: {batch.tokens}, "
            f"#cached-token: {batch.cached}, {usage}, {mamba}#running-req: {len(b.running)}, "
            f"#queue-req: {len(b.waiting)}, #pending-token: {max(0, pending)}, "
            f"{self._graph}: False, input throughput (token/s): {rate:.2f}",
        )

    def _usage_words(self) -> tuple[str, str]:
        full = self._batcher.pool.pinned / self._batcher.pool.total
        if not self._batcher.limits.mamba_each:
            return f"token usage: {full:.2f}", ""
        return f"full token usage: {full:.2f}", f"mamba usage: {self._mamba_usage():.2f}, "

    def _mamba_usage(self) -> float:
        total = self._batcher.limits.mamba_total
        return self._batcher.mamba_used / total if total else 0.0

    def prefilled(self, batch: Prefill, seconds: float) -> None:
        """A chunk's result is in: counters, gauges and the snapshot move."""
        board = self._board
        board.add("realtime_tokens_total", batch.tokens, mode="prefill_compute")
        board.add("prefill_effective_tokens_total", batch.tokens, mode="input")
        if batch.cached:
            board.add("realtime_tokens_total", batch.cached, mode="prefill_cache")
            board.add("prefill_effective_tokens_total", batch.cached, mode="device_hit")
        board.set("cache_hit_rate", batch.cached / max(1, batch.cached + batch.tokens))
        board.add("cuda_graph_passes_total", mode="prefill_none")
        self._stage("run_batch", seconds)
        for part in batch.parts:
            if part.first:
                now = time.monotonic()
                waited = max(0.0, self._simulated(now - part.request.arrived) - seconds)
                board.observe("queue_time_seconds", waited)
                board.observe("per_stage_req_latency_seconds", 0.0001, stage="request_process")
            stage = "prefill_forward" if part.last else "chunked_prefill"
            board.observe("per_stage_req_latency_seconds", seconds, stage=stage)
        self.uncached_tokens += batch.tokens
        # rigctl sets this against its own clock, so it is told in real time at any speed.
        self.busy_microseconds += int(self._settings.real(seconds) * 1e6)
        self.gauges()
        self.publish()

    def _stage(self, category: str, seconds: float) -> None:
        self._board.add(
            "scheduler_stage_seconds_total", seconds, category=category, forward_overlap="none"
        )

    def decoded(self, batch: Decode, tokens: int, seconds: float) -> None:
        """One decode iteration is done."""
        board = self._board
        board.add("realtime_tokens_total", tokens, mode="decode")
        mode = "decode_cuda_graph" if self._graphs else "decode_none"
        board.add("cuda_graph_passes_total", mode=mode)
        self._stage("run_batch", seconds)
        self._decoded_tokens += tokens
        self._verified += len(batch.requests)
        self.accepted += tokens
        self.verifies += len(batch.requests)
        self._iterations += 1
        if self._iterations % DECODE_LOG_INTERVAL == 0:
            self._decode_report()
        if self._iterations % LOADS_INTERVAL == 0:
            self.publish()

    def _decode_report(self) -> None:
        now = time.monotonic()
        b, board = self._batcher, self._board
        self.throughput = self._decoded_tokens / self._simulated(now - self._last_decode)
        length = self._decoded_tokens / max(1, self._verified)
        context = sum(request.length for request in b.running)
        board.set("gen_throughput", self.throughput)
        board.set("decode_sum_seq_lens", context)
        spec = ""
        if self._speculates:
            board.set("spec_accept_length", length)
            board.set("spec_accept_rate", (length - 1) / 7)
            board.set("spec_num_draft_tokens", 8)
            board.set("spec_num_steps", 1)
            spec = f"accept len: {length:.2f}, accept rate: {(length - 1) / 7:.2f}, "
        self.gauges()
        usage, mamba = self._usage_words()
        word = "#full token" if mamba else "#token"
        if mamba:
            mamba = f"mamba num: {b.mamba_used}, {mamba}"
        self._log.rank(
            0,
            f"Decode batch, #running-req: {len(b.running)}, {word}: {context}, {usage}, {mamba}"
            f"{spec}{self._graph}: {self._graphs}, "
            f"gen throughput (token/s): {self.throughput:.2f}, #queue-req: {len(b.waiting)}",
        )
        self._last_decode = now
        self._decoded_tokens = 0
        self._verified = 0

    def token_gap(self, real: float) -> None:
        """Time between two output messages of one answer."""
        self._board.observe("inter_token_latency_seconds", self._simulated(real))

    def gauges(self) -> None:
        """Counts of requests and both pools."""
        b, board = self._batcher, self._board
        pool = b.pool
        board.set("num_running_reqs", len(b.running))
        board.set("num_queue_reqs", len(b.waiting))
        board.set("num_retracted_reqs", b.retracted)
        full = pool.pinned / pool.total
        mamba = self._mamba_usage()
        board.set("token_usage", round(max(full, mamba), 2))
        board.set("full_token_usage", full)
        board.set("mamba_usage", mamba)
        board.set("num_used_tokens", pool.pinned)
        board.set("kv_used_tokens", pool.pinned)
        board.set("kv_evictable_tokens", pool.cached)
        board.set("kv_available_tokens", pool.free)
        total = b.limits.mamba_total
        board.set("mamba_used_tokens", b.mamba_used)
        board.set("mamba_evictable_tokens", b.mamba_cached)
        board.set("mamba_available_tokens", max(0, total - b.mamba_used - b.mamba_cached))
        board.set("new_token_ratio", 0.7)

    def changed(self) -> None:
        """Requests ended."""
        if self._batcher.idle:
            self._was_idle = True
            self._idle_since = time.monotonic()
            self._idle_reported = 0.0
            self._last_decode = time.monotonic()
        self.publish()

    def idle(self) -> None:
        """The idle pass, at most once a second: a full report every 30 s."""
        now = time.monotonic()
        self._count_idle()
        if now - self._idle_reported >= IDLE_REPORT_SECONDS:
            self._idle_reported = now
            self._board.set("gen_throughput", 0.0)
            self.throughput = 0.0
            self.gauges()
        self.publish()

    def publish(self) -> None:
        """Write the load snapshot."""
        b = self._batcher
        pool = b.pool
        queued = sum(request.prompt.tokens for request in b.waiting)
        self.snapshot = {
            "timestamp": time.time(),
            "num_running_reqs": len(b.running),
            "num_waiting_reqs": len(b.waiting),
            "num_waiting_uncached_tokens": b.waiting_tokens,
            "num_used_tokens": pool.pinned,
            "num_total_tokens": pool.pinned + queued,
            "num_active_tokens": pool.pinned,
            "max_total_num_tokens": pool.total,
            "max_running_requests": b.limits.running,
            "token_usage": round(pool.pinned / pool.total, 4),
            "gen_throughput": round(self.throughput, 2),
            "cache_hit_rate": round(self._board.get("cache_hit_rate"), 4),
            "total_prefill_uncached_tokens": self.uncached_tokens,
            "total_prefill_busy_us": self.busy_microseconds,
            "queued": len(b.waiting),
            "retracted": b.retracted,
        }

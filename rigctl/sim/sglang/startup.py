"""Loading, phase by phase, in SGLang's words and order; and the ways in which it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rigctl.sim.sglang.identity import Identity
from rigctl.sim.sglang.logs import Log
from rigctl.sim.sglang.replies import Json
from rigctl.sim.sglang.settings import Settings
from rigctl.sim.world import CONTEXT_BYTES, READY_BYTES, WEIGHTS_BYTES

# Shares of the whole start, in order.
IMPORTS, SPAWN, INIT, BEFORE_WEIGHTS, WEIGHTS, POOLS, GRAPHS, WARM_UP = (
    0.06,
    0.2,
    0.03,
    0.06,
    0.27,
    0.03,
    0.3,
    0.05,
)


class SchedulerFailedError(Exception):
    """A scheduler raised while loading; the traceback is in the log already."""


def show_arguments(identity: Identity, log: Log) -> None:
    """The lines before anything is loaded: every flag, the api key among them, in clear text."""
    args = {key: value for key, value in identity.args.items() if not key.startswith("_")}
    log.main(f"server_args={args!r}")
    log.main("Using default HuggingFace chat template with detected content format: string")


class Loading:
    """Walks through the phases; `memory` hears what each scheduler holds by then."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        log: Log,
        memory: Callable[[int], None],
        spawned: Callable[[], None],
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._log = log
        self._memory = memory
        self._spawned = spawned
        self.timings: Json = {}

    async def _pass(self, share: float) -> float:
        seconds = self._settings.load_seconds * share
        await asyncio.sleep(self._settings.real(seconds))
        return seconds

    async def run(self) -> None:
        """From spawned schedulers to allocated pools and captured graphs. SchedulerFailedError."""
        log, identity = self._log, self._identity
        spawned = await self._pass(SPAWN)
        self._spawned()
        log.ranks("Init parallel begin.")
        if self._settings.fail == "nccl":
            await asyncio.Event().wait()
        init = await self._pass(INIT)
        log.ranks(f"Init parallel ends. elapsed={init:.2f} s")
        log.ranks("Memory baseline taken. mem usage=0.00 GB")
        self._memory(CONTEXT_BYTES)
        await self._pass(BEFORE_WEIGHTS)
        free = 21.29 if identity.on_cpu else 23.10
        held = 0.0 if identity.on_cpu else 7.62
        log.ranks(f"Load weight begin. avail mem={free:.2f} GB")
        if self._settings.fail == "weights":
            self._fail("OSError: No such device or address: 'model-00003-of-00007.safetensors'")
        weights = await self._pass(WEIGHTS)
        self._memory(CONTEXT_BYTES + WEIGHTS_BYTES)
        log.ranks(
            f"Load weight end. elapsed={weights:.2f} s, type={identity.architecture}, "
            f"avail mem={free - held:.2f} GB, mem usage={held:.2f} GB."
        )
        if self._settings.fail == "oom":
            self._fail(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.10 GiB. GPU 0 has "
                "a total capacity of 23.57 GiB of which 2.31 GiB is free. Process 4711 has 13.20 "
                "GiB memory in use. Including non-PyTorch memory, this process has 8.03 GiB "
                "memory in use."
            )
        pools = await self._pass(POOLS)
        self._pools(free - held)
        graphs = await self._graphs()
        self._memory(READY_BYTES)
        self._capacity(free - held)
        self.timings = {
            "load_weight": weights,
            "kv_cache_allocation": pools,
            "scheduler_e2e": init + weights + pools + graphs,
            "cuda_graph": {
                "prefill": 0.0,
                "decode": graphs,
                "target_verify": 0.0,
                "draft_prefill": 0.0,
                "draft_decode": 0.0,
                "draft_extend": 0.0,
            },
            "tokenizer_e2e": spawned + init + weights + pools + graphs,
        }
        log.main("Engine startup timings (s): " + _timings(self.timings))

    def _pools(self, free: float) -> None:
        log, identity = self._log, self._identity
        if identity.mamba_total:
            log.ranks(f"Mamba Cache is allocated. max_mamba_cache_size: {identity.mamba_total}")
        kind, size = ("bfloat16", "0.00") if identity.on_cpu else ("float8_e4m3fn", "4.55")
        log.ranks(
            f"KV Cache is allocated. dtype: torch.{kind}, #tokens: {identity.pool}, "
            f"K size: {size} GB, V size: {size} GB"
        )
        after = free if identity.on_cpu else free - 9.1
        log.ranks(f"Memory pool end. avail mem={after:.2f} GB")

    async def _graphs(self) -> float:
        log, identity = self._log, self._identity
        if identity.on_cpu:
            log.rank(
                0,
                "Disable prefill CUDA graph because cuda_graph_config resolved "
                "prefill.backend='disabled' (e.g. via --cuda-graph-backend-prefill=disabled or "
                "auto-disable rules).",
            )
            await self._pass(GRAPHS)
            return 0.0
        log.ranks("Capture target decode CUDA graph begin. This can take up to several minutes.")
        graphs = await self._pass(GRAPHS)
        log.ranks(f"Capture target decode CUDA graph end. elapsed={graphs:.2f} s")
        if identity.speculates:
            draft = identity.args.get("speculative_draft_model_path")
            log.ranks(f"Initialized DFLASH draft runner. model={draft}, block_size=8")
        return graphs

    def _capacity(self, free: float) -> None:
        log, identity, args = self._log, self._identity, self._identity.args
        if identity.capped_from:
            log.rank(
                0,
                f"max_running_requests is capped to {identity.slots} by the mamba state cache "
                f"(max_mamba_cache_size={identity.mamba_total}, {identity.mamba_each} state slots "
                "per request). To raise it: increase --mamba-full-memory-ratio or "
                "--max-mamba-cache-size, or halve the state size with --mamba-ssm-dtype bfloat16.",
            )
        if identity.pool < identity.context:
            log.rank(
                0,
                f"KV pool holds {identity.pool} tokens, fewer than --context-length "
                f"{identity.context}. One full-length request cannot fit, so long requests will be "
                "refused or truncated at serving time. Lower --context-length, raise "
                "--mem-fraction-static, or free memory taken before the pool is sized.",
            )
        device = "cpu" if identity.on_cpu else "gpu"
        left = free if identity.on_cpu else 1.90
        log.rank(
            0,
            f"max_total_num_tokens={identity.pool}, "
            f"chunked_prefill_size={args['chunked_prefill_size']}, "
            f"max_prefill_tokens={args.get('max_prefill_tokens') or 16384}, "
            f"max_running_requests={identity.slots}, context_len={identity.context}, "
            f"available_{device}_mem={left:.2f} GB",
        )
        log.ranks(
            "Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False "
            f"hybrid_ssm={bool(identity.mamba_total)} hicache_attached=False"
        )

    def _fail(self, say: str) -> None:
        self._log.rank(0, "Scheduler hit an exception: Traceback (most recent call last):")
        self._log.bare('  File "scheduler.py", line 6362, in run_scheduler_process')
        self._log.bare("    scheduler = Scheduler(server_args, port_args)")
        self._log.bare(say + "\n")
        raise SchedulerFailedError(say)


def _timings(timings: Json) -> str:
    graph = ", ".join(f"{key}={value:.2f}" for key, value in timings["cuda_graph"].items())
    return (
        f"load_weight={timings['load_weight']:.2f}, "
        f"kv_cache_allocation={timings['kv_cache_allocation']:.2f}, "
        f"scheduler_e2e={timings['scheduler_e2e']:.2f}, cuda_graph={{{graph}}}, "
        f"tokenizer_e2e={timings['tokenizer_e2e']:.2f}"
    )

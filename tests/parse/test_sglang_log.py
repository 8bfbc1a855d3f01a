"""The log reader: real logs, quoted lines of bug reports, torn lines, and no secret let through."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from rigctl.core.log_facts import (
    UNTOLD,
    Capacity,
    Decoded,
    Drain,
    Fault,
    MambaPool,
    Milestone,
    Prefilled,
    Retracted,
    SlotsCapped,
    Step,
    Trouble,
    ZombieOutput,
)
from rigctl.parse.sglang_log import parse, parse_lines

LOGS = Path(__file__).parents[1] / "data" / "logs"
AT = "[2026-11-29 21:14:03 TP0] "


def lines_of(name: str) -> list[str]:
    return (LOGS / name).read_text().splitlines()


def test_a_hybrid_prefill_line() -> None:
    """Every figure of a chunk is found by its name."""
    assert parse(
        f"{AT}Prefill batch, #new-seq: 1, #new-token: 4096, #cached-token: 12, "
        "full token usage: 0.31, mamba usage: 0.12, #running-req: 2, #queue-req: 1, "
        "#pending-token: 81234, cuda graph: False, input throughput (token/s): 1043.21"
    ) == Prefilled(1, 4096, 12, 2, 1, 81_234, 0.31, 0.12, 1043.21)


def test_a_speculative_decode_line() -> None:
    """Every figure of a decode report is found by its name."""
    assert parse(
        f"{AT}Decode batch, #running-req: 3, #full token: 361240, full token usage: 0.45, "
        "mamba num: 15, mamba usage: 0.31, accept len: 3.90, accept rate: 0.41, cuda graph: True, "
        "gen throughput (token/s): 118.42, #queue-req: 0"
    ) == Decoded(3, 0, 361_240, 0.45, 0.31, 15, 3.9, 118.42)


@pytest.mark.case("C66")
@pytest.mark.parametrize(
    ("line", "tokens", "pending", "usage"),
    [
        (
            (
                "[2025-02-19 11:45:37 TP0] Prefill batch. #new-seq: 1, #new-token: 1, "
                "#cached-token: 0, cache hit rate: 0.00%, token usage: 0.00, #running-req: 0, "
                "#queue-req: 0"
            ),
            1,
            UNTOLD,
            0.0,
        ),
        (
            (
                "[2026-07-04 04:31:24 TP0] Prefill batch, #new-seq: 12, #new-token: 43008, "
                "#cached-token: 0, full token usage: 0.14, mamba usage: 0.20, #running-req: 1, "
                "#queue-req: 97, #pending-token: 109585, npu graph: False, "
                "input throughput (token/s): 15734.14"
            ),
            43_008,
            109_585,
            0.14,
        ),
        (
            (
                "[2026-07-04 04:31:24.113 TP0 EP0] Prefill batch [812], swa token usage: 0.01, "
                "#pending-token: 46401, cuda graph: False, #new-token: 8192, brand new key: 7"
            ),
            8192,
            46_401,
            UNTOLD,
        ),
        (
            (
                "[2026-07-04 04:31:24 DP0 TP0] Prefill batch, input throughput (token/s): 5.00, "
                "token usage: 0.50, full token usage: 0.25, #pending-token: 3, #new-token: 2"
            ),
            2,
            3,
            0.25,
        ),
    ],
    ids=["0.4", "hybrid", "expert ranks and iteration", "other order"],
)
def test_formats_of_all_ages_are_read(
    line: str, tokens: float, pending: object, usage: object
) -> None:
    """Keys are read by name in any order; unknown ones are passed over."""
    found = parse(line)
    assert isinstance(found, Prefilled)
    assert (found.new_tokens, found.pending_tokens, found.kv_usage) == (tokens, pending, usage)


@pytest.mark.case("C66")
def test_torn_values_are_dropped() -> None:
    """A line whose middle is lost gives its whole figures and none that were glued together."""
    found = parse(
        f"{AT}Decode batch, #running-req: 3, #token: 44672, token usaccept rate: 0.32, "
        "cuda gr[aph: True, gen throughput (token/s): 11x8.42, #queue-req: 2"
    )
    assert found == Decoded(running=3, tokens=44_672, queued=2)


@pytest.mark.case("C66")
def test_interleaved_lines_give_both_facts_and_no_cut_number() -> None:
    """Where a second process wrote into a line, the number before the cut is not believed."""
    line = (
        f"{AT}Decode batch, #running-req: 3, #queue-req: 2, #token: 446{AT}Prefill batch, "
        "#new-seq: 1, #new-token: 4096"
    )
    assert parse_lines([line]) == (
        Decoded(running=3, queued=2),
        Prefilled(new_requests=1, new_tokens=4096),
    )


@pytest.mark.case("C66")
@pytest.mark.parametrize(
    "ranks", ["TP1", "DP1 TP0", "TP0 EP3", "PP1 TP0", "MOE_DP1 TP0", "ATTN_CP2 TP0"]
)
def test_other_ranks_are_not_counted_twice(ranks: str) -> None:
    """A batch is told by rank 0 alone, whoever else prints it."""
    line = f"[2026-07-04 04:31:24 {ranks}] Prefill batch, #new-token: 4096"
    assert parse(line) is None
    zeros = "".join("0" if each.isdigit() else each for each in ranks)
    assert parse(line.replace(ranks, zeros)) == Prefilled(new_tokens=4096)


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        (
            (
                "max_total_num_tokens=800000, chunked_prefill_size=4096, max_prefill_tokens=16384, "
                "max_running_requests=6, context_len=262144, available_gpu_mem=1.90 GB"
            ),
            Capacity(800_000, 4096, 6, 262_144),
        ),
        (
            "max_total_num_tokens=800000, chunked_prefill_size=-1, max_running_requests=6",
            Capacity(pool_tokens=800_000, slots=6),
        ),
        (
            (
                "max_running_requests is capped to 6 by the mamba state cache "
                "(max_mamba_cache_size=30, 5 state slots per request). To raise it: increase "
                "--mamba-full-memory-ratio or --max-mamba-cache-size, or halve the state size with "
                "--mamba-ssm-dtype bfloat16."
            ),
            SlotsCapped(6, 30, 5),
        ),
        ("Mamba Cache is allocated. max_mamba_cache_size: 30, conv_state 1 GB", MambaPool(30)),
        (
            "Received output for rid='4f' but the state was deleted in TokenizerManager.",
            ZombieOutput(),
        ),
        (
            "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
            Drain(),
        ),
        (
            (
                "Gracefully exiting... Remaining number of requests 2. Remaining requests "
                "remaining_rids=['a', 'b']."
            ),
            Drain(2),
        ),
        (
            "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 9",
            Retracted(2),
        ),
        ("Init torch distributed begin.", Milestone(Step.NCCL_BEGUN, 0)),
        ("Init parallel ends. elapsed=1.04 s", Milestone(Step.NCCL_ENDED, 0, 1.04)),
        (
            "Init torch distributed ends. elapsed=2.50 s, mem usage=0.1 GB",
            Milestone(Step.NCCL_ENDED, 0, 2.5),
        ),
        (
            "Capture cuda graph end. Time elapsed: 1334.38 s. mem usage=1.2 GB.",
            Milestone(Step.GRAPHS_ENDED, 0, 1334.38),
        ),
        (
            "Capture target decode CUDA graph begin. backend=full",
            Milestone(Step.GRAPHS_BEGUN, 0),
        ),
        ("INFO:     Uvicorn running on http://127.0.0.1:1", Milestone(Step.LISTENING, 0)),
    ],
)
def test_single_lines(message: str, fact: object) -> None:
    """Sizes, caps, drains and milestones, in the words of the versions that print them."""
    assert parse(AT + message) == fact


@pytest.mark.parametrize(
    ("line", "trouble", "fatal"),
    [
        (f"{AT}Scheduler hit an exception: Traceback (most recent call last):",
         Trouble.SCHEDULER_DIED, True),
        (("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
         "total capacity of 23.57 GiB"), Trouble.GPU_MEMORY, True),
        (("[rank2]:[E1129 ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective operation "
         "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)"), Trouble.NCCL, True),
        (f"{AT}Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
         Trouble.WATCHDOG, True),
        ((f"{AT}Health check failed. Server couldn't get a response from detokenizer for last 20 "
         "seconds."), Trouble.HEALTH, False),
        ("launch_server.py: error: unrecognized arguments: --prefil-max 2", Trouble.FLAG, True),
        (f"{AT}RuntimeError: CUDA error: an illegal memory access was encountered",
         Trouble.CARD, True),
        (f"{AT}Subprocess scheduler_0 (pid=25788) crashed with exit code -9. Triggering SIGQUIT",
         Trouble.CHILD_KILLED, True),
        (f"{AT}Prefill out of memory. Try to lower your batch size.", Trouble.POOL_FULL, True),
        (f"{AT}KV pool holds 4096 tokens, fewer than --context-length 8192.",
         Trouble.CAPACITY, False),
    ],
)  # fmt: skip
def test_faults(line: str, trouble: Trouble, fatal: bool) -> None:
    """Fault lines are told by kind, with or without a time before them."""
    found = parse(line)
    assert isinstance(found, Fault)
    assert (found.trouble, found.fatal) == (trouble, fatal)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Multi-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
        f"{AT}Ignore import error when loading sglang.srt.models.inkling: No module named 'sglang'",
        f'{AT}INFO:     127.0.0.1:42550 - "GET /v1/loads?x=CUDA out of memory HTTP/1.1" 200 OK',
        "    raise HFValidationError(f'Repo id must be so')",
        f"{AT}Cache flushed successfully!",
        f"{AT}Prefill batch, nonsense",
    ],
)
def test_lines_that_say_nothing(line: str) -> None:
    """Noise, access lines and quoted source code are no facts."""
    assert parse(line) is None


def test_a_logged_prompt_cannot_speak_for_the_engine() -> None:
    """With request logging on, a prompt that quotes a log or an error changes nothing."""
    quoted = f"{AT}Prefill batch, #new-token: 9 {AT}The server is fired up and ready to roll!"
    assert (
        parse_lines([f"{AT}Receive: obj=GenerateReqInput(text='{quoted} CUDA out of memory')"])
        == ()
    )


def test_a_line_glued_to_the_noise_before_it_is_read() -> None:
    """Libraries print without a line end: the fact behind their text is not lost."""
    assert parse(f"See https://nanobind.example/refleaks.html{AT}Load weight begin. avail") == (
        Milestone(Step.WEIGHTS_BEGUN, 0)
    )


def test_a_real_start_of_two_ranks() -> None:
    """The recorded start passes its milestones in order, each rank by its own."""
    facts = parse_lines(lines_of("run-cpu-tp2.log"))
    steps = [(fact.step, fact.rank) for fact in facts if isinstance(fact, Milestone)]
    assert steps[0] == (Step.ARGUMENTS, None)
    assert steps[-1] == (Step.FIRED_UP, None)
    for rank in (0, 1):
        own = [step.value for step, of in steps if of == rank]
        assert own == sorted(own)
        assert {Step.NCCL_BEGUN.value, Step.POOL_MADE.value} <= set(own)
    assert Capacity(2048, 4096, 1024, 2048) in facts
    assert sum(isinstance(fact, Prefilled) for fact in facts) == 1


def test_a_real_run_and_its_drain() -> None:
    """The recorded run shows its batches and its polite end, and no fault but a small pool."""
    facts = parse_lines(lines_of("run-cpu.log"))
    count = Counter(type(fact) for fact in facts)
    assert count[Prefilled] == 7
    assert count[Decoded] == 15
    assert count[Drain] == 3
    assert [fact.trouble for fact in facts if isinstance(fact, Fault)] == [Trouble.CAPACITY]


def test_the_taken_port_is_fatal() -> None:
    """The real server hangs after this line: the line itself must say that it is lost."""
    faults = [
        fact for fact in parse_lines(lines_of("fail-port-used.log")) if isinstance(fact, Fault)
    ]
    port = next(fault for fault in faults if fault.trouble is Trouble.PORT)
    assert port.fatal
    assert "127.0.0.1" in port.say


def test_no_fact_of_a_real_log_carries_a_key() -> None:
    """Facts go to the journal: the keys in the start line never get into one."""
    for path in LOGS.glob("*.log"):
        assert "sekrit" not in repr(parse_lines(path.read_text().splitlines()))


def test_a_torn_line_of_any_length_is_read_once() -> None:
    """64 KiB without a comma after a batch's first words do not hold the daemon up."""

    def too_long(*_: object) -> None:
        raise AssertionError("the line took 20 s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(20)
    try:
        parse_lines(["[2026-11-29 10:00:00 TP0] Decode batch, " + "1" * 64 * 1024])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "message",
    [
        "max_total_num_tokens={}, context_len={}",
        "max_running_requests is capped to {} by the mamba",
        "Mamba Cache is allocated. max_mamba_cache_size: {}",
    ],
)
def test_a_figure_beyond_reason_is_untold(message: str) -> None:
    """400 digits are infinity as a float, and nobody could count with that."""
    (fact,) = parse_lines([AT + message.replace("{}", "9" * 400)])
    numbers = [getattr(fact, name) for name in fact.__slots__]
    assert all(value < 1e300 for value in numbers if isinstance(value, float))

"""The difference between two starts, in words: what means the same is no difference."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.config.diff import differences

PROGRAM = ["python3", "-m", "sglang.launch_server"]


def differ(planned: str, running: str) -> tuple[str, ...]:
    """The differences of two lists of flags."""
    return differences([*PROGRAM, *planned.split()], [*PROGRAM, *running.split()])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--model-path m --tp-size 4", "--tp 4 --model m"),
        ("--tp-size=4 --model-path=m", "--model m --tensor-parallel-size 4"),
        ("--model-path m --context-length 262144", "--context-l 256Ki --model-path m"),
        ("--model-path m --max-total-tokens 800000", "--model-path m --max-total-tokens 0.8M"),
        ("--model-path m --host 127.0.0.1 --port 30000 --tp-size 1", "--model-path m"),
        ("--model-path m --served-model-name m", "--model-path m"),
        ("--model-path m --mem-fraction-static 0.850", "--model-path m --mem-fraction-static 0.85"),
        ("--model-path m --port 5", "--port 4 --port 5 --model-path m"),
        ("--model-path m --numa-node 0 1", "--numa-node 0 1 --model-path m"),
        (
            '--model-path m --json-model-override-args {"a":1,"b":2.0}',
            '--json-model-override-args {"b":2,"a":1} --model-path m',
        ),
    ],
)
def test_spelling_and_order_are_no_difference(one: str, other: str) -> None:
    """Aliases, `=`, abbreviations, suffixes, defaults, JSON order, a repeated flag."""
    assert differ(one, other) == ()
    assert differ(other, one) == ()


@pytest.mark.parametrize(
    ("planned", "running", "lines"),
    [
        ("--port 2", "--port 3", ("--port: 2 planned, 3 running",)),
        ("--sleep-on-idle", "", ("--sleep-on-idle: planned, not running",)),
        ("", "--sleep-on-idle", ("--sleep-on-idle: running, not planned",)),
        ("--max-x 5", "", ("--max-x 5: planned, not running",)),
        ("--numa-node 0 1", "--numa-node 1 0", ("--numa-node: 0 1 planned, 1 0 running",)),
        ("--host 0.0.0.0", "", ("--host: 0.0.0.0 planned, 127.0.0.1 running",)),
        ("--port 1 --a", "--b --port 2", 3),
    ],
)
def test_each_difference_is_a_line(
    planned: str, running: str, lines: tuple[str, ...] | int
) -> None:
    """With both values, and which side has which."""
    found = differ(planned, running)
    assert len(found) == lines if isinstance(lines, int) else found == lines


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (["sglang", "serve"], ["/v/bin/python3.11", "/v/bin/sglang", "serve"], True),
        (["python3", "-m", "sglang.launch_server"], ["/usr/bin/python3", *PROGRAM[1:]], True),
        (["/a/python3", "-m", "sglang.launch_server"], ["/b/python3", *PROGRAM[1:]], False),
        (["sglang", "serve"], PROGRAM, False),
    ],
)
def test_the_program_is_compared_as_a_shell_would_find_it(
    one: list[str], other: list[str], same: bool
) -> None:
    """A script shows up behind its interpreter, a bare name is what PATH made of it."""
    found = differences([*one, "--port", "1"], [*other, "--port", "1"])
    assert (found == ()) is same
    assert same or found[0].startswith("program: ")


def test_the_model_without_a_flag_is_the_model() -> None:
    """`sglang serve MODEL`."""
    assert differences(["sglang", "serve", "--model-path", "m"], ["sglang", "serve", "m"]) == ()


@pytest.mark.parametrize("flag", ["--api-key", "--admin-api-key", "--ssl-keyfile-password"])
def test_secrets_are_compared_and_not_shown(flag: str) -> None:
    """That a key changed is worth a line; the key is not."""
    for planned, running in (
        (f"{flag} aa1", f"{flag} bb2"),
        (f"{flag}=aa1", ""),
        ("", f"{flag} bb2"),
    ):
        (line,) = differ(planned, running)
        assert flag in line
        assert "aa1" not in line
        assert "bb2" not in line
    assert differ(f"{flag} aa1", f"{flag}=aa1") == ()


def test_variables_of_the_engine_are_compared() -> None:
    """CUDA's, NCCL's and SGLang's; a login's are not an engine's business."""
    planned = {"CUDA_VISIBLE_DEVICES": "4,5", "NCCL_P2P_DISABLE": "1", "PATH": "/a"}
    running = {"CUDA_VISIBLE_DEVICES": "0,1", "SGLANG_X_TOKEN": "hush", "PATH": "/b", "HOME": "/"}
    argv = [*PROGRAM, "--port", "1"]
    assert differences(argv, argv, planned, running) == (
        "CUDA_VISIBLE_DEVICES: 4,5 planned, 0,1 running",
        "NCCL_P2P_DISABLE 1: planned, not running",
        "SGLANG_X_TOKEN ****: running, not planned",
    )
    assert differences(argv, argv, planned, None) == ()


def test_the_journal_names_the_sides_its_own_way() -> None:
    """Between two starts it is now and before."""
    found = differences(
        [*PROGRAM, "--port", "2"], [*PROGRAM, "--port", "3"], words=("now", "before")
    )
    assert found == ("--port: 2 now, 3 before",)


FLAGS = st.dictionaries(
    st.from_regex(r"--[a-z]{6,9}", fullmatch=True),
    st.lists(st.from_regex(r"[a-z0-9./]{1,6}", fullmatch=True), max_size=2),
    max_size=8,
)


@seed(20261129)
@settings(max_examples=80, deadline=None, database=None)
@given(FLAGS, st.randoms(use_true_random=False), st.booleans())
def test_shuffled_flags_never_differ(
    flags: dict[str, list[str]], order: random.Random, joined: bool
) -> None:
    """Order-free, and each side's every change is seen from the other side too."""
    one = [word for flag, values in flags.items() for word in (flag, *values)]
    shuffled = list(flags.items())
    order.shuffle(shuffled)
    other: list[str] = []
    for flag, values in shuffled:
        other += [f"{flag}={values[0]}"] if joined and len(values) == 1 else [flag, *values]
    assert differences([*PROGRAM, *one], [*PROGRAM, *other]) == ()
    changed = [*PROGRAM, *other, "--entirely-new", "1"]
    assert len(differences([*PROGRAM, *one], changed)) == 1
    assert len(differences(changed, [*PROGRAM, *one])) == 1
    json.dumps(differences(changed, [*PROGRAM, *one]))

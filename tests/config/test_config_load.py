"""rig.toml: what is read, where it came from, and every fault with file, line and advice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from config_kit import GROUP, ConfigKit

from rigctl.config.faults import SeveralFaultsError
from rigctl.config.load import load
from rigctl.config.schema import CardRef, ConfigError, Secret

EXAMPLE = Path(__file__).parents[2] / "assets" / "examples" / "rig.toml"


def test_the_example_loads_and_knows_its_lines() -> None:
    """The shipped example is a valid file, and each value says where it stands."""
    config = load(EXAMPLE)
    text = EXAMPLE.read_text().splitlines()
    assert [str(group.name) for group in config.groups] == ["standard", "long"]
    assert config.free_group == "long"
    assert config.group("long").yarn_factor == 2.0
    for key, origin in config.origins.items():
        if origin == "default":
            continue
        name, line = origin.split(":")
        assert name == "rig.toml"
        assert text[int(line) - 1].split("=")[0].strip() == key.rpartition(".")[2]


def test_every_key_has_an_origin(rig_file: ConfigKit) -> None:
    """No value is without a place, and what the file leaves out says `default`."""
    config = rig_file.load("[rig]\nname = 'home'\n" + GROUP)
    assert config.origins["rig.name"] == "rig.toml:2"
    assert config.origins["rig.stagger"] == "default"
    assert config.origins["group.standard.port"] == "rig.toml:6"
    assert config.origins["group.standard.flags"] == "default"
    assert len(config.origins) == 7 + 31


def test_cards_may_be_named_three_ways(rig_file: ConfigKit) -> None:
    """UUID, PCI address in any of its spellings, and index."""
    config = rig_file.load(
        GROUP.replace("[0]", '["GPU-0A", "0c:00.0", "00000000:0D:00.0", 3, "4"]')
    )
    assert config.groups[0].cards == (
        CardRef("uuid", "GPU-0a"),
        CardRef("pci", "0000:0C:00.0"),
        CardRef("pci", "0000:0D:00.0"),
        CardRef("index", "3"),
        CardRef("index", "4"),
    )


def test_a_group_without_cards_is_allowed(rig_file: ConfigKit) -> None:
    """The CPU engine has none."""
    assert rig_file.load(GROUP.replace("[0]", "[]")).groups[0].cards == ()


FAULTS = {
    "unknown key": ("modle = 'x'", 6, "unknown key `modle`: did you mean `model`?"),
    "a flag's name as a key": ("tp = 4", 6, "did you mean `tensor_parallel`?"),
    "an SGLang flag as a key": (
        "chunked_prefill_size = 4096",
        6,
        'an SGLang flag goes into flags = ["--the-flag", "value"]',
    ),
    "text for a number": ("context_length = '256Ki'", 6, "write context_length = 262_144"),
    "truth for a number": ("context_length = true", 6, "a whole number, not true or false"),
    "number for truth": ("sleep_on_idle = 1", 6, "is true or false, not a number (1)"),
    "text for truth": ("sleep_on_idle = 'yes'", 6, "write sleep_on_idle = true"),
    "number for text": ("served_name = 5", 6, 'write served_name = "5"'),
    "below the limit": ("context_length = 0", 6, "it must be at least 1"),
    "not finite": ("drain = inf", 6, "`drain` = inf: it must be at least 0"),
    "text for a list": ("flags = '--foo 1'", 6, 'write flags = ["--foo", "1"]'),
    "a number in a list": (
        "flags = ['--foo', 1]",
        6,
        '`flags` holds a number (1): write it as "1"',
    ),
    "flag and value as one word": ("flags = ['--foo 1']", 6, 'write "--foo", "1"'),
    "a value first": ("flags = ['4096']", 6, "a flag such as --name comes first"),
    "a choice": ("card_names = 'uuids'", 6, "did you mean 'uuid'?"),
    "colon in the name": ("served_name = 'a:b'", 6, "SGLang keeps `:` for LoRA names"),
    "a value like a flag": ("reasoning_parser = '-x'", 6, "would take '-x' for a flag"),
    "nul": ("served_name = 'a\\u0000'", 6, None),
    "empty engine": ("engine = []", 6, "`engine` is empty"),
    "nameless engine": ("engine = ['']", 6, "`engine` is empty"),
    "help in flags": ("flags = ['--help']", 6, "the engine would print its help and end"),
    "key in clear": ("api_key = 'sk-1234'", 6, 'write api_key = { file = "/path/to/the.key" }'),
    "key source": ("api_key = { fil = 'x' }", 6, "did you mean `file`?"),
    "key file absent": ("api_key = { file = 'no.key' }", 6, "no.key does not exist"),
    "think budget alone": (
        "think_budget = 5000",
        6,
        'needs a reasoning parser, such as reasoning_parser = "qwen3" and grammar_backend',
    ),
    "think budget without xgrammar": (
        "think_budget = 5000\nreasoning_parser = 'qwen3'\ngrammar_backend = 'outlines'",
        6,
        '`think_budget` needs grammar_backend = "xgrammar"',
    ),
    "think budget without parser": (
        "grammar_backend = 'xgrammar'\nthink_budget = 5000",
        7,
        "`think_budget` needs a reasoning parser",
    ),
    "yarn without length": ("yarn_factor = 2", 6, "`yarn_factor` needs `context_length`"),
    "yarn native alone": ("yarn_original = 5", 6, "does nothing without `yarn_factor`"),
    "yarn no whole window": (
        "context_length = 1000\nyarn_factor = 3",
        7,
        "write the model's native one as yarn_original",
    ),
    "yarn too short": (
        "context_length = 3000\nyarn_factor = 2\nyarn_original = 1000",
        6,
        "write 2000 or less",
    ),
    "draft tokens alone": ("draft_tokens = 8", 6, "needs a `draft_model`"),
    "draft algorithm alone": ("draft_algorithm = 'dflash'", 6, "DFLASH needs a `draft_model`"),
    "more ranks than cards": ("tensor_parallel = 2", 6, "but the group has 1 cards"),
    "cards by variable": (
        "env = { CUDA_VISIBLE_DEVICES = '4' }",
        6,
        "`env` has CUDA_VISIBLE_DEVICES, which the key `cards` sets",
    ),
    "order by variable": ("env.CUDA_DEVICE_ORDER = 'x'", 6, "which the key `cards` sets"),
    "budget by variable": (
        "env = { SGLANG_MAX_THINK_TOKENS = '4' }",
        6,
        "which the key `think_budget` sets",
    ),
    "our own variable": ("env = { RIGCTL_SPAWN = '4' }", 6, "rigctl's own"),
    "a number as variable": ("env = { A = 1 }", 6, 'write A = "1"'),
    "no name for a variable": ("env = { 'A B' = '1' }", 6, "'A B' is no name for a variable"),
}


@pytest.mark.parametrize(("key", "line", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_in_a_group_is_named(
    rig_file: ConfigKit, key: str, line: int, says: str | None
) -> None:
    """File, line, group, what is wrong, and the nearest right thing."""
    text = GROUP + (key if says else key.replace("'", '"')) + "\n"
    (fault,) = rig_file.faults(text)
    assert fault.startswith(f"rig.toml:{line}: group 'standard': ")
    assert (says or "NUL character") in fault


TYPED_FLAGS = (
    *("--model-path", "--model", "--model=x", "--mod", "--host", "--port", "--port=3", "--tp"),
    *("--tp=4", "--tp-size", "--tensor-parallel-size", "--tensor_parallel_size", "--tensor"),
    *("--served-model-name", "--served", "--context-length", "--context-l", "--max-total-tokens"),
    *("--max-total", "--max-running-requests", "--max-running", "--speculative-algorithm"),
    *("--speculative-draft-model-path", "--speculative-draft-model", "--speculative-algo=X"),
    *("--speculative-num-draft-tokens", "--reasoning-parser", "--reason", "--tool-call-parser"),
    *("--grammar-backend", "--sleep-on-idle", "--sleep", "--api-key", "--admin-api-key", "--api"),
)
ALWAYS_FLAGS = (
    *("--enable-metrics", "--enable-metric", "--enable-cache-report", "--enable-cache"),
    *("--uvicorn-access-log-exclude-prefixes", "--uvicorn"),
)
CARD_FLAGS = ("--base-gpu-id", "--base-gpu-id=4", "--base", "--gpu-id-step")


@pytest.mark.parametrize("flag", [*TYPED_FLAGS, *ALWAYS_FLAGS, *CARD_FLAGS])
def test_a_flag_that_rigctl_sets_is_refused_in_every_spelling(
    rig_file: ConfigKit, flag: str
) -> None:
    """Alias, `=`, underscores and argparse's abbreviations are all the same flag."""
    text = GROUP + f'flags = [\n  "--mem-fraction-static", "0.8",\n  "{flag}",\n]\n'
    (fault,) = rig_file.faults(text)
    assert fault.startswith("rig.toml:8: group 'standard': `flags` has --")
    wanted = "the key `" if flag in TYPED_FLAGS else "rigctl always sets"
    assert ("chooses cards a second time" if flag in CARD_FLAGS else wanted) in fault


def test_a_flag_hidden_in_the_engine_program_is_refused_too(rig_file: ConfigKit) -> None:
    """`engine` is no way around the check."""
    text = GROUP + 'engine = ["python3", "-m", "sglang.launch_server", "--tp", "2"]\n'
    (fault,) = rig_file.faults(text)
    assert "`engine` has --tp, which the key `tensor_parallel` sets" in fault


def test_the_value_of_a_secret_flag_is_not_repeated(rig_file: ConfigKit) -> None:
    """An error goes into terminals and issues."""
    (fault,) = rig_file.faults(GROUP + 'flags = ["--api-key=sk-1234"]\n')
    assert "sk-1234" not in fault
    (fault,) = rig_file.faults(GROUP + 'api_key = "sk-1234"\n')
    assert "sk-1234" not in fault


@pytest.mark.parametrize(
    "flag",
    ["--enable-metrics-for-all-schedulers", "--modelopt-quant", "--device", "--max-prefill-tokens"],
)
def test_flags_with_a_like_name_pass(rig_file: ConfigKit, flag: str) -> None:
    """A longer name that begins like one of ours is another flag."""
    assert rig_file.load(GROUP + f'flags = ["{flag}"]\n').groups[0].flags == (flag,)


CONDITIONAL = {
    "--json-model-override-args": "context_length = 8\nyarn_factor = 2",
    "--enable-strict-thinking": (
        "think_budget = 5\nreasoning_parser = 'qwen3'\ngrammar_backend = 'xgrammar'"
    ),
    "--config": "api_key = { env = 'KEY' }",
}


@pytest.mark.parametrize("flag", CONDITIONAL)
def test_a_flag_that_a_key_sets_is_free_without_the_key(rig_file: ConfigKit, flag: str) -> None:
    """What rigctl sets only sometimes is refused only then."""
    text = GROUP + f'flags = ["{flag}", "x"]\n'
    assert rig_file.load(text).groups[0].flags == (flag, "x")
    (fault,) = rig_file.faults(text + CONDITIONAL[flag] + "\n")
    assert f"`flags` has {flag}, which rigctl sets for" in fault


SECOND = GROUP.replace("standard", "long").replace("[0]", "[1]").replace("30001", "30002")


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (('"long"', '"standard"'), 7, "`name` 'standard' is taken by the group at line 1"),
        (("30002", "30001"), 9, "`port` 30001 is taken by group 'standard' at line 4: write"),
        (("[1]", "[2, 0]"), 8, "card 0 is in group 'standard' too, line 3"),
    ],
)
def test_two_groups_share_nothing(
    rig_file: ConfigKit, change: tuple[str, str], line: int, says: str
) -> None:
    """Name, port and card belong to one group."""
    rig_file.load(GROUP + SECOND)
    (fault,) = rig_file.faults(GROUP + SECOND.replace(*change))
    assert fault.startswith(f"rig.toml:{line}: ")
    assert says in fault


@pytest.mark.case("C14")
@pytest.mark.parametrize("cards", ['["GPU-0a", "GPU-0A"]', "[3, 3]", '["0C:00.0", "0000:0c:00.0"]'])
def test_a_card_named_twice_is_refused(rig_file: ConfigKit, cards: str) -> None:
    """However it is spelt."""
    (fault,) = rig_file.faults(GROUP.replace("[0]", cards))
    assert fault.startswith("rig.toml:3: ")
    assert "twice: remove one" in fault


@pytest.mark.case("C14")
@pytest.mark.parametrize("card", ['""', '"4, 5"', "-1", '"MIG-1"', "1.5", "true", '"0:1"'])
def test_what_names_no_card_is_refused(rig_file: ConfigKit, card: str) -> None:
    """Before anything is started: the engine would crash on it in a loop."""
    (fault,) = rig_file.faults(GROUP.replace("[0]", f"[7, {card}]"))
    assert fault.startswith("rig.toml:3: group 'standard': `cards`: ")


def test_all_faults_are_named_in_one_run(rig_file: ConfigKit) -> None:
    """Each on a line of its own, in the order of the file."""
    text = "[rig]\nfree_group = 'lng'\n[rgi]\n" + GROUP + "modle = 1\nport2 = 2\n"
    text += SECOND.replace('"long"', '"bad name"') + "sleep_on_idle = 'no'\n"
    faults = rig_file.faults(text)
    assert [int(fault.split(":")[1]) for fault in faults] == [2, 3, 9, 10, 12, 16]
    with pytest.raises(SeveralFaultsError) as caught:
        load(rig_file.path)
    assert len(caught.value.faults) == 6
    assert (caught.value.path, caught.value.line) == (str(rig_file.path), 2)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "the file is empty"),
        ("# nothing\n\n", 1, "the file is empty"),
        ("[rig]\nname = 'x'\n", 1, "there is no [[group]]"),
        ("[group]\nname = 'x'\n", 1, "is written with two brackets"),
        ("[[rig]]\n" + GROUP, 1, "[rig] is a table"),
        ("a = 1\nb = \n", 2, "this is not TOML: invalid value in column 5"),
        ("a = 1\nb = yes\n", 2, 'text stands in "quotes"'),
        ("a = 1\n[x\n", 2, "this is not TOML"),
        ("a = 1\na = 2\n", 2, "the key is written twice"),
        ("a = 'x", 1, "this is not TOML"),
        ("[groups]\n" + GROUP, 1, "did you mean [[group]]?"),
        ("port = 1\n" + GROUP, 1, "`port` belongs below a [[group]]"),
        ("currency = 'x'\n" + GROUP, 1, "`currency` belongs below [rig]"),
        ("schema_version = 2\n" + GROUP, 1, "of a later rigctl"),
        ("schema_version = 'x'\n" + GROUP, 1, "`schema_version` is 1"),
        ("[rig]\nfree_group = 'standrad'\n" + GROUP, 2, "did you mean 'standard'?"),
        ("[rig]\nstagger = -1\n" + GROUP, 2, "it must be at least 0"),
        ("[rig]\nprice = 1\n" + GROUP, 2, "did you mean `price_per_kwh`?"),
        ("[[group]]\nname = 'x'\ncards = []\nport = 1\n", 1, "`model` is missing: write model"),
        (GROUP.replace("30001", "0"), 4, "it must be from 1 to 65535"),
        (GROUP.replace("/models/tiny", " "), 5, "`model` is empty"),
    ],
)
def test_a_fault_of_the_file_is_named(rig_file: ConfigKit, text: str, line: int, says: str) -> None:
    """Syntax, sections, needed keys."""
    (fault,) = rig_file.faults(text)
    assert fault.startswith(f"rig.toml:{line}: ")
    assert says in fault


def test_a_file_that_is_not_utf8_names_the_line(rig_file: ConfigKit) -> None:
    """And the byte."""
    rig_file.path.write_bytes(GROUP.encode() + b"# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"rig\.toml:6: byte 0xe9 is not UTF-8"):
        load(rig_file.path)


def test_a_byte_order_mark_and_windows_line_ends_are_read(rig_file: ConfigKit) -> None:
    """Both come from editors, not from owners."""
    rig_file.path.write_bytes(b"\xef\xbb\xbf" + GROUP.replace("\n", "\r\n").encode())
    assert load(rig_file.path).origins["group.standard.port"] == "rig.toml:4"


def test_no_file_and_no_right_to_read_say_what_to_do(tmp_path: Path) -> None:
    """The next command stands in the message."""
    with pytest.raises(ConfigError, match="run `rigctl config init`"):
        load(tmp_path / "rig.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_file_that_others_can_read_is_refused(rig_file: ConfigKit, mode: int) -> None:
    """With the command that mends it."""
    key = rig_file.path.parent / "the.key"
    key.write_text("sk-1234\n")
    key.chmod(mode)
    text = GROUP + "api_key = { file = 'the.key' }\n"
    (fault,) = rig_file.faults(text)
    assert fault.startswith("rig.toml:6: ")
    assert "chmod 600" in fault
    key.chmod(0o600)
    assert rig_file.load(text).groups[0].api_key == Secret("file", str(key))


def test_a_relative_key_file_counts_from_the_config(
    rig_file: ConfigKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the daemon is started."""
    (rig_file.path.parent / "the.key").write_text("k")
    (rig_file.path.parent / "the.key").chmod(0o400)
    monkeypatch.chdir("/")
    secret = rig_file.load(GROUP + "admin_key = { file = 'the.key' }\n").groups[0].admin_key
    assert secret == Secret("file", str(rig_file.path.parent / "the.key"))


def test_a_home_in_a_path_is_expanded(rig_file: ConfigKit) -> None:
    """There is no shell that would do it."""
    config = rig_file.load(
        GROUP.replace("/models", "~/models") + "engine = ['~/bin/py', '-m', 'x']\n"
    )
    assert config.groups[0].model == os.path.expanduser("~/models/tiny")
    assert config.groups[0].engine[0] == os.path.expanduser("~/bin/py")


def test_keys_of_the_panel_may_be_rebound(rig_file: ConfigKit) -> None:
    """`[keys]` takes action = key; anything but text is a fault."""
    assert rig_file.load(GROUP + '\n[keys]\nfree = "f"\n').keys == {"free": "f"}
    with pytest.raises(ConfigError, match="`free` takes a key as text"):
        rig_file.load(GROUP + "\n[keys]\nfree = 3\n")


@pytest.mark.parametrize("name", ["daemon", "proxy", "long.1", "qwen.3.8"])
def test_a_group_takes_no_other_log_s_name(rig_file: ConfigKit, name: str) -> None:
    """Two writers in one log file, or a run before overwritten by another group's."""
    (fault,) = rig_file.faults(GROUP.replace('"standard"', f'"{name}"'))
    assert fault.startswith(f"rig.toml:2: group '{name}': `name` = '{name}': ")


def test_a_dot_in_a_name_is_fine(rig_file: ConfigKit) -> None:
    """As long as what follows it is no bare number."""
    rig_file.load(GROUP.replace('"standard"', '"qwen3.8b"'))


@pytest.mark.parametrize(
    "flags",
    [
        '"--api-key sk-sekrit"',
        '["--api-key sk-sekrit"]',
        '["--admin-api-key=sk-sekrit"]',
        '"--x HF_TOKEN=sk-sekrit"',
        '["--x", 3, "sk-sekrit"]',
    ],
)
def test_no_fault_repeats_a_key(rig_file: ConfigKit, flags: str) -> None:
    """Faults are printed, logged by the daemon and pasted into bug reports."""
    faults = rig_file.faults(GROUP + f"flags = {flags}\n")
    assert faults
    assert "sekrit" not in "\n".join(faults)

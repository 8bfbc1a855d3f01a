"""SGLang's own argument parser as a filter: command lines in, what it parsed out.

Run with an interpreter that has SGLang: everything (tests/real/install.sh), or only
`pip install --no-deps sglang msgspec typing_extensions pyyaml`; what is heavy and absent is stood
in for. One JSON list of strings a line on stdin (flags only, without the program); for each, one
JSON object a line on stdout: `{"parsed": {dest: value …}}` or `{"refused": "what argparse said"}`.
A `--config FILE` is merged by SGLang's own code, as the server does it.
"""

from __future__ import annotations

import abc
import argparse
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

_HEAVY_NAMES = """
PIL aiohttp fastapi flashinfer huggingface_hub numpy orjson packaging prometheus_client psutil
pybase64 pydantic pydantic_core regex requests setproctitle sgl_kernel starlette torch torchvision
tqdm transformers triton uvicorn uvloop xxhash zmq zstandard
"""
HEAVY = frozenset(_HEAVY_NAMES.split())
"""Packages that the parser imports and does not need."""


class _Anything(abc.ABCMeta):
    """A class that has every attribute, compares, iterates and calls, and means nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __len__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return True

    def __int__(cls) -> int:
        return 0

    def __index__(cls) -> int:
        return 0

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __lt__(cls, other: Any) -> bool:
        return False

    def __gt__(cls, other: Any) -> bool:
        return False

    def __le__(cls, other: Any) -> bool:
        return True

    def __ge__(cls, other: Any) -> bool:
        return True


def _stand_in(name: str) -> Any:
    """A class to import, subclass, decorate with and call."""

    def call(self: Any, *args: Any, **named: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not named else self

    def attribute(self: Any, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return _stand_in(key)()

    body = {
        "__init_subclass__": classmethod(lambda cls, **named: None),
        "__init__": lambda self, *args, **named: None,
        "__call__": call,
        "__getattr__": attribute,
        "__class_getitem__": classmethod(lambda cls, item: cls),
        "__bool__": lambda self: False,
        "__lt__": lambda self, other: False,
        "__gt__": lambda self, other: False,
        "__le__": lambda self, other: True,
        "__ge__": lambda self, other: True,
        "__iter__": lambda self: iter(()),
        "__int__": lambda self: 0,
        "__enter__": lambda self: self,
        "__exit__": lambda self, *args: None,
    }
    return _Anything(name, (), body)


class _Module(types.ModuleType):
    """A module that has every name."""

    __version__ = "99.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("npu", "musa", "hpu"):
            raise AttributeError(name)
        value = _stand_in(name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last, so only for packages that are not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] in HEAVY:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def sglang_parser() -> argparse.ArgumentParser:
    """The parser of the installed SGLang, without its package's own heavy `__init__`."""
    sys.meta_path.append(_Finder())
    spec = importlib.util.find_spec("sglang")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit(f"{sys.executable} has no sglang")
    package = types.ModuleType("sglang")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__, package.__file__ = spec, spec.origin
    sys.modules["sglang"] = package
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    return parser


def merged(parser: argparse.ArgumentParser, argv: list[str]) -> list[str]:
    """The command line with a `--config` file's options in it, by SGLang's own merger."""
    if "--config" not in argv:
        return argv
    from sglang.srt.utils.server_args_config_parser import ConfigArgumentMerger

    return list(ConfigArgumentMerger(parser).merge_config_with_args(argv))


def answer(parser: argparse.ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """What the parser makes of one command line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return {"parsed": vars(parser.parse_args(merged(parser, list(argv))))}
    except SystemExit:
        return {"refused": said.getvalue().strip().splitlines()[-1]}
    except ValueError as error:
        return {"refused": str(error)}


def main() -> None:
    """Answer line by line until stdin ends; whatever SGLang prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    parser = sglang_parser()
    for line in sys.stdin:
        out.write(json.dumps(answer(parser, json.loads(line)), default=str) + "\n")
        out.flush()


if __name__ == "__main__":
    main()

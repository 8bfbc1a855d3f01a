"""Stands in for the CUDA-only packages that SGLang imports and a CPU run never calls.

Installed beside SGLang and loaded by a `.pth` file, so that `import sgl_kernel` gives a module
whose every attribute is an empty class: importing works, and a real use shows itself at once.
"""

from __future__ import annotations

import abc
import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

ABSENT = {"sgl_kernel", "torchaudio", "torchvision"}
"""Top-level packages that are stood in for."""


class _Empty(abc.ABCMeta):
    """A class whose class attributes are again such classes: `sgl_kernel.gemm.mode.FAST`."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _empty(name)


def _empty(name: str) -> type:
    def accept(self: object, *args: object, **kwargs: object) -> None: ...

    def decorate(self: object, *args: object, **kwargs: object) -> object:
        # Used bare as a decorator it must hand the function back, or the module breaks.
        return args[0] if len(args) == 1 and callable(args[0]) else self

    return _Empty(name, (), {"__init__": accept, "__call__": decorate})


class _StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _empty(name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = _StandIn(spec.name)
        module.__path__ = []
        # SGLang and transformers compare this; it passes for the torchvision that fits the torch.
        module.__version__ = "0.28.0"
        return module

    def exec_module(self, module: types.ModuleType) -> None: ...


sys.meta_path.append(_Finder())  # last, so that a package that is there wins

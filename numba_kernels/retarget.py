"""One arithmetic source, compiled for several targets."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


def retarget(module: types.ModuleType, jit: Callable, **primitives: Any) -> types.SimpleNamespace:
    """Copies of the functions of `module`, each compiled by `jit`, that call one another's copies.

    `primitives` replace globals of the module that differ between targets (fma). The module's own functions stay plain
    Python, which is a third implementation for tests. Bind what you need from the result to a module global: kernels
    look up globals, not attributes of a namespace.
    """
    namespace = {**vars(module), **primitives}
    own = [name for name, value in vars(module).items() if _defined_in(module, value)]
    for name in own:  # in order of definition, so that callees are compiled before their callers
        source = vars(module)[name]
        copy = types.FunctionType(source.__code__, namespace, name, source.__defaults__, source.__closure__)
        namespace[name] = jit(functools.update_wrapper(copy, source))
    return types.SimpleNamespace(**{name: namespace[name] for name in own})


def _defined_in(module: types.ModuleType, value: object) -> bool:
    return isinstance(value, types.FunctionType) and value.__module__ == module.__name__

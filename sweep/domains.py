"""Distributions of hyperparameters as they are written in a configuration: `{loguniform = [1e-5, 1e-3]}`.

A domain maps one number u in [0, 1) to a value, so that the caller decides where the randomness comes from.
`randint` excludes its upper bound, as `ray.tune.randint` and numpy do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweep.errors import ConfigError
from sweep.nearest import did_you_mean

CONTINUOUS = ("uniform", "loguniform")
DISCRETE = ("randint", "choice", "grid")
KINDS = (*CONTINUOUS, *DISCRETE)


@dataclass(frozen=True)
class Domain:
    """One distribution. `values` are (low, high) for the ranges and the options for `choice` and `grid`."""

    kind: str
    values: tuple[Any, ...]

    @property
    def options(self) -> Sequence[Any] | None:
        """Every value of a discrete domain in order; None for a continuous one."""
        if self.kind in CONTINUOUS:
            return None
        if self.kind == "randint":
            return range(*self.values)  # not spelled out: it may be long
        return self.values

    @property
    def probes(self) -> tuple[Any, ...]:
        """Values that stand for the domain when its type and range are checked."""
        if self.kind == "randint":
            return (self.values[0], self.values[1] - 1)
        return self.values

    def at(self, u: float) -> Any:
        """The value at quantile `u` in [0, 1). Continuous values keep six significant digits."""
        options = self.options
        if options is not None:
            return options[int(u * len(options))]
        low, high = self.values
        if self.kind == "loguniform":
            value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
        else:
            value = low + u * (high - low)
        return min(max(float(f"{value:.6g}"), low), high)


def is_domain(value: Any) -> bool:
    """True for a table whose only key names a distribution."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in KINDS


def parse_domain(key: str, table: dict[str, Any]) -> Domain:
    """The distribution written in `table`; ConfigError naming `key` if it is not one."""
    if not is_domain(table):
        named = ", ".join(table) or "nothing"
        hint = did_you_mean(next(iter(table), ""), KINDS)
        raise ConfigError(f"{key}: {named} is not a distribution ({', '.join(KINDS)}){hint}")
    kind, values = next(iter(table.items()))
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"{key}.{kind}: needs a list, such as {{{kind} = [1, 2]}}; got {values!r}")
    if kind in ("choice", "grid"):
        return Domain(kind, tuple(values))
    return Domain(kind, _bounds(f"{key}.{kind}", kind, values))


def _bounds(key: str, kind: str, values: list | tuple) -> tuple[Any, Any]:
    wanted = int if kind == "randint" else int | float
    if len(values) != 2 or not all(isinstance(v, wanted) and not isinstance(v, bool) for v in values):
        numbers = "integers" if kind == "randint" else "numbers"
        raise ConfigError(f"{key}: needs two {numbers} [low, high]; got {list(values)!r}")
    low, high = values
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"{key}: low must be below high and both finite; got {list(values)!r}")
    if kind == "loguniform" and low <= 0:
        raise ConfigError(f"{key}: low must be above 0; got {low!r}")
    return (low, high) if kind == "randint" else (float(low), float(high))

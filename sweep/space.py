"""The search space: the [trainer] table split into plain values and distributions, each checked in its own field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from sweep.domains import CONTINUOUS, Domain, is_domain, parse_domain
from sweep.errors import ConfigError
from sweep.schema_errors import dotted_keys, strictly, unknown_key
from trainer.config import TrainerConfig


@dataclass(frozen=True)
class SearchSpace:
    """`fixed` is a nested table of plain values; `domains` maps dotted keys below [trainer] to distributions."""

    fixed: dict[str, Any]
    domains: dict[str, Domain]

    @classmethod
    def parse(cls, table: dict[str, Any]) -> SearchSpace:
        """The [trainer] table as a space; ConfigError for an unknown key, a wrong type or range, a bad distribution."""
        domains: dict[str, Domain] = {}
        space = cls(_split(table, TrainerConfig, "", domains), domains)
        space._check_types()
        return space

    @property
    def size(self) -> float:
        """How many configurations there are; infinite with a continuous distribution."""
        return math.prod(math.inf if d.options is None else len(d.options) for d in self.domains.values())

    def configuration(self, point: dict[str, Any]) -> TrainerConfig:
        """The configuration at `point` (dotted key -> value); ConfigError naming the point if it is impossible."""
        try:
            return strictly(TrainerConfig, _placed(self.fixed, point), "trainer")
        except ConfigError as error:
            drawn = ", ".join(f"trainer.{key} = {value!r}" for key, value in point.items())
            raise ConfigError(f"{error} (searched: {drawn})" if drawn else str(error)) from None

    def _check_types(self) -> None:
        """Every bound and option is checked in its own field; combinations are checked when they are drawn."""
        first = {key: domain.probes[0] for key, domain in self.domains.items()}
        strictly_fields(_placed(self.fixed, first))
        for key, domain in self.domains.items():
            for value in domain.probes[1:]:
                strictly_fields(_placed(self.fixed, first | {key: value}))
        if not self.domains:
            self.configuration({})


def strictly_fields(table: dict[str, Any]) -> None:
    """Raise ConfigError for a field of the wrong type or range; rules that tie fields together are not applied."""
    try:
        strictly(TrainerConfig, table, "trainer")
    except ConfigError as error:
        lines = [line for line in str(error).splitlines() if not line.startswith("trainer: ")]
        if lines:
            raise ConfigError("\n".join(lines)) from None


def _split(table: dict[str, Any], model: type[BaseModel], prefix: str, domains: dict[str, Domain]) -> dict[str, Any]:
    """`table` without its distributions, which are added to `domains` under their dotted keys."""
    fixed: dict[str, Any] = {}
    for name, value in table.items():
        key, field = f"{prefix}{name}", model.model_fields.get(name)
        if field is None:
            known = [f"trainer.{k}" for k in dotted_keys(TrainerConfig)]
            raise ConfigError(unknown_key(f"trainer.{key}", known))
        nested = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        if isinstance(value, dict) and (is_domain(value) or not nested):
            domains[key] = domain = parse_domain(f"trainer.{key}", value)
            if field.annotation is int and domain.kind in CONTINUOUS:
                raise ConfigError(f"trainer.{key}: an integer; use randint or choice instead of {domain.kind}")
        elif isinstance(value, dict):
            fixed[name] = _split(value, field.annotation, f"{key}.", domains)  # type: ignore[arg-type]
        else:
            fixed[name] = value
    return fixed


def _placed(fixed: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """A copy of the nested table `fixed` with the values of `point` at their dotted keys."""
    placed = {key: _placed(value, {}) if isinstance(value, dict) else value for key, value in fixed.items()}
    for key, value in point.items():
        *tables, name = key.split(".")
        target = placed
        for table in tables:
            target = target.setdefault(table, {})
        target[name] = value
    return placed

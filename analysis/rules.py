"""The rules of the verdict, fixed in the plan before the first trial."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class VerdictRules:
    """What decides. `hash` names the rules in every report; changed rules are a new study."""

    alpha: float = 0.05  # one-sided, for each claim, divided by the number of gems
    schedule: tuple[int, ...] = (5, 8, 12, 18, 27, 40, 60, 90, 135)  # configurations at each look
    zero_limit: float = 0.01  # of |c51_bs|: below is practically zero
    size_floor: float = 1e-12  # what a size of exactly 0 counts as
    size_epochs: int = 5  # a member's size is the median of this many last epochs
    redundant_r2: float = 0.81  # |correlation| 0.9; shown, decides nothing in stage 1
    spread_quantile: float = 0.2  # of chi-square, when a standard deviation is used to plan more trials

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> VerdictRules:
        """The rules written in a plan. Raises ValueError for an unknown name."""
        known = {entry.name for entry in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"verdict rules: unknown {unknown}; known are {sorted(known)}")
        rules = cls(**dict(values))
        return replace(rules, schedule=tuple(int(size) for size in rules.schedule))

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits of the canonical JSON of the rules."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def planned_rules(plan: Mapping[str, Any]) -> VerdictRules:
    """The rules that the plan fixed; the defaults when it fixed none."""
    return VerdictRules.from_dict((plan.get("verdict") or {}).get("rules") or {})

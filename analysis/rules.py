"""The rules of the verdict, fixed in the plan before the first trial."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

Policy = Literal["benefit", "noninferior", "seed"]
Unit = Literal["configuration", "seed"]


@dataclass(frozen=True)
class VerdictRules:
    """What decides. `hash` names the rules in every report; changed rules are a new study."""

    alpha: float = 0.05  # one-sided, for each claim, divided by the number of gems
    schedule: tuple[int, ...] = (5, 8, 12, 18, 27, 40, 60, 90, 135)  # configurations at each look
    zero_limit: float = 0.01  # of |c51_bs|: below is practically zero
    size_floor: float = 1e-12  # what a size of exactly 0 counts as
    size_epochs: int = 5  # a member's size is the median of this many last epochs
    redundant_r2: float = 0.81  # |correlation| 0.9: above, a gem repeats an existing feature
    policy: Policy = "benefit"  # what WIRE needs; noninferior: no harm is enough; seed: the signal alone, no wired arm
    unit: Unit = "configuration"  # of evidence; seed: the seeds of the only configuration, and a claim about it alone
    delta_ni: float = 0.20  # annualised Sharpe: the largest loss that would be accepted unseen
    delta_benefit: float = 0.30  # annualised Sharpe: a gain below is not worth having (policy benefit)
    steady_units: int = 40  # configurations before `steadies` may be claimed
    collapse_margin: float = 0.05  # of the rate of failed runs: `steadies` must rule out a larger rise
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

"""Stage 2: does wiring the gem help? Wired against probed runs of the same configurations, seeds, folds and bars.

The unit is the configuration's mean difference: treating its seeds as independent would claim up to four times as often
as the level allows, because effects differ between configurations. A run that failed by itself stands at the floor and
counts; a pair that a machine lost is absent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.interval import mean_interval
from analysis.rules import VerdictRules
from analysis.stage_one import look_that_clears
from analysis.units import EffectUnits
from analysis.verdict import EffectLook


def look_at_effect(units: EffectUnits, n: int, level: float, rules: VerdictRules) -> EffectLook:
    """The look at the first `n` units, each claim at the one-sided `level`."""
    low, mean, high = mean_interval(units.difference[:n], level)
    steadier = units.steadiness[:n]
    measured = bool(np.isfinite(steadier).all())
    steadiness = mean_interval(steadier, level)[2] if measured else float("nan")
    collapse = collapse_bound(units.collapse[:n], float(units.pairs[:n].sum()), level)
    enough = n >= rules.steady_units
    steady = enough and steadiness < 0.0 and collapse < rules.collapse_margin
    may_steady = not enough and measured and float(steadier.mean()) < 0.0
    finding: Any = _finding(low, high, steady, may_steady, rules)
    return EffectLook(n, mean, low, high, steadiness, collapse, finding)


def _finding(low: float, high: float, steady: bool, may_steady: bool, rules: VerdictRules) -> str:
    """`may_steady`: spreads are smaller so far, and there are too few units yet to tell whether that is more than luck:
    "no benefit" waits, or a gem that only calms would always be deleted first."""
    safe = low > -rules.delta_ni
    if high < 0.0:
        return "hurts"
    if low > 0.0:
        return "improves"
    if safe and steady:
        return "steadies"
    if safe and rules.policy == "noninferior":
        return "harmless"
    useless = rules.policy == "benefit" and safe and high < rules.delta_benefit and not may_steady
    return "no benefit" if useless else ""


def collapse_bound(change: NDArray[np.float64], pairs: float, level: float) -> float:
    """Upper bound of the change of the rate of failed runs: the t bound over units, and never below what no failure in
    so many pairs allows (the exact bound 1 - level^(1 / pairs))."""
    return max(mean_interval(change, level)[2], 1.0 - level ** (1.0 / max(pairs, 1.0)))


def needed_pairs(units: EffectUnits, rules: VerdictRules, n_gems: int) -> int | None:
    """Smallest later look that would decide, if the estimate stays: against 0, or, under the policy, between the margin
    and the benefit; None when no look of the schedule would do."""
    values, mean = units.difference, float(units.difference.mean())
    distances = [abs(mean)]
    if rules.policy == "noninferior":
        distances.append(mean + rules.delta_ni)
    if rules.policy == "benefit":
        distances.append(min(mean + rules.delta_ni, rules.delta_benefit - mean))
    return look_that_clears(values, max(distances), rules, n_gems)


def flips_without(units: EffectUnits, n: int) -> str:
    """Which unit or fold the sign of the mean difference hangs on, as words; "" when on none."""
    values = units.difference[:n]
    rest = (values.sum() - values) / (n - 1)
    if (np.sign(rest) != np.sign(values.mean())).any():
        return "one configuration"
    for fold in units.folds:
        others = np.array([units.folds[other][:n] for other in units.folds if other != fold])
        known = others[np.isfinite(others)]
        if known.size and np.sign(known.mean()) != np.sign(values.mean()):
            return f"fold {fold}"
    return ""

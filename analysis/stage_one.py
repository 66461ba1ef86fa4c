"""Stage 1: is a gem's gradient practically zero, and does something else already do what it does?

The size is |coefficient x gradient| / |c51_bs| over the slices that C51 reaches, so that a gem's private head counts
neither for it nor against it. The unit of evidence is the configuration: its base members are averaged over seeds and
folds, because members of one configuration are not independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, t

from analysis.ablation import Ablation, ablation
from analysis.boundaries import nominal_levels
from analysis.interval import mean_interval
from analysis.redundancy import CoMovement, co_movement
from analysis.rules import VerdictRules
from analysis.units import SignalUnits
from analysis.verdict import Look

Redundant = Literal["redundant", "new", "open"]


@dataclass(frozen=True)
class SignalFinding:
    """What one look of stage 1 shows: of the size, and of what else does it. `duplicate` names the feature."""

    look: Look
    redundancy: Redundant
    duplicate: str
    ablations: tuple[Ablation, ...]
    co_movements: tuple[CoMovement, ...]


def look_at_signal(units: SignalUnits, n: int, level: float, rules: VerdictRules) -> SignalFinding:
    """The look at the first `n` units, each claim at the one-sided `level`."""
    limit = np.log10(rules.zero_limit)
    low, mean, high = mean_interval(units.log10_sizes[:n], level)
    finding: Any = "zero" if high < limit else "candidate" if low > limit else "undecided"
    ablations = tuple(ablation(name, sizes[:n], level, limit) for name, sizes in units.without.items())
    moved = tuple(co_movement(panel.first(n), name) for name, panel in units.panels.items())
    state, duplicate = _redundancy(finding, ablations, moved, float(t.isf(level, n - 1)), rules)
    return SignalFinding(Look(n, 10.0**mean, 10.0**low, 10.0**high, finding), state, duplicate, ablations, moved)


def _redundancy(
    finding: str, ablations: tuple[Ablation, ...], moved: tuple[CoMovement, ...], quantile: float, rules: VerdictRules
) -> tuple[Redundant, str]:
    """A gem that is zero while a feature is on and not while it is off: the feature does it. Else R^2, where tested."""
    if finding == "zero":
        done = next((found.feature for found in ablations if found.state == "nonzero"), "")
        return ("redundant", done) if done else ("open", "")
    tested = [found for found in moved if not found.untested]
    copies = [found for found in tested if found.value - quantile * found.se > rules.redundant_r2]
    if copies:
        return "redundant", max(copies, key=lambda found: found.value).feature
    # An open R^2 must not hold a gem back for ever: only an estimate beyond the limit does. Deletion needs its bound.
    doubtful = [found for found in tested if found.value >= rules.redundant_r2]
    return ("open", max(doubtful, key=lambda found: found.value).feature) if doubtful else ("new", "")


def replay(log10_sizes: NDArray[np.float64], rules: VerdictRules, n_gems: int) -> tuple[Look, ...]:
    """Every look at the size alone that `log10_sizes` (launch order) allows, in order."""
    levels = zip(rules.schedule, nominal_levels(rules.schedule, rules.alpha / n_gems), strict=True)
    units = SignalUnits(log10_sizes)
    return tuple(look_at_signal(units, n, level, rules).look for n, level in levels if n <= len(log10_sizes))


def needed_units(log10_sizes: NDArray[np.float64], rules: VerdictRules, n_gems: int) -> int | None:
    """Smallest later look at which the interval would clear the limit, if the estimate stays and the spread is as
    large as it may well be; None when no look of the schedule would do."""
    distance = abs(float(log10_sizes.mean()) - np.log10(rules.zero_limit))
    return look_that_clears(log10_sizes, distance, rules, n_gems)


def look_that_clears(values: NDArray[np.float64], distance: float, rules: VerdictRules, n_gems: int) -> int | None:
    """First look after the present one whose half-width is below `distance`, with the standard deviation of `values`
    raised to what it may well be (`rules.spread_quantile` of chi-square)."""
    n = len(values)
    spread = float(values.std(ddof=1) * np.sqrt((n - 1) / chi2.ppf(rules.spread_quantile, n - 1)))
    levels = nominal_levels(rules.schedule, rules.alpha / n_gems)
    for size, level in zip(rules.schedule, levels, strict=True):
        if size > n and t.isf(level, size - 1) * spread / np.sqrt(size) < distance:
            return size
    return None

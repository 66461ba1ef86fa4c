"""7. Does wiring calm training? How far seeds stray from their configuration's median, and the lower tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.page import Markup, bullets, element, figure, figures, muted, section
from analysis.report.effect_plots import deviations, profile
from analysis.report.material import Material
from analysis.statistics import brown_forsythe, paired_variance_ratio
from analysis.statistics.paired import median_deviations
from analysis.steadiness import FEWEST
from analysis.svg import figure_svg
from analysis.text import ABSENT, plain, signed
from analysis.verdict import Verdict

TITLE = "Does it calm training?"
WORST = 0.1  # share of the runs that is called the lower tail


@dataclass(frozen=True)
class Sides:
    """Scores of the pairs of one gem, and the configuration of each as a code [pairs]."""

    control: NDArray[np.float64]
    treatment: NDArray[np.float64]
    strata: NDArray[np.int64]


def calm(material: Material) -> Markup:
    """The section."""
    content = [part for found in material.wired for part in _of_gem(material, found)]
    if not content:
        content = [element("p", "No gem has a wired arm with a finished pair.")]
    return section(TITLE, *content, anchor="calm", number=7)


def _of_gem(material: Material, found: Verdict) -> list[Markup]:
    pairs = material.pairs(found)
    title = element("h3", f"{found.gem}, wired at a dose of {found.dose:g}")
    whole, repeated = sides(pairs, 1), sides(pairs, FEWEST)
    drawn = [_spread(found, repeated)] if repeated else []
    drawn += [_profile(found, whole)] if whole else []
    few = [] if repeated else [muted(f"The spread needs {FEWEST} pairs in a configuration; there are fewer.")]
    return [title, bullets(_lines(material, found, pairs, repeated)), *few, figures(drawn)]


def sides(pairs: pd.DataFrame, fewest: int) -> Sides | None:
    """Of the configurations with at least `fewest` pairs; None when there is none."""
    enough = pairs[pairs.groupby("config")["seed"].transform("size") >= fewest]
    if enough.empty:
        return None
    codes = pd.factorize(enough["config"])[0].astype(np.int64)
    return Sides(enough["control"].to_numpy(float), enough["treatment"].to_numpy(float), codes)


def _spread(found: Verdict, both: Sides) -> Markup:
    before, after = (median_deviations(side, both.strata) for side in (both.control, both.treatment))
    text = f"Mean distance {plain(before.mean())} probed, {plain(after.mean())} wired. Dots: runs; tick: their mean."
    svg = figure_svg(f"calm-{found.gem}", lambda axes: deviations(axes, before, after), text, 2.2)
    return figure("Distance from the configuration's median", svg, text)


def _profile(found: Verdict, both: Sides) -> Markup:
    tails = [lower_tail(side) for side in (both.control, both.treatment)]
    text = f"Lower tail, mean of the worst tenth of {len(both.control)} runs: {signed(tails[0])} probed, "
    text += f"{signed(tails[1])} wired. A curve further right is better at that share."
    svg = figure_svg(f"profile-{found.gem}", lambda axes: profile(axes, both.control, both.treatment), text, 2.5)
    return figure("Share of runs above each Sharpe", svg, text)


def lower_tail(values: NDArray[np.float64]) -> float:
    """Mean of the worst tenth, at least one value."""
    return float(np.sort(values)[: max(1, round(WORST * len(values)))].mean())


def _lines(material: Material, found: Verdict, pairs: pd.DataFrame, both: Sides | None) -> list[str]:
    failed = [int(pairs[f"failed_{side}"].sum()) for side in ("control", "treatment")]
    lines = [f"failed runs, which stand at the floor: {failed[0]} probed, {failed[1]} wired, of {len(pairs)} each"]
    if both is not None and len(both.control) > 1:
        test = brown_forsythe(both.control, both.treatment, both.strata)
        ratio = (
            f"distance ratio {plain(test.ratio)}, paired Brown-Forsythe p {plain(test.p_less, 3)} for a smaller spread"
        )
        lines.append(f"{ratio}; variance ratio {_variance_ratio(both)}: of all pairs, told and not judged")
    if found.effect is not None:
        bound = f"bound of the rule at {found.effect.n} {material.units}: change of the distance below "
        need = material.rules.steady_units
        lines.append(
            f"{bound}{signed(found.effect.steadiness)}; “steadies” needs it below 0 and {need} {material.units}"
        )
    return lines


def _variance_ratio(both: Sides) -> str:
    try:
        found = paired_variance_ratio(both.control, both.treatment, both.strata)
    except ValueError:  # runs that do not vary, such as failures that all stand at the floor
        return ABSENT
    return f"{plain(found.value)} [{plain(found.interval[0])}, {plain(found.interval[1])}]"

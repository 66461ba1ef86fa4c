"""Stage 1 of the verdict: is a gem's gradient practically zero, judged on its size relative to the C51 gradient?

The size is |coefficient x gradient| / |c51_bs| over the slices that C51 reaches, so that a gem's private head counts
neither for it nor against it.

The unit of evidence is the configuration: its base members are averaged over seeds and folds, because members of one
configuration are not independent. Looks happen at a fixed schedule of configurations in launch order; each look gives
a repeated confidence interval, so that looking often costs no error rate. The replay keeps no state: it runs through
all looks that the data allows, and the first boundary crossed decides. Every verdict here is provisional: a gem whose
signal is real has still to show, with its wired arm, that it helps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import chi2, t

from analysis.boundaries import nominal_levels
from analysis.load import Experiment
from analysis.purity import Purity
from analysis.redundancy import CoMovement, co_movement
from analysis.rules import VerdictRules, planned_rules
from analysis.signals import signals, silent_features
from analysis.text import UNIT, percent, percent_interval

Label = Literal["DELETE", "MORE TRIALS", "INVALID"]
MEMBER = ["trial", "seed", "fold"]  # of one configuration, base arm
Grade = Literal["zero", "candidate", "too few", "undecided", "not measured", "impure"]


@dataclass(frozen=True)
class Look:
    """One look at the first `n` configurations: geometric mean size and its repeated interval, shares of |c51_bs|."""

    n: int
    estimate: float
    low: float
    high: float
    finding: Literal["zero", "candidate", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one gem. Sizes are shares of |c51_bs|; `n` counts configurations; `needed` is None when none is
    needed or none within the schedule would do."""

    gem: str
    label: Label
    grade: Grade
    reason: str
    n: int
    needed: int | None = None
    estimate: float = float("nan")
    interval: tuple[float, float] = (float("nan"), float("nan"))
    looks: tuple[Look, ...] = ()
    slices: Mapping[str, float] = field(default_factory=dict)
    redundancy: tuple[CoMovement, ...] = ()
    absent: tuple[str, ...] = ()  # configurations without a size, or members whose size is no number, with the reason
    stage: int = 1
    provisional: bool = True

    @property
    def title(self) -> str:
        """The label with its grade, as shown in tables."""
        named = {"candidate": "candidate: run the wired arm", "too few": "too few configurations"}
        return f"{self.label} ({named.get(self.grade, self.grade)})"


def verdicts(experiment: Experiment, rules: VerdictRules | None = None) -> list[Verdict]:
    """The stage-1 verdict on every gem, by the rules of the plan unless others are given."""
    rules = rules or planned_rules(experiment.plan)
    names = experiment.gems
    return [
        _with_untested(judge_signal(signals(experiment, gem), purity=experiment.purity, rules=rules, n_gems=len(names)),
                       silent_features(experiment.epochs), experiment.may_duplicate(gem))
        for gem in names
    ]  # fmt: skip


def judge_signal(
    evidence: pd.DataFrame, *, purity: Purity | None = None, rules: VerdictRules | None = None, n_gems: int = 1
) -> Verdict:
    """Stage-1 verdict on the one gem in `evidence` (the frame of `analysis.signals`).

    It has a row per control member and epoch: gem, config, launch, trial, seed, fold, epoch, remaining (epochs
    still to come), status, final, absent, mode, size, value, size/<slice>, feature/<name>. Raises ValueError unless
    it holds exactly one gem.
    """
    rules = rules or VerdictRules()
    names = evidence["gem"].unique()
    if len(names) != 1:
        raise ValueError(f"judge_signal wants the rows of one gem, not of {list(names)}")
    units, absent = unit_sizes(evidence, rules)
    sizes = units["log10_size"].to_numpy(float)
    looks = replay(sizes, rules, n_gems)
    base = Verdict(
        gem=str(names[0]), label="MORE TRIALS", grade="undecided", reason="", n=len(units), looks=looks,
        slices=_slices(evidence, rules), redundancy=_redundancy(evidence), absent=absent,
    )  # fmt: skip
    if purity is not None and purity.state == "impure":
        return replace(base, label="INVALID", grade="impure", reason=f"measuring changes the training: {purity.reason}")
    return _decide(base, sizes, rules, n_gems)


def replay(sizes: np.ndarray, rules: VerdictRules, n_gems: int) -> tuple[Look, ...]:
    """Every look that `sizes` (log10, launch order) allows, in order."""
    levels = nominal_levels(rules.schedule, rules.alpha / n_gems)
    looks = []
    for n, level in zip(rules.schedule, levels, strict=True):
        if n > len(sizes):
            break
        mean = float(sizes[:n].mean())
        half = float(t.isf(level, n - 1) * sizes[:n].std(ddof=1) / np.sqrt(n))
        limit = np.log10(rules.zero_limit)
        finding: Any = "zero" if mean + half < limit else "candidate" if mean - half > limit else "undecided"
        looks.append(Look(n, 10.0**mean, 10.0 ** (mean - half), 10.0 ** (mean + half), finding))
    return tuple(looks)


def unit_sizes(evidence: pd.DataFrame, rules: VerdictRules) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """(config, launch, log10_size, members) of the configurations in launch order up to the first that is not final,
    and what is absent from them, with the reason."""
    rows, absent = [], []
    order = evidence.groupby("config", sort=False)["launch"].min().sort_values(kind="stable")
    groups = dict(iter(evidence.groupby("config", sort=False)))
    for config, launch in order.items():
        rows_of = groups[config]
        if not rows_of["final"].all():
            break
        trained = (rows_of["epoch"] > 0) & (rows_of["status"] == "ok")  # epoch 0 has no gradient to measure
        late = rows_of[(rows_of["remaining"] < rules.size_epochs) & trained]
        members = late[np.isfinite(late["size"])].groupby(MEMBER)["size"].median()
        if members.empty:
            absent.append(f"{config}: {_absence(rows_of)}")
            continue
        if broken := _broken(late):
            absent.append(f"{config}: {broken}")
        size = float(np.log10(np.maximum(members, rules.size_floor)).mean())
        rows.append((config, int(launch), size, len(members)))
    return pd.DataFrame(rows, columns=["config", "launch", "log10_size", "members"]), tuple(absent)


def needed_units(sizes: np.ndarray, rules: VerdictRules, n_gems: int) -> int | None:
    """Smallest later look at which the interval would clear the limit, if the estimate stays and the spread is as
    large as it may well be; None when no look of the schedule would do."""
    n = len(sizes)
    spread = float(sizes.std(ddof=1) * np.sqrt((n - 1) / chi2.ppf(rules.spread_quantile, n - 1)))
    distance = abs(float(sizes.mean()) - np.log10(rules.zero_limit))
    levels = nominal_levels(rules.schedule, rules.alpha / n_gems)
    for size, level in zip(rules.schedule, levels, strict=True):
        if size > n and t.isf(level, size - 1) * spread / np.sqrt(size) < distance:
            return size
    return None


def _decide(base: Verdict, sizes: np.ndarray, rules: VerdictRules, n_gems: int) -> Verdict:
    limit = f"limit {100.0 * rules.zero_limit:g}{UNIT}"
    if not len(sizes) and base.absent:
        return replace(base, grade="not measured", reason=f"no size in any configuration ({base.absent[0]})")
    if not base.looks:
        first = rules.schedule[0]
        reason = f"{len(sizes)} of the {first} configurations that the first look needs"
        return replace(base, grade="too few", needed=first, reason=reason)
    decisive = next((look for look in base.looks if look.finding != "undecided"), None)
    look = decisive or base.looks[-1]
    shown = f"{percent(look.estimate)} of |c51_bs| {percent_interval(look.low, look.high)}"
    base = replace(base, n=look.n, estimate=look.estimate, interval=(look.low, look.high))
    if decisive is None:
        needed = needed_units(sizes[: look.n], rules, n_gems)
        outlook = f"about {needed} configurations would do" if needed else f"{rules.schedule[-1]} may not decide it"
        return replace(base, needed=needed, reason=f"size {shown} straddles the {limit}; {outlook}")
    if decisive.finding == "zero":
        exactly = (sizes[: look.n] <= np.log10(rules.size_floor)).all()
        reason = "gradient is identically zero" if exactly else f"gradient is practically zero: {shown}, {limit}"
        return replace(base, label="DELETE", grade="zero", reason=reason)
    return replace(base, grade="candidate", reason=f"signal is there: {shown}, {limit}; wiring it is not tested yet")


def _absence(rows: pd.DataFrame) -> str:
    named = [cause for cause in rows["absent"].unique() if cause]
    if named:
        return ", ".join(named)
    if (rows["status"] == "frozen").any():
        return "its members froze before the last epochs"
    healthy = rows[(rows["status"] == "ok") & (rows["epoch"] > 0)]
    return _broken(healthy) or "the gem was not measured (off, or its records are damaged)"


def _broken(healthy: pd.DataFrame) -> str:
    """What is wrong with a gem that was on in rows of healthy members and gave no number; "" for nothing."""
    on = healthy[healthy["mode"].isin(["probe", "wired"])]
    bad = on[~(np.isfinite(on["size"]) & np.isfinite(on["value"]))]
    if bad.empty:
        return ""
    what = "size" if np.isfinite(bad["value"]).all() else "value"
    return f"its {what} is not finite in {bad.groupby(MEMBER).ngroups} of {on.groupby(MEMBER).ngroups} healthy members"


def _slices(evidence: pd.DataFrame, rules: VerdictRules) -> dict[str, float]:
    """Geometric mean size by slice over the members' last epochs; slices that the gem cannot reach are left out."""
    late = evidence[(evidence["remaining"] < rules.size_epochs) & (evidence["status"] == "ok")]
    result = {}
    for column in (name for name in evidence.columns if name.startswith("size/")):
        medians = late.groupby(["config", "trial", "seed", "fold"])[column].median().dropna()
        if len(medians):
            logs = np.log10(np.maximum(medians, rules.size_floor)).groupby("config").mean()
            result[column.removeprefix("size/")] = float(10.0 ** logs.mean())
    return result


def _redundancy(evidence: pd.DataFrame) -> tuple[CoMovement, ...]:
    measured = evidence[(evidence["status"] == "ok") & np.isfinite(evidence["size"])]
    features = [name for name in evidence.columns if name.startswith("feature/")]
    results = [co_movement(measured, "size", name) for name in features]
    return tuple(replace(result, feature=result.feature.removeprefix("feature/")) for result in results)


def _with_untested(verdict: Verdict, silent: Sequence[str], suspected: Sequence[str]) -> Verdict:
    """Names the features that redundancy could not be tested against, which is not the same as none being found."""
    tested = {result.feature for result in verdict.redundancy}
    missing = dict.fromkeys(silent, "the feature is off")
    missing |= {name: "the feature is not recorded" for name in suspected if name not in missing}
    extra = [_untested(name, verdict.n, why) for name, why in missing.items() if name not in tested]
    return replace(verdict, redundancy=(*verdict.redundancy, *extra))


def _untested(feature: str, units: int, why: str) -> CoMovement:
    return CoMovement(feature, float("nan"), float("nan"), "raw", units, why)

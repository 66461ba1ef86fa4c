"""Everything that the sections draw from, computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.baselines import Holding, buy_and_hold
from analysis.confirmation import Confirmation, confirmation
from analysis.evidence import unit_sizes
from analysis.gate import Gate, gate_of
from analysis.judge import verdicts
from analysis.load import Experiment
from analysis.report.machines import Machine, machines
from analysis.report.openings import Openings, openings
from analysis.rules import VerdictRules, planned_rules
from analysis.signals import signals
from analysis.verdict import Verdict


@dataclass(frozen=True)
class Material:
    """`claims`: gems times doses, which share alpha. `evidence`: gem -> the rows that stage 1 reads; `sizes`: gem ->
    size of each of its units, in launch order. `pages`: trial -> address of its own page."""

    experiment: Experiment
    rules: VerdictRules
    verdicts: list[Verdict]
    gate: Gate | None
    holding: Holding
    claims: int
    confirmation: Confirmation | None
    machines: tuple[Machine, ...]
    openings: Openings
    evidence: dict[str, pd.DataFrame] = field(default_factory=dict)
    sizes: dict[str, np.ndarray] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> str:
        """The hash of the rules that the plan fixed, when these are others; "" when they are those."""
        planned = str((self.experiment.plan.get("verdict") or {}).get("rules_hash") or "")
        return planned if planned and planned != self.rules.hash else ""

    @property
    def wired(self) -> list[Verdict]:
        """Verdicts on gems with at least one final pair."""
        return [found for found in self.verdicts if found.effects]

    @property
    def units(self) -> str:
        """What is counted: configurations, or the seeds of the only one."""
        return "configurations" if self.rules.unit == "configuration" else "seeds"

    def pairs(self, found: Verdict) -> pd.DataFrame:
        """The final pairs with both scores of the dose that the verdict is about, in launch order."""
        return scored_pairs(self.experiment, found)


def scored_pairs(experiment: Experiment, found: Verdict) -> pd.DataFrame:
    """Rows of `Experiment.pairs` of one gem and dose that are final and have both scores."""
    pairs = experiment.pairs
    own = pairs[(pairs["gem"] == found.gem) & (pairs["dose"] == found.dose) & pairs["final"].astype(bool)]
    return own[own["control"].notna() & own["treatment"].notna()]


def gather(experiment: Experiment, rules: VerdictRules | None = None) -> Material:
    """Judge the experiment and collect what stands beside the verdicts. `rules`: those of the plan unless given."""
    rules = rules or planned_rules(experiment.plan)
    found = verdicts(experiment, rules)
    evidence = {verdict.gem: signals(experiment, verdict.gem) for verdict in found}
    sizes = {gem: size_of_units(rows, rules) for gem, rows in evidence.items()}
    return Material(
        experiment, rules, found, gate_of(experiment, rules.alpha) if found else None, buy_and_hold(experiment),
        count_claims(experiment), confirmation(experiment), machines(experiment), openings(experiment), evidence, sizes,
    )  # fmt: skip


def size_of_units(rows: pd.DataFrame, rules: VerdictRules) -> np.ndarray:
    """Size of each unit of one gem [n], a share of |c51_bs|, from the rows of `analysis.signals`."""
    return 10.0 ** unit_sizes(rows, rules)[0]["log10_size"].to_numpy(float)


def count_claims(experiment: Experiment) -> int:
    """Gems times doses, at least 1: what shares alpha, as `analysis.judge.verdicts` counts it."""
    doses = experiment.pairs.groupby("gem")["dose"].nunique() if len(experiment.pairs) else pd.Series(dtype=int)
    return max(1, sum(max(1, int(doses.get(gem, 0))) for gem in experiment.gems))

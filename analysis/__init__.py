"""Read an experiment as pandas frames, judge its gems, print or write the report. Files in, text and pages out.

import analysis
experiment = analysis.load("experiments/smoke")
experiment.trials.sort_values("objective")
analysis.print_report(experiment)
analysis.write_report(experiment)
"""

from analysis.baselines import against_baselines, buy_and_hold
from analysis.boundaries import nominal_levels
from analysis.further import FurtherArm, further_arms
from analysis.gate import Gate
from analysis.judge import judge, judge_signal, verdicts
from analysis.load import Experiment, load
from analysis.purity import Purity
from analysis.report import write_report
from analysis.rules import VerdictRules, planned_rules
from analysis.signals import signals
from analysis.spread import best_epochs, configuration_spread, learned, variance_sources
from analysis.tables import print_report
from analysis.verdict import Verdict
from trainer.sharpe import FLOOR, SharpeEstimate, iqm, sharpe

__all__ = [
    "FLOOR",
    "Experiment",
    "FurtherArm",
    "Gate",
    "Purity",
    "SharpeEstimate",
    "Verdict",
    "VerdictRules",
    "against_baselines",
    "best_epochs",
    "buy_and_hold",
    "configuration_spread",
    "further_arms",
    "iqm",
    "judge",
    "judge_signal",
    "learned",
    "load",
    "nominal_levels",
    "planned_rules",
    "print_report",
    "sharpe",
    "signals",
    "variance_sources",
    "verdicts",
    "write_report",
]

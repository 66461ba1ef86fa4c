"""Statistics on arrays: one Sharpe ratio, the best of many, two on the same bars, and pairs of runs.

Conventions, everywhere: returns are simple and per bar; standard deviations have ddof 1; skewness and kurtosis are
biased and kurtosis is Pearson's (3 for normal returns); functions that take `periods_per_year` answer in annual units,
those that do not answer per bar. Everything that draws takes a `seed` and repeats itself.
"""

from analysis.statistics.aggregation import aggregated_sharpe, aggregation_factor
from analysis.statistics.arms import (
    iqm_difference,
    iqm_interval,
    optimality_gap,
    probability_of_improvement,
    win_rate,
)
from analysis.statistics.block_bootstrap import BootstrappedDifference, bootstrap_sharpe_difference
from analysis.statistics.bootstrap import Interval
from analysis.statistics.chaos import ChaosFloor, chaos_floor, chaos_of_pairs
from analysis.statistics.deflated import DeflatedSharpe, deflated_sharpe
from analysis.statistics.effective_trials import EffectiveTrials, effective_trials, trial_correlation
from analysis.statistics.equivalence import Equivalence, equivalence
from analysis.statistics.maximum import (
    expected_maximum,
    minimum_backtest_length,
    selection_threshold,
    simulated_maxima,
)
from analysis.statistics.moments import Moments, moments
from analysis.statistics.overfitting import Overfitting, backtest_overfitting
from analysis.statistics.paired import PairedBrownForsythe, PairedDifference, brown_forsythe, paired_difference
from analysis.statistics.power import paired_power, pairs_for_power
from analysis.statistics.probabilistic import minimum_track_record, probabilistic_sharpe
from analysis.statistics.profile import performance_profile
from analysis.statistics.repeated import RepeatedInterval, repeated_intervals
from analysis.statistics.sharpe_difference import SharpeDifference, sharpe_difference
from analysis.statistics.sharpe_errors import SharpeErrors, ar1_se, lo_se, mertens_se, sharpe_errors
from analysis.statistics.variance import component_interval, variance_interval
from analysis.statistics.variance_ratio import VarianceRatio, paired_variance_ratio, variance_ratio
from trainer.sharpe import FLOOR, SharpeEstimate, hac_se, iqm, sharpe

__all__ = [
    "FLOOR",
    "BootstrappedDifference",
    "ChaosFloor",
    "DeflatedSharpe",
    "EffectiveTrials",
    "Equivalence",
    "Interval",
    "Moments",
    "Overfitting",
    "PairedBrownForsythe",
    "PairedDifference",
    "RepeatedInterval",
    "SharpeDifference",
    "SharpeErrors",
    "SharpeEstimate",
    "VarianceRatio",
    "aggregated_sharpe",
    "aggregation_factor",
    "ar1_se",
    "backtest_overfitting",
    "bootstrap_sharpe_difference",
    "brown_forsythe",
    "chaos_floor",
    "chaos_of_pairs",
    "component_interval",
    "deflated_sharpe",
    "effective_trials",
    "equivalence",
    "expected_maximum",
    "hac_se",
    "iqm",
    "iqm_difference",
    "iqm_interval",
    "lo_se",
    "mertens_se",
    "minimum_backtest_length",
    "minimum_track_record",
    "moments",
    "optimality_gap",
    "paired_difference",
    "paired_power",
    "paired_variance_ratio",
    "pairs_for_power",
    "performance_profile",
    "probabilistic_sharpe",
    "probability_of_improvement",
    "repeated_intervals",
    "selection_threshold",
    "sharpe",
    "sharpe_difference",
    "sharpe_errors",
    "simulated_maxima",
    "trial_correlation",
    "variance_interval",
    "variance_ratio",
    "win_rate",
]

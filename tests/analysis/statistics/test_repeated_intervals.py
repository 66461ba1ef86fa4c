"""Vectors of the pairs in launch order: an independent computation of the Lan-DeMets levels."""

import numpy as np
import pytest
from reference_series import OFF, ON
from scipy.stats import t

from analysis.boundaries import nominal_levels
from analysis.statistics import paired_difference, repeated_intervals

SCHEDULE = (8, 12, 18, 27, 40, 60, 90, 135)


def test_the_pairs_at_their_two_looks():
    eight, twelve = repeated_intervals(ON - OFF, SCHEDULE, 0.05)
    assert (eight.n, eight.quantile) == (8, pytest.approx(3.5223702568, abs=1e-8))
    assert (eight.low, eight.high) == pytest.approx((-0.0235126975, 0.2585126975), abs=1e-9)
    assert (twelve.n, twelve.quantile) == (12, pytest.approx(3.2670566411, abs=1e-6))
    assert (twelve.low, twelve.high) == pytest.approx((0.0225196304, 0.2624803696), abs=1e-7)
    assert eight.low < 0.0 < twelve.low  # superiority shows at 12 for the first time


def test_quantiles_of_the_schedule():
    levels = nominal_levels(SCHEDULE, 0.05)
    quantiles = [t.isf(level, n - 1) for level, n in zip(levels, SCHEDULE, strict=True)]
    assert quantiles == pytest.approx([3.522, 3.267, 2.896, 2.632, 2.442, 2.277, 2.143, 2.029], abs=5.1e-4)


def test_looking_at_every_look_keeps_the_level_and_peeking_does_not():
    rng, repeated, naive = np.random.default_rng(7), 0, 0
    for _ in range(800):
        values = rng.standard_normal(60)
        repeated += any(look.low > 0.0 for look in repeated_intervals(values, SCHEDULE, 0.05))
        looks = [n for n in SCHEDULE if n <= 60]
        naive += any(paired_difference(np.zeros(n), values[:n]).p_greater < 0.05 for n in looks)
    assert repeated / 800 < 0.055
    assert naive / 800 > 0.12


def test_values_that_no_look_reaches_give_none():
    assert repeated_intervals(np.zeros(7), SCHEDULE, 0.05) == ()
    with pytest.raises(ValueError, match="increasing"):
        repeated_intervals(ON - OFF, (12, 8), 0.05)

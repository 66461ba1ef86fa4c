"""What a budget can decide: widths, powers, and the figures of the reference."""

import numpy as np
import pytest
from scipy.stats import t

from analysis.outlook import EFFECTS, outlook, seen_sd
from analysis.rules import VerdictRules

RULES = VerdictRules()


def test_only_the_looks_that_the_budget_reaches():
    assert [look.n for look in outlook(RULES, 1, 0.63, 20)] == [5, 8, 12, 18]
    assert outlook(RULES, 1, 0.63, 4) == []


def test_more_gems_widen_the_interval_and_more_configurations_narrow_it():
    one, six = outlook(RULES, 1, 0.63, 135), outlook(RULES, 6, 0.63, 135)
    assert all(a.half_width < b.half_width for a, b in zip(one, six, strict=True))
    assert np.all(np.diff([look.half_width for look in one]) < 0)
    assert np.all(np.diff([look.power for look in one], axis=0) > 0)


def test_power_is_the_share_of_simulated_looks_that_show_the_effect():
    """8,000 sets of 18 differences with sd .63: within 3 standard errors of the share."""
    (look,) = [row for row in outlook(RULES, 1, 0.63, 18) if row.n == 18]
    quantile = look.half_width / 0.63 * np.sqrt(18)
    rng = np.random.default_rng(0)
    for effect, power in zip(EFFECTS, look.power, strict=True):
        drawn = rng.normal(effect, 0.63, (8000, 18))
        shown = drawn.mean(1) > quantile * drawn.std(1, ddof=1) / np.sqrt(18)
        assert shown.mean() == pytest.approx(power, abs=3 * np.sqrt(power * (1 - power) / 8000) + 1e-4)


def test_a_single_look_is_the_t_interval():
    rules = VerdictRules(schedule=(10,))
    (look,) = outlook(rules, 1, 1.0, 10)
    assert look.half_width == pytest.approx(t.isf(0.05, 9) / np.sqrt(10), rel=1e-9)


def test_a_seen_sd_is_raised_for_its_own_uncertainty():
    """Two values, 0 and 2: sd sqrt(2), chi-square(.2; 1 df) .0642: 1.414 / sqrt(.0642) = 5.582."""
    assert seen_sd(np.array([0.0, 2.0])) == pytest.approx(5.582, abs=2e-3)


def test_an_sd_of_nothing_is_refused():
    with pytest.raises(ValueError, match="positive"):
        outlook(RULES, 1, 0.0, 12)

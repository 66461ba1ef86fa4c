"""Vectors of the pairs: pingouin 0.7 (tost, paired); pairs for a power: statsmodels 0.15 (TTestPower)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import OFF, ON
from scipy.stats import ttest_1samp

from analysis.statistics import equivalence, paired_power, pairs_for_power


def test_tost_and_posterior_of_the_reference_pairs():
    found = equivalence(ON - OFF, 0.2)
    assert found.p == pytest.approx(0.07285496309656, abs=1e-13)
    assert (found.above, found.inside) == pytest.approx((0.07285496309656, 0.92714429814), abs=1e-11)
    assert found.below == pytest.approx(7.39e-07, abs=2e-9)
    assert not found.equivalent()
    assert found.equivalent(alpha=0.10)
    narrow = equivalence(ON - OFF, 0.1)
    assert (narrow.inside, narrow.above) == pytest.approx((0.13581757736, 0.86416318867), abs=1e-10)


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(0, 1000), st.floats(0.01, 2.0))
def test_equivalence_is_both_one_sided_tests(count, seed, bound):
    values = np.random.default_rng(seed).standard_normal(count)
    found = equivalence(values, bound)
    low = ttest_1samp(values, -bound, alternative="greater").pvalue
    high = ttest_1samp(values, bound, alternative="less").pvalue
    assert found.p == pytest.approx(max(low, high))
    assert found.below + found.inside + found.above == pytest.approx(1.0)


def test_what_is_not_significant_is_not_zero():
    few = np.array([-1.0, 1.2, 0.1])
    assert ttest_1samp(few, 0.0).pvalue > 0.5
    assert not equivalence(few, 0.2).equivalent()


def test_identical_arms_are_equivalent():
    assert (equivalence(np.zeros(5), 0.05).p, equivalence(np.zeros(5), 0.05).inside) == (0.0, 1.0)
    assert equivalence(np.full(5, 0.05), 0.05).p == 1.0
    with pytest.raises(ValueError, match="bound"):
        equivalence(ON - OFF, 0.0)


@pytest.mark.parametrize(("power", "pairs"), [(0.8, (156, 71, 41, 27, 12, 8)), (0.9, (216, 97, 55, 36, 15, 11))])
def test_pairs_for_a_power(power, pairs):
    assert tuple(pairs_for_power(effect, power) for effect in (0.2, 0.3, 0.4, 0.5, 0.8, 1.0)) == pairs


@settings(deadline=None)
@given(st.floats(0.05, 3.0), st.floats(0.1, 0.99))
def test_the_fewest_pairs_are_the_fewest(effect, power):
    pairs = pairs_for_power(effect, power)
    assert paired_power(effect, pairs) >= power
    assert pairs == 2 or paired_power(effect, pairs - 1) < power


def test_without_an_effect_power_is_the_level():
    assert paired_power(0.0, 12, alpha=0.05) == pytest.approx(0.05)
    with pytest.raises(ValueError, match="effect must be positive"):
        pairs_for_power(0.0)
    with pytest.raises(ValueError, match="more than"):
        pairs_for_power(1e-5)
    with pytest.raises(ValueError, match="pairs must be at least 2"):
        paired_power(0.5, 1)

"""Vectors of the pairs: an independent computation from Miller (1968) and Bonett (2006)."""

import numpy as np
import pytest
from reference_series import CONFIG, OFF, ON

from analysis.statistics import component_interval, paired_variance_ratio, variance_interval, variance_ratio
from analysis.statistics.variance import layout, pooled_within


def test_interval_of_one_variance():
    assert OFF.var(ddof=1) == pytest.approx(0.2038204545, abs=1e-10)
    assert variance_interval(OFF.var(ddof=1), 11) == pytest.approx((0.1022819325, 0.5875715199), abs=1e-9)
    assert variance_interval(1.0, 11) == pytest.approx((0.50, 2.88), abs=0.005)
    assert np.isnan(variance_interval(1.0, 0)).all()
    assert np.isnan(variance_interval(np.nan, 5)).all()


def test_ratio_within_configurations():
    found = paired_variance_ratio(OFF, ON, CONFIG)
    assert pooled_within(ON, CONFIG) == (pytest.approx(0.0405667, abs=1e-7), 9)
    assert pooled_within(OFF, CONFIG)[0] == pytest.approx(0.1013583, abs=1e-7)
    assert np.log(found.value) == pytest.approx(-0.9157153815, abs=1e-9)
    assert (found.log, found.log_se) == pytest.approx((-0.89993103, 0.24307589), abs=1e-8)
    assert found.interval[0] < found.value < found.interval[1] < 1.0


def test_ratio_of_independent_samples():
    found = variance_ratio(OFF, ON)
    assert found.log_se == pytest.approx(0.497284070, abs=1e-8)
    kurtosis = found.log_se**2 * 11 / 2 + 0.75
    assert kurtosis == pytest.approx(2.110102952, abs=1e-8)
    assert found.interval == pytest.approx((0.2417, 1.6978), abs=1e-4)
    assert variance_ratio(ON, OFF).value == pytest.approx(1.0 / found.value)


@pytest.mark.parametrize(("paired", "error"), [(True, 0.06), (False, 0.05)])
def test_intervals_of_the_ratio_cover(paired, error):
    rng, missed = np.random.default_rng(2), []
    for _ in range(400):
        common, own = rng.standard_normal(24), rng.standard_normal((2, 24))
        one, two = (np.sqrt(0.3) * common + np.sqrt(0.7) * noise for noise in own) if paired else own
        found = (paired_variance_ratio if paired else variance_ratio)(one, 2.0 * two)
        missed.append(not found.interval[0] <= 4.0 <= found.interval[1])
    assert np.mean(missed) == pytest.approx(error, abs=0.035)


def test_runs_of_few_configurations_know_a_variance_as_few_do():
    rng = np.random.default_rng(1)
    seeds = rng.standard_normal((4, 10))
    groups = np.repeat(np.arange(4), 10)
    alike = layout(seeds.ravel(), groups)
    assert alike.df == pytest.approx(39, abs=8)
    apart = layout((seeds + 30.0 * rng.standard_normal((4, 1))).ravel(), groups)
    assert apart.df == pytest.approx(3.0, abs=0.1)
    assert layout(np.arange(5.0), np.arange(5)).df == 4.0
    assert layout(np.arange(5.0), np.zeros(5)).df == pytest.approx(4.0)
    assert layout(np.ones(6), [0, 0, 0, 1, 1, 1]).df == 5.0


def test_sums_of_squares_add_up():
    found = layout(OFF, CONFIG)
    assert found.between + found.within == pytest.approx(((OFF - OFF.mean()) ** 2).sum())
    assert (found.n, found.df_between, found.df_within) == (12, 2, 9)


def test_clustered_interval_covers_where_the_naive_one_does_not():
    rng, hits, naive = np.random.default_rng(0), 0, 0
    groups, truth = np.repeat(np.arange(8), 4), (7 * (4 * 4.0 + 1) + 24) / 31  # configurations' sd 2, seeds' 1
    for _ in range(500):
        values = (2.0 * rng.standard_normal((8, 1)) + rng.standard_normal((8, 4))).ravel()
        low, high = variance_interval(values.var(ddof=1), layout(values, groups).df)
        hits += low <= truth <= high
        low, high = variance_interval(values.var(ddof=1), 31)
        naive += low <= truth <= high
    assert hits / 500 == pytest.approx(0.92, abs=0.035)
    assert naive / 500 < 0.80


@pytest.mark.parametrize("deviation", [0.0, 0.5, 2.0])
def test_williams_interval_of_the_net_variance_covers(deviation):
    rng, hits = np.random.default_rng(4), 0
    for _ in range(500):
        values = deviation * rng.standard_normal((8, 1)) + rng.standard_normal((8, 4))
        within = values.var(axis=1, ddof=1).mean()
        low, high = component_interval(values.mean(axis=1).var(ddof=1), 7, within, 24, 4)
        hits += low <= deviation**2 <= high
    assert hits / 500 == pytest.approx(0.955, abs=0.03)
    assert np.isnan(component_interval(1.0, 0, 1.0, 5, 2)).all()
    assert np.isnan(component_interval(1.0, 3, np.nan, 5, 2)).all()


def test_ratios_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="at least 3 pairs"):
        paired_variance_ratio(OFF[:10], ON[:10], CONFIG[:10])
    with pytest.raises(ValueError, match="treatment: no variance"):
        paired_variance_ratio(OFF, np.ones(12))
    with pytest.raises(ValueError, match="control: its values do not vary"):
        variance_ratio(np.ones(12), ON)
    with pytest.raises(ValueError, match="at least 5"):
        variance_ratio(OFF[:4], ON)

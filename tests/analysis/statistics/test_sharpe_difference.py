"""Vectors of `two_funds`: computed independently of our code from the paper of Ledoit and Wolf (2008)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import two_funds
from scipy.stats import norm

from analysis.statistics import bootstrap_sharpe_difference, sharpe_difference
from analysis.statistics.sharpe_difference import ERRORS, iid_difference_se, normal_difference_se


def ar1_pair(rng, rho, bars, mean=0.1):
    noise = rng.standard_normal((bars, 3))
    for t in range(1, bars):
        noise[t] = rho * noise[t - 1] + np.sqrt(1 - rho * rho) * noise[t]
    return mean + noise[:, 0] + noise[:, 1], mean + noise[:, 0] + noise[:, 2]


@pytest.mark.parametrize(
    ("method", "se", "p"),
    [
        ("hac", 0.05878907638395191, 0.24422700182),
        ("prewhitened", 0.06106677919953357, 0.26226546605),
    ],
)
def test_ledoit_wolf_vectors(method, se, p):
    """The error of the paper depends on the unit of the returns; ours is that in units of the common deviation."""
    assert ERRORS[method](*two_funds()) == pytest.approx(se, rel=1e-11)
    found = sharpe_difference(*two_funds(), periods_per_year=1.0, method=method)
    assert found.value == pytest.approx(0.06845907263558386, abs=1e-14)
    assert found.se == pytest.approx(se, rel=1e-3)
    assert found.p == pytest.approx(p, abs=1e-3)
    assert 2.0 * norm.sf(found.value / se) == pytest.approx(p, abs=1e-10)
    assert (found.n, found.method) == (240, method)


def test_bootstrap_vector():
    found = bootstrap_sharpe_difference(*two_funds(), periods_per_year=1.0, block=5, draws=4999, seed=0)
    assert found.value == pytest.approx(0.06845907263558386, abs=1e-14)
    assert found.p == pytest.approx(0.2598, abs=0.02)  # of another generator: three errors of 4,999 draws
    assert found.interval[0] < 0.0 < found.interval[1]
    again = bootstrap_sharpe_difference(*two_funds(), periods_per_year=1.0, block=5, draws=4999, seed=0)
    assert found == again


def test_independent_errors_are_the_spread_of_a_simulation():
    rng, bars = np.random.default_rng(2), 200
    common, own = rng.standard_normal((3000, bars)), rng.standard_normal((2, 3000, bars))
    first, second = 0.3 + common + own[0], 0.1 + common + own[1]
    ratios = [returns.mean(axis=1) / returns.std(axis=1, ddof=1) for returns in (first, second)]
    spread = (ratios[0] - ratios[1]).std()
    assert np.mean([normal_difference_se(*pair) for pair in zip(first, second, strict=True)]) == pytest.approx(
        spread, rel=0.04
    )
    assert np.mean([iid_difference_se(*pair) for pair in zip(first, second, strict=True)]) == pytest.approx(
        spread, rel=0.04
    )


def test_memmels_formula_on_exact_moments():
    one, two = two_funds()
    a, b, r = one.mean() / one.std(ddof=1), two.mean() / two.std(ddof=1), np.corrcoef(one, two)[0, 1]
    variance = (2.0 - 2.0 * r + 0.5 * (a**2 + b**2 - 2.0 * a * b * r**2)) / 240
    assert normal_difference_se(one, two) == pytest.approx(np.sqrt(variance), rel=1e-13)


def test_only_the_stationary_errors_keep_their_level_under_autocorrelation():
    rng, rejected = np.random.default_rng(6), {"hac": 0, "prewhitened": 0, "normal": 0, "bootstrap": 0}
    for _ in range(250):
        pair = ar1_pair(rng, 0.4, 250)
        for method in ("hac", "prewhitened", "normal"):
            rejected[method] += sharpe_difference(*pair, periods_per_year=1.0, method=method).p < 0.05
        found = bootstrap_sharpe_difference(*pair, periods_per_year=1.0, block=10, draws=199)
        rejected["bootstrap"] += found.p <= 0.05
    share = {name: count / 250 for name, count in rejected.items()}
    assert share["normal"] > 0.13
    assert max(share["prewhitened"], share["bootstrap"]) < 0.10
    assert share["hac"] < 0.12


def test_annual_units_scale_the_difference_and_not_the_p_value():
    bar, year = (sharpe_difference(*two_funds(), periods_per_year=periods) for periods in (1.0, 252.0))
    assert (year.value, year.se) == pytest.approx((bar.value * np.sqrt(252), bar.se * np.sqrt(252)))
    assert year.p == pytest.approx(bar.p)
    boot = bootstrap_sharpe_difference(*two_funds(), periods_per_year=252.0, draws=99)
    assert boot.value == pytest.approx(year.value)


@settings(deadline=None)
@given(st.floats(1e-4, 1e4), st.sampled_from(list(ERRORS)))
def test_the_unit_changes_nothing_and_order_the_sign(unit, method):
    one, two = two_funds()
    found = sharpe_difference(one, two, periods_per_year=1.0, method=method)
    back = sharpe_difference(two * unit, one * unit, periods_per_year=1.0, method=method)
    assert (back.value, back.p) == pytest.approx((-found.value, found.p), rel=1e-7)


def test_a_series_that_trades_twice_gives_no_certainty():
    one, _ = two_funds()
    rare = np.zeros(240)
    rare[[60, 61]] = 1.0, 0.5
    found = bootstrap_sharpe_difference(one, rare, periods_per_year=1.0, draws=199)  # draws without a trade
    assert 0.0 < found.p <= 1.0
    assert found.interval[1] == np.inf


def test_a_series_against_itself_does_not_differ():
    one, two = two_funds()
    for method in ERRORS:
        for scale in (1.0, 3.0):
            assert sharpe_difference(one, scale * one, periods_per_year=252, method=method).p == 1.0
    with pytest.raises(ValueError, match="same series"):
        bootstrap_sharpe_difference(one, one, periods_per_year=252)
    with pytest.raises(ValueError, match="method must be one of hac, prewhitened, iid, normal"):
        sharpe_difference(one, two, periods_per_year=252, method="welch")
    with pytest.raises(ValueError, match="second: the returns do not vary"):
        sharpe_difference(one, np.zeros(240), periods_per_year=252)
    with pytest.raises(ValueError, match="at least 20"):
        sharpe_difference(one[:19], two[:19], periods_per_year=252)
    with pytest.raises(ValueError, match="block must lie"):
        bootstrap_sharpe_difference(one, two, periods_per_year=252, block=121)
    with pytest.raises(ValueError, match="draws"):
        bootstrap_sharpe_difference(one, two, periods_per_year=252, draws=0)

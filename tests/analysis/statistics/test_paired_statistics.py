"""Vectors of the pairs: scipy and statsmodels 0.15 (t-test), an independent computation (Brown-Forsythe)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import CONFIG, OFF, ON

from analysis.statistics import brown_forsythe, paired_difference


def test_paired_t_of_the_reference_pairs():
    found = paired_difference(OFF, ON)
    assert np.corrcoef(OFF, ON)[0, 1] == pytest.approx(0.97528707, abs=1e-8)
    assert (found.n, found.mean, found.sd) == pytest.approx((12, 0.1425, 0.1272167084509378), abs=1e-14)
    assert found.se == pytest.approx(0.0367243004, abs=1e-10)  # least squares with a dummy a pair gives the same
    assert found.t == pytest.approx(3.8802645200296495, abs=1e-12)
    assert found.p == pytest.approx(0.002562195809506048, abs=1e-14)
    assert found.p_greater == pytest.approx(0.001281097904753, abs=1e-14)
    assert found.interval == pytest.approx((0.06167036, 0.22332964), abs=1e-8)
    assert paired_difference(OFF, ON, level=0.90).interval == pytest.approx((0.07654739, 0.20845261), abs=1e-8)
    assert found.effect == pytest.approx(1.120135882583, abs=1e-11)
    assert (found.wins, found.ties) == (10, 0)


def test_paired_brown_forsythe_of_the_reference_pairs():
    found = brown_forsythe(OFF, ON, CONFIG)
    assert (found.t, found.mean, found.se) == pytest.approx((-3.83395963, -0.09083333, 0.02369178), abs=1e-8)
    assert found.p_less == pytest.approx(0.00138767, abs=1e-8)
    assert (found.n, found.spare) == (12, 9)
    assert 0.0 < found.ratio < 1.0


def test_brown_forsythe_keeps_its_level_under_heavy_tails():
    """24 pairs, t3, correlation 0.3: the reference measured 0.043; a test on the variances themselves 0.147."""
    rng, rejected = np.random.default_rng(3), []
    for _ in range(1000):
        common, own = rng.standard_t(3, 24), rng.standard_t(3, (2, 24))
        one, two = (np.sqrt(0.3) * common + np.sqrt(0.7) * noise for noise in own)
        found = brown_forsythe(one, two)
        rejected.append(2.0 * min(found.p_less, 1.0 - found.p_less) < 0.05)
    assert np.mean(rejected) == pytest.approx(0.043, abs=0.02)


def test_a_smaller_spread_is_seen_and_a_shift_is_none():
    rng = np.random.default_rng(0)
    control = rng.standard_normal(60)
    assert brown_forsythe(control, 0.4 * control + 5.0).p_less < 1e-6
    assert brown_forsythe(control, 0.4 * control + 5.0).ratio == pytest.approx(0.4)
    shifted = brown_forsythe(control, control + 5.0)  # their deviations differ by rounding, which proves nothing
    assert (shifted.t, shifted.p_less) == (0.0, 0.5)
    by_config = np.repeat([0.0, 50.0], 30)  # configurations that differ a lot are no spread of seeds
    assert brown_forsythe(control + by_config, 0.4 * control, np.repeat(["a", "b"], 30)).ratio == pytest.approx(
        0.4, abs=0.01
    )


def test_identical_arms_differ_by_nothing():
    found = paired_difference(OFF, OFF)
    assert (found.t, found.p, found.effect, found.ties) == (0.0, 1.0, 0.0, 12)
    assert found.interval == (0.0, 0.0)
    spread = brown_forsythe(OFF, OFF, CONFIG)
    assert (spread.t, spread.p_less, spread.ratio) == (0.0, 0.5, 1.0)
    shifted = paired_difference(np.zeros(8), np.full(8, 0.5))
    assert (shifted.t, shifted.p) == (np.inf, 0.0)
    assert np.isnan(brown_forsythe(np.zeros(8), np.zeros(8)).ratio)


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(0, 1000))
def test_swapping_the_arms_turns_the_sign(count, seed):
    one, two = np.random.default_rng(seed).standard_normal((2, count))
    there, back = paired_difference(one, two), paired_difference(two, one)
    assert (back.mean, back.t, back.p) == pytest.approx((-there.mean, -there.t, there.p))
    assert back.p_greater == pytest.approx(1.0 - there.p_greater)
    assert brown_forsythe(two, one).p_less == pytest.approx(1.0 - brown_forsythe(one, two).p_less)


def test_rows_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="control has 11 values and treatment has 12"):
        paired_difference(OFF[:11], ON)
    with pytest.raises(ValueError, match="different indexes; align them"):
        paired_difference(pd.Series(OFF), pd.Series(ON, index=range(1, 13)))
    with pytest.raises(ValueError, match=r"treatment: 1 of 12 values are not finite; the first is at \(3,\)"):
        paired_difference(OFF, np.where(np.arange(12) == 3, np.nan, ON))
    with pytest.raises(ValueError, match="control: 1 values, at least 2"):
        paired_difference([0.1], [0.2])
    with pytest.raises(ValueError, match="treatment: expected one dimension"):
        brown_forsythe(OFF, ON.reshape(3, 4))

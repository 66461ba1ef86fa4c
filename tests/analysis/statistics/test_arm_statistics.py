"""Vectors of ARM_A and ARM_B: rliable 1.2.0, which draws each task apart and forgets the pairing; ours draws rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import ARM_A, ARM_B, CONFIG, OFF, ON, TASK
from scipy.stats import mannwhitneyu

from analysis.statistics import (
    iqm,
    iqm_difference,
    iqm_interval,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    win_rate,
)
from analysis.statistics.bootstrap import bootstrap


def test_iqm_and_its_interval():
    found = iqm_interval(ARM_A, TASK, draws=20_000)
    assert found.value == pytest.approx(0.35625)
    assert (found.low, found.high) == pytest.approx((0.23125, 0.51875), abs=0.013)  # one step of the bootstrap's grid
    assert iqm_interval(ARM_B, TASK, draws=10).value == pytest.approx(0.41875)
    assert (ARM_A.mean(), ARM_B.mean()) == pytest.approx((0.390625, 0.446875))


def test_optimality_gap():
    assert optimality_gap(ARM_A, 1.0, TASK).value == pytest.approx(0.609375)
    assert optimality_gap(ARM_B, 1.0, TASK).value == pytest.approx(0.553125)
    assert optimality_gap(ARM_A + 2.0, 1.0, TASK).value == 0.0  # what lies above the target earns nothing


def test_improvement_with_any_seed_and_with_the_same():
    assert probability_of_improvement(ARM_A, ARM_B, TASK).value == pytest.approx(0.57421875)
    assert win_rate(ARM_A, ARM_B, TASK).value == pytest.approx(0.75)
    assert win_rate(OFF, ON, CONFIG).value == pytest.approx(10 / 12)


def test_performance_profile():
    profile = performance_profile(ARM_A, [0.25, 0.5], TASK)
    assert list(profile["share"]) == pytest.approx([0.625, 0.25])
    assert list(profile.columns) == ["share", "low", "high"]
    assert ((profile["low"] < profile["share"]) & (profile["share"] < profile["high"])).all()
    assert profile.index.name == "threshold"


def test_iqm_of_the_pairs_and_their_difference():
    found = iqm_difference(OFF, ON, CONFIG)
    assert (iqm(OFF), iqm(ON)) == pytest.approx((0.5933333333, 0.7066666667))
    assert found.value == pytest.approx(iqm(ON) - iqm(OFF))
    assert 0.0 < found.low < found.value < found.high


def test_drawing_pairs_keeps_what_pairing_won():
    """The pairs correlate by 0.975; drawing the arms apart would widen the interval several times."""
    found = iqm_difference(OFF, ON, CONFIG)
    rng = np.random.default_rng(0)
    apart = []
    for _ in range(2000):
        rows = [np.concatenate([4 * c + rng.integers(0, 4, 4) for c in range(3)]) for _ in range(2)]
        apart.append(iqm(ON[rows[1]]) - iqm(OFF[rows[0]]))
    width = np.subtract(*np.quantile(apart, [0.975, 0.025]))
    assert width > 2.0 * (found.high - found.low)


def test_a_seed_repeats_and_strata_stay_apart():
    one, two = (iqm_difference(OFF, ON, CONFIG, seed=4, draws=500) for _ in range(2))
    assert one == two
    assert one != iqm_difference(OFF, ON, CONFIG, seed=5, draws=500)
    far = OFF + 100.0 * CONFIG  # an unstratified bootstrap would spread over hundreds
    inside = bootstrap(lambda values: values.mean(axis=-1), far, strata=CONFIG, draws=500)
    assert inside.high - inside.low < 1.0
    outside = bootstrap(lambda values: values.mean(axis=-1), far, draws=500)
    assert outside.high - outside.low > 50.0


def test_rows_may_come_in_any_order():
    order = np.random.default_rng(1).permutation(12)
    shuffled = probability_of_improvement(OFF[order], ON[order], CONFIG[order], draws=4000)
    assert shuffled.value == pytest.approx(probability_of_improvement(OFF, ON, CONFIG, draws=10).value)
    assert bootstrap(
        lambda values: values.max(axis=-1) - values.min(axis=-1), CONFIG[order] * 1.0, strata=CONFIG[order], draws=50
    ).low == pytest.approx(2.0)


def test_interval_covers_the_mean_as_often_as_it_says():
    rng, hits = np.random.default_rng(9), 0
    for _ in range(300):
        found = bootstrap(lambda v: v.mean(axis=-1), rng.standard_normal(40), draws=400)
        hits += found.low <= 0.0 <= found.high
    assert hits / 300 == pytest.approx(0.94, abs=0.04)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=30))
def test_improvement_is_mann_whitney_and_losing_is_the_rest(pairs):
    one, two = np.array(pairs, dtype=float).T
    found = probability_of_improvement(one, two, draws=1).value
    assert found == pytest.approx(mannwhitneyu(two, one).statistic / len(one) ** 2)
    assert found + probability_of_improvement(two, one, draws=1).value == pytest.approx(1.0)
    assert win_rate(one, two, draws=1).value + win_rate(two, one, draws=1).value == pytest.approx(1.0)


def test_nothing_to_draw_from_is_refused():
    with pytest.raises(ValueError, match="every configuration has one value; leave strata out"):
        iqm_difference(OFF[:3], ON[:3], [0, 1, 2])
    with pytest.raises(ValueError, match="one value"):
        iqm_interval([0.3])
    with pytest.raises(ValueError, match="12 labels for 11 values"):
        iqm_difference(OFF[:11], ON[:11], CONFIG)
    with pytest.raises(ValueError, match="label at 1 is missing"):
        iqm_interval([0.1, 0.2], ["a", None])
    with pytest.raises(ValueError, match="level"):
        iqm_interval(OFF, level=95.0)
    with pytest.raises(ValueError, match="draws"):
        iqm_interval(OFF, draws=0)

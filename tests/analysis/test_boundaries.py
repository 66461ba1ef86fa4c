import numpy as np
import pytest
from scipy.stats import norm

from analysis import boundaries
from analysis.boundaries import nominal_levels, spent

SCHEDULE = (8, 12, 18, 27, 40, 60, 90, 135)


@pytest.mark.parametrize(
    ("schedule", "alpha", "levels"),
    [
        (SCHEDULE, 0.05, [0.004848, 0.003752, 0.005026, 0.007044, 0.009611, 0.013200, 0.017428, 0.022208]),
        (SCHEDULE, 0.05 / 6, [0.000808, 0.000557, 0.000740, 0.001028, 0.001381, 0.001872, 0.002423, 0.003018]),
        (SCHEDULE[:-1], 0.05, [0.007107, 0.005531, 0.007265, 0.009932, 0.013169, 0.017478, 0.022252]),
    ],
)
def test_levels_of_the_published_schedules(schedule, alpha, levels):
    assert nominal_levels(schedule, alpha) == pytest.approx(levels, abs=6e-7)


def test_five_equal_looks_give_the_published_pocock_type_bounds():
    bounds = norm.isf(nominal_levels((10, 20, 30, 40, 50), 0.025))
    assert bounds == pytest.approx([2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=1.5e-4)


def test_the_recursion_gives_the_published_obrien_fleming_type_bounds(monkeypatch):
    """Another spending function in the same recursion: its bounds lie where the integrals are hardest."""
    monkeypatch.setattr(boundaries, "spent", lambda share, alpha: 2.0 * norm.sf(norm.isf(alpha / 2.0) / np.sqrt(share)))
    levels = boundaries._levels.__wrapped__((10, 20, 30, 40, 50), 0.025)
    assert norm.isf(levels) == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=1.5e-4)


def test_one_look_spends_everything():
    assert nominal_levels((12,), 0.05) == pytest.approx([0.05])
    assert spent(1.0, 0.05) == pytest.approx(0.05)


def test_all_looks_together_keep_the_level():
    schedule, alpha = (5, 8, 12, 18, 27, 40, 60, 90, 135), 0.05
    bounds = norm.isf(nominal_levels(schedule, alpha))
    walks = np.random.default_rng(5).standard_normal((20_000, schedule[-1])).cumsum(axis=1)
    looks = np.array(schedule)
    crossed = (walks[:, looks - 1] / np.sqrt(looks) > bounds).any(axis=1).mean()
    assert crossed == pytest.approx(alpha, abs=0.005)


@pytest.mark.parametrize("schedule", [(), (8, 8), (12, 8), (1, 5)])
def test_a_schedule_that_does_not_increase_is_refused(schedule):
    with pytest.raises(ValueError, match="increasing"):
        nominal_levels(schedule, 0.05)


def test_alpha_out_of_range_is_refused():
    with pytest.raises(ValueError, match="alpha"):
        nominal_levels(SCHEDULE, 0.7)

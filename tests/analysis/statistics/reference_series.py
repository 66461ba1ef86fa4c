"""Data behind the literal vectors of these tests."""

import numpy as np

# Monthly example series of jsharpe's README (MIT).
R36 = np.array([21, -14, 38, 6, -22, 41, 13, 29, -8, 34, 17, -11, 25, 9, 31, -19, 22, 14, 37, -6, 28, 11, 19, 33, 7, 24,
                -13, 36, 15, 27, 4, 32, -17, 23, 18, 30]) / 1000.0  # fmt: skip

# Twelve pairs of runs, 3 configurations x 4 seeds, annualised Sharpe; made up.
CONFIG = np.repeat([0, 1, 2], 4)
OFF = np.array([0.42, 0.91, 0.13, 0.77, 1.10, 0.65, 1.32, 0.88, 0.05, 0.51, 0.33, -0.20])
ON = np.array([0.55, 0.98, 0.41, 0.80, 1.21, 0.90, 1.25, 1.02, 0.30, 0.49, 0.52, 0.15])

# Two arms, 8 runs x 2 tasks; the figures quoted for them come from rliable 1.2.0.
TASK = np.tile([0, 1], 8)
ARM_A = np.array([0.10, 0.40, 0.30, 0.20, 0.20, 0.60, 0.50, 0.80, 0.0, 0.30, 0.90, 0.10, 0.40, 0.50, 0.25, 0.70])
ARM_B = np.array([0.20, 0.50, 0.35, 0.20, 0.30, 0.55, 0.60, 0.90, 0.10, 0.35, 0.80, 0.30, 0.55, 0.45, 0.25, 0.75])


def two_funds():
    """240 bars of two correlated series, rounded to three digits."""
    rng = np.random.default_rng(7)
    market, first, second = (rng.standard_normal(240) for _ in range(3))
    return (0.1 + 0.8 * market + 0.6 * first).round(3), (0.02 + 0.8 * market + 0.6 * second).round(3)


def ten_trials(skill=0.0):
    """240 bars of 10 trials without skill, but for `skill` a bar in trial 3."""
    table = np.random.default_rng(42).standard_normal((240, 10)) * 0.01
    table[:, 3] += skill
    return table


def equicorrelated(count, rho):
    return np.full((count, count), rho) + (1.0 - rho) * np.eye(count)

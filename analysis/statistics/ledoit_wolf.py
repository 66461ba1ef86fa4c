"""HAC error of the difference of two Sharpe ratios. Ledoit and Wolf (2008), J. Empirical Finance 15, section 3.1.

The difference is a smooth function of the means and second moments of both series, so its error follows by the delta
method from their long-run covariance: Parzen kernel, bandwidth of Andrews (1991) from AR(1) fits, and optionally
prewhitened by a VAR(1) (Andrews and Monahan 1992).
"""

from __future__ import annotations

import numpy as np

from analysis.statistics.arrays import Matrix, Vector

PARAMETERS = 4  # estimated: two means and two second moments
LARGEST = 0.97  # singular value of the VAR(1): near 1 the recolouring explodes


def hac_difference_se(first: Vector, second: Vector) -> float:
    """Per-bar standard error of SR1 - SR2 for stationary returns."""
    return _delta(first, second, _long_run(moment_deviations(first, second)))


def prewhitened_difference_se(first: Vector, second: Vector) -> float:
    """The same with a VAR(1) taken out first; better with strong autocorrelation or volatility clusters."""
    deviations = moment_deviations(first, second)
    before, after = deviations[:-1], deviations[1:]
    slope, *_ = np.linalg.lstsq(before, after, rcond=None)
    left, values, right = np.linalg.svd(slope.T)
    step = left @ np.diag(np.minimum(values, LARGEST)) @ right
    recolour = np.linalg.inv(np.eye(PARAMETERS) - step)
    return _delta(first, second, recolour @ _long_run(after - before @ step.T) @ recolour.T)


def moment_deviations(first: Vector, second: Vector) -> Matrix:
    """[T, 4]: returns and squared returns of both series, less their means."""
    table = np.column_stack([first, second, first * first, second * second])
    return table - table.mean(axis=0)


def gradient(first: Vector, second: Vector) -> Vector:
    """Derivative of SR1 - SR2 with respect to the two means and the two second moments."""
    one, two = first.var() ** -1.5, second.var() ** -1.5
    return np.array(
        [(first**2).mean() * one, -(second**2).mean() * two, -0.5 * first.mean() * one, 0.5 * second.mean() * two]
    )


def _delta(first: Vector, second: Vector, covariance: Matrix) -> float:
    slope = gradient(first, second)
    return float(np.sqrt(max(float(slope @ covariance @ slope), 0.0) / len(first)))


def _long_run(deviations: Matrix) -> Matrix:
    count = len(deviations)
    bandwidth = 2.6614 * (_andrews(deviations) * count) ** 0.2
    total = deviations.T @ deviations / count
    for lag in range(1, min(int(np.ceil(bandwidth)), count)):
        cross = deviations[lag:].T @ deviations[:-lag] / count
        total = total + _parzen(lag / bandwidth) * (cross + cross.T)
    return total * count / (count - PARAMETERS)


def _andrews(deviations: Matrix) -> float:
    """alpha(2) of Andrews (1991), equation 6.4, with unit weights, from an AR(1) with intercept of each column."""
    numerator = denominator = 0.0
    for column in deviations.T:
        design = np.column_stack([np.ones(len(column) - 1), column[:-1]])
        (level, rho), *_ = np.linalg.lstsq(design, column[1:], rcond=None)
        variance = float(((column[1:] - level - rho * column[:-1]) ** 2).mean())
        numerator += 4.0 * rho**2 * variance**2 / (1.0 - rho) ** 8
        denominator += variance**2 / (1.0 - rho) ** 4
    return numerator / denominator


def _parzen(share: float) -> float:
    return 1.0 - 6.0 * share**2 + 6.0 * share**3 if share <= 0.5 else 2.0 * (1.0 - share) ** 3

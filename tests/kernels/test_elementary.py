"""exp and log out of sums and products: their error, their ends, and the same bits from plain Python and compiled."""

import numpy as np
import pytest
from numba import njit

from numba_kernels import elementary
from numba_kernels.cpu_target import for_cpu

COMPILED = for_cpu(elementary)


def compiled(name):
    scalar = getattr(COMPILED, name)

    @njit(error_model="numpy")
    def over(values, out):
        for i in range(values.size):
            out[i] = scalar(values[i])

    def run(values):
        values = np.asarray(values, np.float32)
        out = np.empty_like(values)
        over(values, out)
        return out

    return run


EXP, LOG = compiled("exp_below"), compiled("log_of")
RANDOM = np.random.default_rng(0)
BELOW = RANDOM.uniform(-87.0, 0.0, 200_000).astype(np.float32)
POSITIVE = np.exp(RANDOM.uniform(-80.0, 80.0, 200_000)).astype(np.float32)


def ulps(found, exact):
    return np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))


def test_exp_is_good_to_two_ulp_where_softmax_asks_for_it():
    assert ulps(EXP(BELOW), np.exp(BELOW.astype(np.float64))).max() < 2.0


def test_log_is_good_to_two_ulp():
    near_one = RANDOM.uniform(0.5, 2.0, 100_000).astype(np.float32)
    for values in (POSITIVE, near_one):
        exact = np.log(values.astype(np.float64))
        assert (np.abs(LOG(values) - exact) <= 2.0 * np.spacing(np.abs(exact).astype(np.float32)) + 1e-9).all()


def test_the_ends():
    assert EXP([0.0, -0.0, -87.1, -1e30, -np.inf]).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert np.isnan(EXP([np.nan])).all()
    assert LOG([1.0]).tolist() == [0.0]
    assert np.isnan(LOG([np.nan, np.inf])).all()
    assert LOG([2.0**-126]).tolist() == pytest.approx([-126 * np.log(2)], rel=1e-6)


@pytest.mark.parametrize(("plain", "fast", "values"), [("exp_below", EXP, BELOW), ("log_of", LOG, POSITIVE)])
def test_plain_python_gives_the_compiled_bits(plain, fast, values):
    values = values[:2000]
    with np.errstate(all="ignore"):
        slow = np.array([getattr(elementary, plain)(v) for v in values], np.float32)
    assert np.array_equal(slow.view(np.int32), fast(values).view(np.int32))

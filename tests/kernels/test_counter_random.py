"""Counter-based random numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_kernels import splitmix64, uniform

WORD = 2**64


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


def reference(key, purpose, step, n):
    """The same function in Python's unbounded integers."""
    gamma = 0x9E3779B97F4A7C15
    a = mix((key + gamma) % WORD) ^ purpose
    seed = (mix(((mix(a) + gamma) % WORD) ^ step) + gamma) % WORD
    return (mix((seed + (n + 1) * gamma) % WORD) >> 40) / 2**24


@pytest.mark.parametrize(
    ("seed", "words"),
    [(0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]), (1234567, [6457827717110365317, 3203168211198807973])],
)
def test_words_are_the_published_ones_of_splitmix64(seed, words):
    with np.errstate(over="ignore"):
        assert [int(splitmix64.output(np.uint64(seed), np.uint64(n))) for n in range(2)] == words


@settings(max_examples=50, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, WORD - 1), st.integers(-(2**63), 2**63 - 1), st.integers(1, 40))
def test_numbers_are_those_of_exact_integer_arithmetic(key, purpose, step, columns):
    out = torch.zeros(1, columns)
    uniform(torch.tensor([key]), purpose, torch.tensor([step]), out)
    assert out[0].tolist() == [reference(key % WORD, purpose, step % WORD, n) for n in range(columns)]


def test_numbers_are_uniform_and_streams_unrelated():
    n = 20_000
    out = torch.zeros(3, n)
    uniform(torch.tensor([1, 1, 2]), 0, torch.tensor([1, 2, 1]), out)
    u = out.double().numpy()
    assert u.min() >= 0.0
    assert u.max() < 1.0
    counts = np.stack([np.histogram(row, 20, (0.0, 1.0))[0] for row in u])
    chi_square = ((counts - n / 20) ** 2 / (n / 20)).sum(1)
    assert chi_square.max() < 50.0  # 19 degrees of freedom: P(> 50) = 1.3e-4
    assert np.abs(np.corrcoef(np.vstack([u, np.roll(u, 1, 1)])) - np.eye(6)).max() < 5.0 / np.sqrt(n)


def test_purpose_column_and_width_decide_nothing_else():
    key, step = torch.tensor([5]), torch.tensor([9])
    narrow, wide, other = torch.zeros(1, 4), torch.zeros(1, 300), torch.zeros(1, 4)
    uniform(key, 1, step, narrow)
    uniform(key, 1, step, wide)
    uniform(key, 2, step, other)
    assert torch.equal(wide[:, :4], narrow)
    assert not torch.isin(other, narrow).any()

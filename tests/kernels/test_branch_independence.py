"""G6: squared cross-correlation of two branches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_kernels import ArgumentError, branch_independence


def run(x, y):
    """(value, grad_x, grad_y) of float32 copies of x and y [P, B, H]."""
    x, y = (torch.as_tensor(a, dtype=torch.float32).contiguous() for a in (x, y))
    value, grad_x, grad_y = torch.zeros(len(x)), torch.zeros_like(x), torch.zeros_like(y)
    branch_independence(x, y, torch.ones(len(x), dtype=torch.int32), value, grad_x, grad_y)
    return value, grad_x, grad_y


def autograd(x, y):
    """The same from torch's float64 autograd."""
    x, y = (torch.as_tensor(a, dtype=torch.float32).double().requires_grad_() for a in (x, y))
    standard = [(a - a.mean(1, keepdim=True)) / a.std(1, keepdim=True) for a in (x, y)]
    value = (standard[0].transpose(1, 2) @ standard[1] / (x.shape[1] - 1)).square().sum((1, 2))
    return value.detach(), *torch.autograd.grad(value.sum(), (x, y))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(3, 70), st.integers(1, 40), st.integers(1, 20), st.sampled_from([0.0, 10.0]), st.integers(0, 2**32 - 1)
)
def test_value_and_gradients_are_those_of_autograd(samples, width, height, offset, seed):
    g = np.random.default_rng(seed)
    x = offset + g.normal(size=(2, samples, width)) * g.uniform(0.1, 10.0, width)
    y = g.normal(size=(2, samples, height))
    got, exact = run(x, y), autograd(x, y)
    np.testing.assert_allclose(got[0], exact[0], rtol=2e-4)
    for gradient, reference, features in zip(got[1:], exact[1:], (x, y), strict=True):
        deviation = torch.from_numpy(features).std(1, keepdim=True)  # a gradient's natural unit is 1/sd of its column
        error, size = ((gradient - reference) * deviation).abs().max(), (reference * deviation).abs().max()
        assert error <= 3e-4 * size + 1e-4 * max(width, height)


def test_literal_vector():
    """rl.md's cross-covariance example, standardised. Columns of X: (1, 0, -1, 0), (0, 1, 0, -1); Y: (1, 0, -1, 0).

    Each has mean 0 and sd sqrt(2/3), so X~ and Y~ are those columns times sqrt(3/2): C = (3/2)(2, 0)/3 = (1, 0). The
    first pair is perfectly correlated, the second uncorrelated, so the value is 1; being a maximum and a zero of the
    squared correlations, both gradients vanish.
    """
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]])
    value, grad_x, grad_y = run(x, x[..., :1])
    assert value.item() == pytest.approx(1.0, rel=1e-6)
    assert grad_x.abs().max() < 1e-6
    assert grad_y.abs().max() < 1e-6


def test_literal_gradient():
    """x = (0, 0, 1), y = (0, 1, 1): correlation 1/2, value 1/4.

    X~ = (-1, -1, 2)/sqrt(3), Y~ = (-2, 1, 1)/sqrt(3), sd = 1/sqrt(3): gradient 2/(2 sd) (C Y~ - C^2 X~)
    = (1/2)(-2, 1, 1) - (1/4)(-1, -1, 2) = (-3/4, 3/4, 0).
    """
    value, grad_x, _ = run([[[0.0], [0.0], [1.0]]], [[[0.0], [1.0], [1.0]]])
    assert value.item() == pytest.approx(0.25, rel=1e-6)
    np.testing.assert_allclose(grad_x[0, :, 0], [-0.75, 0.75, 0.0], atol=1e-6)


def test_scale_and_shift_of_a_column_change_nothing():
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(1, 30, 4, generator=g), torch.randn(1, 30, 3, generator=g)
    assert run(4.0 * x, y)[0] == run(x, y)[0]
    assert run(x + 2.0, y)[0].item() == pytest.approx(run(x, y)[0].item(), rel=1e-5)


def test_constant_columns_count_as_zeros():
    g = torch.Generator().manual_seed(2)
    x, y = torch.randn(1, 30, 4, generator=g), torch.randn(1, 30, 3, generator=g)
    for constant in (0.0, 0.1, 1e6):  # 0.1 is no binary fraction: its mean must still be itself
        x[..., 1] = constant
        value, grad_x, grad_y = run(x, y)
        rest = run(x[..., [0, 2, 3]], y)
        assert value.item() == pytest.approx(rest[0].item(), rel=1e-6)
        assert torch.equal(grad_x[..., 1], torch.zeros(1, 30))
        assert torch.allclose(grad_y, rest[2], rtol=1e-5, atol=1e-7)
    assert [t.abs().max().item() for t in run(torch.ones(1, 5, 2), torch.ones(1, 5, 2))] == [0.0, 0.0, 0.0]


def test_one_sample_has_no_standard_deviation():
    with pytest.raises(ArgumentError, match=r"branch_independence\(x\): 1 samples"):
        run(torch.ones(1, 1, 2), torch.ones(1, 1, 2))

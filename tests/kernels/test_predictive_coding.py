"""G12: squared distance between two directions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_kernels import predictive_coding


def run(prediction, target, weight=None):
    """(value, gradient) of float32 copies of prediction and target [P, B, H]."""
    prediction, target = (torch.as_tensor(a, dtype=torch.float32).contiguous() for a in (prediction, target))
    weight = torch.ones(prediction.shape[:2]) if weight is None else weight
    value, gradient = torch.full(prediction.shape[:2], -1.0), torch.full_like(prediction, -1.0)
    predictive_coding(prediction, target, weight, torch.ones(len(prediction), dtype=torch.int32), value, gradient)
    return value, gradient


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 3, 31, 32, 33, 64, 100]), st.sampled_from([1e-10, 1.0, 1e10]), st.integers(0, 2**32 - 1))
def test_value_and_gradient_are_those_of_autograd(width, scale, seed):
    g = np.random.default_rng(seed)
    prediction = torch.from_numpy(g.normal(0.0, scale, (2, 5, width)).astype(np.float32))
    target = torch.from_numpy(g.normal(size=(2, 5, width)).astype(np.float32))
    p = prediction.double().requires_grad_()
    unit, wanted = (a / a.norm(dim=-1, keepdim=True) for a in (p, target.double()))
    exact = (unit - wanted).square().sum(-1)
    (reference,) = torch.autograd.grad(exact.sum(), p)
    value, gradient = run(prediction, target)
    np.testing.assert_allclose(value, exact.detach(), rtol=1e-5, atol=1e-12)
    length = prediction.double().norm(dim=-1, keepdim=True)  # the gradient's natural unit is 1/|x|
    np.testing.assert_allclose(gradient * length, reference * length, rtol=1e-4, atol=1e-6)
    cosine = (unit * wanted).sum(-1).detach()
    np.testing.assert_allclose(value, 2.0 - 2.0 * cosine, rtol=1e-5, atol=1e-6)  # |u - v|^2 = 2 - 2 cos


def test_literal_vector():
    """u = (1, 0), v = (3, 4)/5: d = (.4, -.8), value .8; the gradient 2/|x| (d - u (u.d)) is (0, -.8)."""
    value, gradient = run([[[2.0, 0.0]]], [[[3.0, 4.0]]])
    assert value.item() == pytest.approx(0.8, rel=1e-6)
    np.testing.assert_allclose(gradient[0, 0], [0.0, -0.8], atol=1e-6)


def test_the_gradient_leaves_the_length_alone():
    g = torch.Generator().manual_seed(0)
    prediction, target = torch.randn(1, 6, 40, generator=g), torch.randn(1, 6, 40, generator=g)
    _, gradient = run(prediction, target)
    assert (gradient * prediction).sum(-1).abs().max() < 1e-6


def test_zero_vectors_have_no_direction():
    zero, some = torch.zeros(1, 1, 4), torch.tensor([[[1.0, -2.0, 0.3, 0.7]]])
    for prediction, target, expected in ((zero, some, 1.0), (some, zero, 1.0), (zero, zero, 0.0)):
        value, gradient = run(prediction, target)
        assert value.item() == pytest.approx(expected, rel=1e-6)
        assert torch.equal(gradient, zero)


def test_weight_scales_and_zero_masks_even_nan():
    g = torch.Generator().manual_seed(1)
    prediction, target = torch.randn(1, 3, 9, generator=g), torch.randn(1, 3, 9, generator=g)
    value, gradient = run(prediction, target)
    target[0, 1] = torch.nan
    masked, masked_gradient = run(prediction, target, torch.tensor([[2.0, 0.0, 0.5]]))
    assert torch.equal(masked[0], value[0] * torch.tensor([2.0, 0.0, 0.5]))
    assert torch.equal(masked_gradient[0], gradient[0] * torch.tensor([[2.0], [0.0], [0.5]]))
    assert torch.isnan(run(prediction, target)[0]).tolist() == [[False, True, False]]

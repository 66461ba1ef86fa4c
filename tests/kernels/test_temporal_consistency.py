"""G10: Jensen-Shannon divergence of two softmax policies."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_kernels import temporal_consistency


def run(q, q_next, weight=None, temperature=1.0):
    """(value, grad_q, grad_q_next) of float32 copies of q and q_next [P, B, A]."""
    q, q_next = (torch.as_tensor(a, dtype=torch.float32).contiguous() for a in (q, q_next))
    weight = torch.ones(q.shape[:2]) if weight is None else weight
    value, grad_q, grad_q_next = torch.full(q.shape[:2], -1.0), torch.full_like(q, -1.0), torch.full_like(q, -1.0)
    lanes = len(q)
    active = torch.ones(lanes, dtype=torch.int32)
    temporal_consistency(q, q_next, weight, torch.full((lanes,), temperature), active, value, grad_q, grad_q_next)
    return value, grad_q, grad_q_next


def autograd(q, q_next, temperature):
    """The same from torch's float64 autograd, through entropies: H((p + q)/2) - (H(p) + H(q))/2."""
    q, q_next = (torch.as_tensor(a, dtype=torch.float32).double().requires_grad_() for a in (q, q_next))
    p, p_next = (torch.softmax(a / temperature, -1) for a in (q, q_next))
    entropy = lambda a: -torch.xlogy(a, a).sum(-1)
    value = entropy((p + p_next) / 2) - (entropy(p) + entropy(p_next)) / 2
    return value.detach(), *torch.autograd.grad(value.sum(), (q, q_next))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9), st.sampled_from([0.01, 1.0, 5.0]), st.sampled_from([0.25, 1.0, 3.0]), st.integers(0, 2**32 - 1)
)
def test_value_and_gradients_are_those_of_autograd(actions, spread, temperature, seed):
    g = np.random.default_rng(seed)
    q, q_next = g.normal(0.0, spread, (2, 2, 6, actions))
    got, exact = run(q, q_next, temperature=temperature), autograd(q, q_next, temperature)
    np.testing.assert_allclose(got[0], exact[0], rtol=1e-4, atol=1e-10)
    for gradient, reference in zip(got[1:], exact[1:], strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=1e-3, atol=1e-6 / temperature)


def test_literal_vector():
    """rl.md 3.5: the divergence of (.5, .5) and (.9, .1) is .10174923."""
    value, _, _ = run([[[0.0, 0.0]]], [[[math.log(9.0), 0.0]]])
    assert value.item() == pytest.approx(0.10174923, abs=2e-8)


def test_bounds():
    q = torch.tensor([[[3.0, -1.0, 0.5]]])
    value, grad_q, grad_next = run(q, q)
    assert (value, grad_q.abs().max(), grad_next.abs().max()) == (0.0, 0.0, 0.0)
    value, grad_q, _ = run([[[500.0, 0.0]]], [[[0.0, 500.0]]])  # disjoint, with probabilities that underflow to 0
    assert value.item() == pytest.approx(math.log(2.0), rel=1e-6)
    assert torch.isfinite(grad_q).all()


def test_close_policies_keep_their_digits():
    """For small differences d of centred log-probabilities JSD = sum p d^2 / 8: 1e-8 is not lost in rounding."""
    value, _, _ = run([[[0.0, 0.0]]], [[[2.0**-12, -(2.0**-12)]]])
    assert value.item() == pytest.approx(2.0**-24 / 8.0, rel=1e-3)


def test_descent_brings_the_policies_together():
    q, q_next = torch.randn(2, 1, 8, 3, generator=torch.Generator().manual_seed(0)).unbind(0)
    value, grad_q, grad_next = run(q, q_next)
    assert (run(q - grad_q, q_next - grad_next)[0] < value).all()


def test_weight_scales_and_zero_masks_even_nan():
    q, q_next = torch.randn(2, 1, 3, 3, generator=torch.Generator().manual_seed(1)).unbind(0)
    plain = run(q, q_next)
    q_next[0, 1] = torch.nan
    masked = run(q, q_next, torch.tensor([[2.0, 0.0, 0.5]]))
    for one, other in zip(plain, masked, strict=True):
        assert torch.equal(other[0, 1], torch.zeros_like(other[0, 1]))
        assert torch.equal(other[0, [0, 2]], one[0, [0, 2]] * torch.tensor([2.0, 0.5]).view(2, *[1] * (one.dim() - 2)))
    unmasked = run(q, q_next)
    assert torch.isnan(unmasked[0]).tolist() == [[False, True, False]]

"""CQL(H) per branch: published vectors, excess over uniform values, gradient and mask."""

import math

import pytest
import torch
from lanes import assert_members_independent

from trainer.losses.branches import FLAT
from trainer.losses.cql import cql_loss

P, B = 3, 5
Q = [1.0, 2.0, 3.0]  # rl.md 3.4: logsumexp = 3 + log(1 + e^-1 + e^-2) = 3.4076060; minus Q(a): 2.4076060, .., .4076060
SOFTMAX = [0.09003057, 0.24472847, 0.66524096]


def q(*rows):
    return torch.tensor([rows], dtype=torch.float64)


@pytest.mark.parametrize(("action", "expected"), [(0, 2.4076060), (2, 0.4076060)])
def test_published_vectors(action, expected):
    """Short (0) or long (2) with uniform magnitudes, whose term is log 3; the gradient is softmax(Q) - onehot(a)."""
    loss = cql_loss(q(Q), q([5.0] * 3), torch.tensor([[action]]), torch.tensor([[1]]))
    assert loss.value.item() == pytest.approx(expected + math.log(3), abs=1e-7)
    assert loss.excess.item() == pytest.approx(expected - math.log(3), abs=1e-7)
    onehot = torch.eye(3, dtype=torch.float64)[action]
    torch.testing.assert_close(loss.direction_q[0, 0], q(SOFTMAX)[0, 0] - onehot, rtol=0, atol=1e-8)
    torch.testing.assert_close(loss.magnitude_q[0, 0], q([1 / 3, -2 / 3, 1 / 3])[0, 0])


def test_both_branches_are_summed_and_the_batch_is_averaged():
    """Samples (long, first: .4076060 + 2.4076060) and (flat: 1.4076060 alone): (2.8152120 + 1.4076060) / 2."""
    loss = cql_loss(q(Q, Q), q(Q, Q), torch.tensor([[2, FLAT]]), torch.tensor([[0, 0]]))
    assert loss.value.item() == pytest.approx(2.1114090, abs=1e-7)
    assert loss.excess.item() == pytest.approx(2.1114090 - 1.5 * math.log(3), abs=1e-7)


def test_excess_is_zero_at_uniform_values_and_negative_where_the_data_is_preferred():
    direction, magnitude = torch.tensor([[0, FLAT, 2]]), torch.tensor([[0, 1, 2]])
    uniform = q([4.0] * 3, [4.0] * 3, [4.0] * 3)
    assert cql_loss(uniform, uniform, direction, magnitude).excess.item() == pytest.approx(0.0, abs=1e-15)
    wide = 50.0 * torch.eye(3, dtype=torch.float64)[None]
    loss = cql_loss(wide, wide, direction, magnitude)
    assert 0.0 <= loss.value.item() < 1e-12
    assert loss.excess.item() == pytest.approx(-5 / 3 * math.log(3), abs=1e-12)


def example(dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    values = [2.0 * torch.randn(P, B, 3, generator=g, dtype=dtype) for _ in range(2)]
    direction = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 1, 0, 0], [1, 1, 1, 1, 1]])
    return *values, direction, torch.randint(3, (P, B), generator=g)


def test_gradient_equals_autograd():
    direction_q, magnitude_q, direction, magnitude = example()
    leaves = [x.clone().requires_grad_() for x in (direction_q, magnitude_q)]
    terms = [
        torch.logsumexp(x, -1) - x.gather(-1, a[..., None])[..., 0]
        for x, a in zip(leaves, (direction, magnitude), strict=True)
    ]
    expected = (terms[0] + torch.where(direction == FLAT, 0.0, terms[1])).mean(1)
    gradients = torch.autograd.grad(expected.sum(), leaves)
    loss = cql_loss(direction_q, magnitude_q, direction, magnitude)
    torch.testing.assert_close(loss.value, expected.detach(), rtol=1e-12, atol=1e-14)
    for got, exact in zip((loss.direction_q, loss.magnitude_q), gradients, strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-12, atol=1e-15)


def test_flat_masks_the_magnitude_exactly():
    direction_q, magnitude_q, direction, magnitude = example(torch.float32)
    loss = cql_loss(direction_q, magnitude_q, direction, magnitude)
    flat = direction == FLAT
    assert (loss.magnitude_q.abs().sum(-1) > 0).equal(~flat)
    spoiled = magnitude_q.masked_fill(flat[..., None], float("nan"))
    again = cql_loss(direction_q, spoiled, direction, magnitude)
    assert torch.equal(again.value, loss.value)
    assert torch.equal(again.magnitude_q, loss.magnitude_q)


def test_members_are_independent():
    def everything(*inputs):
        loss = cql_loss(*inputs)
        return loss.value, loss.excess, loss.direction_q, loss.magnitude_q

    assert_members_independent(
        everything, *example(torch.float32)[:2], torch.zeros(P, B, dtype=torch.int64), example()[3]
    )

"""Squared error of the rebuilt observation: vector, gradient, members."""

import torch
from lanes import assert_members_independent

from trainer.losses.reconstruction import reconstruction_loss


def test_literal_vector():
    """Errors 1, -2, 0, 3 over two samples of two features: (1 + 4 + 0 + 9) / 4 = 3.5; gradient 2 error / 4."""
    loss = reconstruction_loss(torch.tensor([[[2.0, 0.0], [5.0, 4.0]]]), torch.tensor([[[1.0, 2.0], [5.0, 1.0]]]))
    assert loss.value.tolist() == [3.5]
    assert loss.d_values.tolist() == [[[0.5, -1.0], [0.0, 1.5]]]


def test_gradient_equals_autograd():
    g = torch.Generator().manual_seed(0)
    rebuilt, observation = (torch.randn(3, 5, 7, generator=g, dtype=torch.float64) for _ in range(2))
    leaf = rebuilt.clone().requires_grad_()
    expected = ((leaf - observation) ** 2).mean((1, 2))
    (gradient,) = torch.autograd.grad(expected.sum(), [leaf])
    loss = reconstruction_loss(rebuilt, observation)
    torch.testing.assert_close(loss.value, expected.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(loss.d_values, gradient, rtol=1e-12, atol=1e-15)


def test_members_are_independent():
    def everything(rebuilt, observation):
        loss = reconstruction_loss(rebuilt, observation)
        return loss.value, loss.d_values

    g = torch.Generator().manual_seed(1)
    assert_members_independent(everything, *(torch.randn(3, 5, 7, generator=g) for _ in range(2)))

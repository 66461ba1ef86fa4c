"""The quantile Huber loss: published vectors and limits, targets, branches, masks and gradients."""

import pytest
import torch
from lanes import assert_members_independent

from numba_kernels import ArgumentError
from trainer.losses.branches import FLAT
from trainer.losses.iqn import iqn_loss, next_quantiles, td_target

P, B, N, M = 3, 5, 4, 6


def vector(*figures):
    return torch.tensor([[figures]], dtype=torch.float32)


def quantile_huber(values, tau, target, kappa=1.0):
    """The loss of one distribution and its gradient: a flat direction, whose half counts in full at weight 2."""
    outputs = torch.full((*values.shape, 6), 7.0)
    outputs[..., FLAT] = values
    flat = torch.full((1, 1), FLAT)
    loss = iqn_loss(outputs, tau, flat, flat, target, torch.full((1, 1), 2.0), kappa)
    return loss.value, loss.d_values[..., FLAT]


# rlax: values [-1, 3], target [-3, 4, 2], so d = target - value is [-2, 5, 3] and [-6, 1, -1].
#
# kappa -> 0, tau [.2, .7]: |tau - 1{d<0}| |d| = .8*2 + .2*5 + .2*3 + .3*6 + .7*1 + .3*1 = 6; over 3 targets 2.
#             tau [0, .4]: 1*2 + 0 + 0 + .6*6 + .4*1 + .6*1 = 6.6; 2.2.
# kappa = 2, Huber [2, 8, 4] and [10, .5, .5]:
#             tau [.2, .7]: .8*2 + .2*8 + .2*4 + .3*10 + .7*.5 + .3*.5 = 7.5; 2.5, over kappa 1.25.
#             tau [0, .4]: 2 + .6*10 + .4*.5 + .6*.5 = 8.5; 8.5/3, over kappa 1.4166667.
RLAX = [((0.2, 0.7), 1e-9, 2.0), ((0.0, 0.4), 1e-9, 2.2), ((0.2, 0.7), 2.0, 1.25), ((0.0, 0.4), 2.0, 8.5 / 6)]


@pytest.mark.parametrize(("tau", "kappa", "expected"), RLAX)
def test_published_vectors(tau, kappa, expected):
    loss, _ = quantile_huber(vector(-1, 3), vector(*tau), vector(-3, 4, 2), kappa)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_large_kappa_tends_to_the_expectile_loss():
    """kappa L -> |tau - 1{d<0}| d^2 / 2: .8*2 + .2*12.5 + .2*4.5 + .3*18 + .7*.5 + .3*.5 = 10.9; over 3 targets."""
    loss, _ = quantile_huber(vector(-1, 3), vector(0.2, 0.7), vector(-3, 4, 2), 1e6)
    assert 1e6 * loss.item() == pytest.approx(10.9 / 3, rel=1e-6)


def test_kappa_one_vector_and_its_gradient():
    """values [0, 1], tau [.25, .75], target [.5, 3]: d = [.5, 3] and [-.5, 2], Huber [.125, 2.5] and [.125, 1.5].

    L = (.25*.125 + .25*2.5 + .25*.125 + .75*1.5) / 2 = .90625; with clip(d) = [.5, 1] and [-.5, 1] the gradient is
    -(.25*.5 + .25*1)/2 = -.1875 and -(-.25*.5 + .75*1)/2 = -.3125.
    """
    loss, gradient = quantile_huber(vector(0, 1), vector(0.25, 0.75), vector(0.5, 3))
    assert loss.item() == pytest.approx(0.90625, abs=1e-7)
    torch.testing.assert_close(gradient, vector(-0.1875, -0.3125))


def test_the_sum_runs_over_the_online_quantiles_and_the_mean_over_the_target():
    values, tau, target = vector(-1, 3), vector(0.2, 0.7), vector(-3, 4, 2)
    once, _ = quantile_huber(values, tau, target)
    online, _ = quantile_huber(values.repeat(1, 1, 2), tau.repeat(1, 1, 2), target)
    other, _ = quantile_huber(values, tau, target.repeat(1, 1, 2))
    torch.testing.assert_close(online, 2 * once)
    torch.testing.assert_close(other, once)


def test_the_quantile_is_where_the_gradient_vanishes():
    """Targets 0..9, tau = .75, kappa -> 0: the slope changes sign at 7, the .75 quantile.

    At 6.5 seven lie below and three above, (.25*7 - .75*3) / 10 = -.05; at 7.5 (.25*8 - .75*2) / 10 = .05.
    """
    target = torch.arange(10.0).view(1, 1, 10)
    slopes = [quantile_huber(vector(x), vector(0.75), target, 1e-9)[1].item() for x in (6.5, 7.5)]
    assert slopes == pytest.approx([-0.05, 0.05], abs=1e-7)


def example(dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    values = 2.0 * torch.randn(P, B, N, 6, generator=g, dtype=dtype)
    tau, target = torch.rand(P, B, N, generator=g, dtype=dtype), torch.randn(P, B, M, generator=g, dtype=dtype)
    direction = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 1, 0, 0], [1, 1, 1, 1, 2]])
    magnitude = torch.randint(3, (P, B), generator=g)
    return values, tau, direction, magnitude, target, 0.5 + torch.rand(P, B, generator=g, dtype=dtype)


def written_out(values, tau, direction, magnitude, target, weight, kappa):
    """Loops over members, samples and branches, in torch so that autograd can follow."""
    value = torch.zeros(P, dtype=values.dtype)
    for p in range(P):
        for b in range(B):
            outputs = [direction[p, b].item()]
            if outputs[0] != FLAT:
                outputs.append(3 + magnitude[p, b].item())
            for k in outputs:
                d = target[p, b][None, :] - values[p, b, :, k][:, None]
                huber = torch.where(d.abs() <= kappa, 0.5 * d**2, kappa * (d.abs() - 0.5 * kappa))
                rho = (tau[p, b][:, None] - (d < 0).to(d.dtype)).abs() * huber / kappa
                value[p] += weight[p, b] * 0.5 * rho.sum(0).mean() / B
    return value


@pytest.mark.parametrize("kappa", [0.5, 1.0, 2.0])
def test_loss_and_gradient_equal_autograd(kappa):
    values, *rest = example()
    leaf = values.clone().requires_grad_()
    expected = written_out(leaf, *rest, kappa)
    (gradient,) = torch.autograd.grad(expected.sum(), [leaf])
    loss = iqn_loss(*(x.float() if x.is_floating_point() else x for x in (values, *rest)), kappa)
    torch.testing.assert_close(loss.value.double(), expected.detach(), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(loss.d_values.double(), gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kappa", [0.0, -1.0, float("nan")])
def test_a_kappa_that_means_nothing_is_refused(kappa):
    values, *rest = example(torch.float32)
    with pytest.raises(ArgumentError, match="kappa"):
        iqn_loss(values, *rest, kappa)


def test_flat_masks_the_magnitude_exactly():
    """Whatever the magnitude outputs are where the direction taken is flat, NaN included, no bit changes."""
    values, tau, direction, *rest = example(torch.float32)
    loss = iqn_loss(values, tau, direction, *rest)
    flat = (direction == FLAT)[..., None, None]
    assert loss.d_values[..., 3:].masked_select(flat).count_nonzero() == 0
    assert (loss.d_values[..., 3:].abs().sum((2, 3)) > 0).equal(direction != FLAT)
    spoiled = torch.cat((values[..., :3], values[..., 3:].masked_fill(flat, float("nan"))), -1)
    again = iqn_loss(spoiled, tau, direction, *rest)
    assert torch.equal(again.value, loss.value)
    assert torch.equal(again.d_values, loss.d_values)


def test_next_quantiles_are_the_union_of_both_branches():
    """Outputs 0..5 hold value 10 k + n at quantile n: short (0) and third magnitude (5), then flat (1) alone."""
    values = (10.0 * torch.arange(6) + torch.arange(2.0)[:, None]).expand(1, 2, 2, 6)
    got = next_quantiles(values, torch.tensor([[0, FLAT]]), torch.tensor([[2, 2]]))
    assert got.tolist() == [[[0, 1, 50, 51], [10, 11, 10, 11]]]


def test_td_target_vector():
    """r = 1, discount .9, next quantiles [.5, 1.5] -> [1.45, 2.35], whose mean is the mean target 1.9; terminal: r."""
    following = torch.tensor([[[0.5, 1.5], [0.5, 1.5]]], dtype=torch.float64)
    target = td_target(torch.tensor([[1.0, 1.0]]).double(), torch.tensor([[0.9, 0.0]]).double(), following)
    torch.testing.assert_close(target, torch.tensor([[[1.45, 2.35], [1.0, 1.0]]], dtype=torch.float64))


def test_members_are_independent():
    values, tau, direction, magnitude, target, weight = example(torch.float32)

    def everything(values, tau, target, weight, direction, magnitude):
        loss = iqn_loss(values, tau, direction, magnitude, target, weight)
        following = td_target(weight, weight, next_quantiles(values, direction, magnitude))
        return loss.value, loss.d_values, following

    assert_members_independent(everything, values, tau, target, weight, direction, magnitude)

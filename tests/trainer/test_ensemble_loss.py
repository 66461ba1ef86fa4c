"""Bootstrapped heads: loss, masks, targets by head, disagreement and deviation."""

import math

import numpy as np
import pytest
import torch
from lanes import assert_members_independent

from trainer.losses.branches import FLAT
from trainer.losses.ensemble import deviation, disagreement, ensemble_loss, jensen_shannon, next_values

P, B, HEADS = 3, 5, 4


def example(dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    values = 2.0 * torch.randn(P, B, HEADS, 6, generator=g, dtype=dtype)
    direction = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 1, 0, 0], [1, 1, 1, 1, 2]])
    magnitude = torch.randint(3, (P, B), generator=g)
    target = torch.randn(P, B, HEADS, generator=g, dtype=dtype)
    mask = (torch.rand(P, B, HEADS, generator=g) < 0.5).to(dtype)
    mask[0, 0] = 0.0
    return values, direction, magnitude, target, mask, 0.5 + torch.rand(P, B, generator=g, dtype=dtype)


def written_out(values, direction, magnitude, target, mask, weight):
    value = torch.zeros(P, dtype=values.dtype)
    for p, b, k in np.ndindex(P, B, HEADS):
        outputs = [direction[p, b].item()]
        if outputs[0] != FLAT:
            outputs.append(3 + magnitude[p, b].item())
        for output in outputs:
            error = (values[p, b, k, output] - target[p, b, k]).abs()
            huber = 0.5 * error**2 if error <= 1 else error - 0.5
            if mask[p, b, k]:
                value[p] += weight[p, b] * huber / (2 * HEADS * B)
    return value


def test_loss_and_gradient_equal_autograd():
    values, *rest = example()
    leaf = values.clone().requires_grad_()
    expected = written_out(leaf, *rest)
    (gradient,) = torch.autograd.grad(expected.sum(), [leaf])
    loss = ensemble_loss(values, *rest)
    torch.testing.assert_close(loss.value, expected.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(loss.d_values, gradient, rtol=1e-12, atol=1e-15)


def test_literal_vector():
    """Two heads, long (output 2) and first magnitude (output 3), target 0: errors (.5, 2) and (-3, 1).

    Huber .125 + 1.5 and 2.5 + .5; mean of 2 branches and 2 heads 4.625 / 4 = 1.15625, weight 2 -> 2.3125. Gradients are
    2/4 of clip(error): .25 and .5, -.5 and .5. With the second head masked: 2 * 1.625 / 4 = .8125, divided by 4 still.
    """
    values = torch.zeros(1, 1, 2, 6)
    values[0, 0, :, 2:4] = torch.tensor([[0.5, 2.0], [-3.0, 1.0]])
    action = torch.tensor([[2]]), torch.tensor([[0]])
    target, weight = torch.zeros(1, 1, 2), torch.full((1, 1), 2.0)
    loss = ensemble_loss(values, *action, target, torch.ones(1, 1, 2), weight)
    assert loss.value.item() == 2.3125
    assert loss.d_values[0, 0].tolist() == [[0, 0, 0.25, 0.5, 0, 0], [0, 0, -0.5, 0.5, 0, 0]]
    half = ensemble_loss(values, *action, target, torch.tensor([[[1.0, 0.0]]]), weight)
    assert half.value.item() == 0.8125
    assert torch.equal(half.d_values[0, 0, 0], loss.d_values[0, 0, 0])


def test_masks_are_exact():
    """NaN in a value or target that a mask or a flat direction leaves out changes no bit."""
    values, direction, magnitude, target, mask, weight = example(torch.float32)
    loss = ensemble_loss(values, direction, magnitude, target, mask, weight)
    left_out = mask == 0
    assert loss.d_values[left_out].count_nonzero() == 0
    flat = (direction == FLAT)[..., None]
    assert (loss.d_values[..., 3:].abs().sum(-1) > 0).equal((mask != 0) & ~flat)
    assert (loss.d_values[..., :3].abs().sum(-1) > 0).equal(mask != 0)
    spoiled = values.masked_fill(left_out[..., None], float("nan"))
    spoiled = torch.cat((spoiled[..., :3], spoiled[..., 3:].masked_fill(flat[..., None], float("nan"))), -1)
    missing = target.masked_fill(left_out, float("inf"))
    again = ensemble_loss(spoiled, direction, magnitude, missing, mask, weight)
    assert torch.equal(again.value, loss.value)
    assert torch.equal(again.d_values, loss.d_values)


def test_next_values_are_double_q_by_head():
    """Head 0 prefers long (online 3) and the second magnitude: (target 7 + 1) / 2 = 4, not its target's own best.

    Head 1 prefers flat: the target's flat value 5 alone. Head 2 prefers short and the third: (2 + 8) / 2 = 5.
    """
    online = torch.tensor([[[[1.0, 2, 3, 0, 1, 0], [0, 9, 1, 0, 0, 4], [6, 0, 1, 0, 0, 4]]]])
    target = torch.tensor([[[[9.0, 9, 7, 9, 1, 9], [9, 5, 9, 9, 9, 9], [2, 9, 9, 9, 9, 8]]]])
    assert next_values(online, target).tolist() == [[[4.0, 5.0, 5.0]]]


def test_jensen_shannon_vector():
    """rl.md 3.5: p = [.5, .5], [.9, .1], mean [.7, .3]: H(mean) .6108643 - (.6931472 + .3250830) / 2 = .1017492."""
    log_p = torch.tensor([[0.5, 0.5], [0.9, 0.1]], dtype=torch.float64).log()
    assert jensen_shannon(log_p).item() == pytest.approx(0.10174923, abs=5e-9)


def policies(*rows):
    """Values `[1, 1, heads, 6]` whose softmax at temperature 2 gives `rows` in both branches; 0 is a value of -1e4."""
    logits = torch.tensor(rows, dtype=torch.float64).log().clamp_min(-1e4) * 2.0
    return torch.cat((logits, logits), -1)[None, None]


def test_disagreement_vector_and_range():
    """The vector above divided by log 2 heads; equal policies give 0 and disjoint ones 1."""
    temperature = torch.tensor([2.0], dtype=torch.float64)
    got = disagreement(policies((0.5, 0.5, 0), (0.9, 0.1, 0)), temperature)
    assert got.item() == pytest.approx(0.10174923 / math.log(2), abs=1e-8)
    assert disagreement(policies((1, 0, 0), (0, 1, 0), (0, 0, 1)), temperature).item() == pytest.approx(1.0, abs=1e-12)
    assert disagreement(policies(*[(0.2, 0.3, 0.5)] * 5), temperature).item() == pytest.approx(0.0, abs=1e-15)


def test_disagreement_averages_the_branches():
    """Heads that agree on the magnitude and choose disjoint directions disagree by a half."""
    values = torch.cat(
        (policies((1, 0, 0), (0, 1, 0))[..., :3], policies((0.2, 0.3, 0.5), (0.2, 0.3, 0.5))[..., 3:]), -1
    )
    assert disagreement(values, torch.tensor([2.0], dtype=torch.float64)).item() == pytest.approx(0.5, abs=1e-12)


def test_disagreement_stays_finite_where_probabilities_underflow():
    values = torch.tensor([[[[0.0, 1e4, -1e4, 0, 1e4, 0], [1e4, 0.0, -1e4, 0, 1e4, 0]]]])
    assert disagreement(values, torch.tensor([1e-3])).item() == pytest.approx(0.5, abs=1e-6)


def test_deviation_is_the_population_standard_deviation():
    """Values 1, 3, 5, 7 over heads: variance (9 + 1 + 1 + 9) / 4 = 5."""
    values = torch.tensor([1.0, 3.0, 5.0, 7.0], dtype=torch.float64).view(1, 1, 4, 1).expand(1, 1, 4, 6)
    torch.testing.assert_close(deviation(values), torch.full((1, 1, 6), math.sqrt(5.0), dtype=torch.float64))
    values = example()[0]
    torch.testing.assert_close(deviation(values), values.std(2, correction=0))


def test_members_are_independent():
    values, direction, magnitude, target, mask, weight = example(torch.float32)

    def everything(values, target, weight, mask, direction, magnitude):
        loss = ensemble_loss(values, direction, magnitude, target, mask, weight)
        spread = disagreement(values, weight[:, 0]), deviation(values)
        return loss.value, loss.d_values, next_values(values, values.flip(2)), *spread

    assert_members_independent(everything, values, target, weight, mask.bool(), direction, magnitude)

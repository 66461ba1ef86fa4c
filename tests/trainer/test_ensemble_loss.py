"""Bootstrapped heads: loss, masks, targets by head, disagreement and deviation."""

import math

import numpy as np
import pytest
import torch
from lanes import assert_members_independent

from numba_kernels import ArgumentError
from trainer.losses.branches import FLAT
from trainer.losses.ensemble import deviation, disagreement, ensemble_loss

P, B, HEADS, PLACES = 3, 5, 4, 11


def example():
    """Float32 arguments of `ensemble_loss`; the first sample of the first member is kept by no head."""
    g = torch.Generator().manual_seed(0)
    values, chosen, valued = (2.0 * torch.randn(P, B, HEADS, 6, generator=g) for _ in "abc")
    direction = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 1, 0, 0], [1, 1, 1, 1, 2]])
    magnitude = torch.randint(3, (P, B), generator=g)
    returns, weight = torch.randn(P, B, generator=g), 0.5 + torch.rand(P, B, generator=g)
    discount = 0.9 * (torch.rand(P, B, generator=g) < 0.8).float()
    keep = torch.rand(P, PLACES, HEADS, generator=g) < 0.5
    place = torch.randint(PLACES, (P, B), generator=g)
    keep[0, place[0, 0]] = False
    return [values, chosen, valued, direction, magnitude, returns, discount, weight, keep, place]


def kept(keep, place):
    """bool `[P, B, HEADS]`: the mask of every sampled transition."""
    return torch.stack([rows[at] for rows, at in zip(keep, place, strict=True)])


def own_target(chosen, valued, returns, discount):
    """Of one head: a greedy action by the online values, judged by the target's."""
    direction, magnitude = int(chosen[:3].argmax()), 3 + int(chosen[3:].argmax())
    following = valued[direction] if direction == FLAT else 0.5 * (valued[direction] + valued[magnitude])
    return returns + discount * following


def written_out(values, chosen, valued, direction, magnitude, returns, discount, weight, keep, place):
    mask, value = kept(keep, place), torch.zeros(P, dtype=values.dtype)
    for p, b, k in np.ndindex(P, B, HEADS):
        outputs = [direction[p, b].item()]
        if outputs[0] != FLAT:
            outputs.append(3 + magnitude[p, b].item())
        target = own_target(chosen[p, b, k], valued[p, b, k], returns[p, b], discount[p, b])
        for output in outputs:
            error = (values[p, b, k, output] - target).abs()
            huber = 0.5 * error**2 if error <= 1 else error - 0.5
            if mask[p, b, k]:
                value[p] += weight[p, b] * huber / (2 * HEADS * B)
    return value


def test_loss_and_gradient_equal_autograd_in_float64():
    values, *rest = (x.double() if x.is_floating_point() else x for x in example())
    leaf = values.clone().requires_grad_()
    expected = written_out(leaf, *rest)
    (gradient,) = torch.autograd.grad(expected.sum(), [leaf])
    loss = ensemble_loss(*example())
    torch.testing.assert_close(loss.value.double(), expected.detach(), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(loss.d_values.double(), gradient, rtol=1e-6, atol=1e-8)


def one_sample(values, direction=2, magnitude=0, keep=(True, True), chosen=None, valued=None, discount=0.0):
    """Loss of two heads on one sample: reward 0, weight 2."""
    empty = torch.zeros(1, 1, 2, 6)
    states = values, empty if chosen is None else chosen, empty if valued is None else valued
    action = torch.tensor([[direction]]), torch.tensor([[magnitude]])
    step = torch.zeros(1, 1), torch.full((1, 1), discount), torch.full((1, 1), 2.0)
    return ensemble_loss(*states, *action, *step, torch.tensor([[keep]]), torch.zeros(1, 1, dtype=torch.int64))


def test_literal_vector():
    """Two heads, long (output 2) and first magnitude (output 3), target 0: errors (.5, 2) and (-3, 1).

    Huber .125 + 1.5 and 2.5 + .5; mean of 2 branches and 2 heads 4.625 / 4 = 1.15625, weight 2 -> 2.3125. Gradients are
    2/4 of clip(error): .25 and .5, -.5 and .5. With the second head masked: 2 * 1.625 / 4 = .8125, divided by 4 still.
    """
    values = torch.zeros(1, 1, 2, 6)
    values[0, 0, :, 2:4] = torch.tensor([[0.5, 2.0], [-3.0, 1.0]])
    loss = one_sample(values)
    assert loss.value.item() == 2.3125
    assert loss.d_values[0, 0].tolist() == [[0, 0, 0.25, 0.5, 0, 0], [0, 0, -0.5, 0.5, 0, 0]]
    half = one_sample(values, keep=(True, False))
    assert half.value.item() == 0.8125
    assert torch.equal(half.d_values[0, 0, 0], loss.d_values[0, 0, 0])


def test_targets_are_double_q_by_head():
    """Discount .5, a flat direction taken, so only output 1 counts, at weight 2 / 4. All its values are 2.

    Head 0 prefers long (online 3) and the second magnitude: next (7 + 1) / 2 = 4, not the target's own best; target 2,
    error 0. Head 1 prefers flat: the flat value 5 alone; target 2.5, error -.5, Huber .125. Two more heads in a second
    call: short and the third, (2 + 7) / 2 = 4.5, target 2.25, error -.25; a tie goes to the first, 6 and 8, target 3.5.
    """
    values = torch.full((1, 1, 2, 6), 2.0)
    chosen = torch.tensor([[[[1.0, 2, 3, 0, 1, 0], [0, 9, 1, 0, 0, 4]]]])
    valued = torch.tensor([[[[9.0, 9, 7, 9, 1, 9], [9, 5, 9, 9, 9, 9]]]])
    loss = one_sample(values, FLAT, 0, chosen=chosen, valued=valued, discount=0.5)
    assert loss.value.item() == 0.125 / 2
    assert loss.d_values[0, 0, :, FLAT].tolist() == [0.0, -0.25]
    chosen = torch.tensor([[[[6.0, 0, 1, 0, 0, 4], [4, 0, 4, 2, 1, 2]]]])
    valued = torch.tensor([[[[2.0, 9, 9, 9, 9, 7], [6, 9, 9, 8, 9, 9]]]])
    loss = one_sample(values, FLAT, 0, chosen=chosen, valued=valued, discount=0.5)
    assert loss.d_values[0, 0, :, FLAT].tolist() == [-0.125, -0.5]


def test_masks_are_exact():
    """NaN in a value that a mask or a flat direction leaves out changes no bit."""
    values, chosen, valued, direction, *rest = example()
    loss = ensemble_loss(values, chosen, valued, direction, *rest)
    left_out = ~kept(*rest[-2:])
    assert left_out[0, 0].all()
    assert loss.d_values[left_out].count_nonzero() == 0
    flat = (direction == FLAT)[..., None]
    assert (loss.d_values[..., 3:].abs().sum(-1) > 0).equal(~left_out & ~flat)
    assert (loss.d_values[..., :3].abs().sum(-1) > 0).equal(~left_out)
    spoiled = values.masked_fill(left_out[..., None], float("nan"))
    spoiled = torch.cat((spoiled[..., :3], spoiled[..., 3:].masked_fill(flat[..., None], float("nan"))), -1)
    missing = valued.masked_fill(left_out[..., None], float("inf"))
    again = ensemble_loss(spoiled, chosen, missing, direction, *rest)
    assert torch.equal(again.value, loss.value)
    assert torch.equal(again.d_values, loss.d_values)


def test_a_nan_that_counts_is_not_lost():
    """The member turns NaN, which freezes it; the others keep their loss."""
    for position in (0, 2):
        arguments = example()
        clean = ensemble_loss(*arguments).value
        arguments[position][1] = float("nan")
        value = ensemble_loss(*arguments).value
        assert value.isnan().tolist() == [False, True, False]
        assert torch.equal(value[[0, 2]], clean[[0, 2]])


def policies(*rows):
    """Values `[1, 1, heads, 6]` whose softmax at temperature 2 gives `rows` in both branches; 0 is a value of -1e4."""
    logits = torch.tensor(rows).log().clamp_min(-1e4) * 2.0
    return torch.cat((logits, logits), -1)[None, None]


def test_disagreement_vector_and_range():
    """rl.md 3.5: p = [.5, .5], [.9, .1], mean [.7, .3]: H(mean) .6108643 - (.6931472 + .3250830) / 2 = .1017492.

    It is divided by log 2 heads; equal policies give 0 and disjoint ones 1.
    """
    temperature = torch.tensor([2.0])
    got = disagreement(policies((0.5, 0.5, 0), (0.9, 0.1, 0)), temperature)
    assert got.item() == pytest.approx(0.10174923 / math.log(2), abs=3e-7)
    assert disagreement(policies((1, 0, 0), (0, 1, 0), (0, 0, 1)), temperature).item() == pytest.approx(1.0, abs=1e-6)
    assert disagreement(policies(*[(0.2, 0.3, 0.5)] * 5), temperature).item() == pytest.approx(0.0, abs=1e-6)


def test_disagreement_averages_the_branches():
    """Heads that agree on the magnitude and choose disjoint directions disagree by a half."""
    values = torch.cat(
        (policies((1, 0, 0), (0, 1, 0))[..., :3], policies((0.2, 0.3, 0.5), (0.2, 0.3, 0.5))[..., 3:]), -1
    )
    assert disagreement(values, torch.tensor([2.0])).item() == pytest.approx(0.5, abs=1e-6)


def test_disagreement_stays_finite_where_probabilities_underflow():
    values = torch.tensor([[[[0.0, 1e4, -1e4, 0, 1e4, 0], [1e4, 0.0, -1e4, 0, 1e4, 0]]]])
    assert disagreement(values, torch.tensor([1e-3])).item() == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_disagreement_equals_the_formula_in_float64(scale):
    g = torch.Generator().manual_seed(1)
    values, temperature = scale * torch.randn(2, 40, 5, 6, generator=g), torch.tensor([0.5, 2.0])
    expected = torch.zeros(2, 40, dtype=torch.float64)
    for first in (0, 3):
        branch = values.double()[..., first : first + 3] / temperature.double()[:, None, None, None]
        p = torch.softmax(branch, -1)
        mean = p.mean(2, keepdim=True)
        expected += torch.where(p > 0, p * (p / mean).log(), 0.0).sum(-1).mean(-1) / (2 * math.log(5))
    torch.testing.assert_close(disagreement(values, temperature).double(), expected, rtol=1e-5, atol=3e-7)


def test_disagreement_of_one_head_is_refused():
    with pytest.raises(ArgumentError, match="at least 2"):
        disagreement(torch.zeros(1, 3, 1, 6), torch.ones(1))


def test_a_nan_stays_in_its_state():
    values = torch.randn(1, 3, 4, 6, generator=torch.Generator().manual_seed(2))
    for k in range(6):
        spoiled = values.clone()
        spoiled[0, 1, 2, k] = float("nan")
        assert disagreement(spoiled, torch.ones(1)).isnan().tolist() == [[False, True, False]]


def test_deviation_is_the_population_standard_deviation():
    """Values 1, 3, 5, 7 over heads: variance (9 + 1 + 1 + 9) / 4 = 5."""
    values = torch.tensor([1.0, 3.0, 5.0, 7.0], dtype=torch.float64).view(1, 1, 4, 1).expand(1, 1, 4, 6)
    torch.testing.assert_close(deviation(values), torch.full((1, 1, 6), math.sqrt(5.0), dtype=torch.float64))
    values = example()[0].double()
    torch.testing.assert_close(deviation(values), values.std(2, correction=0))


def test_members_are_independent():
    def everything(values, chosen, valued, *rest):
        loss, swapped = ensemble_loss(values, chosen, valued, *rest), ensemble_loss(chosen, values, valued, *rest)
        return (
            loss.value,
            loss.d_values,
            swapped.value,
            disagreement(values, rest[4][:, 0].contiguous()),
            deviation(values),
        )

    assert_members_independent(everything, *example())

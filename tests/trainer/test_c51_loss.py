"""The C51 loss of two branches: published vectors, mass, its gradient, selection, mixture, masking and priority."""

import numpy as np
import pytest
import torch
from lanes import assert_members_independent

from trainer.losses.c51 import FLAT, c51_loss, make_support, next_distribution, project, select
from trainer.network import action_values

ATOMS = torch.tensor([0.5, 1.0, 1.5])
NOW = [[0, 9, 0], [9, 0, 9], [0, 9, 0], [9, 9, 0], [9, 0, 9]]
REWARD, DISCOUNT = [0.5, 0.0, 0.5, 0.8, -0.1], [0.8, 1.0, 0.8, 0.0, 1.0]
RLAX = {  # rl.md 3.1: chosen next logits and cross-entropies of rlax's categorical TD and double-Q tests
    "td": (
        [[0, 0, 9], [1, 1, 1], [0, 0, 9], [1, 1, 1], [0, 9, 9]],
        [8.998915, 3.6932087, 8.998915, 0.69320893, 5.1929307],
    ),
    "double_q": (
        [[0, 0, 9], [9, 9, 0], [9, 0, 9], [9, -9, 0], [9, -9, 0]],
        [8.998915, 5.192931, 5.400247, 0.693209, 0.693431],
    ),
}


def shift(p, reward, discount, support):
    """`project` with one support `[K]` for all members."""
    return project(p, reward, discount, support.repeat(len(p), 1))


def repeat_actions(logits):
    """`[P, 1, K]` logits as those of each of three actions, `[P, 1, 3, K]`."""
    return torch.tensor(logits, dtype=torch.float32)[:, None, None].expand(-1, -1, 3, -1).contiguous()


@pytest.mark.parametrize("name", list(RLAX))
def test_published_cross_entropies(name):
    later, expected = RLAX[name]
    p = torch.softmax(torch.tensor(later, dtype=torch.float32), -1)[:, None]
    m = shift(p, torch.tensor(REWARD)[:, None], torch.tensor(DISCOUNT)[:, None], ATOMS)
    action = torch.zeros(5, 1, dtype=torch.int64)
    loss = c51_loss(repeat_actions(NOW), repeat_actions(NOW), action, action, m, torch.ones(5, 1))
    np.testing.assert_allclose(loss.value, expected, rtol=1e-5)


# rl.md 3.1, Dopamine: masses at atoms, projected onto a support. The operation is linear, so each atom goes through it
# as a certain return (discount 0) with its mass.
DOPAMINE = [
    ([0, 2, 4, 6, 8], [0.1, 0.6, 0.1, 0.1, 0.1], [4, 5, 6, 7, 8], [0.8, 0, 0.1, 0, 0.1]),
    ([1, 3, 4, 5, 6], [0.1, 0.2, 0.5, 0.1, 0.1], [4, 5, 6, 7, 8], [0.8, 0.1, 0.1, 0, 0]),
    ([8, 9, 10, 12, 14], [0.1, 0.2, 0.4, 0.1, 0.2], [0, 4, 8, 12, 16], [0, 0, 0.45, 0.45, 0.1]),
    ([4, 3, 2, 1, 0], [0.1, 0.2, 0.1, 0.3, 0.3], [3, 4, 5, 6, 7], [0.9, 0.1, 0, 0, 0]),
]


@pytest.mark.parametrize(("atoms", "masses", "support", "expected"), DOPAMINE)
def test_published_projections(atoms, masses, support, expected):
    certain, zero = torch.full((1, 5, 5), 0.2), torch.zeros(1, 5)
    m = shift(certain, torch.tensor([atoms]).float(), zero, torch.tensor(support).float())
    np.testing.assert_allclose(torch.tensor(masses) @ m[0], expected, atol=1e-6)


RANDOM = torch.Generator().manual_seed(4)
CORNERS = {  # n-step return `[3, 64]` in units of the atoms' spacing, and discount
    "random": (8.0 * torch.randn(3, 64, generator=RANDOM), torch.rand(3, 64, generator=RANDOM)),
    "clamped low": (torch.full((3, 64), -1e6), torch.full((3, 64), 0.9)),
    "clamped high": (torch.full((3, 64), 1e6), torch.full((3, 64), 0.9)),
    "every shifted atom on an atom": (torch.arange(-96.0, 96.0).view(3, 64), torch.ones(3, 64)),
    "terminal": (8.0 * torch.randn(3, 64, generator=RANDOM), torch.zeros(3, 64)),
    "terminal on an atom": (torch.arange(-96.0, 96.0).view(3, 64), torch.zeros(3, 64)),
    "identity": (torch.zeros(3, 64), torch.ones(3, 64)),
}


def in_corner(name, atoms):
    """(p, m, reward) of a random distribution on [-10, 10]."""
    support = make_support(10.0, atoms, torch.device("cpu"))
    reward = CORNERS[name][0] * (20.0 / (atoms - 1))
    p = torch.softmax(3.0 * torch.randn(3, 64, atoms, generator=torch.Generator().manual_seed(5)), -1)
    return p, shift(p, reward, CORNERS[name][1], support), reward


@pytest.mark.parametrize("atoms", [2, 51])
@pytest.mark.parametrize("name", list(CORNERS))
def test_mass_is_one(name, atoms):
    p, m, reward = in_corner(name, atoms)
    assert m.min() >= 0
    np.testing.assert_allclose(m.double().sum(-1), 1.0, rtol=0, atol=1e-6)
    if name == "identity":
        torch.testing.assert_close(m, p, rtol=0, atol=1e-6)
    if name.startswith("clamped"):
        edge = 0 if name == "clamped low" else -1
        assert (m.argmax(-1) == edge % atoms).all()
        np.testing.assert_allclose(m[..., edge], 1.0, rtol=0, atol=1e-6)
    if name.startswith("terminal"):  # only the reward is left
        mean = (m.double() * torch.linspace(-10, 10, atoms, dtype=torch.float64)).sum(-1)
        np.testing.assert_allclose(mean, reward.double().clamp(-10, 10), rtol=0, atol=2e-5)


def example(dtype=torch.float64):
    """(logits of both branches, actions, target, weights) of three members."""
    g = torch.Generator().manual_seed(0)
    logits = [torch.randn(3, 6, 3, 5, generator=g, dtype=dtype) for _ in range(2)]
    action = [torch.randint(3, (3, 6), generator=g) for _ in range(2)]
    m = torch.softmax(torch.randn(3, 6, 5, generator=g, dtype=dtype), -1)
    return *logits, *action, m, 0.5 + torch.rand(3, 6, generator=g, dtype=dtype)


def test_gradient_equals_autograd():
    *logits, direction, magnitude, m, weight = example()
    leaves = [x.clone().requires_grad_() for x in logits]
    actions = direction, magnitude
    crosses = [-(m * torch.log_softmax(select(x, a), -1)).sum(-1) for x, a in zip(leaves, actions, strict=True)]
    sample = 0.5 * (crosses[0] + crosses[1] * (direction != FLAT))
    value = (weight * sample).mean(1)
    expected = torch.autograd.grad(value.sum(), leaves)
    loss = c51_loss(*logits, *actions, m, weight)
    torch.testing.assert_close(loss.value, value.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(loss.sample, sample.detach(), rtol=1e-12, atol=1e-14)
    for got, exact in zip((loss.direction_logits, loss.magnitude_logits), expected, strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-12, atol=1e-15)


def two_atoms(*rows):
    """Logits `[1, B, 3, 2]` of the distributions `rows`, the same for each action."""
    return torch.tensor(rows, dtype=torch.float64).log()[None, :, None].expand(1, len(rows), 3, 2).contiguous()


def test_priority_is_the_sum_of_divergences_and_opposite_errors_do_not_cancel():
    """rl.md 3.5: KL([.5, .5] || [.9, .1]) = .5 log(.5/.9) + .5 log(.5/.1) = .5108256; the other way .3680642.

    On atoms -1, 1 the first sample's branches err by -.8 and +.8: their sum is 0, the priority 2 * .5108256. Second
    sample: the direction is exact, so only the magnitude's .3680642. Third: flat, so only the direction's .5108256.
    Fourth: the certain target [1, 0] against [.5, .5] twice, 2 log 2.
    """
    half, low, high = [0.5, 0.5], [0.9, 0.1], [0.1, 0.9]
    m = torch.tensor([[half, low, half, [1.0, 0.0]]], dtype=torch.float64)
    direction_logits, magnitude_logits = two_atoms(low, low, low, half), two_atoms(high, half, high, half)
    direction, magnitude = torch.tensor([[0, 2, FLAT, 0]]), torch.tensor([[0, 1, 2, 0]])
    loss = c51_loss(direction_logits, magnitude_logits, direction, magnitude, m, torch.full((1, 4), 3.0).double())
    expected = [[2 * 0.5108256, 0.3680642, 0.5108256, 2 * np.log(2)]]
    np.testing.assert_allclose(loss.priority, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
def test_priority_is_never_negative(scale):
    """Targets equal to the prediction to rounding, in float32, where the divergence is a difference of near equals."""
    logits = scale * torch.randn(3, 400, 3, 51, generator=torch.Generator().manual_seed(6))
    action = torch.zeros(3, 400, dtype=torch.int64)
    m = torch.softmax(logits[:, :, 0], -1)
    loss = c51_loss(logits, logits, action, action, m, torch.ones(3, 400))
    assert loss.priority.min() >= 0
    assert loss.priority.max() < 1e-4


def test_masked_samples_are_left_out_exactly():
    """NaN in the magnitude logits of a flat sample changes no bit of anything."""
    direction_logits, magnitude_logits, direction, *rest = example(torch.float32)
    loss = c51_loss(direction_logits, magnitude_logits, direction, *rest)
    assert (direction == FLAT).any()
    spoiled = magnitude_logits.masked_fill((direction == FLAT)[..., None, None], float("nan"))
    again = c51_loss(direction_logits, spoiled, direction, *rest)
    for name in ("value", "sample", "priority", "direction_logits", "magnitude_logits"):
        assert torch.equal(getattr(again, name), getattr(loss, name)), name


def test_members_are_independent():
    direction_logits, magnitude_logits, direction, magnitude, m, weight = example(torch.float32)

    def everything(direction_logits, magnitude_logits, m, weight, direction, magnitude):
        loss = c51_loss(direction_logits, magnitude_logits, direction, magnitude, m, weight)
        return loss.value, loss.sample, loss.priority, loss.direction_logits, loss.magnitude_logits

    assert_members_independent(everything, direction_logits, magnitude_logits, m, weight, direction, magnitude)


def test_target_members_are_independent():
    """Each with a support of its own, wide or narrow: alone it gets the bits that it has in the pack."""
    direction_logits, magnitude_logits, _, _, _, weight = example(torch.float32)
    supports = torch.stack([make_support(v_max, 5, torch.device("cpu")) for v_max in (0.5, 2.0, 10.0)])

    def target(direction_logits, magnitude_logits, reward, support):
        online, other = (direction_logits, magnitude_logits), (magnitude_logits, direction_logits)
        p = next_distribution(*other, *(action_values(logits, support).argmax(-1) for logits in online))
        return p, project(p, reward, 0.5 * reward, support)

    assert_members_independent(target, direction_logits, magnitude_logits, weight, supports)


def test_supports_of_members_are_their_own():
    """The certain return 1 on atoms [-1, 0, 1] and on [-4, 0, 4]: all mass on the last, and a quarter of it."""
    supports = torch.stack([make_support(v_max, 3, torch.device("cpu")) for v_max in (1.0, 4.0)])
    m = project(torch.full((2, 1, 3), 1 / 3), torch.ones(2, 1), torch.zeros(2, 1), supports)
    torch.testing.assert_close(m, torch.tensor([[[0.0, 0.0, 1.0]], [[0.0, 0.75, 0.25]]]))


def test_flat_masks_the_magnitude_branch():
    g = torch.Generator().manual_seed(1)
    d, m_logits = torch.randn(1, 3, 3, 5, generator=g), torch.randn(1, 3, 3, 5, generator=g)
    direction, magnitude = torch.tensor([[0, FLAT, 2]]), torch.tensor([[2, 2, 0]])
    m = torch.softmax(torch.randn(1, 3, 5, generator=g), -1)
    weight = torch.ones(1, 3)
    loss = c51_loss(d, m_logits, direction, magnitude, m, weight)
    reached = loss.magnitude_logits.abs().sum((0, 3)) > 0
    assert reached.tolist() == [[False, False, True], [False, False, False], [True, False, False]]
    m_logits[0, 1] = 40.0 * torch.arange(15).view(3, 5)
    assert torch.equal(c51_loss(d, m_logits, direction, magnitude, m, weight).value, loss.value)
    reached = loss.direction_logits.abs().sum((0, 3)) > 0
    assert reached.tolist() == [[True, False, False], [False, True, False], [False, False, True]]


def branch(*atoms):
    """Logits `[1, 1, 3, 3]` that put nearly all mass of each action on the atom given for it."""
    return torch.nn.functional.one_hot(torch.tensor([[atoms]]), 3).float() * 60.0


SUPPORT = make_support(1.0, 3, torch.device("cpu"))
LOW, MIDDLE, HIGH = range(3)


def greedy(online):
    """What the online network would choose."""
    return action_values(online, SUPPORT).argmax(-1)


def test_the_online_network_selects_and_the_target_network_evaluates():
    online, other = branch(LOW, MIDDLE, HIGH), branch(HIGH, HIGH, LOW)  # online: long; target would rather not
    p = next_distribution(other, other, greedy(online), greedy(online))
    torch.testing.assert_close(p[0, 0], torch.tensor([1.0, 0.0, 0.0]))
    p = next_distribution(
        online, online, greedy(other), greedy(other)
    )  # a tie between short and flat: the first is taken
    torch.testing.assert_close(p[0, 0], torch.tensor([1.0, 0.0, 0.0]))


def test_next_distribution_is_the_mixture_of_the_branches():
    """The mean target of branching: greedy branch values -1 and 1 give 0, and the mass stays 1."""
    online = branch(LOW, MIDDLE, HIGH)
    p = next_distribution(branch(LOW, LOW, LOW), branch(HIGH, HIGH, HIGH), greedy(online), greedy(online))
    torch.testing.assert_close(p[0, 0], torch.tensor([0.5, 0.0, 0.5]))


def test_next_flat_stands_alone():
    online_direction, online_magnitude = branch(LOW, HIGH, LOW), branch(LOW, MIDDLE, HIGH)
    p = next_distribution(
        branch(LOW, LOW, LOW), branch(HIGH, HIGH, HIGH), greedy(online_direction), greedy(online_magnitude)
    )
    torch.testing.assert_close(p[0, 0], torch.tensor([1.0, 0.0, 0.0]))


def test_mean_target_vector():
    """rl.md 3.2: r = 1, gamma = .9, greedy target values .5 and 1.5 give y = 1 + .9 * 1.0 = 1.9 for both branches."""
    support = make_support(4.0, 81, torch.device("cpu"))
    p = torch.zeros(1, 1, 81)
    p[0, 0, [int(torch.argmin((support - value).abs())) for value in (0.5, 1.5)]] = 0.5
    m = shift(p, torch.tensor([[1.0]]), torch.tensor([[0.9]]), support)
    assert (m * support).sum().item() == pytest.approx(1.9, abs=1e-5)


def test_support_is_symmetric_and_equally_spaced():
    support = make_support(10.0, 51, torch.device("cpu"))
    assert (support[0], support[-1]) == (-10.0, 10.0)
    assert abs(support[25]) < 1e-6
    torch.testing.assert_close(support.diff(), torch.full((50,), 0.4), rtol=1e-5, atol=0)

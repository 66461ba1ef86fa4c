"""The C51 loss of two branches: published vectors, its gradient, selection, mixture and masking."""

import numpy as np
import pytest
import torch

from trainer.losses.c51 import FLAT, c51_loss, make_support, next_distribution, project, select

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


def repeat_actions(logits):
    """`[P, 1, K]` logits as those of each of three actions, `[P, 1, 3, K]`."""
    return torch.tensor(logits, dtype=torch.float32)[:, None, None].expand(-1, -1, 3, -1).contiguous()


@pytest.mark.parametrize("name", list(RLAX))
def test_published_cross_entropies(name):
    later, expected = RLAX[name]
    p = torch.softmax(torch.tensor(later, dtype=torch.float32), -1)[:, None]
    m = project(p, torch.tensor(REWARD)[:, None], torch.tensor(DISCOUNT)[:, None], ATOMS)
    action = torch.zeros(5, 1, dtype=torch.int64)
    loss = c51_loss(repeat_actions(NOW), repeat_actions(NOW), action, action, m)
    np.testing.assert_allclose(loss.value, expected, rtol=1e-5)


def test_gradient_equals_autograd():
    g = torch.Generator().manual_seed(0)
    logits = [torch.randn(2, 6, 3, 5, generator=g, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    action = [torch.randint(3, (2, 6), generator=g) for _ in range(2)]
    m = torch.softmax(torch.randn(2, 6, 5, generator=g, dtype=torch.float64), -1)
    crosses = [-(m * torch.log_softmax(select(x, a), -1)).sum(-1) for x, a in zip(logits, action, strict=True)]
    value = (0.5 * (crosses[0] + crosses[1] * (action[0] != FLAT))).mean(1)
    expected = torch.autograd.grad(value.sum(), logits)
    loss = c51_loss(*[x.detach() for x in logits], *action, m)
    torch.testing.assert_close(loss.value, value.detach(), rtol=1e-12, atol=1e-14)
    for got, exact in zip((loss.direction_logits, loss.magnitude_logits), expected, strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-12, atol=1e-15)


def test_flat_masks_the_magnitude_branch():
    g = torch.Generator().manual_seed(1)
    d, m_logits = torch.randn(1, 3, 3, 5, generator=g), torch.randn(1, 3, 3, 5, generator=g)
    direction, magnitude = torch.tensor([[0, FLAT, 2]]), torch.tensor([[2, 2, 0]])
    m = torch.softmax(torch.randn(1, 3, 5, generator=g), -1)
    loss = c51_loss(d, m_logits, direction, magnitude, m)
    reached = loss.magnitude_logits.abs().sum((0, 3)) > 0
    assert reached.tolist() == [[False, False, True], [False, False, False], [True, False, False]]
    m_logits[0, 1] = 40.0 * torch.arange(15).view(3, 5)
    assert torch.equal(c51_loss(d, m_logits, direction, magnitude, m).value, loss.value)
    reached = loss.direction_logits.abs().sum((0, 3)) > 0
    assert reached.tolist() == [[True, False, False], [False, True, False], [False, False, True]]


def branch(*atoms):
    """Logits `[1, 1, 3, 3]` that put nearly all mass of each action on the atom given for it."""
    return torch.nn.functional.one_hot(torch.tensor([[atoms]]), 3).float() * 60.0


SUPPORT = make_support(1.0, 3, torch.device("cpu"))
LOW, MIDDLE, HIGH = range(3)


def test_the_online_network_selects_and_the_target_network_evaluates():
    online, other = branch(LOW, MIDDLE, HIGH), branch(HIGH, HIGH, LOW)  # online: long; target would rather not
    p = next_distribution(online, online, other, other, SUPPORT)
    torch.testing.assert_close(p[0, 0], torch.tensor([1.0, 0.0, 0.0]))
    p = next_distribution(other, other, online, online, SUPPORT)  # a tie between short and flat: the first is taken
    torch.testing.assert_close(p[0, 0], torch.tensor([1.0, 0.0, 0.0]))


def test_next_distribution_is_the_mixture_of_the_branches():
    """The mean target of branching: greedy branch values -1 and 1 give 0, and the mass stays 1."""
    online = branch(LOW, MIDDLE, HIGH)
    p = next_distribution(online, online, branch(LOW, LOW, LOW), branch(HIGH, HIGH, HIGH), SUPPORT)
    torch.testing.assert_close(p[0, 0], torch.tensor([0.5, 0.0, 0.5]))


def test_next_flat_stands_alone():
    online_direction, online_magnitude = branch(LOW, HIGH, LOW), branch(LOW, MIDDLE, HIGH)
    p = next_distribution(online_direction, online_magnitude, branch(LOW, LOW, LOW), branch(HIGH, HIGH, HIGH), SUPPORT)
    torch.testing.assert_close(p[0, 0], torch.tensor([1.0, 0.0, 0.0]))


def test_mean_target_vector():
    """rl.md 3.2: r = 1, gamma = .9, greedy target values .5 and 1.5 give y = 1 + .9 * 1.0 = 1.9 for both branches."""
    support = make_support(4.0, 81, torch.device("cpu"))
    p = torch.zeros(1, 1, 81)
    p[0, 0, [int(torch.argmin((support - value).abs())) for value in (0.5, 1.5)]] = 0.5
    m = project(p, torch.tensor([[1.0]]), torch.tensor([[0.9]]), support)
    assert (m * support).sum().item() == pytest.approx(1.9, abs=1e-5)


def test_support_is_symmetric_and_equally_spaced():
    support = make_support(10.0, 51, torch.device("cpu"))
    assert (support[0], support[-1]) == (-10.0, 10.0)
    assert abs(support[25]) < 1e-6
    torch.testing.assert_close(support.diff(), torch.full((50,), 0.4), rtol=1e-5, atol=0)

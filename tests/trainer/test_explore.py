"""Exploration: each branch has its own coin; the bonus of the ensemble moves the preference."""

import pytest
import torch
from tiny_trial import started, tiny_spec

from trainer import explore as module
from trainer.explore import explore, greedy, prefer
from trainer.network import forward


def chosen(probability, samples=30_000):
    """Exploring from (long, full) at one probability: int64 directions and magnitudes."""
    u = torch.rand(1, 4, samples, generator=torch.Generator().manual_seed(3))
    direction, magnitude = torch.full((1, samples), 2), torch.full((1, samples), 2)
    return explore(direction, magnitude, torch.tensor([probability]), u)


def test_the_ends():
    direction, magnitude = chosen(0.0)
    assert (direction == 2).all()
    assert (magnitude == 2).all()
    direction, magnitude = chosen(1.0)
    counts = torch.bincount(direction[0] * 3 + magnitude[0], minlength=9) / direction.numel()
    assert counts.tolist() == pytest.approx([1 / 9] * 9, abs=0.01)


def test_other_sizes_are_tried_with_the_preferred_direction():
    """P(long, third) = (1 - e + e/3) e/3; one coin for both branches would make it e/9."""
    direction, magnitude = chosen(0.3)
    share = ((direction == 2) & (magnitude == 0)).double().mean().item()
    assert share == pytest.approx((1 - 0.3 + 0.1) * 0.1, abs=0.005)
    assert share > 2 * 0.3 / 9


def test_the_bonus_prefers_what_the_heads_disagree_about(market_file, monkeypatch):
    """A deviation of 10 on flat and on the smallest size outweighs every value; without a bonus it does nothing."""
    pack = started(tiny_spec(market_file, ["base 0 0", "base 1 0"]))
    pack.signals["ensemble_bonus"].copy_(torch.tensor([1.0, 0.0]))
    odd = torch.tensor([0.0, 10.0, 0.0, 10.0, 0.0, 0.0])
    monkeypatch.setattr(module, "deviation", lambda values: odd.expand(*values.shape[:2], 6))
    view = pack.market.observe(pack.walks.row, pack.walks.target)
    weights, norm = pack.online.weights, pack.online.norm()
    direction, magnitude = prefer(pack, weights, norm, view)
    assert (direction[0] == 1).all()
    assert (magnitude[0] == 0).all()
    plain = greedy(forward(weights, norm, view), pack.support)
    assert torch.equal(direction[1], plain[0][1])
    assert torch.equal(magnitude[1], plain[1][1])

"""Learning health, its peak and floor, the value range, and the support that may follow it."""

import math
from dataclasses import replace

import pytest
import torch
from tiny_trial import TRAINER, run, tiny_spec

from trainer.health import EMA_RATE, move_support, observe_q_gap, observe_values
from trainer.network import action_values
from trainer.probe import Probe, action_gap, distribution_range, dormant_share, greedy_entropy
from trainer.signals import Signals


def probe(*gaps, low=-1.0, high=1.0):
    """A probe whose branches both have the given gaps, one a member."""
    gap = torch.tensor(gaps)
    none = torch.zeros_like(gap)
    ends = torch.full_like(gap, low), torch.full_like(gap, high)
    return Probe({"direction": gap, "magnitude": gap}, {}, {}, none, *ends, none)


def fresh(members):
    return Signals(members, (), torch.device("cpu"))


def test_peak_and_floor_vectors():
    """Peak 0.5 gives the floor 0.25, 0.05 gives 0.025; peak 1 after ten quiet epochs gives 0.5 x 0.99^10 = 0.452191."""
    signals = fresh(3)
    observe_q_gap(signals, probe(0.5, 0.05, 1.0))
    assert signals["q_gap_floor"].tolist() == pytest.approx([0.25, 0.025, 0.5])
    for _ in range(10):
        observe_q_gap(signals, probe(0.0, 0.0, 0.0))
    assert signals["q_gap_floor"][2].item() == pytest.approx(0.452191, abs=1e-6)
    assert signals["learning_health"].tolist() == [0.0] * 3


def test_a_q_gap_that_is_not_finite_is_no_health_and_keeps_the_peak():
    signals = fresh(2)
    observe_q_gap(signals, probe(1.0, 1.0))
    observe_q_gap(signals, probe(0.5, math.nan))
    assert signals["learning_health"].tolist() == pytest.approx([0.5 / 0.99, 0.0])
    assert signals["q_gap_peak"].tolist() == pytest.approx([0.99, 0.99])
    assert signals["q_gap_ema_direction"].tolist() == pytest.approx([1.0 - 0.5 * EMA_RATE, 1.0])


def test_health_lies_in_zero_to_one_and_is_read_from_the_raw_gap():
    """A gap at a tenth of its peak is health 0.1 at once; an average would still be at 1 - 0.3 x 0.9."""
    signals = fresh(1)
    observe_q_gap(signals, probe(1.0))
    observe_q_gap(signals, probe(0.099))
    assert signals["learning_health"].item() == pytest.approx(0.1)
    observe_q_gap(signals, probe(5.0))
    assert signals["learning_health"].item() == 1.0


def test_the_branches_are_averaged_apart():
    signals, seen = fresh(1), probe(1.0)
    seen.gap["magnitude"] = torch.tensor([3.0])
    observe_q_gap(signals, seen)
    assert (signals["q_gap_ema_direction"].item(), signals["q_gap_ema_magnitude"].item()) == (1.0, 3.0)
    assert signals["q_gap"].item() == 2.0


def test_value_range_starts_at_the_first_and_moves_by_its_rate():
    signals = fresh(1)
    observe_values(signals, probe(1.0, low=-2.0, high=4.0))
    assert (signals["value_low"].item(), signals["value_high"].item()) == (-2.0, 4.0)
    observe_values(signals, replace(probe(1.0), low=torch.tensor([-2.0]), high=torch.tensor([math.nan])))
    assert signals["value_high"].item() == 4.0
    observe_values(signals, probe(1.0, low=-2.0, high=8.0))
    assert signals["value_high"].item() == pytest.approx(4.0 + 4.0 * EMA_RATE)


def test_range_of_a_distribution():
    """Half the mass at -1, half at 1: mean 0, deviation 1, so -3 to 3, and all of it on the end atoms."""
    p = torch.tensor([0.5, 0.0, 0.5]).expand(1, 2, 3, 3)
    support = torch.tensor([[-1.0, 0.0, 1.0]])
    low, high, edge = distribution_range({"direction": p, "magnitude": p}, support)
    assert (low.item(), high.item(), edge.item()) == pytest.approx((-3.0, 3.0, 1.0))


def test_the_support_follows_the_value_range_only_when_asked(market_file):
    still, moving = (
        run(tiny_spec(market_file, network=TRAINER.network.model_copy(update={"moving_support": moves})))
        for moves in (False, True)
    )
    first, second = still.checkpoint.tensors["support"], moving.checkpoint.tensors["support"]
    assert first[0].tolist() == pytest.approx(torch.linspace(-10, 10, 11).tolist())
    columns = moving.records[-1].columns
    ends = [columns["signal/value_low"][0], columns["signal/value_high"][0]]
    assert second[0, [0, -1]].tolist() == pytest.approx(ends)
    steps = second[0].diff()
    assert steps.tolist() == pytest.approx([steps.mean().item()] * 10, rel=1e-4)
    assert columns["status"] == ["ok"]


def test_an_empty_range_moves_nothing():
    signals, support = fresh(1), torch.linspace(-1, 1, 5)[None].clone()
    move_support(support, signals)
    assert support.tolist() == [torch.linspace(-1, 1, 5).tolist()]


def test_dormant_units_vector():
    """h = [[0, 1, 2, .02], [0, 3, 0, .02]]: scores 0, 2.649, 1.3245, .0265, so 1 of 4 at .025 (2302.12902)."""
    h = torch.tensor([[[0.0, 1.0, 2.0, 0.02], [0.0, 3.0, 0.0, 0.02]]])
    assert dormant_share(h).item() == 0.25
    assert dormant_share(torch.zeros(1, 3, 4)).item() == 1.0


def test_entropy_of_the_greedy_action():
    values = torch.eye(3)[None]
    assert greedy_entropy(values).item() == pytest.approx(1.0)
    assert greedy_entropy(values[:, :1].expand(1, 5, 3)).item() == 0.0


def test_action_gap_is_best_minus_second_best():
    values = torch.tensor([[[1.0, 4.0, 2.0], [0.0, 0.0, 0.0]]])
    assert action_gap(values).item() == 1.0
    logits = torch.log(torch.tensor([0.25, 0.5, 0.25])).expand(1, 1, 1, 3)
    assert action_values(logits, torch.tensor([[-1.0, 0.0, 3.0]])).item() == pytest.approx(0.5)

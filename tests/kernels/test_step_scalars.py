"""Schedules, the budget of C51 and the clip against float64, and what they do at their edges."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from numba_kernels import CLIP_SLOTS, anneal, budget, clip

positive = st.floats(0.0, 1e4, width=32)


@pytest.mark.parametrize(
    ("updates", "wanted"), [(0, 1.0), (5, 0.55), (10, 0.1), (11, 0.1), (10**9, 0.1)], ids=lambda x: str(x)
)
def test_a_linear_schedule_ends_to_the_bit(updates, wanted):
    """From 1 to 0.1 over 10 updates."""
    signals = torch.tensor([[1.0, 0.1, 10.0, 7.0]])
    anneal(signals, torch.tensor([[updates]]), 0, torch.tensor([[0, 1, 2, 3]]), torch.zeros(0, 3, dtype=torch.int64))
    assert signals[0, 3].item() == (np.float32(0.1) if updates >= 10 else pytest.approx(wanted, rel=1e-6))
    assert signals[0, :3].tolist() == torch.tensor([1.0, 0.1, 10.0]).tolist()


def test_a_schedule_over_no_updates_is_at_its_end():
    signals = torch.tensor([[1.0, 0.25, 0.0, 7.0]])
    anneal(signals, torch.tensor([[0]]), 0, torch.tensor([[0, 1, 2, 3]]), torch.zeros(0, 3, dtype=torch.int64))
    assert signals[0, 3] == 0.25


@pytest.mark.parametrize(("updates", "wanted"), [(0, 0.0), (4, 0.0), (6, 0.25), (12, 1.0), (99, 1.0)])
def test_a_ramp_waits_rises_and_stays(updates, wanted):
    """0 for 4 updates, 1 after 8 more."""
    signals = torch.tensor([[4.0, 8.0, 7.0]])
    anneal(signals, torch.tensor([[updates]]), 0, torch.zeros(0, 4, dtype=torch.int64), torch.tensor([[0, 1, 2]]))
    assert signals[0, 2] == wanted


@given(st.lists(positive, min_size=1, max_size=9), positive, positive)
def test_budget_keeps_the_norm_within_its_limit(norms, share, applied):
    out = [torch.zeros(1) for _ in "abc"]
    budget(torch.tensor([norms]), torch.tensor([[share, applied]]), torch.tensor([0, 1]), *out)
    raw, scale, kept = (x.item() for x in out)
    assert raw == pytest.approx(np.linalg.norm(np.float64(norms)), rel=1e-5, abs=1e-30)
    limit = np.float32(share) * np.float32(applied)
    assert scale == 1.0 if limit == 0 or raw <= limit else kept == pytest.approx(limit, rel=1e-5)


@pytest.mark.parametrize("norm", [math.inf, math.nan])
def test_a_budget_does_not_hide_a_broken_gradient(norm):
    out = [torch.zeros(1) for _ in "abc"]
    budget(torch.tensor([[1.0, norm]]), torch.tensor([[2.0, 3.0]]), torch.tensor([0, 1]), *out)
    assert math.isnan(out[1].item())


def test_clip_writes_the_coefficients_of_adam():
    """Third step at beta1 0.5 and beta2 0.75, learning rate 0.1, norm 5 clipped to 2."""
    values = dict(zip(CLIP_SLOTS, [4.0, 0.25, 2.0, 0.1, 0.5, 0.75, 1e-8, 0.01, 0.25, 0.5625], strict=True))
    signals, counters = torch.tensor([list(values.values())]), torch.tensor([[7, 2, -1]])
    norm, factor, alive, out = torch.zeros(1), torch.zeros(1), torch.zeros(1, dtype=torch.int32), torch.zeros(1, 7)
    places = torch.arange(10), torch.arange(3)
    clip(torch.tensor([[3.0, 4.0]]), torch.zeros(1), signals, counters, *places, norm, factor, alive, out)
    correction = 1.0 / (1.0 - 0.75**3)
    assert (norm.item(), factor.item(), alive.item()) == (5.0, pytest.approx(0.4), 1)
    assert out[0].tolist() == pytest.approx([0.4, 0.1 / (1.0 - 0.125), 0.5, 0.75, correction, 1e-8, 0.01])
    after = dict(zip(CLIP_SLOTS, signals[0].tolist(), strict=True))
    assert (after["applied_norm_ema"], after["adam_beta1_power"], after["adam_beta2_power"]) == (4.25, 0.125, 0.421875)
    assert counters.tolist() == [[7, 3, -1]]


def test_a_broken_member_keeps_its_powers_and_the_update_it_broke_at():
    signals, counters = torch.full((1, 10), 0.5), torch.tensor([[7, 2, -1]])
    places = torch.arange(10), torch.arange(3)
    for norm in (math.nan, 1.0):
        alive = torch.ones(1, dtype=torch.int32)
        outputs = torch.zeros(1), torch.zeros(1), alive, torch.zeros(1, 7)
        clip(torch.tensor([[norm]]), torch.zeros(1), signals, counters, *places, *outputs)
        assert alive.item() == 0
        assert counters.tolist() == [[7, 2, 7]]
    assert signals[0, 8:].tolist() == [0.5, 0.5]

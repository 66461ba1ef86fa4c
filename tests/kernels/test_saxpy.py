"""Landing gradients by selection, and the distillation pull whose coefficient the kernel reads from the signals."""

import kernel_cases as cases
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import numba_kernels as nk

NAN, INF = float("nan"), float("inf")
HEALTH, ALPHA_MAX, HEALTH_ON, ARMED = range(4)
SLOTS = torch.tensor([HEALTH, ALPHA_MAX, HEALTH_ON, ARMED])


def rows(lanes=2, total=70, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(lanes, total, generator=g) for _ in range(3)]


def pull(health, alpha_max=0.25, health_on=0.5, armed=1.0):
    """(gradient before, after, params, best, alpha) of one lane."""
    gradient, params, best = rows(1)
    signals, alpha = torch.tensor([[health, alpha_max, health_on, armed]]), torch.zeros(1)
    after = gradient.clone()
    nk.distill_saxpy(after, params, best, signals, SLOTS, alpha)
    return gradient, after, params, best, alpha.item()


def test_saxpy_adds():
    out = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    nk.saxpy(out, torch.tensor([2.0, -1.0]), torch.tensor([[10.0, 20.0], [0.5, 0.25]]))
    assert out.tolist() == [[21.0, 42.0], [2.5, 3.75]]


@pytest.mark.parametrize("poison", [NAN, INF, -INF])
def test_a_zero_coefficient_changes_no_bit_whatever_x_holds(poison):
    out, x, _ = rows()
    out[0, 3], x[0, :] = -0.0, poison
    before = out.clone()
    nk.saxpy(out, torch.tensor([0.0, 1.0]), x)
    assert torch.equal(cases.bits(out[0]), cases.bits(before[0]))
    assert not torch.equal(out[1], before[1])


def test_a_broken_coefficient_breaks_its_own_lane_only():
    out, x, _ = rows()
    nk.saxpy(out, torch.tensor([1.0, NAN]), x)
    assert torch.isfinite(out[0]).all()
    assert torch.isnan(out[1]).all()


@pytest.mark.parametrize(
    ("health", "alpha"),
    [  # alpha_max 0.25, h_on 0.5: alpha = 0.25 x clip((0.5 - health) / 0.5, 0, 1)
        (1.0, 0.0),
        (0.5, 0.0),
        (0.375, 0.0625),
        (0.25, 0.125),
        (0.0, 0.25),
        (-1.0, 0.25),
        (NAN, 0.25),  # a member that cannot be measured is not healthy
    ],
)
def test_alpha_follows_health(health, alpha):
    before, after, params, best, got = pull(health)
    assert got == alpha
    if alpha == 0:
        assert torch.equal(cases.bits(before), cases.bits(after))
    else:
        np.testing.assert_allclose(after, before + alpha * (params - best), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("off", [{"armed": 0.0}, {"alpha_max": 0.0}, {"health_on": 0.0}])
def test_it_stays_off(off):
    before, after, _, _, alpha = pull(0.0, **off)
    assert alpha == 0.0
    assert torch.equal(cases.bits(before), cases.bits(after))


@given(health=st.floats(0, 1, width=32), alpha_max=st.floats(0, 2, width=32), health_on=st.floats(0, 1, width=32))
def test_with_its_alpha_it_is_a_plain_saxpy_to_the_bit(health, alpha_max, health_on):
    before, after, params, best, alpha = pull(health, alpha_max, health_on)
    plain = before.clone()
    nk.saxpy(plain, torch.tensor([alpha], dtype=torch.float32), params - best)
    assert torch.equal(cases.bits(plain), cases.bits(after))


def test_the_same_call_follows_the_table():
    """Nothing but tensors is handed over, so a replayed launch sees what the table holds at that time."""
    gradient, params, best = rows(1)
    signals, alpha = torch.tensor([[1.0, 0.5, 0.5, 1.0]]), torch.zeros(1)
    call = (gradient, params, best, signals, SLOTS, alpha)
    scalars = [argument.name for argument in cases.BY_NAME["distill_saxpy"].arguments if not argument.is_tensor]
    assert scalars == ["count"]  # the length of a row, which no replay could see change
    seen = []
    for health in (1.0, 0.25, 0.0, 1.0):
        signals[0, HEALTH] = health
        nk.distill_saxpy(*call)
        seen.append(alpha.item())
    assert seen == [0.0, 0.25, 0.5, 0.0]


def test_no_pull_where_the_teacher_is_the_student():
    gradient, params, _ = rows(1)
    before, alpha = gradient.clone(), torch.zeros(1)
    nk.distill_saxpy(gradient, params, params.clone(), torch.tensor([[0.0, 0.5, 0.5, 1.0]]), SLOTS, alpha)
    assert alpha.item() == 0.5
    assert torch.equal(gradient, before)

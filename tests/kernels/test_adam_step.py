"""Adam and the target step on flat buffers, one row of hyperparameters a lane."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_kernels import ArgumentError, adam_step
from numba_kernels.adam_step import OPERATION
from numba_kernels.simulator import simulate

NAMES = ("gradient", "params", "first", "second", "target")


def case(lanes=3, total=40, seed=0):
    """Random buffers by name and coefficients: scale, rate, beta1, beta2, correction, epsilon, target rate."""
    g = np.random.default_rng(seed)
    buffers = {name: torch.from_numpy(g.normal(size=(lanes, total)).astype(np.float32)) for name in NAMES}
    buffers["second"].abs_()
    low, high = [0.1, 1e-4, 0.5, 0.9, 1.0, 1e-8, 0.001], [1.0, 1e-2, 0.95, 0.9999, 10.0, 1e-3, 1.0]
    return buffers, torch.from_numpy(g.uniform(low, high, (lanes, 7)).astype(np.float32))


def step(buffers, coefficients, alive):
    gradient, *state = (buffers[name] for name in NAMES)
    adam_step(gradient, coefficients, torch.tensor(alive, dtype=torch.int32), *state)


def reference(buffers, coefficients):
    """(params, first, second, target) after one step, float64."""
    gradient, params, first, second, target = (buffers[name].numpy().astype(np.float64) for name in NAMES)
    scale, rate, beta1, beta2, correction, epsilon, polyak = coefficients.numpy().astype(np.float64).T[..., None]
    g = gradient * scale
    first = beta1 * first + (1 - beta1) * g
    second = beta2 * second + (1 - beta2) * g**2
    params = params - rate * first / (np.sqrt(second * correction) + epsilon)
    return params, first, second, target + polyak * (params - target)


@settings(max_examples=40, deadline=None)
@given(lanes=st.integers(1, 4), half=st.integers(1, 150), seed=st.integers(0, 2**32 - 1))
def test_equals_the_float64_reference(lanes, half, seed):
    buffers, coefficients = case(lanes, 2 * half, seed)
    expected = reference(buffers, coefficients)
    step(buffers, coefficients, [1] * lanes)
    for name, exact in zip(NAMES[1:], expected, strict=True):
        np.testing.assert_allclose(buffers[name], exact, rtol=2e-5, atol=2e-6, err_msg=name)


def test_only_the_first_parameters_move_when_told_so():
    buffers, coefficients = case()
    before = {name: buffers[name].clone() for name in NAMES}
    gradient, *state = (buffers[name] for name in NAMES)
    adam_step(gradient, coefficients, torch.ones(3, dtype=torch.int32), *state, 12)
    for name in NAMES[1:]:
        assert torch.equal(buffers[name][:, 12:], before[name][:, 12:]), name
        assert not torch.equal(buffers[name][:, :12], before[name][:, :12]), name


@pytest.mark.parametrize(("total", "count"), [(40, 13), (40, 42), (41, None), (40, -2)])
def test_rows_come_in_pairs_of_parameters(total, count):
    buffers, coefficients = case(total=total)
    gradient, *state = (buffers[name] for name in NAMES)
    with pytest.raises(ArgumentError, match="both must be even"):
        adam_step(gradient, coefficients, torch.ones(3, dtype=torch.int32), *state, count)


def bits(buffers, lane):
    return [buffers[name][lane].view(torch.int32).tolist() for name in NAMES]


@pytest.mark.parametrize("fault", [float("nan"), float("inf"), 0.5])
def test_a_lane_that_is_not_alive_keeps_every_bit(fault):
    buffers, coefficients = case()
    buffers["gradient"][1, 3] = fault
    buffers["params"][1, 4] = fault
    coefficients[1, 4] = float("inf")
    before = {lane: bits(buffers, lane) for lane in range(3)}
    step(buffers, coefficients, [1, 0, 1])
    assert bits(buffers, 1) == before[1]
    assert bits(buffers, 0) != before[0]
    assert bits(buffers, 2) != before[2]


def test_a_fault_in_one_lane_changes_no_bit_of_another():
    clean, coefficients = case()
    broken, _ = case()
    broken["gradient"][1, 3] = float("nan")
    for buffers in (clean, broken):
        step(buffers, coefficients, [1, 1, 1])
    assert bits(clean, 0) == bits(broken, 0)
    assert bits(clean, 2) == bits(broken, 2)
    assert torch.isnan(broken["params"][1]).nonzero().flatten().tolist() == [3]


def test_a_lane_gives_the_same_bits_alone():
    together, coefficients = case()
    step(together, coefficients, [1, 1, 1])
    for lane in range(3):
        alone, _ = case()
        alone = {name: buffer[lane : lane + 1].clone() for name, buffer in alone.items()}
        step(alone, coefficients[lane : lane + 1].clone(), [1])
        assert bits(alone, 0) == bits(together, lane)


def test_zero_gradient_and_zero_moments_leave_parameters_alone():
    buffers, coefficients = case()
    for name in ("gradient", "first", "second"):
        buffers[name].zero_()
    before = buffers["params"].clone()
    step(buffers, coefficients, [1, 1, 1])
    assert torch.equal(buffers["params"], before)


def test_launches_with_and_without_copies_move_the_same_parameters():
    """What a GPU is asked to do, in the simulator: rows of copies without entries are no special case."""
    state = [torch.randn(2, 8, generator=torch.Generator().manual_seed(i)).abs() for i in range(5)]
    coefficients, alive = torch.tensor([[0.5, 1e-3, 0.9, 0.999, 2.0, 1e-8, 0.01]] * 2), torch.ones(2, dtype=torch.int32)
    results = []
    for length in (0, 4):
        gradient, *moved = (x.clone() for x in state)
        low = [torch.zeros(2, length, dtype=torch.bfloat16) for _ in "ab"]
        simulate(OPERATION.launches(gradient, coefficients, alive, *moved, 8, *low))
        results.append(moved)
        assert torch.equal(low[0], moved[0][:, :length].to(torch.bfloat16))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))

"""Adam over many steps against torch and float64, the clip of each member, frozen members."""

import numpy as np
import pytest
import torch

from trainer.config import TrainerConfig
from trainer.optimiser import adam, clip
from trainer.signals import Counters, Signals

CPU = torch.device("cpu")
MEMBERS, TOTAL = 3, 64


@pytest.fixture
def buffers():
    g = torch.Generator().manual_seed(0)
    params = torch.randn(MEMBERS, TOTAL, generator=g)
    return {"params": params, "target": params.clone(), "first": params * 0, "second": params * 0}


@pytest.fixture
def tables():
    signals, counters = Signals(MEMBERS, (), CPU), Counters(MEMBERS, CPU)
    signals.write_config(TrainerConfig(learning_rate=3e-3, target_rate=0.1))
    signals["learning_rate"][1] = 1e-2  # members of a pack may differ in any slot
    signals["adam_beta1"][2] = 0.5
    return signals, counters


def gradients(steps):
    g = torch.Generator().manual_seed(1)
    return [torch.randn(MEMBERS, TOTAL, generator=g) for _ in range(steps)]


def step(buffers, tables, gradient, low=None):
    """One update as the trainer makes it, the gradient being one slice."""
    loss = torch.zeros(MEMBERS)
    clipped = clip(gradient.norm(dim=1, keepdim=True), loss, *tables)
    state = (buffers[name] for name in ("params", "target"))
    adam(*state, gradient, buffers["first"], buffers["second"], clipped, gradient.shape[1], low)
    return clipped


def test_equals_torch_adam_in_float64(buffers, tables):
    signals, counters = tables
    networks, targets = [], []
    for p in range(MEMBERS):
        weight = torch.nn.Parameter(buffers["params"][p].double())
        rate, beta1, beta2, epsilon = (
            float(signals[name][p]) for name in ("learning_rate", "adam_beta1", "adam_beta2", "adam_epsilon")
        )
        networks.append((weight, torch.optim.Adam([weight], lr=rate, betas=(beta1, beta2), eps=epsilon)))
        targets.append(weight.detach().clone())
    for gradient in gradients(50):
        step(buffers, tables, gradient)
        for p, (weight, optimiser) in enumerate(networks):
            weight.grad = gradient[p].double()
            optimiser.step()
            targets[p] += 0.1 * (weight.detach() - targets[p])
    for p, (weight, _) in enumerate(networks):
        np.testing.assert_allclose(buffers["params"][p], weight.detach(), rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(buffers["target"][p], targets[p], rtol=2e-5, atol=2e-6)
    assert counters["adam_steps"].tolist() == [50] * MEMBERS


def test_equals_torch_adam_in_float32(buffers, tables):
    weight = torch.nn.Parameter(buffers["params"][0].clone())
    optimiser = torch.optim.Adam([weight], lr=3e-3, eps=1.5e-4)
    for gradient in gradients(20):
        step(buffers, tables, gradient)
        weight.grad = gradient[0].clone()
        optimiser.step()
    torch.testing.assert_close(buffers["params"][0], weight.detach(), rtol=1e-5, atol=1e-6)


def test_clip_is_of_each_member():
    signals, counters = Signals(4, (), CPU), Counters(4, CPU)
    signals["clip_norm"].copy_(torch.tensor([10.0, 2.5, 10.0, 10.0]))
    norms = torch.tensor([[0.0, 0.0], [3.0, 4.0], [12.0, 16.0], [10.0, 0.0]])
    found = clip(norms, torch.zeros(4), signals, counters)
    assert found.norm.tolist() == [0.0, 5.0, 20.0, 10.0]
    assert found.factor.tolist() == [1.0, 0.5, 0.5, 1.0]
    assert torch.equal(found.coefficients[:, 0], found.factor)


def test_a_clipped_gradient_is_the_gradient_scaled(buffers, tables):
    other = {name: buffer.clone() for name, buffer in buffers.items()}
    signals, counters = Signals(MEMBERS, (), CPU), Counters(MEMBERS, CPU)
    signals.table.copy_(tables[0].table)
    tables[0]["clip_norm"].copy_(torch.tensor([100.0, 2.0, 4.0]))
    signals["clip_norm"].fill_(1e9)
    for gradient in gradients(5):
        factor = step(buffers, tables, gradient).factor
        assert (factor < 1.0).tolist() == [False, True, True]
        step(other, (signals, counters), gradient * factor[:, None])
    assert all(torch.equal(buffers[name], other[name]) for name in buffers)


def test_a_member_that_is_not_alive_keeps_every_bit_and_its_powers(buffers, tables):
    signals, counters = tables
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    gradient = gradients(1)[0]
    gradient[1, 7] = float("nan")
    assert step(buffers, tables, gradient).alive.tolist() == [1, 0, 1]
    for name, buffer in buffers.items():
        assert torch.equal(buffer[1], before[name][1])
        assert torch.isfinite(buffer).all()
        assert not torch.equal(buffer[0], before[name][0])
    assert counters["adam_steps"].tolist() == [1, 0, 1]
    assert signals["adam_beta1_power"][1] == 1.0


def test_freeze_notes_the_first_broken_update_and_never_thaws():
    signals, counters = Signals(4, (), CPU), Counters(4, CPU)
    fine, nan, inf = 1.0, float("nan"), float("inf")
    counters["updates"].fill_(3)
    norms = torch.tensor([[fine], [nan], [fine], [inf]])
    alive = clip(norms, torch.tensor([fine, fine, nan, fine]), signals, counters).alive
    assert alive.tolist() == [1, 0, 0, 0]
    counters["updates"].fill_(4)
    alive = clip(torch.full((4, 1), fine), torch.full((4,), fine), signals, counters).alive
    assert alive.tolist() == [True, False, False, False]
    assert counters["frozen_at"].tolist() == [-1, 3, 3, 3]


def test_the_running_norm_starts_at_the_first_and_skips_a_broken_one():
    signals, counters = Signals(2, (), CPU), Counters(2, CPU)
    signals["norm_ema_rate"].fill_(0.25)
    for norm in ([4.0, 4.0], [8.0, float("nan")], [8.0, 8.0]):
        clip(torch.tensor(norm)[:, None], torch.zeros(2), signals, counters)
    assert signals["applied_norm_ema"].tolist() == [4.0 + 1.0 + 0.75, 5.0]


def test_low_copies_follow_the_parameters_and_stay_with_a_frozen_member(buffers, tables):
    low = tuple(buffers[name][:, :32].to(torch.bfloat16) for name in ("params", "target"))
    for gradient in gradients(3):
        gradient[1, 3] = float("inf")
        step(buffers, tables, gradient, low)
    for copy, name in zip(low, ("params", "target"), strict=True):
        assert torch.equal(copy, buffers[name][:, :32].to(torch.bfloat16))

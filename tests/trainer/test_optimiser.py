"""Adam over many steps against torch and float64, the clip of each member, frozen members."""

import numpy as np
import pytest
import torch

from trainer.config import TrainerConfig
from trainer.optimiser import adam, clip_factor, freeze
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


def step(buffers, tables, gradient, factor=None, alive=None):
    factor = torch.ones(MEMBERS) if factor is None else factor
    alive = torch.ones(MEMBERS, dtype=torch.bool) if alive is None else alive
    state = (buffers[name] for name in ("params", "target"))
    adam(*state, gradient, buffers["first"], buffers["second"], *tables, factor, alive, gradient.shape[1])


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
    norm, clip = torch.tensor([0.0, 5.0, 20.0, 10.0]), torch.tensor([10.0, 2.5, 10.0, 10.0])
    assert clip_factor(norm, clip).tolist() == [1.0, 0.5, 0.5, 1.0]


def test_a_clipped_gradient_is_the_gradient_scaled(buffers, tables):
    other = {name: buffer.clone() for name, buffer in buffers.items()}
    signals, counters = Signals(MEMBERS, (), CPU), Counters(MEMBERS, CPU)
    signals.table.copy_(tables[0].table)
    factor = torch.tensor([1.0, 0.25, 0.5])
    for gradient in gradients(5):
        step(buffers, tables, gradient, factor)
        step(other, (signals, counters), gradient * factor[:, None])
    assert all(torch.equal(buffers[name], other[name]) for name in buffers)


def test_a_member_that_is_not_alive_keeps_every_bit_and_its_powers(buffers, tables):
    signals, counters = tables
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    gradient = gradients(1)[0]
    gradient[1, 7] = float("nan")
    step(buffers, tables, gradient, alive=torch.tensor([True, False, True]))
    for name, buffer in buffers.items():
        assert torch.equal(buffer[1], before[name][1])
        assert torch.isfinite(buffer).all()
        assert not torch.equal(buffer[0], before[name][0])
    assert counters["adam_steps"].tolist() == [1, 0, 1]
    assert signals["adam_beta1_power"][1] == 1.0


def test_freeze_notes_the_first_broken_update_and_never_thaws():
    counters = Counters(4, CPU)
    fine, nan, inf = 1.0, float("nan"), float("inf")
    counters["updates"].fill_(3)
    alive = freeze(counters, torch.tensor([fine, nan, fine, inf]), torch.tensor([fine, fine, nan, fine]))
    assert alive.tolist() == [True, False, False, False]
    counters["updates"].fill_(4)
    alive = freeze(counters, torch.full((4,), fine), torch.full((4,), fine))
    assert alive.tolist() == [True, False, False, False]
    assert counters["frozen_at"].tolist() == [-1, 3, 3, 3]

"""The explicit backward against float64 autograd, from every activation at which a gradient can enter."""

import numpy as np
import pytest
import torch

from trainer import noisy, spectral
from trainer.config import EnsembleConfig, IQNConfig, NetworkConfig, TrainerConfig
from trainer.network import REACH, action_values, backward, forward, logits_gradient, predict
from trainer.params import SLICES, make_layout

MEMBERS, BATCH, OBSERVATION = 2, 5, 6
TRAINER = TrainerConfig(
    network=NetworkConfig(trunk=(9, 7), head=6, atoms=5), iqn=IQNConfig(cosines=3), ensemble=EnsembleConfig(heads=2)
)
LAYOUT = make_layout(OBSERVATION, TRAINER)


class Noise:
    """Uniform numbers where the trainer has its counter-based ones."""

    def uniform(self, purpose, step, count):
        return torch.rand(MEMBERS, count, generator=torch.Generator().manual_seed(purpose), dtype=torch.float64)


@pytest.fixture(params=[True, False], ids=["spectral", "plain"])
def network(request):
    """Leaf buffer, its views with noise in the first member, an observation and the spectral norm, float64."""
    generator = torch.Generator().manual_seed(3)
    buffer = torch.zeros(MEMBERS, LAYOUT.total, dtype=torch.float64)
    for view in LAYOUT.views(buffer).values():
        view.copy_(torch.randn(view.shape, generator=generator, dtype=torch.float64) * 0.5)
    buffer.requires_grad_()
    weights = noisy.perturb(LAYOUT.views(buffer), Noise(), 2, None, torch.tensor([1.0, 0.0]))
    left = torch.randn(MEMBERS, 1, 9, generator=generator, dtype=torch.float64)
    right = torch.randn(MEMBERS, 1, 7, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        spectral.iterate(weights["w_s2"], left, right)
        spectral.iterate(weights["w_s2"], left, right)
    observation = torch.randn(MEMBERS, BATCH, OBSERVATION, generator=generator, dtype=torch.float64)
    target = torch.eye(7, dtype=torch.float64)[torch.randint(7, (MEMBERS, BATCH), generator=generator)]
    norm = spectral.estimate(weights["w_s2"], left, right, torch.full((MEMBERS, 1, 1), request.param))
    return buffer, weights, norm, observation, target


def activations(network):
    _, weights, norm, observation, target = network
    act = forward(weights, norm, observation)
    return act, {name: getattr(act, name) for name in REACH if name != "prediction"} | {
        "prediction": predict(weights, act.trunk, target)
    }


def gradients(network, entries):
    """(explicit, autograd) gradient rows of sum(weight * activation) over `entries`."""
    buffer, weights, norm, _, target = network
    act, values = activations(network)
    generator = torch.Generator().manual_seed(11)
    d = {name: torch.randn(values[name].shape, generator=generator, dtype=torch.float64) for name in entries}
    (expected,) = torch.autograd.grad(sum((d[name] * values[name]).sum() for name in entries), [buffer])
    row = torch.zeros_like(expected)
    with torch.no_grad():
        backward(weights, norm, act, d, LAYOUT.views(row), target)
    return row, expected


@pytest.mark.parametrize("entry", list(REACH))
def test_one_entry(network, entry):
    row, expected = gradients(network, [entry])
    torch.testing.assert_close(row, expected, rtol=1e-11, atol=1e-12)
    for name in SLICES:
        start, stop = LAYOUT.slices[name]
        if name in REACH[entry]:
            assert row[:, start:stop].abs().sum() > 0
        else:
            assert row[:, start:stop].count_nonzero() == 0


def test_all_entries_at_once(network):
    row, expected = gradients(network, list(REACH))
    torch.testing.assert_close(row, expected, rtol=1e-11, atol=1e-12)


def test_every_tensor_is_reached_by_some_entry(network):
    """A tensor outside every slice, or one that no backward writes, leaves a zero gradient here.

    The heads' own tensors are in test_heads_backward.py, a whole pack in test_decomposition.py.
    """
    row, _ = gradients(network, list(REACH))
    reached, views = {part for parts in REACH.values() for part in parts}, LAYOUT.views(row)
    for tensor in LAYOUT.tensors:
        assert (views[tensor.name].abs().sum() > 0) == (tensor.slice in reached), tensor.name
    covered = sum(stop - start for start, stop in LAYOUT.slices.values())
    assert covered == LAYOUT.total
    for tensor in LAYOUT.tensors:
        start, stop = LAYOUT.slices[tensor.slice]
        assert start <= tensor.start < tensor.stop <= stop


def test_forward_is_the_network_written_out_for_one_member(network):
    _, weights, norm, observation, _ = network
    act, _ = activations(network)
    for p in range(MEMBERS):
        w = {name: view[p].detach().numpy() for name, view in weights.items()}
        scale = norm.sigma[p].item() if norm.on[p] else 1.0
        z = np.maximum(observation[p].numpy() @ w["w_s1"] + w["b_s1"], 0)
        z = np.maximum(z @ (w["w_s2"] / scale) + w["b_s2"], 0)
        out = {k: np.maximum(z @ w[f"w_{k}1"] + w[f"b_{k}1"], 0) @ w[f"w_{k}2"] + w[f"b_{k}2"] for k in "vdm"}
        for branch, letter in (("direction", "d"), ("magnitude", "m")):
            advantage = out[letter].reshape(BATCH, 3, 5)
            logits = out["v"][:, None] + advantage - advantage.mean(1, keepdims=True)
            np.testing.assert_allclose(getattr(act, f"{branch}_logits")[p].detach(), logits, rtol=1e-12, atol=1e-12)


def test_a_member_without_noise_has_its_plain_weights_and_no_gradient_of_the_scales(network):
    buffer, weights, *_ = network
    plain = LAYOUT.views(buffer)
    for name in ("w_v1", "b_d1", "w_m1"):
        assert torch.equal(weights[name][1], plain[name][1])
        assert not torch.equal(weights[name][0], plain[name][0])
    start, stop = LAYOUT.slices["noise"]
    row, _ = gradients(network, list(REACH))
    assert row[0, start:stop].count_nonzero() > 0
    assert row[1, start:stop].count_nonzero() == 0


def test_dueling_vector():
    """V = 1, A1 = [0, 1, 2] gives Q = [0, 1, 2], atom by atom (Wang et al. 2016, eq. 9)."""
    layout = make_layout(1, TrainerConfig(network=NetworkConfig(trunk=(2, 2), head=2, atoms=2)))
    w = layout.views(torch.zeros(1, layout.total))
    w["b_v2"].fill_(1.0)
    w["b_d2"].copy_(torch.tensor([0.0, 0.0, 1.0, 1.0, 2.0, 2.0]).view(1, 1, 6))
    left, right = torch.ones(1, 1, 2), torch.ones(1, 1, 2)
    act = forward(w, spectral.estimate(w["w_s2"], left, right, torch.tensor(False)), torch.zeros(1, 1, 1))
    assert act.direction_logits[0, 0].tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert act.magnitude_logits[0, 0].tolist() == [[1.0, 1.0]] * 3


def test_gradient_through_action_values():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 3, 3, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    support = torch.linspace(-2, 2, 5, dtype=torch.float64)
    d_values = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64)
    (expected,) = torch.autograd.grad((action_values(logits, support) * d_values).sum(), [logits])
    torch.testing.assert_close(logits_gradient(logits.detach(), support, d_values), expected, rtol=1e-12, atol=1e-14)


def test_power_iteration_finds_the_largest_singular_value():
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(3, 9, 7, generator=generator, dtype=torch.float64)
    left, right = torch.ones(3, 1, 9, dtype=torch.float64), torch.zeros(3, 1, 7, dtype=torch.float64)
    for _ in range(300):
        spectral.iterate(weight, left, right)
    sigma = spectral.estimate(weight, left, right, torch.tensor(True)).sigma.flatten()
    torch.testing.assert_close(sigma, torch.linalg.matrix_norm(weight, 2), rtol=1e-6, atol=0)


def test_infinite_gradient_at_a_closed_unit_stays_zero(network):
    _, weights, norm, _, _ = network
    act, _ = activations(network)
    d = torch.full_like(act.trunk, float("inf")).masked_fill(act.trunk > 0, 1.0)
    row = torch.zeros(MEMBERS, LAYOUT.total, dtype=torch.float64)
    with torch.no_grad():
        backward(weights, norm, act, {"trunk": d}, LAYOUT.views(row))
    assert (act.trunk == 0).any()
    assert torch.isfinite(row).all()

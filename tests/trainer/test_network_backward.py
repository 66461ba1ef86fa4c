"""The explicit backward against float64 autograd, from every activation at which a gradient can enter."""

from dataclasses import dataclass

import pytest
import torch

from trainer import noisy, spectral
from trainer.config import EnsembleConfig, IQNConfig, NetworkConfig, TrainerConfig
from trainer.network import (
    REACH,
    SpectralNorm,
    action_values,
    backward,
    columns_of,
    forward,
    logits_gradient,
    predict,
)
from trainer.params import HEADS, SLICES, make_layout

MEMBERS, BATCH, OBSERVATION = 2, 5, 6
TRAINER = TrainerConfig(
    network=NetworkConfig(trunk=(9, 7), head=6, atoms=5), iqn=IQNConfig(cosines=3), ensemble=EnsembleConfig(heads=2)
)
LAYOUT = make_layout(OBSERVATION, TRAINER)


class Noise:
    """Uniform numbers where the trainer has its counter-based ones."""

    def uniform(self, purpose, step, count):
        return torch.rand(MEMBERS, count, generator=torch.Generator().manual_seed(purpose))


def filled(generator):
    buffer = torch.zeros(MEMBERS, LAYOUT.total)
    for view in LAYOUT.views(buffer).values():
        view.copy_(torch.randn(view.shape, generator=generator) * 0.5)
    return buffer


@dataclass(frozen=True)
class Network:
    """Buffer, its views with noise in the first member, spectral norm (None: off), observation and one-hot target."""

    buffer: torch.Tensor
    weights: dict
    norm: SpectralNorm | None
    observation: torch.Tensor
    target: torch.Tensor


@pytest.fixture(params=["spectral", "mixed", "plain"])
def network(request):
    generator = torch.Generator().manual_seed(3)
    buffer = filled(generator)
    weights = noisy.perturb(LAYOUT.views(buffer), Noise(), 2, None, torch.tensor([1.0, 0.0]))
    left, right = torch.randn(MEMBERS, 1, 9, generator=generator), torch.randn(MEMBERS, 1, 7, generator=generator)
    for _ in range(2):
        spectral.iterate(weights["w_s2"], left, right)
    observation = torch.randn(MEMBERS, BATCH, OBSERVATION, generator=generator)
    target = torch.eye(7)[torch.randint(7, (MEMBERS, BATCH), generator=generator)]
    on = torch.tensor([True, request.param == "spectral"])[:, None, None]
    norm = None if request.param == "plain" else spectral.estimate(weights["w_s2"], left, right, on)
    return Network(buffer, weights, norm, observation, target)


def written_out(network, buffer):
    """All activations at which a gradient can enter, in float64 torch, as functions of the leaf `buffer`."""
    w = noisy.perturb(LAYOUT.views(buffer), Noise(), 2, None, torch.tensor([1.0, 0.0]))
    effective, observation, target = w["w_s2"], network.observation.double(), network.target.double()
    if network.norm is not None:
        sigma = (network.norm.left.double() @ effective @ network.norm.right.double().transpose(1, 2)).clamp_min(1e-12)
        effective = torch.where(network.norm.on, effective / sigma, effective)
    z = torch.relu(torch.relu(observation @ w["w_s1"] + w["b_s1"]) @ effective + w["b_s2"])
    found = {"trunk": z, "prediction": torch.cat((z, target), -1) @ w["w_p"] + w["b_p"]}
    out = {}
    for head in ("value", "direction", "magnitude"):
        k = head[0]
        found[f"{head}_hidden"] = torch.relu(z @ w[f"w_{k}1"] + w[f"b_{k}1"])
        out[head] = (found[f"{head}_hidden"] @ w[f"w_{k}2"] + w[f"b_{k}2"]).unflatten(-1, (-1, 5))
    for branch in ("direction", "magnitude"):
        found[f"{branch}_logits"] = out["value"] + out[branch] - out[branch].mean(2, keepdim=True)
    return found


def gradients(network, entries):
    """(explicit, float64 autograd) gradient rows of sum(weight * activation) over `entries`."""
    leaf = network.buffer.double().requires_grad_()
    values, generator = written_out(network, leaf), torch.Generator().manual_seed(11)
    d = {name: torch.randn(values[name].shape, generator=generator) for name in entries}
    (expected,) = torch.autograd.grad(sum((d[name] * values[name]).sum() for name in entries), [leaf])
    row, act = torch.zeros_like(network.buffer), forward(network.weights, network.norm, network.observation)
    backward(network.weights, network.norm, act, d, LAYOUT.views(row), network.target)
    return row, expected


def assert_close(got, expected):
    torch.testing.assert_close(got.double(), expected, rtol=2e-5, atol=2e-5 * expected.abs().max().item())


@pytest.mark.parametrize("entry", list(REACH))
def test_one_entry(network, entry):
    row, expected = gradients(network, [entry])
    assert_close(row, expected)
    for name in SLICES:
        start, stop = LAYOUT.slices[name]
        if name in REACH[entry]:
            assert row[:, start:stop].abs().sum() > 0
        else:
            assert row[:, start:stop].count_nonzero() == 0


def test_all_entries_at_once(network):
    row, expected = gradients(network, list(REACH))
    assert_close(row, expected)


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


def test_forward_is_the_network_written_out(network):
    act = forward(network.weights, network.norm, network.observation)
    for name, expected in written_out(network, network.buffer.double()).items():
        got = predict(network.weights, act.trunk, network.target) if name == "prediction" else getattr(act, name)
        assert_close(got, expected)


def test_padding_columns_of_the_streams_and_their_gradients_are_zero(network):
    act = forward(network.weights, network.norm, network.observation)
    used = torch.zeros(act.streams.shape[2], dtype=torch.bool)
    for head, place in columns_of(5).items():
        used[place.start : place.start + 5 * HEADS[head]] = True
    assert (act.streams[..., ~used] == 0).all()
    row, _ = gradients(network, list(REACH))
    assert (row[:, LAYOUT.padding()] == 0).all()


def test_a_batch_in_two_parts_gives_the_same_rows(network):
    """The online network sees a batch and its successors in one product; a part of it is a view with gaps."""
    act = forward(network.weights, network.norm, torch.cat((network.observation, -network.observation), 1))
    part, alone = act.samples(slice(BATCH)), forward(network.weights, network.norm, network.observation)
    torch.testing.assert_close(part.direction_logits, alone.direction_logits, rtol=1e-5, atol=1e-5)
    rows = [torch.zeros_like(network.buffer) for _ in range(2)]
    for row, one in zip(rows, (part, alone), strict=True):
        backward(network.weights, network.norm, one, {"trunk": torch.ones_like(alone.trunk)}, LAYOUT.views(row))
    torch.testing.assert_close(*rows, rtol=1e-5, atol=1e-5)


def test_a_member_without_noise_has_its_plain_weights_and_no_gradient_of_the_scales(network):
    weights, plain = network.weights, LAYOUT.views(network.buffer)
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
    act = forward(w, None, torch.zeros(1, 1, 1))
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
    act = forward(network.weights, network.norm, network.observation)
    d = torch.full_like(act.trunk, float("inf")).masked_fill(act.trunk > 0, 1.0)
    row = torch.zeros_like(network.buffer)
    backward(network.weights, network.norm, act, {"trunk": d}, LAYOUT.views(row))
    assert (act.trunk == 0).any()
    assert torch.isfinite(row).all()

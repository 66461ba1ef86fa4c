"""Training with bfloat16 products: close to float32, parameters in float32, and the copies never stale."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from tiny_trial import started, tiny_spec

from trainer.network import SpectralNorm, backward, forward, low_operands
from trainer.pack import load_state, state
from trainer.step import iterate


def in_precision(market_file, precision, **settings):
    spec = tiny_spec(market_file, **settings)
    return spec.model_copy(update={"machine": spec.machine.model_copy(update={"precision": precision})})


def assert_copies_are_fresh(pack):
    for learner in (pack.online, pack.target):
        length = pack.layout.slices["magnitude"][1]
        assert learner.low.shape == (pack.size, length)
        assert torch.equal(learner.low, learner.params[:, :length].to(torch.bfloat16))


def relative(left, right):
    return ((left - right).norm() / right.norm()).item()


@pytest.fixture(scope="module")
def packs(market_file):
    """The same trial after three iterations in either precision."""
    found = {}
    with torch.no_grad():
        for precision in ("tf32", "bf16"):
            found[precision] = started(in_precision(market_file, precision))
            for _ in range(3):
                iterate(found[precision], True)
    return found


def test_nothing_is_kept_where_products_are_float32(packs):
    assert packs["tf32"].online.low.numel() == 0


def test_every_row_of_the_decomposition_is_close(packs):
    for name in packs["tf32"].row_names:
        wide, low = (packs[precision].row(name) for precision in ("tf32", "bf16"))
        if wide.count_nonzero():
            assert 0 < relative(low, wide) < 0.05, name


def test_parameters_are_float32_and_their_copies_follow(packs):
    pack = packs["bf16"]
    assert pack.online.params.dtype is pack.gradient.dtype is pack.first_moment.dtype is torch.float32
    assert_copies_are_fresh(pack)
    between = pack.online.params != pack.online.params.to(torch.bfloat16).float()
    assert between[:, ~pack.layout.padding()].float().mean() > 0.9  # not merely widened copies


def test_copies_follow_a_restored_state(packs, market_file):
    pack = started(in_precision(market_file, "bf16"))
    load_state(pack, {name: tensor.clone() for name, tensor in state(packs["bf16"]).items()})
    assert_copies_are_fresh(pack)


def test_a_network_in_bfloat16_is_that_of_rounded_weights(packs):
    """Float64 on the rounded weights differs by the rounding of activations alone: a few parts in a thousand."""
    pack = packs["bf16"]
    w, norm = pack.online.weights, pack.online.norm()
    observation = torch.randn(pack.size, 16, w["w_s1"].shape[1], generator=torch.Generator().manual_seed(0))
    low = low_operands(pack.online.low, pack.layout, w, norm)
    act = forward(w, norm, observation, low)
    assert act.trunk.dtype is act.streams.dtype is torch.bfloat16
    exact = {name: tensor.double() for name, tensor in (w | low).items()}
    h = observation.to(torch.bfloat16).double()
    for layer in ("s1", "s2"):
        h = torch.relu(h @ exact[f"w_{layer}"] + exact[f"b_{layer}"])
    assert relative(act.trunk.double(), h) < 0.01


def test_gradients_of_a_perturbed_and_normalised_network_are_close(packs):
    """What `low` must not take from the copies: layers with noise, and the one that the spectral norm divides."""
    pack = packs["bf16"]
    vectors = pack.online.left, pack.online.right
    norm = SpectralNorm(*vectors, pack.online.sigma().view(-1, 1, 1) * 2.0, torch.ones(pack.size, 1, 1).bool())
    w = dict(pack.online.weights)
    for name in ("w_v1", "b_v1", "w_d1", "b_d1", "w_m1", "b_m1"):
        w[f"noise_{name}"] = torch.full_like(w[name], 0.5)
        w[name] = w[name] + 0.5
    observation = torch.randn(pack.size, 16, w["w_s1"].shape[1], generator=torch.Generator().manual_seed(1))
    low = low_operands(pack.online.low, pack.layout, w, norm)
    rows = []
    for operands in (None, low):
        act, row = forward(w, norm, observation, operands), torch.zeros_like(pack.online.params)
        d = {name: torch.ones_like(getattr(act, name)) for name in ("direction_logits", "magnitude_logits")}
        backward(w, norm, act, {k: x * torch.arange(x.shape[-1]) for k, x in d.items()}, pack.layout.views(row))
        rows.append(row)
    assert 0 < relative(rows[1], rows[0]) < 0.05


def test_samples_keep_what_is_not_of_samples(packs):
    pack = packs["bf16"]
    act = forward(pack.online.weights, None, torch.randn(pack.size, 4, pack.online.weights["w_s1"].shape[1]))
    part = act.samples(slice(1, 3))
    assert part.operands is act.operands
    assert {f.name for f in fields(part)} == {f.name for f in fields(act)}

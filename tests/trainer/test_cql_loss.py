"""CQL(H) per branch from the heads' outputs: published vectors, float64 autograd, the mask, and lanes apart."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lanes import assert_members_independent

from numba_kernels import ArgumentError, cql
from trainer.losses.branches import FLAT
from trainer.losses.cql import cql_loss
from trainer.network import columns_of

P, B, ATOMS = 3, 5, 7
WIDTH = columns_of(ATOMS)["magnitude"].stop
Q = [1.0, 2.0, 3.0]  # rl.md 3.4: logsumexp = 3 + log(1 + e^-1 + e^-2) = 3.4076060; minus Q(a): 2.4076060, .., .4076060
SOFTMAX = [0.09003057, 0.24472847, 0.66524096]


def certain(*rows):
    """States whose action values are exactly those given, 3 directions then 3 magnitudes: all mass on one of 7 atoms
    at 0, 1, .., 6."""
    streams = torch.zeros(1, len(rows), WIDTH)
    for b, values in enumerate(rows):
        for k, value in enumerate(values):
            head = columns_of(ATOMS)["direction" if k < 3 else "magnitude"].start
            streams[0, b, head + (k % 3) * ATOMS + int(value)] = 90.0
    offset = torch.zeros(1, 6, ATOMS)
    return SimpleNamespace(streams=streams, offset=offset), torch.arange(float(ATOMS))[None]


@pytest.mark.parametrize(("action", "expected"), [(0, 2.4076060), (2, 0.4076060)])
def test_published_vectors(action, expected):
    """Short (0) or long (2) with uniform magnitudes, whose term is log 3."""
    act, support = certain([*Q, 5.0, 5.0, 5.0])
    loss = cql_loss(act, torch.tensor([[action]]), torch.tensor([[1]]), support)
    assert loss.value.item() == pytest.approx(expected + math.log(3), abs=2e-6)


def test_both_branches_are_summed_and_the_batch_is_averaged():
    """Samples (long, first: .4076060 + 2.4076060) and (flat: 1.4076060 alone): (2.8152120 + 1.4076060) / 2."""
    act, support = certain([*Q, *Q], [*Q, *Q])
    loss = cql_loss(act, torch.tensor([[2, FLAT]]), torch.tensor([[0, 0]]), support)
    assert loss.value.item() == pytest.approx(2.1114090, abs=2e-6)


def test_the_least_is_zero_where_the_data_is_preferred():
    act, support = certain([6.0, 0.0, 0.0, 0.0, 0.0, 6.0])
    loss = cql_loss(act, torch.tensor([[0]]), torch.tensor([[2]]), 5.0 * support)
    assert 0.0 <= loss.value.item() < 1e-6


def example(atoms=ATOMS, batch=B, seed=0):
    g = torch.Generator().manual_seed(seed)
    width = columns_of(atoms)["magnitude"].stop
    streams, offset = torch.randn(P, 2 * batch, width, generator=g), torch.randn(P, 6, atoms, generator=g)
    direction, magnitude = (torch.randint(3, (P, batch), generator=g) for _ in "ab")
    direction[:, 0] = FLAT
    return streams, offset, direction, magnitude, torch.linspace(-2.0, 3.0, atoms).repeat(P, 1)


def written_out(streams, offset, direction, magnitude, support):
    """Per sample, in float64 and torch so that autograd can follow."""
    batch, atoms, columns = direction.shape[1], support.shape[1], columns_of(support.shape[1])
    terms = []
    for part, (branch, action) in enumerate((("direction", direction), ("magnitude", magnitude))):
        start = columns[branch].start
        advantage = streams[:, :batch, start : start + 3 * atoms].unflatten(-1, (3, atoms))
        value = streams[:, :batch, None, :atoms]
        logits = value - advantage.mean(2, keepdim=True) + advantage + offset[:, None, 3 * part : 3 * part + 3]
        q = (torch.softmax(logits, -1) * support[:, None, None]).sum(-1)
        terms.append(torch.logsumexp(q, -1) - q.gather(-1, action[..., None])[..., 0])
    return terms[0] + torch.where(direction == FLAT, 0.0, terms[1])


@pytest.mark.parametrize("atoms", [2, 16, 51, 64, 65, 96])
def test_loss_and_gradient_equal_autograd(atoms):
    streams, offset, direction, magnitude, support = example(atoms)
    leaf = streams.double().requires_grad_()
    samples = written_out(leaf, offset.double(), direction, magnitude, support.double())
    (expected,) = torch.autograd.grad(samples.mean(1).sum(), [leaf])
    loss = cql_loss(SimpleNamespace(streams=streams, offset=offset), direction, magnitude, support)
    torch.testing.assert_close(loss.value.double(), samples.mean(1).detach(), rtol=1e-5, atol=1e-6)
    assert loss.d_values.shape == (P, B, streams.shape[2])
    torch.testing.assert_close(loss.d_values.double(), expected[:, :B], rtol=1e-4, atol=1e-6)


def test_flat_masks_the_magnitude_exactly():
    """Whatever the magnitude outputs are where the direction taken is flat, NaN included, no bit changes."""
    streams, offset, direction, magnitude, support = example()
    loss = cql_loss(SimpleNamespace(streams=streams, offset=offset), direction, magnitude, support)
    start, flat = columns_of(ATOMS)["magnitude"].start, (direction == FLAT)[..., None]
    assert loss.d_values[..., start:].masked_select(flat).count_nonzero() == 0
    assert (loss.d_values[..., start:].abs().sum(-1) > 0).equal(direction != FLAT)
    spoiled = streams.clone()
    spoiled[:, :B, start:] = spoiled[:, :B, start:].masked_fill(flat, float("nan"))
    again = cql_loss(SimpleNamespace(streams=spoiled, offset=offset), direction, magnitude, support)
    assert torch.equal(again.value, loss.value)
    assert torch.equal(again.d_values, loss.d_values)


def test_what_is_not_finite_stays_in_its_sample():
    streams, offset, direction, magnitude, support = example()
    clean = torch.zeros(P, B), torch.zeros(P, B, WIDTH)
    spoilt = torch.zeros(P, B), torch.zeros(P, B, WIDTH)
    cql(streams, offset, direction, magnitude, support, *clean)
    streams[1, 2, 3] = float("inf")
    cql(streams, offset, direction, magnitude, support, *spoilt)
    others = np.ones((P, B), bool)
    others[1, 2] = False
    assert torch.isnan(spoilt[0][1, 2])
    assert torch.equal(clean[0][others], spoilt[0][others])
    assert torch.equal(clean[1][others], spoilt[1][others])


def test_a_width_that_does_not_fit_the_atoms_is_refused():
    streams, *rest = example()
    with pytest.raises(ArgumentError, match="columns"):
        cql(torch.cat((streams, streams), -1), *rest, torch.zeros(P, B), torch.zeros(P, B, 2 * WIDTH))


def test_members_are_independent():
    def everything(streams, offset, support, direction, magnitude):
        loss = cql_loss(SimpleNamespace(streams=streams, offset=offset), direction, magnitude, support)
        return loss.value, loss.d_values

    streams, offset, direction, magnitude, support = example()
    assert_members_independent(everything, streams, offset, support, direction, magnitude)

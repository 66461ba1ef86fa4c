"""Slice norms and lane means against float64."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_kernels import ArgumentError, lane_mean, slice_norms

LENGTHS = st.lists(st.sampled_from([0, 1, 31, 32, 33, 127, 128, 129, 511, 512, 513, 1499]), min_size=1, max_size=4)


def norms(rows, starts):
    out = torch.full((*rows.shape[:2], len(starts) - 1), -1.0)
    slice_norms(rows, torch.tensor(starts), out)
    return out


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(0, 2**32 - 1), st.sampled_from([1e-15, 1.0, 1e15]))
def test_norms_are_those_of_float64(lengths, seed, scale):
    starts = [0, *np.cumsum(lengths).tolist()]
    rows = np.random.default_rng(seed).normal(0.0, scale, (2, 2, max(starts[-1], 1))).astype(np.float32)
    exact = np.stack(
        [np.linalg.norm(rows[..., a:b].astype(np.float64), axis=-1) for a, b in itertools.pairwise(starts)], -1
    )
    np.testing.assert_allclose(norms(torch.from_numpy(rows), starts).numpy(), exact, rtol=3e-7, atol=0.0)


def test_norms_of_slices_compose_and_short_ones_are_exact():
    rows = torch.randn(1, 1, 5000, generator=torch.Generator().manual_seed(0))
    parts, whole = norms(rows, [0, 1234, 5000]).double(), norms(rows, [0, 5000]).double()
    assert parts.square().sum().sqrt().item() == pytest.approx(whole.item(), rel=1e-6)
    assert norms(torch.tensor([[[3.0, 4.0]]]), [0, 2]).item() == 5.0
    assert norms(torch.tensor([[[3.0, 4.0]]]), [1, 1]).item() == 0.0


def test_a_nan_stays_in_its_row_and_slice_and_bounds_are_not_crossed():
    rows = torch.ones(2, 3, 600)
    rows[1, 2, 300] = torch.nan
    out = norms(rows, [0, 300, 301, 600])
    assert torch.isnan(out).nonzero().tolist() == [[1, 2, 1]]
    assert norms(torch.ones(1, 1, 9), [-5, 4, 99]).flatten().tolist() == pytest.approx([2.0, 5.0**0.5])


def test_one_bound_more_than_slices():
    with pytest.raises(ArgumentError, match=r"slice_norms\(starts\): 3 bounds for 3 slices"):
        slice_norms(torch.ones(1, 1, 9), torch.tensor([0, 1, 2]), torch.zeros(1, 1, 3))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 127, 128, 129, 300]), st.integers(0, 2**32 - 1))
def test_lane_mean_is_that_of_float64(samples, seed):
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, (3, samples)).astype(np.float32)
    weight[2] = 0.0
    values = rng.normal(size=(3, samples)).astype(np.float32) * weight
    out = torch.full((3,), -1.0)
    lane_mean(torch.from_numpy(values), torch.from_numpy(weight), out)
    total = weight.sum(1, dtype=np.float64)
    exact = values.sum(1, dtype=np.float64) / np.where(total > 0, total, 1.0)
    np.testing.assert_allclose(out.numpy(), exact, rtol=1e-5, atol=1e-6)
    assert out[2] == 0.0

"""C51 projection: published vectors, mass, a float64 reference, isolation of faults."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_kernels import ArgumentError, categorical_projection


def run(p, reward, discount, support):
    """Projection of float32 copies of p [P, B, K], reward and discount [P, B]."""
    support = np.broadcast_to(support, (len(p), np.shape(support)[-1]))  # one member's, or the same for all
    tensors = [torch.as_tensor(np.array(a), dtype=torch.float32).contiguous() for a in (p, reward, discount, support)]
    out = torch.full_like(tensors[0], -1.0)
    categorical_projection(*tensors, out)
    return out.numpy()


def reference(p, reward, discount, support):
    """Algorithm 1 of Bellemare, Dabney, Munos 2017 in its scatter form, float64, one atom at a time."""
    p, reward, discount, support = (np.asarray(a, np.float64) for a in (p, reward, discount, support))
    out, spacing = np.zeros(p.shape), (support[-1] - support[0]) / (len(support) - 1)
    for index in np.ndindex(p.shape):
        moved = np.clip(reward[index[:2]] + discount[index[:2]] * support[index[2]], support[0], support[-1])
        b = min(max((moved - support[0]) / spacing, 0.0), len(support) - 1)
        low = int(np.floor(b))
        out[(*index[:2], low)] += p[index] * (1 - (b - low))
        out[(*index[:2], min(low + 1, len(support) - 1))] += p[index] * (b - low)
    return out


def project_atoms(atoms, weights, support):
    """Masses `weights` at arbitrary `atoms`: the operation is linear, so each goes through it as a certain return."""
    count = len(atoms)
    certain = np.full((1, count, len(support)), 1.0 / len(support))
    return np.asarray(weights) @ run(certain, [atoms], np.zeros((1, count)), support)[0]


DOPAMINE = [  # support and probabilities of the source, support of the result, result (rl.md 3.1)
    ([0, 2, 4, 6, 8], [0.1, 0.6, 0.1, 0.1, 0.1], [4, 5, 6, 7, 8], [0.8, 0, 0.1, 0, 0.1]),
    ([1, 3, 4, 5, 6], [0.1, 0.2, 0.5, 0.1, 0.1], [4, 5, 6, 7, 8], [0.8, 0.1, 0.1, 0, 0]),
    ([8, 9, 10, 12, 14], [0.1, 0.2, 0.4, 0.1, 0.2], [0, 4, 8, 12, 16], [0, 0, 0.45, 0.45, 0.1]),
    ([4, 3, 2, 1, 0], [0.1, 0.2, 0.1, 0.3, 0.3], [3, 4, 5, 6, 7], [0.9, 0.1, 0, 0, 0]),
    ([4, 5, 6, 7, 8], [0.2, 0.5, 0.1, 0.1, 0.1], [4, 5, 6, 7, 8], [0.2, 0.5, 0.1, 0.1, 0.1]),
]


@pytest.mark.parametrize(("atoms", "p", "support", "expected"), DOPAMINE)
def test_published_projections(atoms, p, support, expected):
    np.testing.assert_allclose(project_atoms(atoms, p, support), expected, atol=1e-6)


@pytest.mark.parametrize(("case", "reward", "discount"), [(0, -8.0, 2.0), (3, 7.0, -1.0), (4, 0.0, 1.0)])
def test_published_projections_whose_source_is_a_shifted_support(case, reward, discount):
    """[0, 2, 4, 6, 8] = -8 + 2 [4..8] and [4, 3, 2, 1, 0] = 7 - [3..7]: one sample with that reward and discount."""
    _, p, support, expected = DOPAMINE[case]
    np.testing.assert_allclose(run([[p]], [[reward]], [[discount]], support)[0, 0], expected, atol=1e-6)


def test_published_projection_of_values_that_are_no_distribution():
    """rlax `L2ProjectTest`."""
    old = np.arange(-1, 1.0, 0.25)
    first, second = old * np.tile([0, 1], 4), (old + 1) * np.tile([1, 0], 4)
    new = np.arange(-1, 1.0, 0.5)
    np.testing.assert_allclose(project_atoms(old, first, new), [-0.375, -0.5, 0.0, 0.875], atol=1e-6)
    np.testing.assert_allclose(project_atoms(old + 1, second, new + 1), [0.0, 0.5, 1.0, 1.5], atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    atoms=st.integers(2, 255),
    v_max=st.sampled_from([0.5, 1.0, 10.0, 200.0]),
    spread=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_scatter_form_and_keeps_the_mass(atoms, v_max, spread, seed):
    g = np.random.default_rng(seed)
    support = np.linspace(-v_max, v_max, atoms, dtype=np.float32)
    p = g.dirichlet(np.full(atoms, 0.5), (2, 5)).astype(np.float32)
    reward = g.normal(0, spread * v_max, (2, 5)).astype(np.float32)
    discount = g.choice([0.0, 0.729, 0.99, 1.0], (2, 5)).astype(np.float32)
    got = run(p, reward, discount, support)
    np.testing.assert_allclose(got.sum(-1, dtype=np.float64), p.sum(-1, dtype=np.float64), atol=max(1e-6, atoms * 3e-8))
    np.testing.assert_allclose(got, reference(p, reward, discount, support), atol=atoms * 1e-6)
    assert (got >= 0).all()


SUPPORT = np.linspace(-10, 10, 51)
CORNERS = {
    "all clamped low": (-50.0, 1.0),
    "all clamped high": (50.0, 1.0),
    "atoms on atoms": (0.4, 1.0),
    "terminal": (1.234, 0.0),
    "terminal on an atom": (2.0, 0.0),
    "identity": (0.0, 1.0),
    "top edge": (10.0, 0.0),
    "one ulp below the top": (np.nextafter(np.float32(10), np.float32(0)), 0.0),
}


@pytest.mark.parametrize("case", list(CORNERS))
def test_mass_in_corner_cases(case):
    reward, discount = CORNERS[case]
    p = np.random.default_rng(1).dirichlet(np.ones(51), (1, 1)).astype(np.float32)
    got = run(p, [[reward]], [[discount]], SUPPORT)[0, 0]
    assert got.sum(dtype=np.float64) == pytest.approx(1.0, abs=1e-6)
    expected = reference(p, [[reward]], [[discount]], SUPPORT)[0, 0]
    np.testing.assert_allclose(got, expected, atol=1e-5)
    if case == "identity":
        np.testing.assert_allclose(got, p[0, 0], atol=1e-6)
    if case.startswith("all clamped"):
        assert got[0 if "low" in case else -1] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("fault", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["p", "reward", "discount"])
def test_a_fault_stays_in_its_sample(fault, place):
    g = np.random.default_rng(2)
    arrays = {"p": g.dirichlet(np.ones(51), (2, 3)), "reward": g.normal(size=(2, 3)), "discount": np.full((2, 3), 0.9)}
    clean = run(*arrays.values(), SUPPORT)
    arrays[place][(1, 2, 7) if place == "p" else (1, 2)] = fault
    got = run(*arrays.values(), SUPPORT)
    assert np.isnan(got[1, 2]).all()
    clean[1, 2] = got[1, 2] = 0.0
    assert np.array_equal(got.view(np.uint32), clean.view(np.uint32))


def test_lanes_do_not_mix():
    g = np.random.default_rng(3)
    p, reward, discount = g.dirichlet(np.ones(51), (4, 3)), g.normal(size=(4, 3)), np.full((4, 3), 0.9)
    together = run(p, reward, discount, SUPPORT)
    alone = np.concatenate([run(p[i : i + 1], reward[i : i + 1], discount[i : i + 1], SUPPORT) for i in range(4)])
    assert np.array_equal(together.view(np.uint32), alone.view(np.uint32))


def test_one_atom_is_refused():
    with pytest.raises(ArgumentError, match=r"categorical_projection\(support\): 1 atoms"):
        run(np.ones((1, 1, 1)), [[0.0]], [[0.9]], [0.0])

"""The explicit backward of each auxiliary head against float64 autograd of all its tensors and of the trunk."""

import math

import numpy as np
import pytest
import torch
from lanes import assert_members_independent

from trainer.heads import ensemble, iqn, reconstruction

P, B, N, H, HIDDEN, HEADS, UNITS, OBSERVATION, COSINES = 3, 5, 4, 7, 6, 3, 2, 8, 5
SHAPES = {
    "iqn": {"w_q0": (COSINES, H), "b_q0": (1, H), "w_q1": (H, HIDDEN), "b_q1": (1, HIDDEN)}
    | {"w_q2": (HIDDEN, 6), "b_q2": (1, 6)},
    "ensemble": {
        "w_e1": (H, HEADS * UNITS),
        "b_e1": (1, HEADS * UNITS),
        "w_e2": (HEADS * UNITS, 6),
        "b_e2": (HEADS, 6),
    },
    "reconstruction": {"w_r": (H, OBSERVATION), "b_r": (1, OBSERVATION)},
}
OUTPUT = {"iqn": (P, B, N, 6), "ensemble": (P, B, HEADS, 6), "reconstruction": (P, B, OBSERVATION)}


def draw(*shape, seed, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def padded(shapes, fill, dtype=torch.float32):
    """Views `[P, rows, columns]` whose rows are padded, as in the flat parameter buffer."""
    views = {}
    for seed, (name, (rows, columns)) in enumerate(shapes.items()):
        storage = draw(P, rows, 32, seed=seed, dtype=dtype) if fill else torch.full((P, rows, 32), 7.0, dtype=dtype)
        views[name] = storage[..., :columns]
    return views


def run(name, w, trunk, tau, d, out):
    """(output, d trunk) of one head; its parameter gradients land in `out`."""
    if name == "reconstruction":
        return reconstruction.forward(w, trunk), reconstruction.backward(w, trunk, d, out)
    if name == "iqn":
        act = iqn.forward(w, trunk, tau)
        return act.values, iqn.backward(w, act, d, out)
    act = ensemble.forward(w, trunk, HEADS)
    return act.values, ensemble.backward(w, act, d, out)


def inputs(dtype=torch.float32):
    tau = torch.rand(P, B, N, generator=torch.Generator().manual_seed(22), dtype=dtype)
    return draw(P, B, H, seed=21, dtype=dtype).relu(), tau


def exactly(name, w, trunk, tau):
    """The head's output in float64, written as the papers have it, for autograd to follow."""
    if name == "reconstruction":
        return trunk @ w["w_r"] + w["b_r"]
    if name == "iqn":
        cosines = torch.cos(math.pi * tau.double().unsqueeze(-1) * torch.arange(COSINES))
        layer = lambda x, n: torch.einsum("pbni,pij->pbnj", x, w[f"w_q{n}"]) + w[f"b_q{n}"].unsqueeze(1)
        mixed = trunk.unsqueeze(2) * layer(cosines, 0).relu()
        return layer(layer(mixed, 1).relu(), 2)
    hidden = (trunk @ w["w_e1"] + w["b_e1"]).relu().unflatten(2, (HEADS, UNITS))
    return torch.einsum("pbku,pkuo->pbko", hidden, w["w_e2"].unflatten(1, (HEADS, UNITS))) + w["b_e2"].unsqueeze(1)


@pytest.mark.parametrize("name", list(SHAPES))
def test_gradients_equal_autograd(name):
    w, (trunk, tau), d = padded(SHAPES[name], fill=True), inputs(), draw(*OUTPUT[name], seed=23)
    out = padded(SHAPES[name], fill=False)
    output, d_trunk = run(name, w, trunk, tau, d, out)
    leaves = [x.double().requires_grad_() for x in (trunk, *w.values())]
    with torch.enable_grad():
        again = exactly(name, dict(zip(w, leaves[1:], strict=True)), leaves[0], tau)
    expected = torch.autograd.grad((again * d).sum(), leaves)
    assert output.shape == OUTPUT[name]
    torch.testing.assert_close(output.double(), again, rtol=1e-5, atol=1e-5)
    for key, got, exact in zip(("trunk", *w), (d_trunk, *out.values()), expected, strict=True):
        largest = exact.abs().max().item()
        assert largest > 0, key
        message = lambda text, key=key: f"{key}: {text}"
        torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=2e-6 * largest, msg=message)


def test_iqn_written_out():
    """Eq. 4 of the paper for one member, sample and level at a time, numpy float64; cosines from i = 0."""
    w, (trunk, tau) = padded(SHAPES["iqn"], fill=True), inputs()
    values = iqn.forward(w, trunk, tau).values
    for p, b, n in np.ndindex(P, B, N):
        m = {name: view[p].numpy() for name, view in w.items()}
        cosine = np.array([math.cos(math.pi * i * tau[p, b, n].item()) for i in range(COSINES)])
        phi = np.maximum(cosine @ m["w_q0"] + m["b_q0"][0], 0)
        hidden = np.maximum((trunk[p, b].numpy() * phi) @ m["w_q1"] + m["b_q1"][0], 0)
        np.testing.assert_allclose(values[p, b, n], hidden @ m["w_q2"] + m["b_q2"][0], rtol=1e-5, atol=1e-5)


def test_ensemble_written_out():
    """Head k owns hidden units k*e..(k+1)*e, the same rows of w_e2 and row k of b_e2."""
    w, (trunk, _) = padded(SHAPES["ensemble"], fill=True), inputs()
    values = ensemble.forward(w, trunk, HEADS).values
    for p, k in np.ndindex(P, HEADS):
        m, units = {name: view[p].numpy() for name, view in w.items()}, slice(k * UNITS, (k + 1) * UNITS)
        hidden = np.maximum(trunk[p].numpy() @ m["w_e1"][:, units] + m["b_e1"][:, units], 0)
        np.testing.assert_allclose(values[p, :, k], hidden @ m["w_e2"][units] + m["b_e2"][k], rtol=1e-5, atol=1e-5)


def test_a_silent_head_writes_zeros_and_leaves_the_others_alone():
    """Gradients over one head only: the rows of every other head are exactly 0."""
    w, (trunk, tau), d = padded(SHAPES["ensemble"], fill=True), inputs(), draw(*OUTPUT["ensemble"], seed=23)
    d[:, :, [0, 2]] = 0.0
    out = padded(SHAPES["ensemble"], fill=False)
    run("ensemble", w, trunk, tau, d, out)
    reached = [out["w_e2"][:, k * UNITS : (k + 1) * UNITS].abs().sum().item() > 0 for k in range(HEADS)]
    assert reached == (out["b_e2"].abs().sum((0, 2)) > 0).tolist() == [False, True, False]
    assert out["w_e1"].unflatten(2, (HEADS, UNITS))[:, :, [0, 2]].count_nonzero() == 0


def test_constant_cosine_is_the_first():
    """cos(0) = 1 at every level, so with only that row of w_q0 the values do not depend on tau."""
    w, (trunk, tau) = padded(SHAPES["iqn"], fill=True), inputs()
    w["w_q0"][:, 1:] = 0.0
    values = iqn.forward(w, trunk, tau).values
    torch.testing.assert_close(values, values[:, :, :1].expand_as(values), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", list(SHAPES))
def test_members_are_independent(name):
    w, (trunk, tau) = padded(SHAPES[name], fill=True, dtype=torch.float32), inputs(torch.float32)

    def everything(d, trunk, *rest):
        tensors = dict(zip(w, rest, strict=False))
        out = {key: torch.empty_like(x) for key, x in tensors.items()}
        return (*run(name, tensors, trunk, rest[-1], d, out), *out.values())

    levels = (tau,) if name == "iqn" else ()
    d = draw(*OUTPUT[name], seed=23, dtype=torch.float32)
    assert_members_independent(everything, d, trunk, *w.values(), *levels)


@pytest.mark.parametrize("name", ["iqn", "ensemble"])
def test_infinite_gradient_at_closed_units_stays_out_of_the_first_layer(name):
    """ReLU gradients are selected, not multiplied: behind closed units even inf teaches nothing."""
    w, (trunk, tau) = padded(SHAPES[name], fill=True), inputs()
    w["b_q1" if name == "iqn" else "b_e1"].fill_(-1e6)
    w["w_q2" if name == "iqn" else "w_e2"].copy_(w["w_q2" if name == "iqn" else "w_e2"].abs())
    out = padded(SHAPES[name], fill=False)
    _, d_trunk = run(name, w, trunk, tau, torch.full(OUTPUT[name], float("inf"), dtype=torch.float32), out)
    assert d_trunk.count_nonzero() == 0
    below = ("w_q0", "b_q0", "w_q1", "b_q1") if name == "iqn" else ("w_e1", "b_e1")
    assert all(out[key].count_nonzero() == 0 for key in below)

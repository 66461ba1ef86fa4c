"""Every rival does the trainer's update: the same loss and the same parameters after three updates."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "speed"))

import torch
from shapes import TARGETS, Arrays, Data, Shape, pack, synthetic, unpack

SHAPE = Shape(members=2, batch=32, capacity=512, rows=600)
UPDATES, TOLERANCE = 3, 1e-4
CPU = torch.device("cpu")
Result = tuple[np.ndarray, Arrays]  # loss of the last update `[P]`, parameters


@pytest.fixture(scope="module")
def data() -> Data:
    return synthetic(SHAPE, seed=3)


@pytest.fixture(scope="module")
def indices() -> np.ndarray:
    size = (UPDATES, SHAPE.members, SHAPE.batch)
    return np.random.default_rng(5).integers(0, SHAPE.capacity, size)


@pytest.fixture(scope="module")
def trainer(data: Data, indices: np.ndarray) -> Result:
    """Three updates by the trainer's own network, losses, backward and Adam."""
    return trainer_updates(data, indices)


def trainer_layout() -> Any:
    """The trainer's padded layout, with the tensors that C51 trains."""
    from trainer.params import ParamLayout, TensorSpec

    tensors: list[Any] = []
    for name, (inputs, outputs) in SHAPE.layers().items():
        for tensor, rows in ((f"w_{name}", inputs), (f"b_{name}", 1)):
            start = tensors[-1].stop if tensors else 0
            tensors.append(TensorSpec(tensor, "trunk", rows, outputs, start, inputs))
    return ParamLayout(tuple(tensors))


def trainer_updates(data: Data, indices: np.ndarray) -> Result:
    """Forward, loss and backward as `trainer.sources` calls them; clip, Adam and Polyak of its kernels."""
    pytest.importorskip("trainer")
    import numba_kernels as nk
    from trainer.losses.c51 import c51_loss
    from trainer.network import backward, forward

    s, members, layout = SHAPE, SHAPE.members, trainer_layout()
    params, gradient, first, second = torch.zeros(4, members, layout.total)
    for name, view in layout.views(params).items():
        view.copy_(torch.from_numpy(data.params[name]))
    target, loss = params.clone(), torch.zeros(members)
    features, eye = torch.from_numpy(data.features), torch.eye(TARGETS)
    support = torch.from_numpy(data.support).expand(members, -1).contiguous()
    for update, index in enumerate(torch.from_numpy(indices), start=1):
        batch = {k: torch.from_numpy(x).gather(1, index) for k, x in data.replay.items()}
        batch = {k: x if x.is_floating_point() else x.long() for k, x in batch.items()}
        rows, targets = (torch.cat((batch[k], batch[f"later_{k}"]), 1) for k in ("row", "target"))
        seen = torch.cat((features[rows], eye[targets]), -1)
        both = forward(layout.views(params), None, seen)
        valued = forward(layout.views(target), None, seen[:, s.batch :])
        found = c51_loss(both, valued, SimpleNamespace(weight=torch.ones(members, s.batch), **batch), support)
        act = both.samples(slice(s.batch))
        backward(layout.views(params), None, act, {"streams": found.streams}, layout.views(gradient))
        factor = (s.clip_norm / gradient.norm(dim=1)).clamp(max=1.0)
        step, correction = s.learning_rate / (1.0 - s.beta1**update), 1.0 / (1.0 - s.beta2**update)
        row = torch.tensor([step, s.beta1, s.beta2, correction, s.epsilon, s.target_rate])
        coefficients = torch.cat((factor[:, None], row.expand(members, -1)), 1).contiguous()
        nk.adam_step(gradient, coefficients, torch.ones(members, dtype=torch.int32), params, first, second, target)
        loss = found.value
    return loss.numpy(), {k: v.numpy() for k, v in layout.views(params).items()}


def close(found: Result, wanted: Result) -> None:
    np.testing.assert_allclose(found[0], wanted[0], atol=TOLERANCE)
    for name, values in wanted[1].items():
        np.testing.assert_allclose(found[1][name], values, atol=TOLERANCE, rtol=0, err_msg=name)


def torch_packed_updates(data: Data, indices: np.ndarray, heads: str, projection: str, mode: str = "") -> Result:
    from torch_packed import Packed, Variant

    packed = Packed(SHAPE, CPU, "float32", Variant(heads, projection, mode), data)
    for index in torch.from_numpy(indices):
        packed.step(index)
    return packed.loss.numpy(), packed.dump()


def test_updates_move_the_parameters_by_far_more_than_the_tolerance(data: Data, trainer: Result) -> None:
    assert all(abs(trainer[1][name] - x).max() > 10 * TOLERANCE for name, x in data.params.items())


def test_torch_member(data: Data, indices: np.ndarray, trainer: Result) -> None:
    from torch_member import Member

    members = [Member(SHAPE, CPU, "float32", data.member(i)) for i in range(SHAPE.members)]
    for index in torch.from_numpy(indices):
        for member, own in zip(members, index, strict=True):
            member.step(own)
    params = {k: np.concatenate([m.dump()[k] for m in members]) for k in data.params}
    close((np.array([float(m.loss) for m in members]), params), trainer)


@pytest.mark.parametrize("projection", ["hat", "scatter"])
@pytest.mark.parametrize("heads", ["plain", "padded", "block"])
def test_torch_packed(data: Data, indices: np.ndarray, trainer: Result, heads: str, projection: str) -> None:
    close(torch_packed_updates(data, indices, heads, projection), trainer)


@pytest.mark.slow
@pytest.mark.parametrize("heads", ["padded", "block"])
def test_torch_packed_compiled(data: Data, indices: np.ndarray, trainer: Result, heads: str) -> None:
    close(torch_packed_updates(data, indices, heads, "hat", "default"), trainer)


@pytest.mark.parametrize("state", ["tree", "flat"])
@pytest.mark.parametrize(("heads", "projection"), [("plain", "hat"), ("padded", "einsum"), ("block", "scatter")])
def test_jax_packed(data: Data, indices: np.ndarray, trainer: Result, heads: str, projection: str, state: str) -> None:
    pytest.importorskip("jax")
    from jax_packed import Packed, Variant

    packed = Packed(SHAPE, "float32", Variant(heads, projection, state), data)
    packed.steps(indices)
    close((np.asarray(packed.loss), packed.dump()), trainer)


@pytest.mark.parametrize("pad", [False, True])
def test_pack_and_unpack_are_inverse(data: Data, pad: bool) -> None:
    again = unpack(SHAPE, pack(SHAPE, data.params, pad))
    assert {k: v.tobytes() for k, v in again.items()} == {k: v.tobytes() for k, v in data.params.items()}

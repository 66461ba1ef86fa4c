"""What one C51 update works on: sizes, hyperparameters, synthetic data and the layouts of the parameters.

Every rival gets the same numpy arrays. Parameters carry the trainer's names: `w_s1`, `b_s1`, `w_s2`, `b_s2` of the
trunk, `w_v1` to `b_m2` of the heads, each `[P, rows, columns]` with one row for a bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Arrays = dict[str, np.ndarray]
ACTIONS = 3  # of each branch
FLAT = 1  # the direction under which the magnitude means nothing
TARGETS = 7
HEADS = {"v": 1, "d": ACTIONS, "m": ACTIONS}
ALIGN = 32  # columns; heads of 51, 153 and 153 columns become 64, 160 and 160, together 384


@dataclass(frozen=True)
class Shape:
    """Sizes and hyperparameters of P members that learn independently."""

    members: int = 1
    batch: int = 512
    capacity: int = 16384
    rows: int = 20000
    features: int = 57
    trunk: tuple[int, int] = (256, 256)
    head: int = 128
    atoms: int = 51
    v_max: float = 10.0
    environments: int = 64  # market walks of the trainer; the other rivals have none
    n_step: int = 3
    discount: float = 0.9
    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1.5e-4
    clip_norm: float = 10.0
    target_rate: float = 0.02

    @property
    def observation(self) -> int:
        return self.features + TARGETS

    @property
    def spacing(self) -> float:
        return 2.0 * self.v_max / (self.atoms - 1)

    def layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of every linear layer by name, in the trainer's order."""
        first, second = self.trunk
        found = {"s1": (self.observation, first), "s2": (first, second)}
        for head, actions in HEADS.items():
            found |= {f"{head}1": (second, self.head), f"{head}2": (self.head, actions * self.atoms)}
        return found

    @property
    def parameters(self) -> int:
        """Of one member, without padding."""
        return sum((inputs + 1) * outputs for inputs, outputs in self.layers().values())

    @property
    def products(self) -> int:
        """Floating-point operations of one member's update inside matrix products, without padding.

        Three forwards; the backward takes two products a layer, but none for the observation's gradient.
        """
        weights = [inputs * outputs for inputs, outputs in self.layers().values()]
        return 2 * self.batch * (5 * sum(weights) - weights[0])

    @property
    def traffic(self) -> int:
        """Bytes that one member's update moves to and from device memory at the least, however it is written.

        Parameters, target and both moments, float32, are read and written once, and both observations of every
        transition are gathered. Activations and gradients count nothing: they might stay on the chip.
        """
        return 2 * 4 * 4 * self.parameters + 2 * 4 * self.batch * self.features


@dataclass(frozen=True)
class Data:
    """`features` `[rows, F]` is shared; `replay` holds `[P, capacity]` fields; `params` `[P, rows, columns]`."""

    features: np.ndarray
    replay: Arrays
    params: Arrays
    support: np.ndarray

    def member(self, index: int) -> Data:
        """The data of one member, as a pack of one."""
        replay, params = ({k: v[index : index + 1] for k, v in part.items()} for part in (self.replay, self.params))
        return Data(self.features, replay, params, self.support)


def synthetic(shape: Shape, seed: int = 0) -> Data:
    """Standard normal features and returns, uniform actions, one transition in twenty terminal."""
    rng = np.random.default_rng(seed)
    size = (shape.members, shape.capacity)
    row = rng.integers(0, shape.rows - shape.n_step, size, dtype=np.int32)
    replay = {
        "row": row,
        "later_row": row + np.int32(shape.n_step),
        "target": rng.integers(0, TARGETS, size, dtype=np.int8),
        "later_target": rng.integers(0, TARGETS, size, dtype=np.int8),
        "direction": rng.integers(0, ACTIONS, size, dtype=np.int8),
        "magnitude": rng.integers(0, ACTIONS, size, dtype=np.int8),
        "returns": rng.normal(0.0, 2.0, size).astype(np.float32),
        "discount": np.where(rng.random(size) < 0.05, 0.0, shape.discount**shape.n_step).astype(np.float32),
    }
    params: Arrays = {}
    for name, (inputs, outputs) in shape.layers().items():
        for letter, rows in (("w", inputs), ("b", 1)):
            uniform = rng.random((shape.members, rows, outputs), dtype=np.float32)
            params[f"{letter}_{name}"] = ((2.0 * uniform - 1.0) * inputs**-0.5).astype(np.float32)
    features = rng.normal(size=(shape.rows, shape.features)).astype(np.float32)
    support = np.linspace(-shape.v_max, shape.v_max, shape.atoms, dtype=np.float32)
    return Data(features, replay, params, support)


def padded_columns(shape: Shape, pad: bool) -> dict[str, int]:
    """Columns of each head's output as stored."""
    step = ALIGN if pad else 1
    return {head: -(-actions * shape.atoms // step) * step for head, actions in HEADS.items()}


def pack(shape: Shape, params: Arrays, pad: bool) -> Arrays:
    """The three hidden layers of the heads side by side as `h1`; output columns padded with zeros when `pad`."""
    packed = {name: params[name] for name in ("w_s1", "b_s1", "w_s2", "b_s2")}
    for letter in ("w", "b"):
        packed[f"{letter}_h1"] = np.concatenate([params[f"{letter}_{head}1"] for head in HEADS], 2)
    for head, columns in padded_columns(shape, pad).items():
        for letter in ("w", "b"):
            values = params[f"{letter}_{head}2"]
            packed[f"{letter}_{head}2"] = np.pad(values, ((0, 0), (0, 0), (0, columns - values.shape[2])))
    return packed


def unpack(shape: Shape, packed: Arrays) -> Arrays:
    """Undo `pack`."""
    params = {name: packed[name] for name in ("w_s1", "b_s1", "w_s2", "b_s2")}
    for place, (head, actions) in enumerate(HEADS.items()):
        for letter in ("w", "b"):
            params[f"{letter}_{head}1"] = packed[f"{letter}_h1"][..., place * shape.head : (place + 1) * shape.head]
            params[f"{letter}_{head}2"] = packed[f"{letter}_{head}2"][..., : actions * shape.atoms]
    return params


def flatten(packed: Arrays) -> np.ndarray:
    """`[P, total]`, tensors one after the other."""
    return np.concatenate([value.reshape(len(value), -1) for value in packed.values()], 1)


def spans(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, int]]:
    """Start and stop inside `flatten` of each tensor, from its shape without the members."""
    found, start = {}, 0
    for name, size in shapes.items():
        found[name] = (start, start + math.prod(size))
        start = found[name][1]
    return found

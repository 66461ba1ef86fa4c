"""One member's C51 update in JAX: forwards, projection, loss and Adam, without a member axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from shapes import FLAT, HEADS, TARGETS, Shape

State = dict[str, Any]
Weights = dict[str, jax.Array]


@dataclass(frozen=True)
class Variant:
    """One way to write the same update.

    `heads`: "plain" products of 51, 153, 153 columns; "padded" to 64, 160, 160; "block" one product of 384 columns with
    a block-diagonal matrix. `projection`: "hat" (a fused sum), "einsum" (a product with the hat matrix) or "scatter".
    `state`: "tree" of tensors or one "flat" vector a member. `block` updates a call, `unroll` of them a loop iteration.
    """

    heads: str = "padded"
    projection: str = "scatter"
    state: str = "tree"
    block: int = 64
    unroll: int = 1

    @property
    def name(self) -> str:
        return f"{self.heads}-{self.projection}-{self.state}-x{self.unroll}"


def forward(w: Weights, observation: jax.Array, shape: Shape, heads: str) -> list[jax.Array]:
    """Float32 logits `[B, 3, K]` of both branches for `[B, observation]`; products run in the dtype of the weights."""
    x = observation.astype(w["w_s1"].dtype)
    for name in ("s1", "s2", "h1"):
        x = jax.nn.relu(x @ w[f"w_{name}"] + w[f"b_{name}"])
    if heads == "block":
        widths = np.cumsum([w[f"w_{head}2"].shape[1] for head in HEADS])
        matrix = jax.scipy.linalg.block_diag(*(w[f"w_{head}2"] for head in HEADS))
        flat = jnp.split(x @ matrix + jnp.concatenate([w[f"b_{head}2"] for head in HEADS], 1), widths[:-1], 1)
    else:
        parts = jnp.split(x, len(HEADS), 1)
        flat = [part @ w[f"w_{head}2"] + w[f"b_{head}2"] for head, part in zip(HEADS, parts, strict=True)]
    counted = zip(flat, HEADS.values(), strict=True)
    value, *branches = (y[:, : n * shape.atoms].astype(jnp.float32).reshape(-1, n, shape.atoms) for y, n in counted)
    return [value + branch - branch.mean(1, keepdims=True) for branch in branches]


def select(logits: jax.Array, action: jax.Array) -> jax.Array:
    """`[B, 3, K]` and `[B]` -> `[B, K]`."""
    return jnp.take_along_axis(logits, action[:, None, None], 1)[:, 0]


def project(p: jax.Array, batch: Weights, support: jax.Array, shape: Shape, kind: str) -> jax.Array:
    last = shape.atoms - 1
    shifted = batch["returns"][:, None] + batch["discount"][:, None] * support
    position = jnp.clip((shifted + shape.v_max) * (1.0 / shape.spacing), 0, last)
    if kind == "scatter":
        lower = jnp.minimum(position.astype(jnp.int32), last - 1)
        upper_share = (position - lower) * p
        row = jnp.arange(len(p))[:, None]
        return jnp.zeros_like(p).at[row, lower].add(p - upper_share).at[row, lower + 1].add(upper_share)
    hat = jnp.maximum(1.0 - jnp.abs(position[:, None, :] - jnp.arange(shape.atoms)[:, None]), 0.0)
    return jnp.einsum("bij,bj->bi", hat, p) if kind == "einsum" else (hat * p[:, None, :]).sum(-1)


def observe(features: jax.Array, row: jax.Array, target: jax.Array) -> jax.Array:
    return jnp.concatenate((features[row], jax.nn.one_hot(target, TARGETS)), 1)


def member_update(
    state: State, index: jax.Array, replay: Weights, table: Weights, shape: Shape, variant: Variant, views: Callable
) -> tuple[State, jax.Array]:
    """One member: its new state and its loss."""
    batch = {k: x[index] for k, x in replay.items()}
    batch = {k: x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.int32) for k, x in batch.items()}
    later = observe(table["features"], batch["later_row"], batch["later_target"])
    online, target = (forward(views(used(state, k)), later, shape, variant.heads) for k in ("params", "target"))
    greedy = [(jax.nn.softmax(x) * table["support"]).sum(-1).argmax(-1) for x in online]
    p_direction, p_magnitude = (jax.nn.softmax(select(x, a)) for x, a in zip(target, greedy, strict=True))
    p = jnp.where((greedy[0] == FLAT)[:, None], p_direction, 0.5 * (p_direction + p_magnitude))
    m = project(p, batch, table["support"], shape, variant.projection)
    observation = observe(table["features"], batch["row"], batch["target"])

    def loss(params: Any) -> jax.Array:
        logits = forward(views(params), observation, shape, variant.heads)
        taken = zip(logits, ("direction", "magnitude"), strict=True)
        both = [-(m * jax.nn.log_softmax(select(x, batch[k]))).sum(-1) for x, k in taken]
        return 0.5 * (both[0] + jnp.where(batch["direction"] == FLAT, 0.0, both[1])).mean()

    value, gradient = jax.value_and_grad(loss)(used(state, "params"))
    return adam(state, gradient, shape), value


def adam(state: State, gradient: Any, s: Shape) -> State:
    """Clip, Adam and Polyak; the parameters that the products read follow in their own dtype."""
    gradient = jax.tree.map(lambda g: g.astype(jnp.float32), gradient)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    factor, count = jnp.where(norm > s.clip_norm, s.clip_norm / norm, 1.0), state["count"] + 1.0
    step, correction = s.learning_rate / (1.0 - s.beta1**count), 1.0 / (1.0 - s.beta2**count)

    def moved(g: jax.Array, p: jax.Array, t: jax.Array, m: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        g = g * factor
        m, v = s.beta1 * m + (1.0 - s.beta1) * g, s.beta2 * v + (1.0 - s.beta2) * g * g
        p = p - step * m / (jnp.sqrt(v * correction) + s.epsilon)
        return p, t + s.target_rate * (p - t), m, v

    names = "params", "target", "first", "second"
    results = jax.tree.map(moved, gradient, *(state[k] for k in names))
    pick = partial(jax.tree.map, is_leaf=lambda x: isinstance(x, tuple))
    new = {name: pick(lambda x, i=i: x[i], results) for i, name in enumerate(names)} | {"count": count}
    return new | (low_copies(new) if "low_params" in state else {})


def low_copies(state: State) -> State:
    """The bfloat16 copies of both networks."""
    return {f"low_{k}": jax.tree.map(lambda x: x.astype(jnp.bfloat16), state[k]) for k in ("params", "target")}


def used(state: State, name: str) -> Any:
    """What the products read: the bfloat16 copy where there is one."""
    return state.get(f"low_{name}", state[name])

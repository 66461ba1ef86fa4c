"""P networks in JAX: `vmap` over members of one member's update, `value_and_grad`, Adam by hand, `scan` over a block.

One jitted call runs a block of updates on donated state. XLA chooses the products' algorithms while it compiles.
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
from jax_member import State, Variant, Weights, low_copies, member_update
from shapes import Arrays, Data, Shape, flatten, pack, spans, synthetic
from shapes import unpack as unpack_arrays
from timing import blocking_rates

MATMUL = {"tf32": "tensorfloat32", "bf16": "tensorfloat32", "float32": "float32"}
SEED_KIND = "rbg"  # the fast generator of JAX on accelerators
HEAD_KINDS, STATES, UNROLLS = ("padded", "plain", "block"), ("tree", "flat"), (1, 4)
SCATTER = tuple(Variant(h, "scatter", s, unroll=u) for u in UNROLLS for s in STATES for h in HEAD_KINDS)
VARIANTS = (*SCATTER, Variant(projection="einsum"))
# Measured on an H200 with jax 0.11.2: at P = 256 XLA had not compiled the fused sum of "hat" after 200 s, while scatter
# with padded heads took 9 s. So these are tried only when they are named.
BY_NAME = tuple(Variant(h, "hat", s, unroll=u) for u in UNROLLS for s in STATES for h in HEAD_KINDS)


class Packed:
    """P networks with their targets, optimiser state and replays on the default device."""

    def __init__(self, shape: Shape, precision: str, variant: Variant, data: Data | None = None) -> None:
        data = data or synthetic(shape)
        arrays = pack(shape, data.params, variant.heads != "plain")
        self.shape, self.variant, self.matmul = shape, variant, MATMUL[precision]
        self.sizes = {k: x.shape[1:] for k, x in arrays.items()}
        params = jax.tree.map(jnp.asarray, arrays if variant.state == "tree" else flatten(arrays))
        zeros = partial(jax.tree.map, jnp.zeros_like)
        self.state: State = {"params": params, "target": jax.tree.map(jnp.copy, params), "first": zeros(params)}
        self.state |= {"second": zeros(params), "count": jnp.zeros(shape.members)}
        if precision == "bf16":
            self.state |= low_copies(self.state)
        self.replay = jax.tree.map(jnp.asarray, data.replay)
        self.table = {"features": jnp.asarray(data.features), "support": jnp.asarray(data.support)}
        self.key, self.loss = jax.random.key(0, impl=SEED_KIND), jnp.zeros(shape.members)
        self.run, self.draw_and_run = (jax.jit(f, donate_argnums=0) for f in (self._run, self._draw_and_run))

    def views(self, params: Any) -> Weights:
        """Tensors of one member by name."""
        if self.variant.state == "tree":
            return params
        return {k: params[slice(*place)].reshape(self.sizes[k]) for k, place in spans(self.sizes).items()}

    def _run(self, state: State, indices: jax.Array, replay: Weights, table: Weights) -> tuple[State, jax.Array]:
        """Updates for indices `[updates, P, B]`."""
        one = partial(member_update, table=table, shape=self.shape, variant=self.variant, views=self.views)
        every = jax.vmap(one)

        def body(carried: State, index: jax.Array) -> tuple[State, jax.Array]:
            return every(carried, index, replay)

        state, losses = jax.lax.scan(body, state, indices, unroll=math.gcd(self.variant.unroll, len(indices)))
        return state, losses[-1]

    def _draw_and_run(
        self, state: State, key: jax.Array, replay: Weights, table: Weights
    ) -> tuple[State, jax.Array, jax.Array]:
        key, mine = jax.random.split(key)
        size = (self.variant.block, self.shape.members, self.shape.batch)
        return *self._run(state, jax.random.randint(mine, size, 0, self.shape.capacity), replay, table), key

    def steps(self, indices: np.ndarray | None = None) -> None:
        """A block of updates of every member; `indices` `[updates, P, B]` replace the draws. Does not wait."""
        with jax.default_matmul_precision(self.matmul):
            if indices is None:
                self.state, self.loss, self.key = self.draw_and_run(self.state, self.key, self.replay, self.table)
            else:
                self.state, self.loss = self.run(self.state, jnp.asarray(indices), self.replay, self.table)

    def dump(self) -> Arrays:
        """The online parameters under the trainer's names."""
        views = jax.vmap(self.views)(self.state["params"])
        return unpack_arrays(self.shape, {k: np.asarray(x) for k, x in views.items()})

    def rates(self, repeats: int, seconds: float) -> list[float]:
        """Members x updates per second, one figure a repeat of about `seconds`."""
        per_call = self.shape.members * self.variant.block
        return blocking_rates(self.steps, lambda: jax.block_until_ready(self.state), per_call, repeats, seconds)


def measure(shape: Shape, precision: str, variant: Variant, repeats: int, seconds: float) -> list[float]:
    """`Packed.rates` of a fresh pack, after compiling and a warm-up."""
    return Packed(shape, precision, variant).rates(repeats, seconds)

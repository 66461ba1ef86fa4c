"""Prioritised replay of indices: a transition is 17 bytes, because a state is (row of the market table, last target).

The ring is time-major: all E walks of a member write one column per bar, so the next transition of the same walk is one
column further. n-step returns are formed at sampling time and never reach across an episode end or the write position.
A transition enters with the largest priority its member has seen, so that it is drawn soon; after an update it takes
the priority that the update gives it (Schaul et al. 2016, arXiv 1511.05952, algorithm 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

import numba_kernels as nk
from trainer.priority import draw_leaves, importance_weights, leaf_masses

FIELDS = {
    "row": torch.int32,
    "target": torch.int8,  # last target before the action
    "executed": torch.int8,  # target after it
    "direction": torch.int8,
    "magnitude": torch.int8,
    "reward": torch.float32,  # log-equity change in train volatilities
    "flags": torch.int8,
    "priority": torch.float32,
}
PRIORITY_FLOOR = 1e-6  # added to every new priority: a transition without error can still be drawn


@dataclass(frozen=True)
class Replay:
    """Ring buffers `[P, columns, E]`, one per field, and the largest priority so far, float32 `[P]`, at first 1."""

    fields: dict[str, torch.Tensor]
    max_priority: torch.Tensor

    @property
    def columns(self) -> int:
        return self.fields["row"].shape[1]

    def tensors(self) -> dict[str, torch.Tensor]:
        rings = {f"replay/{name}": tensor for name, tensor in self.fields.items()}
        return rings | {"replay/max_priority": self.max_priority}


@dataclass(frozen=True)
class Batch:
    """Sampled transitions, `[P, B]` each. `next_*` is one bar on, `later_*` up to n bars on (the bootstrap state)."""

    rows: torch.Tensor  # int64 [P, 3, B], market rows now, one bar on and at the bootstrap state
    targets: torch.Tensor  # int64 [P, 3, B], last targets there
    actions: torch.Tensor  # int64 [P, 2, B], direction and magnitude
    continues: torch.Tensor  # float32: 1 where the next bar belongs to the same episode
    returns: torch.Tensor  # float32: n-step return
    discount: torch.Tensor  # float32: discount^m, 0 after termination
    index: torch.Tensor  # int64: place in the ring, column * E + walk; valid until the next insert
    weight: torch.Tensor  # float32: importance weight, 1 at the largest of the batch

    @cached_property
    def direction(self) -> torch.Tensor:
        return self.actions[:, 0].contiguous()

    @cached_property
    def magnitude(self) -> torch.Tensor:
        return self.actions[:, 1].contiguous()

    @property
    def executed(self) -> torch.Tensor:
        """Target after the action."""
        return self.targets[:, 1]

    @property
    def next_row(self) -> torch.Tensor:
        return self.rows[:, 1]


def make_replay(members: int, capacity: int, environments: int, device: torch.device) -> Replay:
    shape = (members, capacity // environments, environments)
    fields = {name: torch.zeros(shape, dtype=dtype, device=device) for name, dtype in FIELDS.items()}
    return Replay(fields, torch.ones(members, device=device))


def insert(replay: Replay, bars: torch.Tensor, **values: torch.Tensor) -> None:
    """Write one column of `[P, E]` values at position `bars` (int64 [P], bars walked before this one) of the ring.

    `values` holds every field but the priority.
    """
    environments = replay.fields["row"].shape[2]
    column = (bars % replay.columns)[:, None, None].expand(-1, 1, environments)
    values["priority"] = replay.max_priority[:, None].expand(-1, environments)
    for name, tensor in replay.fields.items():
        tensor.scatter_(1, column, values[name].to(tensor.dtype).unsqueeze(1))


def update_priorities(replay: Replay, index: torch.Tensor, priority: torch.Tensor, alive: torch.Tensor) -> None:
    """Give the transitions at `index` (int64 `[P, B]`, of a batch) the `priority` float32 `[P, B]` of their update.

    A transition that the batch holds twice takes the larger one. A priority that is not finite writes nothing, one
    below 0 counts as 0, and members not `alive` (bool `[P]`) keep every bit.
    """
    ring = replay.fields["priority"].view(index.shape[0], -1)
    written = torch.isfinite(priority) & alive[:, None]
    fresh = torch.where(written, priority.clamp(min=0.0) + PRIORITY_FLOOR, 0.0)
    largest = torch.zeros_like(ring).scatter_reduce_(1, index, fresh, "amax")
    ring.copy_(torch.where(largest > 0.0, largest, ring))
    replay.max_priority.copy_(torch.maximum(replay.max_priority, fresh.amax(1)))


def _startable(replay: Replay, bars: torch.Tensor, n_step: int) -> torch.Tensor:
    """bool `[P, columns * E]`: stored transitions whose n-step window ends before the write position."""
    column = torch.arange(replay.columns, device=bars.device)
    age = (bars[:, None] - 1 - column) % replay.columns  # bars inserted since, if the column has been written
    inside = (age >= n_step - 1) & (age < bars[:, None])
    return inside[..., None].expand(*inside.shape, replay.fields["row"].shape[2]).flatten(1)


def sample(
    replay: Replay,
    bars: torch.Tensor,
    n_step: int,
    discount: torch.Tensor,
    exponents: tuple[torch.Tensor, torch.Tensor] | None,
    u: torch.Tensor,
) -> Batch:
    """Batch from the last `min(bars, columns)` bars, drawn in proportion to priority^alpha in B strata.

    `bars` int64 `[P]`, at least `n_step` (below it there is nothing to draw); `discount` float32 `[P]`; `exponents`
    alpha and beta float32 `[P]`; `u` float32 `[P, B]` in [0, 1). alpha 0 draws uniformly with weights of exactly 1, and
    so does None, without looking at a priority.

    R = sum_{k<m} g^k r_{t+k} with m = min(n, steps to the end of the episode), bootstrapped with g^m unless the episode
    terminated (Rainbow, arXiv 1710.02298, with truncation kept apart from termination).
    """
    environments = replay.fields["row"].shape[2]
    if exponents is None:
        index, weight = torch.empty_like(u, dtype=torch.int64), torch.ones_like(u)
        nk.draw_evenly(bars.contiguous(), u, replay.columns, environments, n_step, index)
    else:
        mass = leaf_masses(replay.fields["priority"].flatten(1), _startable(replay, bars, n_step), exponents[0])
        index = draw_leaves(mass, u)
        weight = importance_weights(mass.gather(1, index), exponents[1])
    return _gather(replay, index, weight, discount, n_step)


def _gather(replay: Replay, index: torch.Tensor, weight: torch.Tensor, discount: torch.Tensor, n_step: int) -> Batch:
    members, batch = index.shape
    rows, targets, actions = (torch.empty(members, n, batch, dtype=torch.int64, device=index.device) for n in (3, 3, 2))
    numbers = torch.empty(members, 3, batch, device=index.device)
    ring = replay.fields
    nk.n_step(
        ring["row"],
        ring["target"],
        ring["executed"],
        ring["direction"],
        ring["magnitude"],
        ring["reward"],
        ring["flags"],
        index,
        discount,
        n_step,
        rows,
        targets,
        actions,
        numbers,
    )
    continues, returns, factor = (numbers[:, i].contiguous() for i in range(3))
    return Batch(rows, targets, actions, continues, returns, factor, index, weight)

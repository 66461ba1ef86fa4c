"""Replay of indices: a transition is 13 bytes, because a state is (row of the market table, last target).

The ring is time-major: all E walks of a member write one column per bar, so the next transition of the same walk is one
column further. n-step returns are formed at sampling time and never reach across an episode end or the write position.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.market import TERMINATED

FIELDS = {
    "row": torch.int32,
    "target": torch.int8,  # last target before the action
    "executed": torch.int8,  # target after it
    "direction": torch.int8,
    "magnitude": torch.int8,
    "reward": torch.float32,  # log-equity change in train volatilities
    "flags": torch.int8,
}


@dataclass(frozen=True)
class Replay:
    """Ring buffers `[P, columns, E]`, one per field."""

    fields: dict[str, torch.Tensor]

    @property
    def columns(self) -> int:
        return self.fields["row"].shape[1]

    def tensors(self) -> dict[str, torch.Tensor]:
        return {f"replay/{name}": tensor for name, tensor in self.fields.items()}


@dataclass(frozen=True)
class Batch:
    """Sampled transitions, `[P, B]` each. `next_*` is one bar on, `later_*` up to n bars on (the bootstrap state)."""

    row: torch.Tensor
    target: torch.Tensor
    direction: torch.Tensor
    magnitude: torch.Tensor
    executed: torch.Tensor
    next_row: torch.Tensor
    continues: torch.Tensor  # float32: 1 where the next bar belongs to the same episode
    returns: torch.Tensor  # float32: n-step return
    discount: torch.Tensor  # float32: discount^m, 0 after termination
    later_row: torch.Tensor
    later_target: torch.Tensor


def make_replay(members: int, capacity: int, environments: int, device: torch.device) -> Replay:
    shape = (members, capacity // environments, environments)
    return Replay({name: torch.zeros(shape, dtype=dtype, device=device) for name, dtype in FIELDS.items()})


def insert(replay: Replay, bars: torch.Tensor, **values: torch.Tensor) -> None:
    """Write one column of `[P, E]` values at position `bars` (int64 [P], bars walked before this one) of the ring."""
    column = (bars % replay.columns)[:, None, None].expand(-1, 1, values["row"].shape[1])
    for name, tensor in replay.fields.items():
        tensor.scatter_(1, column, values[name].to(tensor.dtype).unsqueeze(1))


def _steps(replay: Replay, name: str, column: torch.Tensor, walk: torch.Tensor) -> torch.Tensor:
    """Field values `[P, B, n]` of consecutive columns `[P, B, n]` of one walk `[P, B]`."""
    flat = replay.fields[name].flatten(1)
    environments = replay.fields[name].shape[2]
    index = (column % replay.columns) * environments + walk[..., None]
    return flat.gather(1, index.flatten(1)).view(column.shape)


def sample(replay: Replay, bars: torch.Tensor, n_step: int, discount: torch.Tensor, u: torch.Tensor) -> Batch:
    """Uniform batch from the last `min(bars, columns)` bars. `bars` int64 [P], `discount` float32 [P], `u` [P, 2, B].

    R = sum_{k<m} g^k r_{t+k} with m = min(n, steps to the end of the episode), bootstrapped with g^m unless the episode
    terminated (Rainbow, arXiv 1710.02298, with truncation kept apart from termination).
    """
    stored = bars.clamp(max=replay.columns)
    starts = stored - n_step + 1
    column = (u[:, 0].double() * starts[:, None]).long()
    column = torch.minimum(column, starts[:, None] - 1) + (bars - stored)[:, None]
    environments = replay.fields["row"].shape[2]
    walk = (u[:, 1] * environments).long().clamp_(max=environments - 1)
    steps = column[..., None] + torch.arange(n_step, device=bars.device)
    ended = _steps(replay, "flags", steps, walk) != 0
    alive = torch.ones_like(ended)
    alive[..., 1:] = ended[..., :-1].cumsum(-1) == 0
    return _assemble(replay, steps, walk, alive, discount)


def _assemble(
    replay: Replay, steps: torch.Tensor, walk: torch.Tensor, alive: torch.Tensor, discount: torch.Tensor
) -> Batch:
    def first(name: str) -> torch.Tensor:
        return _steps(replay, name, steps[..., :1], walk).squeeze(-1).long()

    power, returns = torch.ones_like(discount)[:, None], torch.zeros(walk.shape, device=walk.device)
    reward = _steps(replay, "reward", steps, walk)
    for k in range(steps.shape[-1]):
        returns = torch.where(alive[..., k], returns + power * reward[..., k], returns)
        power = torch.where(alive[..., k], power * discount[:, None], power)
    last = alive.sum(-1, keepdim=True) - 1
    end = steps.gather(2, last)
    terminated = (_steps(replay, "flags", end, walk).squeeze(-1) & TERMINATED) != 0
    row, flags = first("row"), first("flags")
    return Batch(
        row,
        first("target"),
        first("direction"),
        first("magnitude"),
        first("executed"),
        row + 1,
        (flags == 0).float(),
        returns,
        power.expand(walk.shape).masked_fill(terminated, 0.0),
        _steps(replay, "row", end, walk).squeeze(-1).long() + 1,
        _steps(replay, "executed", end, walk).squeeze(-1).long(),
    )

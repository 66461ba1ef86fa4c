"""What an epoch accumulates on the device: sums that are read once, at the epoch's end."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch

import numba_kernels as nk
from trainer.params import C51_REACH, SLICES

if TYPE_CHECKING:
    from trainer.pack import Pack


@dataclass(frozen=True)
class Measurements:
    """Sums over the updates (loss) or the diagnostic updates (the rest) of an epoch; C components, G gems."""

    loss: torch.Tensor  # float32 [P]
    updates: torch.Tensor  # float32 [P]
    norms: torch.Tensor  # float32 [C, P, S], of each component and slice
    totals: torch.Tensor  # float32 [C, P], of each component over the slices that C51 reaches
    applied: torch.Tensor  # float32 [P], norm before clip
    clip: torch.Tensor  # float32 [P], clip factor
    budget: torch.Tensor  # float32 [P], scale of c51
    gems: torch.Tensor  # float32 [G, P], value
    diagnostics: torch.Tensor  # float32 [P], number of diagnostic updates

    def clear(self) -> None:
        for field in fields(self):
            getattr(self, field.name).zero_()


def make_measurements(components: int, members: int, gems: int, device: torch.device) -> Measurements:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, device=device)

    lane = [zeros(members) for _ in range(4)]
    return Measurements(
        zeros(members),
        zeros(members),
        zeros(components, members, len(SLICES)),
        zeros(components, members),
        lane[0],
        lane[1],
        lane[2],
        zeros(gems, members),
        lane[3],
    )


def whole(norms: torch.Tensor) -> torch.Tensor:
    """Norm of the whole buffer from its slices' norms (last axis)."""
    return norms.square().sum(-1).sqrt()


def shared(norms: torch.Tensor) -> torch.Tensor:
    """Norm over the slices that C51 reaches too: a gem's private head has nothing there to be compared with."""
    return whole(norms[..., : len(C51_REACH)])


def slice_norms(rows: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Norms `[C, P, S]` of gradient rows `[C, P, total]` cut at `starts`."""
    out = torch.empty(rows.shape[0], rows.shape[1], len(SLICES), device=rows.device)
    nk.slice_norms(rows, starts, out)
    return out


def observe_rows(pack: Pack, values: dict[str, torch.Tensor]) -> None:
    """Add the norms of all component rows and the gem values of one diagnostic update."""
    sums, norms = pack.measurements, slice_norms(pack.rows, pack.starts)
    sums.norms.add_(norms)
    sums.totals.add_(shared(norms))
    for index, gem in enumerate(pack.gems):
        sums.gems[index].add_(values[gem.name])


def observe_update(
    pack: Pack, loss: torch.Tensor, norm: torch.Tensor, clip: torch.Tensor, budget: torch.Tensor, diagnose: bool
) -> None:
    """Add the loss of every update, and the factors of a diagnostic one. All `[P]`."""
    sums = pack.measurements
    sums.loss.add_(loss)
    sums.updates.add_(1)
    if diagnose:
        for total, value in ((sums.applied, norm), (sums.clip, clip), (sums.budget, budget)):
            total.add_(value)
        sums.diagnostics.add_(1)

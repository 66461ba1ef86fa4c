"""What an epoch accumulates on the device: sums that are read once, at the epoch's end."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch

import numba_kernels as nk
from trainer.components import DERIVED
from trainer.params import C51_REACH, SLICES

if TYPE_CHECKING:
    from trainer.pack import Pack

LOSSES = ("c51", "iqn", "ens", "cql", "rec")


@dataclass(frozen=True)
class Measurements:
    """Sums over the updates (losses) or the diagnostic updates (the rest) of an epoch; C components, G gems."""

    losses: torch.Tensor  # float32 [losses, P]
    updates: torch.Tensor  # float32 [P]
    norms: torch.Tensor  # float32 [C, P, S], of each component and slice
    totals: torch.Tensor  # float32 [C, P], of each component over the slices that C51 reaches
    coefficients: torch.Tensor  # float32 [C, P], what each row was multiplied with when it was applied
    applied: torch.Tensor  # float32 [P], norm before clip
    clip: torch.Tensor  # float32 [P], clip factor
    gems: torch.Tensor  # float32 [G, P], value
    diagnostics: torch.Tensor  # float32 [P], number of diagnostic updates

    def clear(self) -> None:
        for field in fields(self):
            getattr(self, field.name).zero_()


def make_measurements(components: int, members: int, gems: int, device: torch.device) -> Measurements:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, members, device=device)

    return Measurements(
        losses=zeros(len(LOSSES)),
        updates=zeros(),
        norms=torch.zeros(components, members, len(SLICES), device=device),
        totals=zeros(components),
        coefficients=zeros(components),
        applied=zeros(),
        clip=zeros(),
        gems=zeros(gems),
        diagnostics=zeros(),
    )


def whole(norms: torch.Tensor) -> torch.Tensor:
    """Norm of the whole buffer from its slices' norms (last axis)."""
    return norms.square().sum(-1).sqrt()


assert (*SLICES[:4], SLICES[-1]) == C51_REACH  # cut by position: a list of indices would be copied from the host


def shared(norms: torch.Tensor) -> torch.Tensor:
    """Norm over the slices that C51 reaches too: a gem's private head has nothing there to be compared with."""
    return whole(torch.cat((norms[..., :4], norms[..., -1:]), -1))


def slice_norms(rows: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Norms `[C, P, S]` of gradient rows `[C, P, total]` cut at `starts`."""
    out = torch.empty(rows.shape[0], rows.shape[1], len(SLICES), device=rows.device)
    nk.slice_norms(rows, starts, out)
    return out


def observe_rows(pack: Pack, values: dict[str, torch.Tensor], coefficients: dict[str, torch.Tensor]) -> None:
    """Add the norms of all components, what they were multiplied with, and the gem values of a diagnostic update.

    A component without a coefficient was not applied; one that repeats another's row has its norm times it.
    """
    sums, norms = pack.measurements, slice_norms(pack.rows, pack.starts)
    none = torch.zeros(pack.size, device=pack.device)
    for index, component in enumerate(pack.components):
        name = component.name
        own = norms[pack.row_names.index(DERIVED.get(name, name))]
        own = own * coefficients[name][:, None] if name in DERIVED else own
        sums.norms[index].add_(own)
        sums.totals[index].add_(shared(own))
        sums.coefficients[index].add_(coefficients.get(name, none))
    for index, gem in enumerate(pack.gems):
        sums.gems[index].add_(values[gem.name])


def observe_update(
    pack: Pack, losses: dict[str, torch.Tensor], norm: torch.Tensor, clip: torch.Tensor, diagnose: bool
) -> None:
    """Add the losses of every update, and the factors of a diagnostic one. All `[P]`."""
    sums = pack.measurements
    for name, value in losses.items():
        sums.losses[LOSSES.index(name)].add_(value)
    sums.updates.add_(1)
    if diagnose:
        sums.applied.add_(norm)
        sums.clip.add_(clip)
        sums.diagnostics.add_(1)

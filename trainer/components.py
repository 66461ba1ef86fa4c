"""Sources of gradient, one row each, and what of them is applied.

The nine names keep the order of the older trainer for ever; further gems follow. A row exists only for a component that
this build has. `c51` and probed gems are diagnostic; the applied gradient is c51_bs plus the wired gems.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.gems.registry import component_name
from trainer.params import C51_REACH, SLICES
from trainer.signals import Signals

NINE = ("iqn", "ens", "c51", "cql", "distill", "rec", "pred", "cql_sx", "c51_bs")
AUXILIARY = ("cql", "distill", "pred", "cql_sx")  # added after the backward pass, in the aux operations


@dataclass(frozen=True)
class Component:
    """One row of the decomposition; `reach` names the slices it can write, everything else is a structural zero."""

    name: str
    reach: tuple[str, ...]


def list_components(gem_reach: dict[str, tuple[str, ...]]) -> tuple[Component, ...]:
    """Rows of this build: the present ones of the nine in their order, then `gem:<name>` in the order of the gems."""
    gems = {component_name(gem): reach for gem, reach in gem_reach.items()}
    present = {"c51": C51_REACH, "c51_bs": C51_REACH} | gems
    names = [n for n in NINE if n in present] + [n for n in gems if n not in NINE]
    return tuple(Component(n, tuple(s for s in SLICES if s in present[n])) for n in names)


def c51_scale(raw_norm: torch.Tensor, signals: Signals) -> torch.Tensor:
    """min(1, budget * G / |c51|) `[P]`, G being the running mean of the applied norm; 1 until G has a value."""
    limit = signals["c51_budget"] * signals["applied_norm_ema"]
    return torch.where((limit > 0) & (raw_norm > limit), limit / raw_norm, torch.ones_like(raw_norm))


def observe_applied(norm: torch.Tensor, signals: Signals) -> None:
    """Move G towards the applied norm `[P]`, before clip. The first finite norm starts it."""
    ema = signals["applied_norm_ema"]
    moved = torch.where(ema > 0, ema + signals["norm_ema_rate"] * (norm - ema), norm)
    ema.copy_(torch.where(torch.isfinite(norm), moved, ema))


def wired_coefficient(gem: str, gem_norm: torch.Tensor, reference_norm: torch.Tensor, signals: Signals) -> torch.Tensor:
    """Factor `[P]` that gives a wired gem its dose: a gradient norm of `dose` x |c51_bs|; 0 where it is not wired.

    NaN where the gradient of a wired gem is not finite: leaving it out would hide that the member trains without it.
    """
    dosed = signals[f"gem/{gem}/dose"] * reference_norm / gem_norm
    broken = torch.full_like(dosed, float("nan"))
    usable = (signals[f"gem/{gem}/wired"] > 0) & (gem_norm != 0)
    return torch.where(usable, torch.where(torch.isfinite(gem_norm), dosed, broken), torch.zeros_like(dosed))


def add_selected(total: torch.Tensor, coefficient: torch.Tensor, row: torch.Tensor) -> None:
    """total += coefficient * row where the coefficient is not 0, by selection: elsewhere no bit changes."""
    lane = coefficient[:, None]
    total.copy_(torch.where(lane != 0, total + lane * row, total))

"""Sources of gradient: the registry of what each one can reach, when it acts, what gates it, and where it is written.

The nine names keep the order of the older trainer for ever; further gems follow. `c51`, `cql` and probed gems are
diagnostic. The applied gradient, before clip, is

    iqn + ens + distill + rec + cql_sx + c51_bs + (pred and every other gem that is wired) x its dose's coefficient
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

import numba_kernels as nk
from trainer.config import Feature
from trainer.params import C51_REACH, SLICES
from trainer.signals import Signals

NINE = ("iqn", "ens", "c51", "cql", "distill", "rec", "pred", "cql_sx", "c51_bs")
Phase = Literal["graph_forward", "aux_ops", "diagnostic"]
DERIVED = {"c51_bs": "c51", "cql_sx": "cql"}  # a coefficient times the row of another component


@dataclass(frozen=True)
class Component:
    """One line of the decomposition.

    reach: slices it can write, everything else is a structural zero. phase: when its gradient is added; `diagnostic`
    rows never are. gates: slots of which each must differ from 0 for a gradient on the trunk. source: the function that
    writes it, as `module:function`. feature: what switches it off.
    """

    name: str
    reach: tuple[str, ...]
    phase: Phase
    gates: tuple[str, ...]
    source: str
    feature: Feature | None = None


FIXED = (
    Component(
        "iqn",
        ("trunk", "iqn"),
        "graph_forward",
        ("iqn_weight", "iqn_readiness"),
        "trainer.sources:iqn",
        "iqn",
    ),
    Component(
        "ens",
        ("trunk", "ensemble"),
        "graph_forward",
        ("ensemble_weight",),
        "trainer.sources:ensemble",
        "ensemble_kl",
    ),
    Component("c51", C51_REACH, "diagnostic", (), "trainer.sources:c51"),
    Component("cql", C51_REACH, "diagnostic", (), "trainer.aux_ops:cql", "cql"),
    Component(
        "distill",
        SLICES,
        "aux_ops",
        ("distill_alpha_max", "distill_armed", "distill_alpha"),
        "trainer.aux_ops:distill",
        "distillation",
    ),
    Component(
        "rec",
        ("trunk", "reconstruction"),
        "graph_forward",
        ("reconstruction_weight",),
        "trainer.sources:reconstruction",
        "reconstruction",
    ),
    Component("cql_sx", C51_REACH, "aux_ops", ("cql_coefficient",), "trainer.aux_ops:cql", "cql"),
    Component("c51_bs", C51_REACH, "graph_forward", (), "trainer.components:c51_budget"),
)


def list_components(gems: tuple[Component, ...], features: frozenset[Feature]) -> tuple[Component, ...]:
    """Components that some member of a pack uses: of the nine in their order, then the gems in theirs."""
    found = {c.name: c for c in FIXED if c.feature is None or c.feature in features}
    found |= {gem.name: gem for gem in gems}
    names = [n for n in NINE if n in found] + [n for n in found if n not in NINE]
    return tuple(found[n] for n in names)


def rows_of(components: tuple[Component, ...]) -> tuple[str, ...]:
    """Names of the components that need a gradient buffer of their own."""
    return tuple(c.name for c in components if c.name not in DERIVED)


def c51_budget(norms: torch.Tensor, signals: Signals) -> tuple[torch.Tensor, torch.Tensor]:
    """(factor, |c51_bs|) `[P]`: C51's norm, from those of its slices, kept within budget x G.

    The factor is min(1, budget x G / |c51|), G being the running mean of the applied norm; 1 until G has a value, NaN
    where the gradient is not finite: scaled to 0 it would vanish, and the member train on as if nothing had been.
    """
    norm, scale, kept = (norms.new_empty(len(norms)) for _ in range(3))
    nk.budget(norms, signals.table, signals.places(("c51_budget", "applied_norm_ema")), norm, scale, kept)
    return scale, kept


def cql_scale(raw_norm: torch.Tensor, reference_norm: torch.Tensor, signals: Signals) -> torch.Tensor:
    """coefficient x min(1, budget x |c51_bs| / |cql|) `[P]`; 0 where the schedule has closed it.

    NaN where it is open and either norm is not finite: there is no budget to keep to.
    """
    limit = signals["cql_budget"] * reference_norm
    factor = torch.where(raw_norm > limit, limit / raw_norm, torch.ones_like(raw_norm))
    known = torch.isfinite(raw_norm) & torch.isfinite(reference_norm)
    factor = torch.where(known, factor, torch.full_like(factor, float("nan")))
    coefficient = signals["cql_coefficient"]
    return torch.where(coefficient != 0, coefficient * factor, torch.zeros_like(factor))


def wired_coefficient(gem: str, gem_norm: torch.Tensor, reference_norm: torch.Tensor, signals: Signals) -> torch.Tensor:
    """Factor `[P]` that gives a wired gem its dose: a gradient norm of `dose` x |c51_bs|; 0 where it is not wired.

    NaN where the gradient of a wired gem is not finite: leaving it out would hide that the member trains without it.
    """
    dosed = signals[f"gem/{gem}/dose"] * reference_norm / gem_norm
    broken = torch.full_like(dosed, float("nan"))
    usable = (signals[f"gem/{gem}/wired"] > 0) & (gem_norm != 0)
    return torch.where(usable, torch.where(torch.isfinite(gem_norm), dosed, broken), torch.zeros_like(dosed))

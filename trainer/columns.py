"""The columns of an epoch's record: one row a member. `docs/records.md` lists them with their units."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

from trainer.data.table import MarketTable
from trainer.evaluate import Walk
from trainer.gems.registry import component_name
from trainer.health import QGap
from trainer.pack import Pack
from trainer.params import C51_REACH, SLICES
from trainer.sharpe import sharpe
from trainer.signals import COUNTERS

SPANS = ("train", "validation", "judge")
Columns = dict[str, Any]
ACTIONS = {"short": (1, 2, 3), "flat": (0,), "long": (4, 5, 6), "third": (1, 4), "two_thirds": (2, 5), "full": (3, 6)}


def host(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()


def identity(pack: Pack, epoch: int) -> Columns:
    """Who the row is about, and whether it still trains."""
    members, frozen_at = pack.spec.members, host(pack.counters["frozen_at"])
    return {
        "trial": [pack.spec.key] * pack.size,
        "config": [pack.spec.config_key] * pack.size,
        "arm": [m.arm for m in members],
        "seed": np.array([m.seed for m in members], np.int64),
        "fold": np.array([m.fold for m in members], np.int32),
        "member": np.arange(pack.size, dtype=np.int32),
        "epoch": np.full(pack.size, epoch, np.int32),
        "updates": host(pack.counters["updates"]),
        "status": ["ok" if at < 0 else "frozen" for at in frozen_at],
        "frozen_at": frozen_at,
    }


def per(total: torch.Tensor, count: torch.Tensor) -> np.ndarray:
    """total / count, NaN where nothing was counted (epoch 0)."""
    return host(torch.where(count > 0, total / count, torch.full_like(total, float("nan"))))


def gradients(pack: Pack) -> Columns:
    """Mean norms over the diagnostic updates; NaN where a component cannot reach a slice."""
    sums, count = pack.measurements, pack.measurements.diagnostics
    columns: Columns = {}
    columns["loss/c51"] = per(sums.loss, sums.updates)
    for i, component in enumerate(pack.components):
        for j, part in enumerate(SLICES):
            norms = per(sums.norms[i, :, j], count)
            columns[f"grad/{component.name}/{part}"] = norms if part in component.reach else np.full_like(norms, np.nan)
    columns["grad/applied"] = per(sums.applied, count)
    columns["grad/clip_factor"] = per(sums.clip, count)
    columns["grad/c51_budget"] = per(sums.budget, count)
    return columns


def gem_sizes(pack: Pack) -> Columns:
    """Value of each gem, and its size: |coefficient x gradient| / |c51_bs| over the slices that C51 reaches."""
    sums, count = pack.measurements, pack.measurements.diagnostics
    columns: Columns = {}
    names = [c.name for c in pack.components]
    reference = names.index("c51_bs")
    for index, gem in enumerate(pack.gems):
        row, off = names.index(component_name(gem.name)), host(pack.gem_active[gem.name]) == 0
        wired, coefficient = host(pack.signals[f"gem/{gem.name}/wired"]), pack.signals[f"gem/{gem.name}/coefficient"]
        columns[f"gem/{gem.name}/mode"] = [
            "off" if o else "wired" if w else "probe" for o, w in zip(off, wired, strict=True)
        ]
        columns[f"gem/{gem.name}/value"] = per(sums.gems[index], count)
        sizes = {"": (sums.totals[row], sums.totals[reference])}
        common = {s for s in pack.components[row].reach if s in C51_REACH}
        sizes |= {f"/{s}": (sums.norms[row, :, j], sums.norms[reference, :, j]) for j, s in enumerate(SLICES)}
        for part, (gem_norm, reference_norm) in sizes.items():
            size = per(coefficient * gem_norm, reference_norm)
            size[off | ((part != "") & (part[1:] not in common))] = np.nan
            columns[f"gem/{gem.name}/size{part}"] = size
    return columns


def features(pack: Pack) -> Columns:
    """Signals of the existing features that a gem may duplicate."""
    on = pack.spec.trainer.network.spectral_norm
    return {
        "feature/spectral_norm": host(pack.online.norm().sigma.flatten()),
        "feature/spectral_norm/on": np.full(pack.size, on),
    }


def tables(pack: Pack, gap: QGap) -> Columns:
    """Every signal slot and counter as it stands at the end of the epoch, and the Q-gap by branch."""
    columns: Columns = {"q_gap": host(gap.mean), "edge_mass": host(gap.edge_mass)}
    columns |= {"q_gap/direction": host(gap.direction), "q_gap/magnitude": host(gap.magnitude)}
    columns |= {f"signal/{name}": host(pack.signals[name]) for name in pack.signals.names}
    return columns | {f"counter/{name}": host(pack.counters[name]) for name in COUNTERS}


def purity(pack: Pack) -> Columns:
    """Digest of each member's parameters: equal for two arms exactly when their networks are equal bit for bit."""
    rows = host(pack.online.params)
    return {"purity/params_sha": [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in rows]}


def action_shares(walks: list[Walk] | None, members: int) -> Columns:
    """Shares of the validation walk's bars spent in each direction and magnitude (of the bars with a position)."""
    shares = np.full((len(ACTIONS), members), np.nan)
    for member, walk in enumerate(walks or ()):
        for index, (name, targets) in enumerate(ACTIONS.items()):
            held = walk.targets if name in ("short", "flat", "long") else walk.targets[walk.targets > 0]
            shares[index, member] = np.isin(held, targets).mean() if len(held) else 0.0
    return {f"act/{name}": shares[index].astype(np.float32) for index, name in enumerate(ACTIONS)}


def max_drawdown(returns: np.ndarray) -> float:
    """Largest fall of equity from its running peak, the start included, as a positive share."""
    equity = np.concatenate(([1.0], np.cumprod(1.0 + returns)))
    return float((1.0 - equity / np.maximum.accumulate(equity)).max())


def evaluation(table: MarketTable, span: str, walks: list[Walk] | None, members: int) -> Columns:
    """Sharpe, wealth, turnover and drawdown of a span, with the series they come from; empty when it was not walked."""
    rows = [_walk_row(table, walk) for walk in walks] if walks else [_EMPTY] * members
    columns: Columns = {f"eval/{span}/{name}": [row[name] for row in rows] for name in _EMPTY}
    numbers = {name: np.array(values) for name, values in columns.items() if not name.endswith("/status")}
    columns |= {name: v.astype(np.int32 if name.endswith("/n") else np.float64) for name, v in numbers.items()}
    columns[f"returns/{span}"] = [walk.returns for walk in walks] if walks else [np.empty(0)] * members
    columns[f"exposure/{span}"] = [w.exposure for w in walks] if walks else [np.empty(0)] * members
    return columns


_EMPTY: dict[str, Any] = {
    "sharpe": np.nan,
    "se": np.nan,
    "status": "",
    "n": 0,
    "log_wealth": np.nan,
    "turnover": np.nan,
    "max_drawdown": np.nan,
}


def _walk_row(table: MarketTable, walk: Walk) -> dict[str, Any]:
    traded = bool((walk.turnover > 0).any())
    estimate = sharpe(walk.returns, periods_per_year=table.periods_per_year, traded=traded, bankrupt=walk.bankrupt)
    return {
        "sharpe": estimate.value,
        "se": estimate.se,
        "status": estimate.status,
        "n": estimate.n,
        "log_wealth": float(np.log1p(walk.returns).sum()),
        "turnover": float(walk.turnover.sum() * table.periods_per_year / len(walk.turnover)),
        "max_drawdown": max_drawdown(walk.returns),
    }

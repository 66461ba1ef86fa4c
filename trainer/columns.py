"""The columns of an epoch's record: one row a member. `docs/records.md` lists them with their units."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

from trainer.components import FIXED
from trainer.config import FEATURES
from trainer.data.table import MarketTable
from trainer.evaluate import Walk
from trainer.gems.registry import component_name
from trainer.measurement import LOSSES
from trainer.pack import Pack
from trainer.params import C51_REACH, SLICES
from trainer.probe import Probe
from trainer.sharpe import sharpe
from trainer.signals import COUNTERS
from trainer.watchdog import alarms

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
    """Losses (means over the updates), norms and coefficients (means over the diagnostic updates).

    NaN where a component cannot reach a slice, and for a loss that the member does not have; a component that is
    switched off has norms of 0.
    """
    sums, count = pack.measurements, pack.measurements.diagnostics
    columns: Columns = {}
    feature = {c.name: c.feature for c in FIXED}
    for index, loss in enumerate(LOSSES):
        value, needs = per(sums.losses[index], sums.updates), feature[loss]
        columns[f"loss/{loss}"] = np.where(host(pack.signals.uses(needs)), value, np.nan) if needs else value
    present = {c.name: i for i, c in enumerate(pack.components)}
    none = torch.zeros_like(count)
    for component in {c.name: c for c in (*FIXED, *pack.components)}.values():
        place = present.get(component.name)
        for j, part in enumerate(SLICES):
            norms = per(none if place is None else sums.norms[place, :, j], count)
            columns[f"grad/{component.name}/{part}"] = norms if part in component.reach else np.full_like(norms, np.nan)
        coefficient = none if place is None else sums.coefficients[place]
        columns[f"coefficient/{component.name}"] = per(coefficient, count)
    columns["grad/applied"] = per(sums.applied, count)
    columns["grad/clip_factor"] = per(sums.clip, count)
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


def features(pack: Pack, probe: Probe) -> Columns:
    """Signals of the existing features that a gem may duplicate, and which features each member uses."""
    sigma = pack.layout.slices["noise"]
    columns: Columns = {
        "feature/spectral_norm": host(pack.online.sigma()),
        "feature/noisy_nets": host(pack.online.params[:, sigma[0] : sigma[1]].abs().sum(1)),
        "feature/ensemble_kl": host(probe.disagreement),
    }
    for feature in FEATURES:
        columns[f"feature/{feature}/on"] = host(pack.signals.uses(feature))
    return columns


def health(pack: Pack, probe: Probe) -> Columns:
    """What the probe states show, the alarms, every signal slot and every counter at the end of the epoch."""
    columns: Columns = {"q_gap": host(probe.q_gap), "edge_mass": host(probe.edge_mass)}
    columns |= {f"q_gap/{branch}": host(gap) for branch, gap in probe.gap.items()}
    columns |= {f"entropy/{branch}": host(entropy) for branch, entropy in probe.entropy.items()}
    columns |= {f"dormant/{layer}": host(share) for layer, share in probe.dormant.items()}
    columns |= {"watchdog": alarms(pack)}
    columns |= {f"signal/{name}": host(pack.signals[name]) for name in pack.signals.names}
    return columns | {f"counter/{name}": host(pack.counters[name]) for name in COUNTERS}


def purity(pack: Pack) -> Columns:
    """Digest of each member's parameters: equal for two arms exactly when their networks are equal bit for bit."""
    rows = host(pack.online.params)
    return {"purity/params_sha": [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in rows]}


def actions(walks: list[Walk] | None, members: int) -> Columns:
    """What the validation walk does: shares of its bars by direction, and by magnitude of the bars with a position;
    their entropy as a share of log 3; the mean distance of the exposure from holding all the time."""
    rows = [_action_row(walk) for walk in walks] if walks else [dict.fromkeys(ACTION_COLUMNS, np.nan)] * members
    return {f"act/{name}": np.array([row[name] for row in rows], np.float32) for name in ACTION_COLUMNS}


DIRECTION_NAMES, MAGNITUDE_NAMES = ("short", "flat", "long"), ("third", "two_thirds", "full")
ACTION_COLUMNS = (*ACTIONS, "direction_entropy", "magnitude_entropy", "hold_distance")


def _action_row(walk: Walk) -> dict[str, float]:
    held = walk.targets[walk.targets > 0]
    row = {name: float(np.isin(walk.targets, ACTIONS[name]).mean()) for name in DIRECTION_NAMES}
    row |= {name: float(np.isin(held, ACTIONS[name]).mean()) if len(held) else 0.0 for name in MAGNITUDE_NAMES}
    row["direction_entropy"] = _entropy([row[name] for name in DIRECTION_NAMES])
    row["magnitude_entropy"] = _entropy([row[name] for name in MAGNITUDE_NAMES])
    return row | {"hold_distance": float(np.abs(walk.exposure - 1.0).mean())}


def _entropy(shares: list[float]) -> float:
    """-sum p log p, divided by the log of the number of shares."""
    return float(abs(sum(p * np.log(p) for p in shares if p > 0)) / np.log(len(shares)))


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

"""Writes experiments in the real format, with gem sizes and returns drawn as asked, in a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from trainer.config import MAY_DUPLICATE, ArmConfig, DataConfig, GemConfig, Member, TrainerConfig, TrialSpec, config_key
from trainer.params import SLICES
from trainer.record import Checkpoint, TrialStore, write_plan, write_timeline

GEMS = {"g6_branch_indep": 0.2, "g10_temporal": 0.0, "g12_predictive": 0.05}
C51_REACH = ("trunk", "value", "direction", "magnitude", "noise")
REACH = {
    "iqn": ("trunk", "iqn"),
    "ens": ("trunk", "ensemble"),
    "c51": C51_REACH,
    "cql": C51_REACH,
    "distill": SLICES,
    "rec": ("trunk", "reconstruction"),
    "cql_sx": C51_REACH,
    "c51_bs": C51_REACH,
    "pred": ("trunk", "predictive"),
    "gem:g6_branch_indep": ("trunk", "direction", "magnitude"),
    "gem:g10_temporal": ("trunk", "value", "direction", "magnitude"),
}
TIMELINE = pd.bdate_range("2001-01-01", periods=400, tz="UTC")
LAYERS = ("first", "trunk", "value_hidden", "direction_hidden", "magnitude_hidden")
ACTIONS = ("short", "flat", "long", "third", "two_thirds", "full")
GATES = ("iqn_weight", "iqn_readiness", "ensemble_weight", "reconstruction_weight", "cql_coefficient")
SPANS = {"train": (0, 150), "validation": (165, 205), "judge": (220, 280)}
SHIFT = 60  # bars from one fold's spans to the next fold's


def specs(configs=5, seeds=3, folds=2, epochs=6, score_epochs=2, gems=GEMS, off=True, wired=None) -> list[TrialSpec]:
    """Trials in launch order; the first has an off arm, all have a wired arm for the gem named by `wired`."""
    data = DataConfig(folds={"count": folds})
    base = ArmConfig(name="base", gems={gem: GemConfig() for gem in gems})
    result = []
    for launch in range(configs):
        rate = round(1e-3 * 1.3**launch, 7)
        trainer = TrainerConfig(epochs=epochs, score_epochs=score_epochs, learning_rate=rate)
        arms = [base]
        if off and launch == 0:
            arms.append(ArmConfig(name="off", gems={gem: GemConfig(mode="off") for gem in gems}))
        if wired:
            arms.append(ArmConfig(name=f"wired-{wired}", gems={**base.gems, wired: GemConfig(mode="wired")}))
        members = [Member(arm=arm.name, seed=s, fold=f) for arm in arms for s in range(seeds) for f in range(folds)]
        name = config_key(data, trainer)
        own = {"key": f"{name}-b0", "config_key": name, "launch": launch}
        result.append(TrialSpec(**own, data=data, trainer=trainer, arms=arms, members=members))
    return result


def plan_of(trials: list[TrialSpec], **extra) -> dict:
    spans = [
        {"fold": fold, "span": name, "start": start + SHIFT * fold, "stop": stop + SHIFT * fold,
         "start_time": str(TIMELINE[start + SHIFT * fold]), "stop_time": str(TIMELINE[stop + SHIFT * fold - 1])}
        for fold in range(trials[0].data.folds.count) for name, (start, stop) in SPANS.items()
    ]  # fmt: skip
    plan = {
        "schema": 1, "name": "made-up", "label": "smoke, not evidence", "created": "2026-01-01T00:00:00+00:00",
        "seed": 0,
        "trials": [spec.model_dump(mode="json") for spec in trials], "folds": spans,
        "data": {"sha256": "0" * 64, "periods_per_year": 252.0, "symbols": ["AAA", "BBB"], "report": {}},
        "gems": [{"name": gem, "may_duplicate": MAY_DUPLICATE.get(gem, ())} for gem in trials[0].arms[0].gems],
    }  # fmt: skip
    return {**plan, **extra}


def columns(
    spec: TrialSpec, epoch: int, sizes: dict[str, float], rng: np.random.Generator, frozen=(), impure=False, status="ok"
) -> dict:
    """One epoch's columns of all members. `frozen`: (seed, fold) of base members that stopped; `status`: of walks."""
    count, late = len(spec.members), spec.trainer.epochs - epoch < spec.trainer.score_epochs
    stopped = [member.arm == "base" and (member.seed, member.fold) in frozen for member in spec.members]
    table: dict = {
        "trial": [spec.key] * count, "config": [spec.config_key] * count,
        "arm": [member.arm for member in spec.members],
        "seed": np.array([member.seed for member in spec.members], dtype=np.int64),
        "fold": np.array([member.fold for member in spec.members], dtype=np.int32),
        "member": np.arange(count, dtype=np.int32), "epoch": np.full(count, epoch, dtype=np.int32),
        "updates": np.full(count, 50 * epoch, dtype=np.int64),
        "status": ["frozen" if stop else "ok" for stop in stopped],
        "frozen_at": np.where(stopped, 7, -1).astype(np.int64),
        "loss/c51": rng.uniform(1.0, 3.0, count), "q_gap": rng.uniform(0.1, 0.3, count),
        "feature/spectral_norm": rng.uniform(1.0, 2.0, count), "feature/spectral_norm/on": np.ones(count, dtype=bool),
        "clock/seconds": np.full(count, 0.5),
        "purity/params_sha": [f"{m.seed}-{m.fold}-{epoch}{'x' * (impure and m.arm == 'off')}" for m in spec.members],
    }  # fmt: skip
    _gradients(table, spec, epoch, count, rng)
    _health(table, count, rng)
    for gem, size in sizes.items():
        _gem(table, spec, gem, size, epoch, rng)
    wanted = {"validation": True, "train": epoch in (0, spec.trainer.epochs), "judge": epoch == 0 or late}
    for span, evaluated in wanted.items():
        _evaluation(table, spec, span, evaluated, epoch, rng, status)
    return table


def _gradients(table: dict, spec: TrialSpec, epoch: int, count: int, rng: np.random.Generator) -> None:
    for component, reached in REACH.items():
        for part in SLICES:
            norms = rng.uniform(0.5, 2.0, count) if part in reached and epoch else np.full(count, np.nan)
            table[f"grad/{component}/{part}"] = norms
        table[f"coefficient/{component}"] = np.full(count, 1.0 if epoch else np.nan)
    table["grad/applied"] = rng.uniform(0.5, 2.0, count)
    table["grad/clip_factor"] = np.ones(count)


def _health(table: dict, count: int, rng: np.random.Generator) -> None:
    table["watchdog"] = [""] * count
    shares = [f"dormant/{layer}" for layer in LAYERS] + [f"act/{name}" for name in ACTIONS]
    shares += ["entropy/direction", "entropy/magnitude", "act/direction_entropy", "act/magnitude_entropy"]
    table |= {name: rng.uniform(0.0, 1.0, count) for name in [*shares, "act/hold_distance"]}
    table["edge_mass"] = rng.uniform(0.0, 0.04, count)
    table |= {f"signal/{slot}": np.ones(count) for slot in (*GATES, "learning_health")}
    table["counter/snapshots_accepted"] = np.ones(count, dtype=np.int64)


def _gem(table: dict, spec: TrialSpec, gem: str, size: float, epoch: int, rng: np.random.Generator) -> None:
    modes = {arm.name: arm.gems[gem].mode for arm in spec.arms}
    on = np.array([modes[member.arm] != "off" for member in spec.members]) & (epoch > 0)
    # The spread between configurations is what the verdict reads, so it is drawn per configuration and stays put.
    shift = np.random.default_rng([spec.launch, len(gem)]).normal(0.0, 0.05)
    draws = size * 10.0 ** (shift + rng.normal(0.0, 0.05, len(on)))
    table[f"gem/{gem}/mode"] = [modes[member.arm] for member in spec.members]
    table[f"gem/{gem}/value"] = np.where(on, rng.uniform(0.1, 1.0, len(on)), np.nan)
    table[f"gem/{gem}/size"] = np.where(on, draws, np.nan)
    table[f"gem/{gem}/size/trunk"] = np.where(on, 0.5 * draws, np.nan)
    table[f"gem/{gem}/size/predictive"] = np.full(len(on), np.nan)


CONVENTIONS = {"no_trades": 0.0, "flat": 0.0, "short": 0.0, "bankrupt": -3.0}


def _evaluation(
    table: dict, spec: TrialSpec, span: str, evaluated: bool, epoch: int, rng: np.random.Generator, status: str
) -> None:
    count, (start, stop) = len(spec.members), SPANS[span]
    bars = stop - start - 1 if evaluated else 0
    drift = 0.0002 * epoch
    returns = [rng.normal(drift, 0.01, bars) for _ in range(count)]
    if status in ("no_trades", "flat"):
        returns = [np.zeros(bars) for _ in range(count)]
    table[f"returns/{span}"] = returns
    table[f"exposure/{span}"] = [np.full(bars, 1.0 / 3.0, dtype=np.float32) for _ in range(count)]
    value = (
        [CONVENTIONS[status] if bars else np.nan] * count
        if status in CONVENTIONS
        else [series.mean() / series.std(ddof=1) * np.sqrt(252.0) if bars else np.nan for series in returns]
    )
    table[f"eval/{span}/sharpe"] = np.array(value)
    table[f"eval/{span}/se"] = np.full(count, float(status not in CONVENTIONS) if bars else np.nan)
    table[f"eval/{span}/status"] = [status if bars else ""] * count
    table[f"eval/{span}/turnover"] = np.full(count, 3.0 * (status != "no_trades") if bars else np.nan)
    table[f"eval/{span}/n"] = np.full(count, bars, dtype=np.int64)
    table[f"eval/{span}/log_wealth"] = np.array([np.log1p(series).sum() if bars else np.nan for series in returns])


def write_trial(
    folder: Path,
    spec: TrialSpec,
    sizes=GEMS,
    *,
    stop_after=None,
    fail=None,
    frozen=(),
    impure=False,
    status="ok",
    change=lambda table, epoch: table,
) -> None:
    """Record one trial; `stop_after`: last epoch of a trial that goes on later; `fail`: cause of its failure;
    `change(table, epoch)`: the columns to record instead."""
    rng = np.random.default_rng([spec.launch, spec.block])
    last = spec.trainer.epochs if stop_after is None else stop_after
    with TrialStore(folder, spec) as store:
        store.resume()
        for epoch in range(last + 1):
            table = columns(spec, epoch, sizes, rng, frozen if epoch > 1 else (), impure and epoch == 3, status)
            checkpoint = Checkpoint(epoch, {"theta": np.zeros(2, dtype=np.float32)})
            store.write_epoch(epoch, change(table, epoch), checkpoint, ["HEALTH_DIAG line"])
        if fail:
            store.fail(fail, "made up")
        elif stop_after is None:
            store.finish({"epochs": last})


def write_experiment(folder: Path, trials: list[TrialSpec] | None = None, sizes=GEMS, **plan) -> list[TrialSpec]:
    """A finished experiment."""
    trials = trials or specs()
    write_plan(folder, plan_of(trials, **plan))
    write_timeline(folder, TIMELINE)
    for spec in trials:
        write_trial(folder, spec, sizes)
    return trials

"""Do learning curves tell bfloat16, TF32 and float32 products apart? The same seeds, market and order in each.

    python benchmarks/precision.py --device cuda --seeds 16 --json precision.json

AR(1) returns without costs, as in `learning.py`, whose settings it takes. Every number of every epoch is compared
between two precisions by seed: a mean difference with its 95 % interval, and a two-sided sign-flip permutation test
(Fisher). With many epochs and numbers the smallest p-value is held against 5 % divided by their count (Bonferroni).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import permutation_test, t

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "trainer"), str(ROOT / "benchmarks")]

from learning import EXPERIMENTS, PHI, one_fold  # noqa: E402
from synthetic_markets import ar1_market, spans  # noqa: E402

from trainer.config import ArmConfig, Machine, Member, TrialSpec  # noqa: E402
from trainer.loop import run_trial  # noqa: E402
from trainer.reporter import MemoryReporter  # noqa: E402

NUMBERS = ("eval/validation/sharpe", "eval/validation/log_wealth", "loss/c51", "q_gap")
PRECISIONS = ("float32", "tf32", "bf16")
PAIRS = ("tf32", "float32"), ("bf16", "float32"), ("bf16", "tf32")
ARM = ArmConfig(name="off")
Curves = dict[str, np.ndarray]  # float64 [epochs, seeds] by number


def curves(precision: str, seeds: int, device: str, changes: dict[str, Any]) -> Curves:
    """What one pack of all seeds recorded, epoch by epoch; the untrained network's record is left out."""
    experiment = EXPERIMENTS["ar1"]
    data, bars = spans(60_000, 50_000, 2_000)  # validation is walked after every epoch, the judge span once
    table = ar1_market(PHI, data, bars, 0)
    spec = TrialSpec(
        key="precision-b0",
        config_key="precision",
        data=data,
        trainer=experiment.trainer.model_copy(update=changes),
        arms=(ARM,),
        members=tuple(Member(arm=ARM.name, seed=seed, fold=fold) for seed, fold in one_fold(seeds, 0)),
        machine=Machine.model_validate({"device": device, "precision": precision}),
    )
    seen = MemoryReporter()
    run_trial(spec, seen, table)
    found = {name: np.array([record.columns[name] for record in seen.records[1:]], float) for name in NUMBERS}
    missing = [name for name, curve in found.items() if not np.isfinite(curve).all()]
    if missing:
        raise RuntimeError(f"{precision}: {', '.join(missing)} not finite in every epoch")
    return found


def mean_difference(x: np.ndarray) -> float:
    return float(x.mean())


def compared(left: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Of one number in one epoch: mean of left - right over seeds, its 95 % half-width, and the p-value."""
    difference = left - right
    half = float(t.ppf(0.975, len(difference) - 1) * difference.std(ddof=1) / np.sqrt(len(difference)))
    if not difference.any():
        return {"mean": 0.0, "half": 0.0, "p": 1.0}
    found = permutation_test((difference,), mean_difference, permutation_type="samples", n_resamples=20_000, rng=0)
    return {"mean": mean_difference(difference), "half": half, "p": float(found.pvalue)}


def judged(first: Curves, second: Curves) -> dict[str, Any]:
    """All epochs and numbers of two precisions: the last epoch, and the smallest p-value of all."""
    rows = {name: [compared(a, b) for a, b in zip(first[name], second[name], strict=True)] for name in NUMBERS}
    every = [row["p"] for epochs in rows.values() for row in epochs]
    last = {name: epochs[-1] | {"level": float(second[name][-1].mean())} for name, epochs in rows.items()}
    return {"last": last, "smallest_p": min(every), "limit": 0.05 / len(every), "comparisons": len(every)}


def report(pairs: dict[str, dict[str, Any]]) -> bool:
    """Prints the table; whether no pair can be told apart."""
    table = Table("pair", "number", "level", "difference at the last epoch", "smallest p of all", "limit", "told apart")
    for name, found in pairs.items():
        for number, row in found["last"].items():
            difference = f"{row['mean']:+.4g} [{row['mean'] - row['half']:+.4g}, {row['mean'] + row['half']:+.4g}]"
            apart = "yes" if found["smallest_p"] < found["limit"] else "no"
            ends = (f"{found['smallest_p']:.4f}", f"{found['limit']:.4f}", apart)
            table.add_row(name, number, f"{row['level']:.4g}", difference, *ends)
            name, found = "", found
    Console(width=150).print(table)
    return all(found["smallest_p"] >= found["limit"] for found in pairs.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--updates", type=int, default=150, help="of an epoch")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    changes, started = {"epochs": options.epochs, "updates_per_epoch": options.updates}, time.perf_counter()
    found = {p: curves(p, options.seeds, options.device, changes) for p in PRECISIONS}
    pairs = {f"{a} - {b}": judged(found[a], found[b]) for a, b in PAIRS}
    same, took = report(pairs), time.perf_counter() - started
    print(f"{options.seeds} seeds, {options.epochs} epochs of {options.updates} updates, {took:.0f} s")
    if options.json:
        options.json.write_text(
            json.dumps({"pairs": pairs, "curves": {p: {n: c.tolist() for n, c in x.items()} for p, x in found.items()}})
        )
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())

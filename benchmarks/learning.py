"""Does the trainer learn what can be learned, and nothing else? Four markets whose best policy is known.

    python benchmarks/learning.py                          # all four on the CPU
    python benchmarks/learning.py leak ar1 --seeds 12 --device cuda --json learning.json

    leak      a feature holds the return of the bar that the new position will earn; no costs
    ar1       AR(1) returns with phi = 0.1; no costs; 100,000 judge bars
    noise     independent returns and the default costs; every seed has a market of its own
    permuted  the bundled real bars in random order; no costs

All seeds of an experiment train in one pack, through `run_trial`. Settings were chosen on seeds from 1000 on and on
their markets (`--first-seed 1000`); seeds from 0 on are for reporting.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "trainer")]

from learning_trial import (  # noqa: E402
    Learned,
    oracle_log_wealth,
    random_turnover,
    timing_edges,
    train,
)
from synthetic_markets import (  # noqa: E402
    ar1_market,
    leak_market,
    permuted_market,
    sign_policy_sharpe,
    spans,
)

from trainer.config import DataConfig, IQNConfig, MarketConfig, TrainerConfig  # noqa: E402

FREE = MarketConfig(commission_bps=0.0, half_spread_bps=0.0, slippage_bps=0.0, borrow_rate=0.0)
PHI = 0.1
NOISE_FOLDS = 16  # markets of the noise experiment; further seeds share them
COMMON: dict[str, Any] = {
    "epochs": 4,
    "epsilon_end": 0.1,
    "replay_capacity": 32768,
    "diagnostics_per_epoch": 1,
    "score_epochs": 1,
    "iqn": IQNConfig(weight=1.0, quantiles=8),
}


@dataclass(frozen=True)
class Line:
    """One criterion: what was measured, with its spread, and whether it is met. `values` are by member."""

    what: str
    measured: str
    criterion: str
    met: bool
    values: list[float]


@dataclass(frozen=True)
class Experiment:
    seeds: int
    trainer: TrainerConfig
    market: Callable[[int], tuple[Any, DataConfig]]  # of a seed
    members: Callable[[int, int], tuple[tuple[int, int], ...]]  # (seed, fold) of a number of seeds and the first
    judge: Callable[[Learned], list[Line]]


def spread(values: np.ndarray, digits: int = 3) -> str:
    return f"mean {values.mean():.{digits}f}, sd {values.std(ddof=1):.{digits}f}, min {values.min():.{digits}f}"


def mean_within(what: str, values: np.ndarray, error: float, unit: float = 1.0) -> Line:
    """The mean is 0 within two of its standard errors."""
    mean = float(values.mean())
    measured = f"{mean * unit:+.4f} +- {error * unit:.4f}"
    return Line(what, measured, "|mean| <= 2 standard errors", abs(mean) <= 2 * error, values.tolist())


def error_of_mean(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def judge_leak(learned: Learned) -> list[Line]:
    share = learned.judge("log_wealth") / oracle_log_wealth(learned.table)
    return [Line("log wealth / oracle's", spread(share), ">= 0.9 for each", bool((share >= 0.9).all()), share.tolist())]


def judge_ar1(learned: Learned) -> list[Line]:
    share = learned.per_bar_sharpe() / sign_policy_sharpe(PHI)
    what = "per-bar Sharpe / sign policy's"
    return [Line(what, spread(share), ">= 0.75 for each", bool((share >= 0.75).all()), share.tolist())]


def judge_noise(learned: Learned) -> list[Line]:
    gross, net = learned.gross_sharpe(), learned.per_bar_sharpe()
    before, after = learned.per_bar_turnover(untrained=True), learned.per_bar_turnover()
    lines = [
        mean_within("per-bar Sharpe before costs", gross, error_of_mean(gross)),
        mean_within("per-bar Sharpe after costs", net, error_of_mean(net)),
    ]
    for name, reference in (("the untrained walk's", float(before.mean())), ("a random walk's", random_turnover())):
        share = float(after.mean()) / reference
        measured = f"{share:.4f} ({after.mean():.5f} / {reference:.4f} per bar)"
        lines.append(Line(f"turnover / {name}", measured, "< 0.1", share < 0.1, after.tolist()))
    return lines


def judge_permuted(learned: Learned) -> list[Line]:
    """The error is that of the seeds' mean edge over time, folds one after another: it contains the market's path."""
    edges, folds = timing_edges(learned), [member.fold for member in learned.spec.members]
    path = np.concatenate(
        [np.mean([e for e, f in zip(edges, folds, strict=True) if f == k], 0) for k in sorted(set(folds))]
    )
    line = mean_within("edge, basis points a day", path, error_of_mean(path), 1e4)
    members = np.array([edge.mean() for edge in edges]) * 1e4
    return [Line(line.what, f"{line.measured}; {spread(members, 2)}", line.criterion, line.met, members.tolist())]


def leak_of(seed: int) -> tuple[Any, DataConfig]:
    data, bars = spans(4_000, 200, 4_000)
    return leak_market(data, bars, seed), data


def ar1_of(seed: int) -> tuple[Any, DataConfig]:
    data, bars = spans(60_000, 200, 100_000)
    return ar1_market(PHI, data, bars, seed), data


def noise_of(seed: int) -> tuple[Any, DataConfig]:
    data, bars = spans(40_000, 200, 8_000, count=NOISE_FOLDS)
    return ar1_market(0.0, data, bars, seed), data


def permuted_of(seed: int) -> tuple[Any, DataConfig]:
    data = DataConfig()
    return permuted_market("us-daily", 4, data, seed), data


def one_fold(seeds: int, first: int) -> tuple[tuple[int, int], ...]:
    return tuple((first + i, 0) for i in range(seeds))


def fold_each(seeds: int, first: int) -> tuple[tuple[int, int], ...]:
    return tuple((first + i, i % NOISE_FOLDS) for i in range(seeds))


def both_folds(seeds: int, first: int) -> tuple[tuple[int, int], ...]:
    return tuple((first + i, fold) for fold in (0, 1) for i in range(seeds))


def settings(**changes: Any) -> TrainerConfig:
    return TrainerConfig(**COMMON | changes)


# Without costs a position has no consequence beyond its bar, so a short horizon is enough; with them it must hold.
SHORT: dict[str, Any] = {"discount": 0.5, "n_step": 1, "market": FREE}
EXPERIMENTS = {
    "leak": Experiment(8, settings(updates_per_epoch=500, environments=32, **SHORT), leak_of, one_fold, judge_leak),
    "ar1": Experiment(
        10, settings(updates_per_epoch=300, environments=64, batch_size=256, **SHORT), ar1_of, one_fold, judge_ar1
    ),
    "noise": Experiment(
        16, settings(updates_per_epoch=250, environments=64, batch_size=128), noise_of, fold_each, judge_noise
    ),
    "permuted": Experiment(
        8, settings(updates_per_epoch=250, environments=32, market=FREE), permuted_of, both_folds, judge_permuted
    ),
}


def run(name: str, experiment: Experiment, seeds: int, first: int, device: str) -> dict[str, Any]:
    """Train and judge one experiment; JSON-plain."""
    started = time.perf_counter()
    table, data = experiment.market(first)
    members = experiment.members(seeds, first)
    learned = train(table, data, experiment.trainer, members, device)
    lines = experiment.judge(learned)
    trainer = experiment.trainer
    budget = f"{len(members)} members, {trainer.epochs * trainer.updates_per_epoch} updates of {trainer.batch_size}"
    return {
        "experiment": name,
        "budget": budget,
        "seconds": time.perf_counter() - started,
        "status": [str(status) for status in learned.last["status"]],
        "trainer": trainer.model_dump(mode="json"),
        "lines": [vars(line) for line in lines],
    }


def report(results: list[dict[str, Any]]) -> None:
    table = Table("experiment", "budget", "seconds", "measured", "result", "criterion", "met")
    for result in results:
        head = (result["experiment"], result["budget"], f"{result['seconds']:.0f}")
        for line in result["lines"]:
            table.add_row(*head, line["what"], line["measured"], line["criterion"], "yes" if line["met"] else "NO")
            head = ("", "", "")
    Console(width=170).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", default=["all"], help=f"{', '.join(EXPERIMENTS)} or all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, help="instead of each experiment's own number")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("learning.json"))
    options = parser.parse_args()
    names = list(EXPERIMENTS) if options.experiments == ["all"] else options.experiments
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        parser.error(f"no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)} and all")
    results = []
    for name in names:
        experiment = EXPERIMENTS[name]
        seeds = options.seeds or experiment.seeds
        results.append(run(name, experiment, seeds, options.first_seed, options.device))
        report(results[-1:])
        options.json.write_text(json.dumps(results, indent=1))
    return 0 if all(line["met"] for result in results for line in result["lines"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Does the distillation bring a collapsed Q-gap back? Paired seeds, fixed criteria, each old fault beside it.

    python benchmarks/collapse.py --seeds 32 --device cuda --record collapse.json --plot collapse.png

The configuration was chosen on seeds 1000 to 1015; the report runs on seeds 0 and up. docs/collapse.md says what the
figures mean and what they do not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from planted_faults import FAULTS

from trainer.config import ArmConfig, CQLConfig, IQNConfig, Machine, Member, TrainerConfig, TrialSpec
from trainer.loop import run_trial

EPOCHS, UPDATES = 50, 30
# A conservative start: CQL at full weight pulls actions apart, and is then withdrawn over 240 updates (8 epochs).
TRAINER = TrainerConfig(
    epochs=EPOCHS,
    updates_per_epoch=UPDATES,
    discount=0.97,
    cql=CQLConfig(weight=1.0, anneal_updates=240, budget=1.0),
    iqn=IQNConfig(weight=1.0, quantiles=8),
)
COLLAPSED, FEWEST_EPOCHS = 0.15, 10  # of the running peak; so many epochs below it, and at the end
FROM, TO = 33, 50  # recovered: at or above it throughout these epochs
NONE, OURS = "no distillation", "ours"
ARMS = (ArmConfig(name="none", features_off=("distillation",)), ArmConfig(name="ours"))
COLUMNS = ("q_gap", "eval/judge/sharpe", "purity/params_sha", "watchdog", "signal/distill_alpha")


class Columns:
    """Keeps a few columns of every epoch: name -> [epochs, members]."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Any]] = {name: [] for name in COLUMNS}

    def resume(self) -> None:
        return None

    def epoch(self, record: Any, state: Callable[[], Any]) -> bool:
        for name, values in self.kept.items():
            values.append(np.asarray(record.columns[name]))
        return False

    def finish(self, summary: dict[str, Any]) -> None:
        pass


def train(fault: str | None, seeds: range, device: str) -> dict[str, np.ndarray]:
    """One pack of both arms on all seeds, with a fault planted or none; columns `[epochs, members]`, `none` first."""
    members = tuple(Member(arm=arm.name, seed=seed, fold=0) for arm in ARMS for seed in seeds)
    machine = Machine(device=device, threads=1)
    spec = TrialSpec(
        key="collapse-b0", config_key="collapse", trainer=TRAINER, arms=ARMS, members=members, machine=machine
    )
    seen = Columns()
    with ExitStack() as stack:
        if fault:
            FAULTS[fault](lambda *what: stack.enter_context(mock.patch.object(*what)))
        run_trial(spec, seen)
    return {name: np.array(values) for name, values in seen.kept.items()}


def relative_gap(q_gap: np.ndarray) -> np.ndarray:
    """Q-gap `[epochs, members]` of epochs 1 and up as a share of its running peak."""
    return q_gap[1:] / np.maximum.accumulate(q_gap[1:], axis=0)


def collapsed(share: np.ndarray) -> np.ndarray:
    """bool `[members]`: below 15 % of the running peak for 10 epochs or more, and at the end."""
    low = ~(share >= COLLAPSED)  # a gap that is not a number is no gap
    return (low.sum(0) >= FEWEST_EPOCHS) & low[-1]


def recovered(share: np.ndarray) -> np.ndarray:
    """bool `[members]`: at or above 15 % throughout epochs 33 to 50."""
    return (share[FROM - 1 : TO] >= COLLAPSED).all(0)


def mcnemar(before: np.ndarray, after: np.ndarray) -> tuple[int, int, float]:
    """(only before, only after, exact two-sided p) of paired yes/no outcomes."""
    from scipy.stats import binomtest

    first, second = int((before & ~after).sum()), int((after & ~before).sum())
    return first, second, float(binomtest(first, first + second).pvalue) if first + second else 1.0


def proportion(flags: np.ndarray) -> str:
    """Count, and the exact 95 % interval of the share."""
    from scipy.stats import binomtest

    low, high = binomtest(int(flags.sum()), len(flags)).proportion_ci(method="exact")
    return f"{int(flags.sum()):3d} of {len(flags)} [{100 * low:3.0f}, {100 * high:3.0f}] %"


def mean_interval(values: np.ndarray) -> str:
    """Mean and 95 % t interval."""
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():+.2f} [{values.mean() - half:+.2f}, {values.mean() + half:+.2f}]"


def gather(seeds: range, device: str, jobs: int) -> dict[str, dict[str, np.ndarray]]:
    """Columns `[epochs, seeds]` of every arm by name."""
    faults = [None, *FAULTS]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        packs = list(pool.map(train, faults, [seeds] * len(faults), [device] * len(faults)))
    half = len(seeds)
    arms = {NONE: {name: values[:, :half] for name, values in packs[0].items()}}
    for fault, pack in zip(faults, packs, strict=True):
        arms[fault or OURS] = {name: values[:, half:] for name, values in pack.items()}
    return arms


def write(path: Path, arms: dict[str, dict[str, np.ndarray]]) -> None:
    path.write_text(json.dumps({arm: {n: v.tolist() for n, v in columns.items()} for arm, columns in arms.items()}))


def read(path: Path) -> dict[str, dict[str, np.ndarray]]:
    stored = json.loads(path.read_text())
    return {arm: {name: np.array(values) for name, values in columns.items()} for arm, columns in stored.items()}


def report(arms: dict[str, dict[str, np.ndarray]]) -> None:
    """Print the table."""
    base = arms[NONE]
    gone = collapsed(relative_gap(base["q_gap"]))
    base_sharpe = base["eval/judge/sharpe"][-TRAINER.score_epochs :].mean(0)
    print(f"{'arm':32s} {'collapsed':27s} {'recovered':27s} McNemar against none   alarm   judge Sharpe, minus none")
    for name, columns in arms.items():
        share = relative_gap(columns["q_gap"])
        flags, back = collapsed(share), recovered(share)
        saved, lost, p = mcnemar(gone, flags)
        sharpe = columns["eval/judge/sharpe"][-TRAINER.score_epochs :].mean(0)
        alarmed = int((columns["watchdog"][-1] != "").sum())
        same = bool((columns["purity/params_sha"] == base["purity/params_sha"]).all())
        difference = "same bits as none" if same else mean_interval(sharpe - base_sharpe)
        test = "" if name == NONE else f"{saved:2d} : {lost:<2d} p = {p:.1e}"
        print(
            f"{name:32s} {proportion(flags)} {proportion(back)} {test:22s} {alarmed:5d}   "
            f"{mean_interval(sharpe)}; {difference}"
        )
    both = gone & recovered(relative_gap(arms[OURS]["q_gap"]))
    print(f"of {int(gone.sum())} seeds that collapse without distillation, ours recovers {int(both.sum())}")


def plot(arms: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """Every trajectory, the median and the 10 to 90 % band of both arms; the faults lie on `none`, bit for bit."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    epochs = np.arange(1, EPOCHS + 1)
    for axis, name, colour in zip(axes, (NONE, OURS), ("#b3432b", "#1f6f8b"), strict=True):
        share = relative_gap(arms[name]["q_gap"])
        axis.plot(epochs, share, color=colour, alpha=0.15, linewidth=0.7)
        axis.fill_between(epochs, *np.quantile(share, [0.1, 0.9], axis=1), color=colour, alpha=0.2, linewidth=0)
        axis.plot(epochs, np.median(share, axis=1), color=colour, linewidth=2)
        axis.axhline(COLLAPSED, color="black", linewidth=0.8, linestyle="--")
        axis.axvspan(FROM, TO, color="black", alpha=0.05, linewidth=0)
        axis.set(title=f"{name}, {share.shape[1]} seeds", xlabel="epoch", xlim=(1, EPOCHS), ylim=(0, 1.02))
    axes[0].set_ylabel("Q-gap / running peak")
    axes[0].text(1.5, COLLAPSED + 0.015, "15 %", fontsize=8)
    axes[0].text(FROM + 0.5, 0.96, "recovered: above\nthroughout 33 to 50", fontsize=8, va="top")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="packs at a time; one for each arm at most")
    parser.add_argument("--record", type=Path, help="where the trajectories go, or come from with --load")
    parser.add_argument("--load", action="store_true", help="report what --record holds, train nothing")
    parser.add_argument("--train-only", action="store_true", help="write --record and report nothing")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    arms = read(options.record) if options.load else gather(seeds, options.device, options.jobs)
    if options.record and not options.load:
        write(options.record, arms)
    if not options.train_only:
        report(arms)
    if options.plot:
        plot(arms, options.plot)


if __name__ == "__main__":
    main()

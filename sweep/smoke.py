"""`gemsweep smoke`: a small fixed trial without Ray, and what five smokes say about its records.

One configuration, base arm beside an off arm and an arm with G12 wired, two seeds and folds. Its bars are made here
and are predictable: each return repeats 0.3 of the one before, and a bar opens where the last one closed, so that a
member can trade on it. On bars that cannot be predicted a minute of training shows nothing about learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep import experiment
from sweep.config import SweepConfig
from sweep.errors import SweepError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from analysis.smokes import Finding, Outcome

FALLBACK = "smoke-test"
BARS_FILE = "smoke-bars.csv"  # beside the experiments: its path is part of a configuration's key
BARS, CARRY, VOLATILITY, BARS_SEED = 1500, 0.3, 0.02, 1
UPDATES = 60  # of an epoch; the schedules below are in epochs
TRAINER: dict[str, Any] = {
    "epochs": 6,
    "updates_per_epoch": UPDATES,
    "diagnostics_per_epoch": 2,
    "score_epochs": 2,
    "batch_size": 32,
    "discount": 0.5,
    "epsilon_decay_updates": 3 * UPDATES,
    "network": {"trunk": [32, 32], "head": 16, "atoms": 21},
    "iqn": {"warmup_updates": UPDATES + UPDATES // 2, "ramp_updates": 2 * UPDATES},  # shut, half open, open
    "cql": {"anneal_updates": 5 * UPDATES},
    "distillation": {"health_on": 1.0},  # any fall of the Q-gap calls for the teacher
}


@dataclass(frozen=True)
class Row:
    """One smoke, on the new experiment and on the one that it is held against."""

    name: str
    now: Finding
    before: Finding | None
    outcome: Outcome


def smoke(name: str | None = None, storage: str | None = None, against: Path | None = None) -> tuple[Path, list[Row]]:
    """Run the trial into a new folder and evaluate the smokes there and in `against`.

    Errors: ConfigError for a name that is taken; RecordError, before anything runs, when `against` is no experiment or
    lacks columns.
    """
    from analysis.load import load
    from analysis.smokes import findings, outcome

    before = findings(load(against)) if against else {}
    folder = run_trial_here(smoke_config(name, storage))
    now = findings(load(folder))
    return folder, [Row(key, found, before.get(key), outcome(found, before.get(key))) for key, found in now.items()]


def smoke_config(name: str | None = None, storage: str | None = None) -> SweepConfig:
    """The fixed configuration; `name` by default the first free one."""
    from sweep.schema_errors import strictly

    place = Path(storage or SweepConfig().sweep.storage).expanduser().resolve()
    table = {
        "data": {"source": str(place / BARS_FILE), "folds": {"count": 2}},
        "trainer": TRAINER,
        "arms": {"further": [{"wired": "g12_predictive"}]},
        "sweep": {
            "name": name or experiment.free_name(place, FALLBACK),
            "label": "smoke, not evidence",
            "storage": str(place),
            "trials": 1,
            "seeds": 2,
        },
    }
    return strictly(SweepConfig, table)


def run_trial_here(config: SweepConfig) -> Path:
    """Plan as a sweep does, and run the trial in this process. Returns the experiment's folder."""
    from sweep.plan import make_plan
    from trainer.config import Machine
    from trainer.loop import run_trial
    from trainer.record import TrialStore
    from trainer.reporter import StoreReporter

    folder = Path(config.sweep.storage) / config.sweep.name
    if folder.exists():
        raise experiment.taken(folder)
    write_bars(Path(config.data.source))
    plan = make_plan(config, Machine(device="cpu", threads=1))
    experiment.create(folder, config, plan)
    with experiment.held(folder):
        for spec in experiment.open_plan(folder).values():
            with TrialStore(folder, spec) as store:
                run_trial(spec, StoreReporter(store))
    return folder


def write_bars(path: Path) -> None:
    """Write the bars where they are not there already."""
    from trainer.record.files import write_atomic

    data = make_bars().to_csv(index=False).encode()
    try:
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SweepError(f"{path}: cannot be written ({error.strerror or error})") from None
    write_atomic(path, data)


def make_bars() -> pd.DataFrame:
    """Daily bars of one symbol whose log returns follow an AR(1) with mean 0; rounded, so that all machines agree."""
    import numpy as np
    import pandas as pd

    shocks = np.random.default_rng(BARS_SEED).standard_normal(BARS) * VOLATILITY * np.sqrt(1.0 - CARRY**2)
    returns = np.empty(BARS)
    last = 0.0
    for bar, shock in enumerate(shocks):
        last = returns[bar] = CARRY * last + shock
    close = np.round(100.0 * np.exp(np.cumsum(returns - returns.mean())), 6)
    opened = np.append(100.0, close[:-1])
    high, low = np.round(np.maximum(opened, close) * 1.001, 6), np.round(np.minimum(opened, close) * 0.999, 6)
    days = pd.bdate_range("2000-01-03", periods=BARS, tz="UTC")
    columns = {"timestamp": days, "symbol": "AR", "open": opened, "high": high, "low": low, "close": close}
    return pd.DataFrame(columns | {"volume": 1000.0})


def print_rows(rows: list[Row], against: Path | None, console: Console) -> None:
    """A line a smoke: its outcome, its figure with its limit, the same of before; then the reasons in words."""
    from rich.table import Table
    from rich.text import Text

    from analysis.smokes import QUESTIONS

    styles = {"ok": "green", "fixed": "green", "old failure": "yellow"}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("smoke", "outcome", "figure", "must be", *(["before"] if against else []), "asks"):
        table.add_column(column, no_wrap=column != "asks")
    for row in rows:
        outcome = Text(row.outcome, style=styles.get(row.outcome, "bold white on red"))
        before = [f"{'ok' if row.before.ok else 'failed'} {row.before.figure:.3g}"] if row.before else []
        asks, sense = QUESTIONS[row.name]
        limit = f"{sense} {row.now.limit:.3g}"
        table.add_row(Text(row.name), outcome, f"{row.now.figure:.3g}", limit, *before, Text(asks, style="dim"))
    console.print(table)
    for row in rows:
        console.print(Text(f"{row.name}: {row.now.message}", style="dim"), soft_wrap=True)
    console.print(Text(verdict(rows, against)), soft_wrap=True)


def verdict(rows: list[Row], against: Path | None) -> str:
    """The table in a sentence: what fails, and since when."""
    if against is None:
        failing = [row.name for row in rows if not row.now.ok]
        passing = len(rows) - len(failing)
        return f"{', '.join(failing)} failed; {passing} passed" if failing else f"all {passing} smokes pass"
    said = {"NEW failure": "new failure", "old failure": f"failed in {against} already", "fixed": "fixed"}
    parts = []
    for kind, words in said.items():
        names = [row.name for row in rows if row.outcome == kind]
        parts += [f"{', '.join(names)}: {words}"] if names else []
    passing = sum(row.outcome == "ok" for row in rows)
    return "; ".join([*parts, f"{passing} pass in both"])


def failed(rows: list[Row]) -> bool:
    """Whether the command fails: on what fails now and did not fail before."""
    return any(row.outcome in ("failure", "NEW failure") for row in rows)

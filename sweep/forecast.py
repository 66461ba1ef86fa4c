"""`gemsweep plan`: what a configuration can decide, how long it takes and what memory, before anything is written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from analysis.outlook import EFFECTS, SD, Look, outlook, seen_sd
from analysis.rules import VerdictRules
from sweep.config import SweepConfig
from sweep.run import prepare
from trainer.config import TrialSpec

if TYPE_CHECKING:
    from trainer.reporter import EpochRecord, State

TIMED_EPOCHS = 2  # the first also compiles and fills caches
FEWEST = 5  # configurations with pairs, for an sd that is worth more than the default


@dataclass(frozen=True)
class Forecast:
    """`looks`: what each look within the budget can show. `sd`: of the difference over configurations, with where it is
    from. `pack_gb`: predicted, of the largest pack. `pack_seconds`: of a whole trial at full length, None when it was
    not timed. `packs`, `concurrent`: trials, and how many run at a time."""

    config: SweepConfig
    looks: list[Look]
    claims: int
    sd: float
    sd_from: str
    members: int
    packs: int
    concurrent: int
    pack_gb: float
    pack_seconds: float | None

    @property
    def seconds(self) -> float | None:
        """Of the whole sweep."""
        return None if self.pack_seconds is None else self.pack_seconds * self.packs / self.concurrent

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        names = ("claims", "sd", "sd_from", "members", "packs", "concurrent", "pack_gb", "pack_seconds", "seconds")
        return {name: getattr(self, name) for name in names} | {"looks": [_row(look) for look in self.looks]}


def _row(look: Look) -> dict[str, Any]:
    power = {f"{effect:g}": value for effect, value in zip(EFFECTS, look.power, strict=True)}
    return {"n": look.n, "half_width": look.half_width, "power": power}


def forecast(config: SweepConfig, *, sd: float | None = None, like: Path | None = None, timed: bool = True) -> Forecast:
    """Forecast the sweep of `config`. `sd`: given, else seen in the experiment `like`, else the default. Errors:
    ConfigError as a run would raise it; nothing is written."""
    _, plan, share, pack_gb = prepare(config, "plan")
    specs = [TrialSpec.model_validate(trial) for trial in plan.data["trials"]]
    claims = max(1, len(config.arms.gems))
    used, source = (sd, "given") if sd is not None else _sd_of(like)
    rules = VerdictRules.from_dict(plan.data["verdict"]["rules"])
    last = specs[-1]  # the first also runs the off arm
    looks, runs = outlook(rules, claims, used, config.sweep.trials), sum(len(spec.members) for spec in specs)
    return Forecast(
        config=config, looks=looks, claims=claims, sd=used, sd_from=source, members=runs, packs=len(specs),
        concurrent=share.concurrent, pack_gb=pack_gb, pack_seconds=time_pack(last) if timed else None,
    )  # fmt: skip


def _sd_of(like: Path | None) -> tuple[float, str]:
    if like is None:
        return SD, "assumed; that of single pairs in simulations, where configurations average over seeds"
    from analysis.load import load

    pairs = load(like).pairs
    difference = (pairs["treatment"] - pairs["control"]).rename("d")
    units = pairs.assign(d=difference).groupby(["gem", "dose", "config"])["d"].mean()
    sds = [seen_sd(rows.dropna().to_numpy()) for _, rows in units.groupby(["gem", "dose"]) if rows.count() >= FEWEST]
    if not sds:
        return SD, f"assumed; {like} has no wired arm on {FEWEST} configurations"
    return max(sds), f"seen in {like.name}, the largest of its wired arms, raised for its own uncertainty"


def time_pack(spec: TrialSpec) -> float:
    """Seconds of the whole trial at the speed of its second epoch, measured here without records."""
    from trainer.loop import run_trial

    clock = _Clock()
    trainer = spec.trainer.model_copy(update={"epochs": max(TIMED_EPOCHS, spec.trainer.score_epochs)})
    run_trial(spec.model_copy(update={"trainer": trainer}), clock)
    return clock.last * spec.trainer.epochs


class _Clock:
    """A reporter that keeps the time between two epochs and stops the trial."""

    def __init__(self) -> None:
        self.last, self._before = 0.0, time.perf_counter()

    def resume(self) -> None:
        return None

    def epoch(self, record: EpochRecord, state: State) -> bool:
        now = time.perf_counter()
        self.last, self._before = now - self._before, now
        return record.epoch == TIMED_EPOCHS

    def finish(self, summary: dict[str, Any]) -> None:
        pass


def print_forecast(found: Forecast, console: Console) -> None:
    """The forecast as a table and sentences."""
    console.print(_table(found))
    for line in _lines(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(found: Forecast) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("configurations", "half-width, Sharpe", *(f"shows +{effect:g}" for effect in EFFECTS)):
        table.add_column(name, justify="right")
    for look in found.looks:
        table.add_row(str(look.n), f"{look.half_width:.2f}", *(f"{100 * value:.0f} %" for value in look.power))
    return table


def _lines(found: Forecast) -> Iterator[str]:
    from analysis.text import duration

    trials, first = found.config.sweep.trials, found.config.analysis.schedule[0]
    if not found.looks:
        yield f"sweep.trials = {trials} reaches no look, so this run decides nothing; the first needs {first}"
    yield f"the chance that a look alone shows a true gain of so much Sharpe; alpha is shared by {found.claims} gems"
    yield f"sd of the difference over configurations: {found.sd:.2f} ({found.sd_from})"
    yield "stage 1 (is the gradient there?) needs no wired arm and is usually settled at its first looks"
    memory = f"{found.pack_gb:.1f} GB a pack (predicted)"
    yield f"{found.packs} trials, {found.members} runs, {memory}, {found.concurrent} at a time"
    if found.seconds is not None and found.pack_seconds is not None:
        whole, each = duration(found.seconds), duration(found.pack_seconds)
        yield f"about {whole} in all, {each} a trial, timed on this machine; each wired arm adds to it"

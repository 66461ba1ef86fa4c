"""Hours of one GPU to a settled verdict on a wired gem: packed against separate trials, with every input shown.

    python benchmarks/speed/verdict_hours.py                                  # rates from docs/speed.json
    python benchmarks/speed/verdict_hours.py --updates 100000 --effect 0.5 --sd 0.63
    python benchmarks/speed/verdict_hours.py --rates my.json --rate ray-eager 16 420 --separate ray-eager

    members = units x (1 control arm + 1 arm for each gem) x seeds of a unit x folds
    hours   = runs x updates x seconds of an update of a run / 3600
    runs    = packs, members / pack rounded up, the last one as slow as a full one; separate: members
    seconds = (1 - d) / rate + d x cost / rate of a run's update, where d is the share of diagnostic updates

A unit is a configuration, its difference averaged over seeds and folds, or with `--unit seed` a seed of one
configuration (the claim is then about that one). So many units are needed as the rules of the verdict ask for: the
first look of their schedule at which an effect that lies `--effect` of Sharpe beyond the boundary, with a standard
deviation `--sd` over units, crosses it with probability `--power`. Earlier looks add a little to that. The default sd
is that of seed pairs; that of configuration means is smaller, by how much is not measured.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the project, where it is not installed

from scipy.stats import nct, t

from analysis.boundaries import nominal_levels
from analysis.rules import VerdictRules
from sweep.config import SweepConfig
from trainer.config import TrainerConfig

SPEED = Path(__file__).resolve().parents[2] / "docs" / "speed.json"
EFFECT, SD = 0.5, 0.63  # reference/statistics.md A10: the medium useful gem, and sd(D) of its simulated pairs
POWER = 0.8


@dataclass(frozen=True)
class Way:
    """How members run: `pack` to a run, `rate` updates a second summed over the members at the GPU at a time, `cost` of
    a diagnostic update in plain ones, `at_a_time` runs."""

    name: str
    pack: int
    rate: float
    cost: float
    at_a_time: int = 1


def units_needed(effect: float, sd: float, power: float, rules: VerdictRules, gems: int) -> int | None:
    """The first scheduled look at which a one-sided t interval clears the boundary with this probability."""
    levels = nominal_levels(rules.schedule, rules.alpha / gems)
    for n, level in zip(rules.schedule, levels, strict=True):
        if nct.sf(t.isf(level, n - 1), n - 1, math.sqrt(n) * effect / sd) >= power:
            return n
    return None


def hours(way: Way, members: int, updates: int, diagnostic: float, start_up: float = 0.0) -> float:
    """Of one GPU, to give each member its updates; a run also starts in `start_up` seconds."""
    runs = math.ceil(members / way.pack)
    seconds = ((1.0 - diagnostic) + diagnostic * way.cost) / way.rate
    return runs * (way.pack * updates * seconds + start_up / way.at_a_time) / 3600.0


def median(rows: list[dict[str, Any]], rival: str, members: int | None = None) -> float:
    """Of the row of that name in TF32. Errors: SystemExit when it was not measured."""
    for row in rows:
        if row["rival"] == rival and row["precision"] == "tf32" and members in (None, row["members"]):
            return float(row.get("median") or row["updates_per_second"]["median"])
    raise SystemExit(f"no row {rival} with {members or 'any number of'} members among the measurements")


def ways(rows: list[dict[str, Any]], packs: list[int], separate: str) -> Iterator[Way]:
    """Separate trials first. Their diagnostic update was not measured: it costs what one member's alone does."""
    count = next((int(row["members"]) for row in rows if row["rival"] == separate), 0)
    cost = median(rows, "full", 1) / median(rows, "full-diagnosed", 1)
    yield Way(f"separate ({separate})", 1, median(rows, separate), cost, count)
    for pack in packs:
        plain = median(rows, "full", pack)
        yield Way(f"pack of {pack}", pack, plain, plain / median(rows, "full-diagnosed", pack))


def design(options: argparse.Namespace) -> tuple[int, int]:
    """Units and members. Errors: SystemExit when the schedule ends before the effect is settled."""
    units = options.units or units_needed(options.effect, options.sd, options.power, VerdictRules(), options.gems)
    if units is None:
        raise SystemExit(f"an effect of {options.effect:g} with sd {options.sd:g} is not settled by the schedule")
    seeds = options.seeds if options.unit == "configuration" else 1
    return units, units * (1 + options.gems) * seeds * options.folds


def report(options: argparse.Namespace, rows: list[dict[str, Any]]) -> Iterator[str]:
    units, members = design(options)
    rules, trainer = VerdictRules(), TrainerConfig()
    diagnostic = trainer.diagnostics_per_epoch / trainer.updates_per_epoch
    seeds = f"{options.seeds} seeds x " if options.unit == "configuration" else ""
    wanted = "given" if options.units else f"effect {options.effect:g}, sd {options.sd:g}, power {options.power:g}"
    yield f"rates: {options.rates}; rules: alpha {rules.alpha:g} / {options.gems}, looks {rules.schedule}"
    yield f"units: {units} ({options.unit}; {wanted})"
    yield f"members: {members} = {units} units x {1 + options.gems} arms x {seeds}{options.folds} folds"
    yield f"diagnostic updates: {trainer.diagnostics_per_epoch} of {trainer.updates_per_epoch} = {diagnostic:.3f}"
    yield f"start-up of a run: {options.start_up:g} s"
    found = list(ways(rows, options.pack, options.separate))
    for updates in options.updates or [trainer.epochs * trainer.updates_per_epoch]:
        base = hours(found[0], members, updates, diagnostic, options.start_up)
        heads = f"{'updates/s':>12}{'diagnostic':>12}{'runs':>7}{'hours':>12}{'ratio':>8}"
        yield f"\n{f'{updates:,} updates a member':42}{heads}"
        for way in found:
            took = hours(way, members, updates, diagnostic, options.start_up)
            counts = f"{way.rate:>12,.0f}{way.cost:>10.2f} x{math.ceil(members / way.pack):>7}"
            yield f"{way.name:42}{counts}{took:>12.3f}{base / took:>8.1f}"
    own = members // units
    yield f"\nA trial of this design packs {own} members; a larger pack takes more seeds or gems."
    yield "left out: evaluation after every epoch, records, Ray" + ("" if options.start_up else ", start-up")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    config = SweepConfig()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=Path, default=SPEED, help="JSON of run.py, or docs/speed.json")
    parser.add_argument(
        "--rate", nargs=3, action="append", default=[], metavar=("NAME", "MEMBERS", "RATE"), help="more"
    )
    parser.add_argument("--separate", default="full-processes-16-eager", help="row of the separate trials")
    parser.add_argument("--pack", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--updates", type=int, nargs="+", help="of a member; default: those of the default trainer")
    parser.add_argument("--units", type=int, help="instead of effect, sd and power")
    parser.add_argument("--effect", type=float, default=EFFECT, help="annualised Sharpe beyond the boundary")
    parser.add_argument("--sd", type=float, default=SD, help="over units, of the difference of the arms")
    parser.add_argument("--power", type=float, default=POWER)
    parser.add_argument("--unit", choices=("configuration", "seed"), default="configuration")
    parser.add_argument("--seeds", type=int, default=config.sweep.seeds)
    parser.add_argument("--folds", type=int, default=config.data.folds.count)
    parser.add_argument("--gems", type=int, default=1, help="wired in an arm each; they share alpha and the control")
    parser.add_argument("--start-up", type=float, default=0.0, help="seconds; startup.py measures them")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    given = [{"rival": n, "members": int(p), "precision": "tf32", "median": float(r)} for n, p, r in options.rate]
    print("\n".join(report(options, [*given, *json.loads(options.rates.read_text())["rows"]])))


if __name__ == "__main__":
    main()

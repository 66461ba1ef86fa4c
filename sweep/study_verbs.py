"""The verbs of a study: plan, decide, extend, promote, confirm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.errors import SOME_TRIALS_FAILED, ConfigError

if TYPE_CHECKING:
    from sweep.config import SweepConfig
    from sweep.run import Outcome

Experiment = Annotated[Path, typer.Argument(help="Folder of the experiment, as `gemsweep run` printed it.")]
Config = Annotated[Path | None, typer.Argument(help="TOML file; without one, the default sweep.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key, such as sweep.trials=40.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and the final table.")]
Hours = Annotated[float | None, typer.Option(min=0.0, help="Start no further step after so many hours.")]


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    for verb in (plan, decide, extend, promote, confirm):
        app.command()(verb)


def plan(
    config: Config = None,
    set_: Set = None,
    sd: Annotated[float | None, typer.Option(help="Of the difference over configurations, annualised Sharpe.")] = None,
    like: Annotated[Path | None, typer.Option(help="Experiment with wired arms, to take the sd from.")] = None,
    timed: Annotated[bool, typer.Option("--timed/--untimed", help="Time two epochs of a trial here.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What this budget can decide: looks, interval, power, minutes, memory. Writes nothing."""
    from analysis.text import console
    from sweep.forecast import forecast, print_forecast

    if sd is not None and not sd > 0:
        raise ConfigError(f"--sd {sd:g}: a standard deviation is positive")
    found = forecast(_read(config, set_), sd=sd, like=like, timed=timed)
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        print_forecast(found, console())


def decide(
    source: Annotated[
        Path | None, typer.Argument(metavar="CONFIG|EXPERIMENT", help="TOML file, or a study to go on with.")
    ] = None,
    set_: Set = None,
    hours: Hours = None,
    quiet: Quiet = False,
) -> None:
    """Probe every gem, wire the promoted ones, look where the schedule says; stop when all is settled."""
    from rich.console import Console

    from sweep import decide as study
    from sweep.conclusion import conclude

    if source is not None and source.is_dir():
        if set_:
            raise ConfigError(
                "--set: a study keeps the configuration that it was planned with; start a new one to change it"
            )
        outcome, why = study.go_on(source, Console(), hours=hours, quiet=quiet)
    else:
        settings, name = _read(source, set_), source.stem if source else "study"
        outcome, why = study.decide(settings, Console(), fallback_name=name, hours=hours, quiet=quiet)
    print(f"the study ended: {why}")
    if why not in ("every gem is settled", "interrupted"):
        print(f"go on with: gemsweep decide {outcome.folder}")
    conclude(outcome)


def extend(
    experiment: Experiment,
    to: Annotated[int, typer.Option("--to", min=1, help="Configurations in all.")],
    quiet: Quiet = False,
) -> None:
    """Run more configurations of an experiment, from its own list and under its own rules."""
    from rich.console import Console

    from sweep.conclusion import conclude
    from sweep.extend import extend as extend_experiment

    conclude(extend_experiment(experiment, to, Console(), quiet=quiet))


def promote(
    experiment: Experiment,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Default: <experiment>-next.toml.")] = None,
) -> None:
    """Write the configuration that follows from the verdicts; name the files of deleted gems."""
    from sweep.promote import promote as promote_gems

    print("\n".join(promote_gems(experiment, to).lines()))


def confirm(
    config: Annotated[Path, typer.Argument(help="TOML file with wired gems, as `gemsweep promote` wrote it.")],
    set_: Set = None,
    again: Annotated[bool, typer.Option("--again", help="Open a hold-out that was opened before.")] = False,
    quiet: Quiet = False,
) -> None:
    """Judge all promoted gems together, on fresh seeds and the hold-out, which this opens and counts."""
    from rich.console import Console

    from analysis.confirmation import confirmation
    from analysis.load import load
    from sweep.conclusion import conclude
    from sweep.confirm import confirm as confirm_gems

    outcome: Outcome = confirm_gems(_read(config, set_), Console(), fallback_name=config.stem, again=again, quiet=quiet)
    found = confirmation(load(outcome.folder))
    conclude(outcome)
    if found is not None:
        print("\n".join(found.lines()))
        if found.label != "CONFIRMED":
            raise typer.Exit(SOME_TRIALS_FAILED)


def _read(config: Path | None, set_: list[str] | None) -> SweepConfig:
    from sweep.toml_file import read_config

    return read_config(config, set_ or [], {})

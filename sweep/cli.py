"""The command line. Each verb imports what it needs, so that reading an experiment never loads ray or torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sweep import reading_verbs, study_verbs
from sweep.conclusion import conclude
from sweep.errors import REFUSED, SOME_TRIALS_FAILED, SweepError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Sweeps that decide whether a candidate auxiliary loss is real: measure, then commit.",
)
Experiment = Annotated[Path, typer.Argument(help="Folder of the experiment, as `gemsweep run` printed it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and the final table.")]


def main() -> None:
    """Entry point of the `gemsweep` command."""
    try:
        app()
    except SweepError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except Exception as error:
        if not _explains_itself(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(REFUSED) from None


def _explains_itself(error: Exception) -> bool:
    """Errors of the data, the records and the gems say what is wrong and what to do; a traceback would hide it."""
    from trainer.data.errors import DataError
    from trainer.record import RecordError

    gems = sys.modules.get("trainer.gems.contract")  # nothing that did not load the gems can have raised their error
    return isinstance(error, (DataError, RecordError, *([gems.GemError] if gems else [])))


def _show_version(wanted: bool) -> None:
    if wanted:
        from trainer.provenance import package_version

        print(f"gemsweep {package_version('gemsweep') or '(run from its source, not installed)'}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    config: Annotated[Path | None, typer.Argument(help="TOML file; without one, a sweep of minutes.")] = None,
    trials: Annotated[int | None, typer.Option(help="Configurations to run.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of every configuration.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the experiment.")] = None,
    storage: Annotated[str | None, typer.Option(help="Folder of all experiments.")] = None,
    concurrent: Annotated[int | None, typer.Option(help="Trials at a time; 0: as many as fit.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key, such as trainer.epochs=10.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Plan a sweep, run it, print the table and write the report."""
    from rich.console import Console

    from sweep.run import run as run_sweep
    from sweep.toml_file import read_config

    flags = {"trials": trials, "seeds": seeds, "name": name, "storage": storage, "concurrent": concurrent}
    settings = read_config(config, set_ or [], {f"sweep.{key}": value for key, value in flags.items()})
    fallback = config.stem if config else "smoke"
    conclude(run_sweep(settings, Console(), fallback_name=fallback, quiet=quiet))


@app.command()
def resume(experiment: Experiment, quiet: Quiet = False) -> None:
    """Run what is left of an interrupted sweep, each trial from its newest checkpoint."""
    from rich.console import Console

    from sweep.run import resume as resume_sweep

    conclude(resume_sweep(experiment, Console(), quiet=quiet))


@app.command()
def debug(
    experiment: Experiment,
    trial: Annotated[str, typer.Option(help="Key of the trial.")],
    epochs: Annotated[int | None, typer.Option(min=0, help="Last epoch to run again; all by default.")] = None,
    all_differences: Annotated[bool, typer.Option("--all", help="Go on after the first difference.")] = False,
) -> None:
    """Run a trial again without Ray and check every stored number bit for bit."""
    from trainer.debug import check

    result = check(experiment, trial, epochs=epochs, stop_at_first=not all_differences)
    print("\n".join(result.lines()))
    if not result.identical:
        raise typer.Exit(SOME_TRIALS_FAILED)


@app.command("check-gem")
def check_gem(
    gem: Annotated[str, typer.Argument(help="my_gem.py:MyGem, module:MyGem, or the name of a gem that is installed.")],
) -> None:
    """Check a gem on random and hostile batches, before any sweep runs it."""
    from sweep.gem_check import check

    lines, failed = check(gem)
    print("\n".join(lines))
    if failed:
        raise typer.Exit(SOME_TRIALS_FAILED)


@app.command()
def wiring(
    gem: Annotated[list[str] | None, typer.Option(help="A gem of yours to add, such as my_gem.py:MyGem.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/wiring.md.")] = False,
) -> None:
    """Which component reaches what, when, behind which gate, and the function that writes it."""
    from analysis.text import console
    from trainer.wiring import WiringError, read_wiring
    from trainer.wiring_page import markdown as page
    from trainer.wiring_page import print_wiring

    try:
        found = read_wiring(gem or [])
    except WiringError as error:
        raise SweepError(str(error)) from None
    if markdown:
        print(page(found), end="")
    else:
        print_wiring(found, console())


@app.command()
def smoke(
    against: Annotated[
        Path | None,
        typer.Option(metavar="EXPERIMENT", help="Folder of an earlier experiment: only new failures count."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the experiment.")] = None,
    storage: Annotated[str | None, typer.Option(help="Folder of all experiments.")] = None,
) -> None:
    """Run a small fixed trial and five checks on its records; tell new failures from old ones."""
    from analysis.text import console
    from sweep.smoke import failed, print_rows
    from sweep.smoke import smoke as run_smoke

    folder, rows = run_smoke(name, storage, against)
    print_rows(rows, against, console())
    print(f"records: {folder}")
    if failed(rows):
        raise typer.Exit(SOME_TRIALS_FAILED)


@app.command("config")
def show_config() -> None:
    """Print the default configuration with comments, to start from."""
    from sweep.toml_file import default_text

    print(default_text(), end="")


reading_verbs.add_to(app)
study_verbs.add_to(app)

if __name__ == "__main__":
    main()

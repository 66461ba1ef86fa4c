"""The verbs that read experiments: compare, diag, show, report, export. None imports ray or torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.errors import SweepError

if TYPE_CHECKING:
    from analysis.load import Experiment as Loaded

Experiment = Annotated[Path, typer.Argument(help="Folder of the experiment, as `gemsweep run` printed it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document; null for what is no number.")]


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    for verb in (report, show, compare, diag, export):
        app.command()(verb)


def report(
    experiment: Experiment,
    as_commit: Annotated[
        bool, typer.Option("--as-commit", help="Print the text of a commit that records the decision; write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document; write nothing.")] = False,
) -> None:
    """Print the table of an experiment and write its report; also while it is running."""
    from sweep.conclusion import print_report_of

    if as_json and as_commit:
        raise SweepError("--json and --as-commit print two different things; give one of them")
    if as_json or as_commit:
        from analysis.commit_message import commit_message
        from analysis.plain_values import json_text

        found = _load(experiment)
        print(json_text(_document(found)) if as_json else commit_message(found), end="" if as_commit else "\n")
    else:
        print_report_of(experiment)


def _load(folder: Path) -> Loaded:
    """The experiment, with rules that this version knows: every verb that reads numbers reads the verdicts too."""
    from analysis.load import load
    from analysis.rules import planned_rules

    experiment = load(folder)
    try:
        planned_rules(experiment.plan)
    except (TypeError, ValueError) as error:
        raise SweepError(
            f"{folder / 'plan.json'}: {error}; read the experiment with the gemsweep that planned it"
        ) from None
    return experiment


def _document(experiment: Loaded) -> dict[str, Any]:
    """The report as values."""
    from analysis.collapse import alarms
    from analysis.further import further_arms
    from analysis.judge import verdicts
    from analysis.plain_values import json_value
    from analysis.rules import planned_rules
    from analysis.spread import best_epochs, learned, variance_sources
    from analysis.tables import ranked_trials

    rules = planned_rules(experiment.plan)
    return {
        "name": experiment.name,
        "path": experiment.path,
        "label": experiment.label,
        "rules": {**rules.to_dict(), "hash": rules.hash},
        "purity": experiment.purity,
        "verdicts": [{"title": found.title, **json_value(found)} for found in verdicts(experiment, rules)],
        "variance": variance_sources(experiment),
        "best_epochs": best_epochs(experiment),
        "learned": learned(experiment),
        "further_arms": further_arms(experiment),
        "trials": ranked_trials(experiment),
        "scores": experiment.scores,
        "alarms": alarms(experiment),
        "problems": experiment.problems,
    }


def show(
    experiment: Experiment,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the sweep ends, or Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """How far a sweep is, from any terminal: trials, leading Sharpe ratios, gem sizes, alarms, time left."""
    from analysis import progress_view
    from analysis.plain_values import json_text
    from analysis.progress_state import Watch
    from analysis.text import console

    if as_json and follow:
        raise SweepError("--json prints one document; leave out --follow")
    if as_json:
        print(json_text(Watch(experiment).look()))
    elif follow:
        progress_view.follow(experiment, console())
    else:
        progress_view.show(experiment, console())


def compare(
    experiments: Annotated[list[Path], typer.Argument(help="Folders of two experiments or more; the first is A.")],
    as_json: AsJson = False,
) -> None:
    """Hold experiments against each other: what was set up differently, and what that did at equal n."""
    from analysis.comparison import compare as hold_against
    from analysis.comparison_view import print_comparison
    from analysis.plain_values import json_text
    from analysis.text import console

    if len(experiments) < 2:
        raise SweepError(f"compare: one experiment, {experiments[0]}; name a second one to compare it with")
    found = hold_against([_load(folder) for folder in experiments])
    if as_json:
        print(json_text(found))
    else:
        print_comparison(found, console())


def diag(
    experiment: Experiment,
    group: Annotated[str, typer.Option(help="gems, grad_trunk or gates.")] = "gems",
    every: Annotated[int, typer.Option(min=1, help="Print each so many epochs, and the last.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Trials side by side by epoch: one group of HEALTH_DIAG, medians over the base members."""
    from analysis.plain_values import json_text
    from analysis.side_by_side import GROUPS, print_side_by_side, side_by_side
    from analysis.text import console

    if group not in GROUPS:
        raise SweepError(f"--group {group}: not a group; give one of {', '.join(GROUPS)}")
    found = side_by_side(_load(experiment), group)
    if as_json:
        print(json_text(found))
    else:
        print_side_by_side(found, console(), every)


def export(
    source: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="Folder of the experiment; with --check, a file.")
    ],
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Default: <experiment>.tar.gz here.")] = None,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="With the parameters of every trial.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare an archive with its manifest; write nothing.")
    ] = False,
) -> None:
    """Write an experiment as one archive whose every byte can be verified, or verify one."""
    from sweep import export as archives

    if check and (to is not None or checkpoints):
        raise SweepError("--check reads an archive and writes nothing; leave out --to and --checkpoints")
    found = archives.check(source) if check else archives.export(source, to, checkpoints=checkpoints)
    print(found.line())
    for problem in found.problems:
        print(f"damaged before it was exported: {problem}")
    if check:
        print("every file is as its MANIFEST says")

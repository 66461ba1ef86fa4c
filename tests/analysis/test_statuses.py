"""What is a convention and not an estimate must be counted, named, and kept out of averages and of the top ranks."""

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from synthetic_experiment import TIMELINE, plan_of, specs, write_trial

import analysis
from analysis.scores import score_runs
from analysis.tables import ranked_trials
from analysis.text import count_statuses
from trainer.record import write_plan, write_timeline
from trainer.sharpe import FLOOR, sharpe


def loaded(folder, *walks):
    """An experiment with one trial for each of `walks` (keywords of write_trial)."""
    trials = specs(configs=len(walks), seeds=2, off=False)
    write_plan(folder, plan_of(trials))
    write_timeline(folder, TIMELINE)
    for spec, keywords in zip(trials, walks, strict=True):
        write_trial(folder, spec, **keywords)
    return analysis.load(folder)


def printed(experiment):
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    analysis.print_report(experiment, console)
    return console.export_text()


def judged(returns, turnover, status="ok", fold_status=None):
    folds = range(len(returns))
    keys = {"config": "c", "arm": "base", "seed": 0, "fold": folds}
    members = pd.DataFrame(
        keys | {"trial": "t", "launch": 0, "trial_status": "done", "cause": "", "status": "ok"}, index=folds
    )
    epochs = pd.DataFrame(
        keys | {"epoch": 1, "scored": True, "eval/judge/turnover": turnover, "eval/validation/sharpe": 0.1,
                "eval/judge/status": status}, index=folds,
    )  # fmt: skip
    return score_runs(members, epochs, pd.DataFrame({"returns": list(returns)}, index=folds), 252.0).iloc[0]


def test_long_one_symbol_and_short_another_is_trading():
    """A run counts as traded by its turnover: whatever its exposures add up to, and in whichever fold it traded."""
    returns = np.random.default_rng(0).normal(0.0, 0.01, (2, 50))
    expected = sharpe(returns.ravel(), periods_per_year=252.0)
    for turnover in ([4.0, 4.0], [0.0, 4.0]):
        run = judged(returns, turnover)
        assert (run["status"], run["sharpe"]) == ("ok", expected.value)
    idle = judged(np.zeros((2, 50)), [0.0, 0.0])
    assert (idle["status"], idle["sharpe"]) == ("no_trades", 0.0)
    assert np.isnan(idle["sharpe_se"])


@pytest.mark.parametrize("status", ["no_trades", "flat", "bankrupt"])
def test_conventions_have_no_standard_error(tmp_path, status):
    experiment = loaded(tmp_path, {}, {"status": status})
    errors = experiment.trials["sharpe_se"]
    assert errors.iloc[0] > 0.0
    assert np.isnan(errors.iloc[1])
    assert experiment.members.groupby("trial", sort=False)["judge_se"].count().tolist() == [4, 0]
    spread = analysis.configuration_spread(experiment.scores)["hac_se"]
    assert np.isnan(spread.iloc[1])


def test_a_frozen_run_does_not_lower_the_error_of_its_trial(tmp_path):
    experiment = loaded(tmp_path, {"frozen": [(1, 0)]})
    runs = experiment.scores.set_index("seed")
    assert experiment.trials["sharpe_se"].iloc[0] == runs.loc[0, "sharpe_se"] > 0.0
    assert np.isnan(runs.loc[1, "sharpe_se"])


def test_frozen_members_are_at_the_floor_in_every_source_of_variance_and_counted(tmp_path):
    experiment = loaded(tmp_path, {"frozen": [(1, 0)]})
    sources = {source.source: source for source in analysis.variance_sources(experiment)}
    assert sources["folds within a run"].floored == 1
    assert sources["all runs"].floored == 1
    assert sources["all runs"].lo == FLOOR
    other = experiment.members.set_index(["seed", "fold"]).loc[(1, 1), "judge_sharpe"]
    assert sources["folds within a run"].lo == pytest.approx((FLOOR - other) / 2.0)
    assert "folds within a run (1 at the floor)" in analysis.write_report(experiment).read_text()
    assert "(1 at the floor)" in printed(experiment).replace("\n", " ")


@pytest.mark.parametrize(
    ("status", "words"),
    [("no_trades", "no trades"), ("flat", "flat"), ("bankrupt", "bankrupt")],
)
def test_unusual_statuses_are_counted_and_rank_last(tmp_path, status, words):
    experiment = loaded(tmp_path, {"status": status}, {})
    assert list(experiment.trials["objective_ok"]) == [False, True]
    assert list(ranked_trials(experiment)["launch"]) == [1, 0]
    page, table = analysis.write_report(experiment).read_text(), printed(experiment)
    for text in (page, table):
        assert f"judge runs: 2 {words}; validation walks: 4 {words}" in text
    assert "base runs: 2 " in page
    assert f"2 {words}" in page.split("Sharpe statuses")[1].split("</dd>")[0]


def test_a_trial_that_never_trades_does_not_outrank_an_honest_loss(tmp_path):
    experiment = loaded(tmp_path, {"status": "no_trades"}, {})
    experiment.trials.loc[1, "objective"] = -0.7
    assert experiment.trials.loc[0, "objective"] == 0.0
    assert list(ranked_trials(experiment)["launch"]) == [1, 0]


def test_statuses_in_words():
    assert count_statuses(["ok", "ok"]) == ""
    assert count_statuses(["ok", "implausible", "ok"]) == "2 ok, 1 implausible (needs a look)"
    assert count_statuses(["bankrupt", "short", None, ""]) == "1 bankrupt, 1 short"


def test_only_estimates_call_themselves_so():
    noise = np.random.default_rng(1).normal(0.0, 0.01, 100)
    assert sharpe(noise, periods_per_year=252.0).estimated
    assert sharpe(noise + 1.0, periods_per_year=252.0).estimated  # implausible, and still measured
    for convention in (
        sharpe(noise, periods_per_year=252.0, bankrupt=True),
        sharpe(noise, periods_per_year=252.0, traded=False),
        sharpe(np.zeros(100), periods_per_year=252.0),
        sharpe(noise[:5], periods_per_year=252.0),
    ):
        assert not convention.estimated

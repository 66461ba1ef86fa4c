import numpy as np
import pandas as pd
import pytest
from synthetic_experiment import plan_of, specs, write_experiment, write_trial

import analysis
from analysis.baselines import _pooled
from analysis.statistics import component_interval, variance_interval
from trainer.data import load_bars
from trainer.record import write_plan, write_timeline
from trainer.sharpe import FLOOR


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spread") / "made-up"
    write_experiment(folder, specs(configs=3))
    return analysis.load(folder)


def test_configuration_spread_counts_failed_runs_at_the_floor(tmp_path):
    trials = specs(configs=1, off=False)
    write_plan(tmp_path, plan_of(trials))
    write_trial(tmp_path, trials[0], frozen=[(0, 0)])
    row = analysis.configuration_spread(analysis.load(tmp_path).scores).iloc[0]
    assert (row["n"], row["lo"], row["failed"]) == (3, FLOOR, 1)
    assert row["sd"] ** 2 == pytest.approx(row["variance"])
    assert (row["variance_lo"], row["variance_hi"]) == pytest.approx(variance_interval(row["variance"], 2))


def test_total_variance_splits_into_its_sources(finished):
    by_source = {source.source: source for source in analysis.variance_sources(finished)}
    scores = finished.scores[finished.scores["arm"] == "base"]
    seeds = scores.groupby("config")["sharpe"].var(ddof=1)
    assert by_source["seeds within a configuration"].variance == pytest.approx(seeds.mean())
    assert by_source["seeds within a configuration"].df == 6
    means = by_source["means of configurations, seed noise included"]
    assert means.n == 3
    net = by_source["configurations, net of seed noise"]  # three seeds each
    assert net.variance == pytest.approx(max(means.variance - seeds.mean() / 3, 0.0))
    within = by_source["seeds within a configuration"].variance
    assert net.interval == component_interval(means.variance, 2, within, 6, 3)
    assert net.interval[0] <= net.variance <= net.interval[1]
    assert by_source["all runs"].lo == scores["sharpe"].min()
    folds = by_source["folds within a run"]
    assert folds.lo == pytest.approx(-folds.hi)  # two folds deviate from their mean by the same


def test_best_epochs_are_above_the_last_ones(finished):
    best = analysis.best_epochs(finished)
    last = finished.members.loc[finished.members["arm"] == "base", "validation_sharpe"].mean()
    assert best.runs == 9
    assert best.lo <= best.mean <= best.hi
    assert best.mean > last


def test_runs_of_configurations_that_differ_count_for_less(tmp_path):
    write_experiment(tmp_path, specs(configs=3))
    experiment = analysis.load(tmp_path)
    runs = experiment.scores["arm"] == "base"
    experiment.scores["sharpe"] += 5.0 * pd.factorize(experiment.scores["config"])[0] * runs
    every = next(source for source in analysis.variance_sources(experiment) if source.source == "all runs")
    assert every.n == 9
    assert every.df == pytest.approx(2.0, abs=0.2)
    assert every.interval == variance_interval(every.variance, every.df)


def test_the_older_trainers_line_has_an_interval(finished):
    best = analysis.best_epochs(finished)
    runs = finished.scores[finished.scores["arm"] == "base"]
    assert best.variance == pytest.approx(runs["best_validation"].var(ddof=1))
    assert 2.0 <= best.df <= 8.0
    assert best.interval == variance_interval(best.variance, best.df)
    assert best.text.startswith(f"best Sharpe variance {best.variance:.3f} (95 % [{best.interval[0]:.3f}, ")
    assert best.text.endswith("over 9 runs")


def test_no_complete_run_has_no_best_epoch(tmp_path):
    write_plan(tmp_path, plan_of(specs(configs=1)))
    best = analysis.best_epochs(analysis.load(tmp_path))
    assert (best.runs, best.df) == (0, 0.0)
    assert np.isnan([best.variance, *best.interval]).all()
    assert "n/a" in best.text


def test_learned_is_a_share_of_members_and_a_frozen_one_has_not(tmp_path):
    trials = specs(configs=1, off=False)
    write_plan(tmp_path, plan_of(trials))
    write_trial(tmp_path, trials[0], frozen=[(0, 0), (1, 0), (2, 0)])
    experiment = analysis.load(tmp_path)
    members = experiment.members
    better = (members["train_sharpe"] > members["train_sharpe_untrained"]) & (members["status"] == "ok")
    assert analysis.learned(experiment).members == 6
    assert analysis.learned(experiment).sharpe == pytest.approx(better.mean())
    assert analysis.learned(experiment).sharpe <= 0.5


def test_baselines_compare_with_the_same_seed_untrained(finished):
    holding = analysis.buy_and_hold(finished)
    assert "sha256" in holding.missing
    rows = {row.baseline: row for row in analysis.against_baselines(finished, holding)}
    scores = finished.scores[finished.scores["arm"] == "base"]
    assert rows["own untrained network"].beaten_by == (scores["sharpe"] > scores["untrained"]).mean()
    assert rows["flat (no position)"].sharpe == 0.0
    assert np.isnan(rows["buy and hold"].sharpe)


def test_buy_and_hold_on_the_bundled_bars(tmp_path):
    bars = load_bars("us-daily", symbols=("AAPL", "IBM", "MSFT"))
    trials = specs(configs=1, off=False)
    data = {"sha256": bars.sha256, "periods_per_year": bars.periods_per_year, "symbols": list(bars.frames)}
    write_plan(tmp_path, plan_of(trials, data=data))
    write_timeline(tmp_path, bars.timeline[100:500])
    write_trial(tmp_path, trials[0])
    holding = analysis.buy_and_hold(analysis.load(tmp_path))
    first = holding.returns[0]
    stamp = first.index[3]
    by_hand = np.mean([frame["close"].pct_change()[stamp] for frame in bars.frames.values()])
    assert first.iloc[3] == pytest.approx(by_hand)
    assert holding.estimate.n == sum(len(series) for series in holding.returns.values())


def test_holding_buys_at_the_open_and_averages_over_present_symbols():
    stamps = pd.date_range("2020-01-01", periods=3, tz="UTC")
    whole = pd.DataFrame({"open": [1.0, 2.0, 3.0], "close": [1.0, 2.2, 3.3]}, index=stamps)
    late = pd.DataFrame({"open": [5.0, 5.0], "close": [5.0, 10.0]}, index=stamps[1:])
    pooled = _pooled({"A": whole, "B": late}, stamps[1:])
    assert pooled.iloc[0] == pytest.approx((0.1 + 0.0) / 2)
    assert pooled.iloc[1] == pytest.approx((0.5 + 1.0) / 2)

"""What was set up differently is named, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic_experiment import TIMELINE, plan_of, specs, write_experiment

import analysis
from analysis.differences import Difference, differences
from trainer.config import config_key
from trainer.record import write_plan, write_timeline


def with_trainer(trials, **changes):
    """The same trials under changed hyperparameters, keys included."""
    found = []
    for spec in trials:
        trainer = spec.trainer.model_copy(update=changes)
        name = config_key(spec.data, trainer)
        found.append(spec.model_copy(update={"trainer": trainer, "config_key": name, "key": f"{name}-b0"}))
    return found


@pytest.fixture
def planned(tmp_path):
    """Loads an experiment that is only planned; differences need no more."""

    def load(name, trials=None, **plan):
        trials = trials or specs()
        write_plan(tmp_path / name, plan_of(trials, **plan))
        write_timeline(tmp_path / name, TIMELINE)
        return analysis.load(tmp_path / name)

    return load


def test_equal_experiments_differ_in_nothing(planned):
    found = differences([planned("a"), planned("b")])
    assert (found.settings, found.code, found.data) == ((), (), ())


def test_a_changed_hyperparameter(planned):
    found = differences([planned("a"), planned("b", with_trainer(specs(), n_step=4))])
    before = str(specs()[0].trainer.n_step)
    assert found.settings == (Difference("trainer.n_step", (before, "4")),)


def test_more_configurations_of_one_list_are_no_other_search(planned):
    found = differences([planned("a", specs(configs=3)), planned("b", specs(configs=5))])
    assert [row.name for row in found.settings] == ["sweep.trials"]
    assert found.settings[0].values == ("3", "5")


def test_another_search_is_told_as_its_range(planned):
    trials = specs(configs=6, off=False)
    others = [with_trainer([spec], learning_rate=0.1 * (1 + spec.launch % 2))[0] for spec in trials]
    found = differences([planned("a", trials), planned("b", others[:2] + specs(configs=6, off=False)[2:])])
    assert found.settings == (
        Difference("trainer.learning_rate", ("0.001 to 0.003713 (6 values)", "0.00169 to 0.2 (6 values)")),
    )


def test_an_arm_that_one_of_them_lacks_is_named_once(planned):
    found = differences([planned("a"), planned("b", specs(wired="g6_branch_indep"))])
    assert found.settings == (Difference("arms", ("base, off", "base, off, wired-g6_branch_indep")),)


def test_gems_by_arm_and_mode(planned):
    other = specs(gems=("g6_branch_indep",), off=False)
    found = {
        row.name: row.values for row in differences([planned("a", specs(off=False)), planned("b", other)]).settings
    }
    assert found == {"arms.base.g10_temporal": ("probe", "absent"), "arms.base.g12_predictive": ("probe", "absent")}


def test_rules_of_the_verdict(planned):
    rules = analysis.VerdictRules().to_dict()
    one, two = ({"rules": {**rules, "zero_limit": limit}} for limit in (0.01, 0.02))
    found = differences([planned("a", verdict=one), planned("b", verdict=two)])
    assert found.settings == (Difference("analysis.zero_limit", ("0.01", "0.02")),)


def test_code_is_taken_from_the_trials_and_else_from_the_plan(planned, tmp_path):
    versions = [{"source": source, "commit": "c" * 40 + "+changes"} for source in ("aaaa", "bbbb")]
    found = differences([planned(name, versions=each) for name, each in zip("ab", versions, strict=True)])
    assert found.code == (Difference("source", ("aaaa", "bbbb")),)
    write_experiment(tmp_path / "ran", specs(configs=1))
    ran = analysis.load(tmp_path / "ran")
    assert "python" in {row.name for row in differences([ran, planned("c", specs(configs=1))]).code}


def test_a_gem_file_that_changed(planned):
    rows = [[{"name": "mine", "may_duplicate": [], "sha256": digit * 64}] for digit in "12"]
    found = differences([planned(name, gems=each) for name, each in zip("ab", rows, strict=True)])
    assert found.code == (Difference("gem mine", ("sha256 " + "1" * 16, "sha256 " + "2" * 16)),)


def test_bars_and_spans(planned):
    one, two = planned("a"), planned("b")
    data = {**two.plan["data"], "sha256": "f" * 64}
    folds = [{**row, "stop_time": "2002-01-26"} if row["span"] == "judge" else row for row in two.plan["folds"]]
    other = replace(two, plan={**two.plan, "data": data, "folds": folds})
    names = [row.name for row in differences([one, other]).data]
    assert names == ["sha256", "fold 0 judge", "fold 1 judge"]

"""What a study does next, and that it ends: settled, out of budget, or interrupted."""

from __future__ import annotations

import pytest
from planned_study import planned_study, settings, verdict
from rich.console import Console

from sweep import decide as deciding
from sweep.decide import Budget, next_step, with_ablations
from sweep.errors import ConfigError
from sweep.experiment import open_plan
from sweep.run import Outcome
from sweep.study import add_trials, open_study

G6, G10, G12 = "g6_branch_indep", "g10_temporal", "g12_predictive"


@pytest.fixture
def study(tmp_path):
    return planned_study(tmp_path, "sweep.trials=12", count=5)


def test_open_gems_get_the_configurations_up_to_the_next_look(study):
    step = next_step(study, [verdict(G6), verdict(G10, "DELETE", "zero")], Budget(12))
    assert len({spec.config_key for spec in step.trials}) == 3
    assert [spec.launch for spec in step.trials] == [5, 6, 7]
    assert {arm.name for spec in step.trials for arm in spec.arms} == {"base"}


def test_a_promoted_gem_is_wired_on_what_ran_with_the_same_seeds_and_folds(study):
    step = next_step(study, [verdict(G6, grade="candidate"), verdict(G10)], Budget(12))
    assert [spec.config_key for spec in step.trials] == study.configurations
    for spec in step.trials:
        (arm,) = spec.arms
        assert (arm.name, arm.gems[G6].mode, arm.gems[G10].mode) == ("wired-g6_branch_indep-0.1", "wired", "probe")
        base = next(s for s in study.specs.values() if s.config_key == spec.config_key)
        wanted = [(m.seed, m.fold) for m in base.members if m.arm == "base"]
        assert [(m.seed, m.fold) for m in spec.members] == wanted
    assert {spec.key for spec in step.trials}.isdisjoint(study.specs)


def test_then_the_next_look_trains_base_and_wired_arm_together(study):
    promoted = [verdict(G6, grade="candidate")]
    add_trials(study, next_step(study, promoted, Budget(12)).trials, "wired")
    step = next_step(open_study(study.folder), promoted, Budget(12))
    assert len(step.trials) == 3
    assert {tuple(arm.name for arm in spec.arms) for spec in step.trials} == {("base", "wired-g6_branch_indep-0.1")}


def test_a_second_gem_promoted_later_catches_up(study):
    add_trials(study, next_step(study, [verdict(G6, grade="candidate")], Budget(12)).trials, "wired")
    both = [verdict(G6, grade="candidate", stage=2), verdict(G12, grade="candidate")]
    step = next_step(open_study(study.folder), both, Budget(12))
    assert {arm.name for spec in step.trials for arm in spec.arms} == {"wired-g12_predictive-0.1"}
    assert len(step.trials) == 5


def test_a_settled_gem_is_wired_no_further(study):
    add_trials(study, next_step(study, [verdict(G6, grade="candidate")], Budget(12)).trials, "wired")
    step = next_step(open_study(study.folder), [verdict(G6, "WIRE", "improves", 2), verdict(G10)], Budget(12))
    assert {arm.name for spec in step.trials for arm in spec.arms} == {"base"}


@pytest.mark.parametrize(
    ("verdicts", "budget", "why"),
    [
        ([verdict(G6, "WIRE", "improves", 2), verdict(G10, "DELETE", "zero")], Budget(12), "every gem is settled"),
        ([verdict(G6, "INVALID", "impure")], Budget(12), "every gem is settled"),
        ([verdict(G6)], Budget(7), "the budget of 7 configurations allows no further look"),
        ([verdict(G6)], Budget(12, hours=0.0), "the hours are spent"),
    ],
)
def test_it_ends(study, verdicts, budget, why):
    step = next_step(study, verdicts, budget)
    assert (step.trials, step.why) == ((), why)


def test_the_whole_way(tmp_path, monkeypatch):
    """G10 falls at the first look, G6 is promoted there and settled at 12; nothing runs, the plan grows."""
    sizes = []

    def resume(folder, console, *, quiet=False, body=None):
        sizes.append((len(open_study(folder).configurations), len(open_plan(folder))))
        return Outcome(folder, {}, [])

    def verdicts(folder):
        wired = sum(any(arm.name.startswith("wired") for arm in s.arms) for s in open_plan(folder).values())
        g6 = (
            verdict(G6, "WIRE", "improves", 2) if wired >= 12 else verdict(G6, grade="candidate", stage=1 + (wired > 0))
        )
        return [g6, verdict(G10, "DELETE", "zero"), verdict(G12, "DELETE", "zero")]

    monkeypatch.setattr(deciding, "resume", resume)
    monkeypatch.setattr(deciding, "read_verdicts", verdicts)
    outcome, why = deciding.decide(settings(tmp_path, "sweep.trials=40"), Console(quiet=True))
    assert why == "every gem is settled"
    assert sizes == [(5, 5), (5, 10), (8, 13), (12, 17)]
    assert [note["trials"] for note in open_study(outcome.folder).plan["extensions"]] == [5, 3, 4]


def test_an_interrupt_ends_it_and_adds_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(deciding, "resume", lambda folder, *_, **__: Outcome(folder, {}, ["left"]))
    outcome, why = deciding.decide(settings(tmp_path, "sweep.trials=5"), Console(quiet=True))
    assert (why, outcome.exit_code) == ("interrupted", 3)
    assert "extensions" not in open_study(outcome.folder).plan


def test_redundancy_is_tested_by_leaving_the_feature_out(tmp_path):
    config = with_ablations(settings(tmp_path, "arms.further=[{off='noisy_nets'}]"))
    assert [arm.off for arm in config.arms.further] == ["noisy_nets", "ensemble_kl", "spectral_norm"]


def test_too_few_configurations_for_any_look(tmp_path):
    with pytest.raises(ConfigError, match="reach no look; the first needs 5"):
        deciding.decide(settings(tmp_path, "sweep.trials=4"), Console(quiet=True))
    assert not (tmp_path / "study").exists()


def test_seeds_of_one_configuration_are_no_study_of_steps(tmp_path):
    with pytest.raises(ConfigError, match="gemsweep run"):
        deciding.decide(settings(tmp_path, "sweep.trials=5", "analysis.unit='seed'"), Console(quiet=True))
    assert not (tmp_path / "study").exists()


def test_a_policy_that_asks_for_the_signal_alone_wires_nothing(tmp_path):
    study = planned_study(tmp_path, "sweep.trials=12", "analysis.policy='seed'", count=5)
    found = [verdict(G6, grade="candidate"), verdict(G10, "DELETE", "zero")]
    assert next_step(study, found, Budget(12)).why == "every gem is settled"
    assert next_step(study, [verdict(G6)], Budget(12)).trials

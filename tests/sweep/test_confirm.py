"""The hold-out is opened for promoted gems only, jointly, on fresh seeds, and every opening is counted first."""

from __future__ import annotations

import pytest
from planned_study import planned_study, settings
from rich.console import Console

from sweep import confirm as confirming
from sweep.confirm import holdout_data, openings
from sweep.errors import ConfigError
from sweep.experiment import open_plan
from sweep.run import Outcome
from trainer.data.source import load_table
from trainer.record import read_plan

G6, G10, G12 = "g6_branch_indep", "g10_temporal", "g12_predictive"
NEXT = [f"arms.gems=['{G6}','{G12}','{G10}']", f"arms.base={{{G6}={{mode='wired',dose=0.2}}, {G12}='wired'}}"]
NEXT += ["sweep.trials=5", "sweep.seed=1"]


@pytest.fixture
def started(monkeypatch):
    """What stood in the count when the trials started; nothing runs."""
    counted = []

    def resume(folder, console, *, quiet=False, body=None):
        counted.append(len(openings(folder.parent, read_plan(folder)["data"]["sha256"])))
        return Outcome(folder, {}, [])

    monkeypatch.setattr(confirming, "resume", resume)
    return counted


def confirmed(storage, *overrides, name="study", **options):
    return confirming.confirm(settings(storage, *NEXT, *overrides, name=name), Console(quiet=True), **options)


def test_the_judge_span_is_the_hold_out_and_training_ends_before_it(tmp_path):
    config = settings(tmp_path, *NEXT, "data.folds.count=2")
    before, after = load_table(config.data), load_table(holdout_data(config.data))
    (fold,) = after.folds
    assert (fold.spans["judge"].start, fold.spans["judge"].stop) == (before.holdout.start, before.holdout.stop)
    gap = config.data.folds.purge + config.data.folds.embargo
    assert fold.spans["validation"].stop == before.holdout.start - gap
    assert fold.spans["train"].stop <= fold.spans["validation"].start - gap
    assert after.sha256 == before.sha256


def test_base_probes_what_the_joint_arm_wires_on_the_same_fresh_seeds(tmp_path, started):
    outcome = confirmed(tmp_path)
    study = planned_study(tmp_path / "old", *NEXT[:1], "sweep.trials=5")
    specs = open_plan(outcome.folder)
    assert len(specs) == 5
    for spec in specs.values():
        modes = {arm.name: {gem: (v.mode, v.dose) for gem, v in arm.gems.items()} for arm in spec.arms}
        probed = {G6: ("probe", 0.2), G12: ("probe", 0.1), G10: ("probe", 0.1)}
        assert modes == {"base": probed, "joint": probed | {G6: ("wired", 0.2), G12: ("wired", 0.1)}}
        seeds = {arm: [m.seed for m in spec.members if m.arm == arm] for arm in modes}
        assert seeds["base"] == seeds["joint"]
        assert {m.seed for s in study.specs.values() for m in s.members}.isdisjoint(seeds["base"])
    purpose = read_plan(outcome.folder)["confirmation"]
    assert purpose == {"gems": [G6, G12], "arm": "joint", "look": 1, "configurations": 5}


def test_an_opening_is_counted_before_any_trial_starts(tmp_path, started):
    confirmed(tmp_path)
    assert started == [1]


def test_a_second_opening_is_refused_and_can_be_insisted_on(tmp_path, started):
    confirmed(tmp_path)
    with pytest.raises(ConfigError, match=r"opened before, by study on .* look 2"):
        confirmed(tmp_path, name="again")
    assert not (tmp_path / "again").exists()
    outcome = confirmed(tmp_path, name="again", again=True)
    assert read_plan(outcome.folder)["confirmation"]["look"] == 2
    assert started == [1, 2]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (f"arms.base={{{G6}='probe'}}", "no gem is wired"),
        ("data.folds.holdout=0.0", "no hold-out"),
        ("sweep.trials=4", "too few"),
    ],
)
def test_refusals_open_nothing(tmp_path, started, override, said):
    with pytest.raises(ConfigError, match=said):
        confirmed(tmp_path, override)
    assert started == []
    assert list(tmp_path.iterdir()) == []


def test_other_bars_have_a_hold_out_of_their_own(tmp_path, started):
    confirmed(tmp_path)
    confirmed(tmp_path, "data.symbols=['AAPL']", name="other")
    assert started == [1, 1]

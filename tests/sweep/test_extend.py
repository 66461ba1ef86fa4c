"""A study that grows keeps what it has, and adds the next configurations of its own list."""

from __future__ import annotations

import pytest
from planned_study import planned_study
from rich.console import Console

from sweep import extend as extending
from sweep.errors import ConfigError, ResumeError
from sweep.plan import make_plan, planned
from sweep.run import Outcome
from sweep.study import add_trials, new_trials, open_study
from sweep.toml_file import read_config
from trainer.config import Machine
from trainer.record import read_plan


@pytest.fixture
def resumed(monkeypatch):
    """Folders that were resumed; nothing runs."""
    folders = []

    def resume(folder, console, *, quiet=False, body=None):
        folders.append(folder)
        return Outcome(folder, {}, [])

    monkeypatch.setattr(extending, "resume", resume)
    return folders


def test_the_longer_study_is_the_one_that_was_planned_longer(tmp_path, resumed):
    short = planned_study(tmp_path, "sweep.trials=5")
    extending.extend(short.folder, 8, Console(quiet=True))
    found = planned(read_plan(short.folder))
    whole = planned(make_plan(read_config(short.folder / "config.toml", ["sweep.trials=8"], {}), Machine()).data)
    assert list(found) == list(whole)
    assert found == whole
    assert resumed == [short.folder]


def test_old_trials_and_rules_stay_and_the_growth_is_noted(tmp_path, resumed):
    before = planned_study(tmp_path, "sweep.trials=5")
    extending.extend(before.folder, 6, Console(quiet=True))
    after = read_plan(before.folder)
    assert after["trials"][:5] == before.plan["trials"]
    assert after["verdict"] == before.plan["verdict"]
    assert after["created"] == before.plan["created"]
    (note,) = after["extensions"]
    assert (note["trials"], note["why"]) == (1, "extended to 6 configurations")


def test_to_the_present_number_adds_nothing_and_goes_on(tmp_path, resumed):
    study = planned_study(tmp_path, "sweep.trials=5")
    extending.extend(study.folder, 5, Console(quiet=True))
    assert read_plan(study.folder) == study.plan
    assert resumed == [study.folder]


@pytest.mark.parametrize(("to", "said"), [(4, "has 5 configurations already"), (136, "ends its looks at 135")])
def test_numbers_that_cannot_be(tmp_path, resumed, to, said):
    study = planned_study(tmp_path, "sweep.trials=5")
    with pytest.raises(ConfigError, match=said):
        extending.extend(study.folder, to, Console(quiet=True))
    assert read_plan(study.folder) == study.plan
    assert not resumed


def test_an_exhausted_space_is_named(tmp_path, resumed):
    grid = ["trainer={n_step={choice=[1,3]}, epochs=1, score_epochs=1, updates_per_epoch=4}", "sweep.trials=2"]
    study = planned_study(tmp_path, *grid)
    with pytest.raises(ConfigError, match="exhausted"):
        extending.extend(study.folder, 3, Console(quiet=True))


def test_an_edited_configuration_draws_others_and_is_refused(tmp_path, resumed):
    study = planned_study(tmp_path, "sweep.trials=5")
    path = study.folder / "config.toml"
    path.write_text(path.read_text().replace("seed = 0", "seed = 1"))
    with pytest.raises(ResumeError, match="does not draw the configurations of its plan"):
        extending.extend(study.folder, 8, Console(quiet=True))


def test_a_trial_is_added_once(tmp_path):
    study = planned_study(tmp_path, "sweep.trials=5")
    more = new_trials(study, 6, (study.config.arms.base_arm(),))
    add_trials(study, more, "one more")
    with pytest.raises(ResumeError, match="has trial"):
        add_trials(open_study(study.folder), more, "again")

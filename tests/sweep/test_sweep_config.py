"""What a configuration may say, and the one sentence that answers what it may not."""

from __future__ import annotations

import tomllib

import pytest

from analysis.rules import VerdictRules
from sweep.config import AnalysisSection, SweepConfig
from sweep.errors import ConfigError
from sweep.schema_errors import dotted_keys, strictly
from sweep.toml_file import default_text, read_config, to_toml
from trainer.config import TrainerConfig


def read(*overrides: str, **flags):
    return read_config(None, list(overrides), flags)


def test_the_default_file_names_every_key():
    table = tomllib.loads(default_text())
    keys = {key for key in dotted_keys(SweepConfig)} | set(dotted_keys(TrainerConfig, "trainer."))
    missing = []
    for key in keys:
        level = table
        for part in key.split("."):
            level = level.get(part) if isinstance(level, dict) else None
        if level is None:
            missing.append(key)
    assert missing == []


def test_the_default_file_holds_the_defaults_of_the_schema_besides_search_space_and_label():
    config = read()
    assert config.data == SweepConfig().data
    assert config.arms == SweepConfig().arms
    assert config.analysis == SweepConfig().analysis
    assert config.sweep.model_copy(update={"label": ""}) == SweepConfig().sweep
    assert config.sweep.label == "smoke, not evidence"
    assert TrainerConfig.model_validate(config.space.fixed) == TrainerConfig()
    assert set(config.space.domains) == {"learning_rate", "discount", "n_step", "target_rate"}


def test_the_analysis_section_is_the_rules_of_the_verdict_field_by_field():
    assert VerdictRules.from_dict(AnalysisSection().model_dump()) == VerdictRules()


def test_the_resolved_configuration_reads_back_the_same(tmp_path):
    config = read('arms.base.g6_branch_indep={mode="wired", dose=0.2}', 'sweep.label="a \\"b\\" c"')
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config.model_dump(mode="json")))
    assert read_config(path, [], {}) == config


def test_a_file_without_a_trainer_section_takes_the_default_search_space(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nsymbols = ["IBM"]\n')
    config = read_config(path, ["trainer.epochs=7"], {})
    assert config.space.domains == read().space.domains
    assert config.space.fixed["epochs"] == 7
    assert config.data.symbols == ("IBM",)
    assert config.sweep.label == ""  # only what runs without a file is labelled smoke


def test_an_override_wins_over_the_file_and_a_flag_over_both(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[sweep]\ntrials = 3\nseeds = 2\n")
    config = read_config(path, ["sweep.trials=4", "sweep.seeds=5"], {"sweep.trials": 6, "sweep.name": None})
    assert (config.sweep.trials, config.sweep.seeds) == (6, 5)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("trainer.learnin_rate=1", "trainer.learnin_rate: unknown key; did you mean 'trainer.learning_rate'?"),
        ("trainer.netwrk.trunk=[1, 2]", "did you mean 'trainer.network'?"),
        ("trainer.network.trunc=[1, 2]", "did you mean 'trainer.network.trunk'?"),
        ("sweep.learning_rate=1", "sweep.learning_rate: unknown key; did you mean 'trainer.learning_rate'?"),
        ("sweeep.trials=3", "sweeep: unknown key; did you mean 'sweep'?"),
        ("data.folds.cuont=3", "did you mean 'data.folds.count'?"),
        ('trainer.epochs="3"', "trainer.epochs: should be a valid integer; got '3'"),
        ("trainer.epochs=3.5", "trainer.epochs: should be a valid integer; got 3.5"),
        ("sweep.trials=true", "sweep.trials: should be a valid integer; got True"),
        ("trainer.discount=nan", "trainer.discount: should be a finite number"),
        ("trainer.discount=1.5", "trainer.discount: should be less than 1; got 1.5"),
        ("data.folds=3", "data.folds: should be an object; got 3"),
        ("data.folds.count=0", "data.folds.count: should be greater than or equal to 1; got 0"),
        ("trainer.network.trunk=[1, 2, 3]", "trainer.network.trunk"),
        ("trainer.epochs={uniform=[1, 5]}", "trainer.epochs: an integer; use randint or choice instead of uniform"),
        ("trainer.learning_rate={loguniforn=[1, 2]}", "did you mean 'loguniform'?"),
        ("trainer.learning_rate={loguniform=[0.1, 2]}", "trainer.learning_rate: should be less than or equal to 1"),
        ("trainer.learning_rate={loguniform=[0.0, 1]}", "trainer.learning_rate.loguniform: low must be above 0"),
        ("trainer.learning_rate={uniform=[2]}", "trainer.learning_rate.uniform: needs two numbers"),
        ("trainer.learning_rate={uniform=[0.2, 0.1]}", "low must be below high"),
        ("trainer.epochs={randint=[1.5, 3]}", "trainer.epochs.randint: needs two integers"),
        ("trainer.epochs={choice=[]}", "trainer.epochs.choice: needs a list"),
        ("trainer.epochs={choice=[5, 'x']}", "trainer.epochs: should be a valid integer; got 'x'"),
        ("trainer.network.trunk={choice=[[8, 8], [8]]}", "trainer.network.trunk"),
        ("arms.base={g6='wired'}", "base.g6: no such gem in arms.gems"),
        ("arms.base.g6_branch_indep=wierd", "arms.base.g6_branch_indep.mode: should be 'off', 'probe' or 'wired'"),
        ("arms.gems=['g6_branch']", "did you mean 'g6_branch_indep'?"),
        ("arms.gems=['gone.py:Gem']", "arms.gems: no file"),
        ("arms.gems=['g10_temporal', 'g10_temporal']", "arms.gems: a gem is named twice"),
        ("data.source=gone.csv", "data.source: no file"),
        ("sweep.gpus_per_trial=0.5", 'needs device = "cuda"'),
        ("sweep.name=a/b", "sweep.name"),
        ("analysis.schedule=[5, 3]", "analysis.schedule: must hold increasing"),
        ("schema_version=2", "schema_version"),
        ("trainer.epochs", "--set trainer.epochs: write it as key=value"),
        ("trainer.epochs.x=3", "trainer.epochs"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_that_names_the_key(override, named):
    with pytest.raises(ConfigError) as caught:
        read(override)
    assert named in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_every_finding_has_its_own_line():
    with pytest.raises(ConfigError) as caught:
        read("trainer.batch_size=0", "sweep.trials=0", "data.folds.count=99")
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "named"),
    [(None, "no such file; `gemsweep config >"), (b"[sweep\n", "not valid TOML"), (b"\xff\xfe", "cannot be read")],
)
def test_a_configuration_file_that_cannot_be_used_is_named(tmp_path, content, named):
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mine\.toml") as caught:
        read_config(path, [], {})
    assert named in str(caught.value)


def test_paths_are_taken_from_the_folder_of_the_file_and_made_absolute(tmp_path):
    (tmp_path / "bars.csv").write_text("timestamp\n")
    (tmp_path / "my_gem.py").write_text("class MyGem: ...\n")
    path = tmp_path / "mine.toml"
    path.write_text(
        '[data]\nsource = "bars.csv"\n[arms]\ngems = ["my_gem.py:MyGem"]\nbase = {"my_gem.py:MyGem" = "wired"}\n'
    )
    config = read_config(path, [], {})
    gem = f"{tmp_path / 'my_gem.py'}:MyGem"
    assert config.data.source == str(tmp_path / "bars.csv")
    assert config.arms.gems == (gem,)
    assert config.arms.base[gem].mode == "wired"


def test_the_off_arm_switches_off_only_what_is_probed():
    assert read().arms.off_arm().gems["g6_branch_indep"].mode == "off"
    wired = read("arms.base.g12_predictive=wired").arms
    assert wired.base_arm().gems["g12_predictive"].mode == "wired"
    assert wired.off_arm().gems["g12_predictive"].mode == "wired"
    assert wired.off_arm().gems["g6_branch_indep"].mode == "off"
    assert read("arms.gems=['g10_temporal']", "arms.base.g10_temporal=wired").arms.off_arm() is None


def test_python_and_toml_give_the_same_configuration():
    table = tomllib.loads(default_text())
    assert SweepConfig(**table) == strictly(SweepConfig, table)

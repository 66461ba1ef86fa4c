"""What a configuration may say, and the one sentence that answers what it may not."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from analysis.rules import VerdictRules
from sweep.arms import ArmsSection, FurtherArm
from sweep.config import AnalysisSection, SweepConfig
from sweep.errors import ConfigError
from sweep.schema_errors import dotted_keys, strictly
from sweep.toml_file import default_text, read_config, to_toml
from trainer.config import GemConfig, TrainerConfig

ROOT = Path(__file__).resolve().parents[2]


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
        ("arms.gems=['iqn']", "'iqn' is a feature of the trainer, not a gem; further arms can switch it off"),
        ("arms.further=[{wired='g6_branch'}]", "further[0]: 'g6_branch': no such gem in arms.gems; did you mean 'g6_b"),
        ("arms.further=[{off='noisy_net'}]", "further[0]: 'noisy_net': no such gem in arms.gems, and no feature ("),
        ("arms.further=[{off='noisy_net'}]", "did you mean 'noisy_nets'?"),
        ("arms.further=[{wired='iqn'}]", "further[0]: 'iqn' is a feature, which can only be off"),
        ("arms.further=[{}]", "arms.further[0]: an arm changes one thing: give wired = \"gem\" or off"),
        ("arms.further=[{off='iqn', wired='g10_temporal'}]", 'off = "gem or feature", not both'),
        ("arms.further=[{off='iqn', dose=0.1}]", "arms.further[0]: dose belongs to a wired gem"),
        ("arms.further=[{wired='g10_temporal', dose=1.5}]", "arms.further[0].dose: should be less than or equal to 1"),
        ("arms.further=[{wierd='g10_temporal'}]", "arms.further[0]: unknown key 'wierd'; an arm has wired, off and"),
        ("arms.further=['iqn']", "arms.further[0]"),
        ("arms.further=[{off='iqn'}, {off='cql'}, {off='iqn'}]", "further[2]: 'off-iqn' is further[0] already"),
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


def test_a_further_arm_changes_one_thing():
    change = "arms.further=[{wired='g6_branch_indep'}, {wired='g6_branch_indep', dose=0.25}, {off='noisy_nets'}]"
    arms = read(change).arms
    base, (wired, more, without) = arms.base_arm(), arms.further_arms()
    assert [arm.name for arm in (wired, more, without)] == [
        "wired-g6_branch_indep-0.1", "wired-g6_branch_indep-0.25", "off-noisy_nets",
    ]  # fmt: skip
    assert wired.gems == {**base.gems, "g6_branch_indep": GemConfig(mode="wired", dose=0.1)}
    assert more.gems["g6_branch_indep"].dose == 0.25
    assert (without.gems, without.features_off) == (base.gems, ("noisy_nets",))
    assert base.features_off == wired.features_off == ()


def test_a_wired_gem_of_the_base_arm_can_be_taken_away_or_dosed_otherwise():
    wired = "arms.base.g12_predictive={mode='wired', dose=0.2, coefficient=0.5}"
    off, dosed = read(wired, "arms.further=[{off='g12_predictive'}, {wired='g12_predictive'}]").arms.further_arms()
    assert (off.name, off.gems["g12_predictive"].mode) == ("off-g12_predictive", "off")
    assert dosed.gems["g12_predictive"] == GemConfig(mode="wired", dose=0.1, coefficient=0.5)


@pytest.mark.parametrize(
    ("base", "change", "state"),
    [
        ({"mode": "off"}, {"off": "g10_temporal"}, "off"),
        ({"mode": "wired", "dose": 0.1}, {"wired": "g10_temporal"}, "wired at 0.1"),
        ({"mode": "wired", "dose": 0.3}, {"wired": "g10_temporal", "dose": 0.3}, "wired at 0.3"),
    ],
)
def test_a_change_that_changes_nothing_is_refused(base, change, state):
    with pytest.raises(ValueError, match=f"g10_temporal is {state} in the base arm already; this arm would change"):
        SweepConfig(arms={"base": {"g10_temporal": base}, "further": [change]})


def test_a_further_arm_names_a_gem_of_arms_gems():
    with pytest.raises(ConfigError, match=r"'g12_predictive' is not among arms\.gems; name it there too"):
        read("arms.gems=['g10_temporal']", "arms.further=[{off='g12_predictive'}]")


def test_users_gems_name_their_arms_by_class_and_are_found_beside_the_file(tmp_path):
    (tmp_path / "my_gem.py").write_text("class MyGem: ...\n")
    path = tmp_path / "mine.toml"
    path.write_text('[arms]\ngems = ["my_gem.py:MyGem"]\nfurther = [{wired = "my_gem.py:MyGem", dose = 1e-5}]\n')
    config = read_config(path, [], {})
    (arm,) = config.arms.further_arms()
    assert arm.name == "wired-mygem-1e-05"
    assert arm.gems[f"{tmp_path / 'my_gem.py'}:MyGem"].mode == "wired"
    again = tmp_path / "resolved.toml"
    again.write_text(to_toml(config.model_dump(mode="json")))
    assert read_config(again, [], {}) == config


@pytest.mark.parametrize("gem", ["a_gem_of_forty_eight_letters_a_gem_of_forty_eigh", "my.py:Ünïcode" + "Long" * 30])
def test_long_and_foreign_names_still_name_an_arm(gem):
    arms = ArmsSection.model_construct(gems=(gem,), base={}, further=(FurtherArm(wired=gem, dose=0.123456789),))
    (arm,) = arms.further_arms()
    assert arm.name.startswith("wired-")
    assert arm.name.endswith("-0.123457")
    assert len(arm.name) <= 64


def installed(folder, **gems):
    """A folder for sys.path that holds an installed package with these entry points."""
    place = folder / "installed_gem-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-gem\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in gems.items())
    (place / "entry_points.txt").write_text(f"[gemsweep.gems]\n{points}")
    return folder


def test_gems_of_installed_packages_go_by_their_bare_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(installed(tmp_path, q_spread="gems_of_mine:QSpread"))
    config = read("arms.gems=['q_spread', 'g10_temporal']", "arms.further=[{wired='q_spread', dose=0.2}]")
    assert config.arms.further_arms()[0].name == "wired-q_spread-0.2"
    with pytest.raises(ConfigError, match="no gem of an installed package; installed are q_spread, and no import"):
        read("arms.gems=['q_spred']")


def test_reading_a_configuration_loads_no_torch():
    code = (
        "import sys; from sweep.toml_file import read_config; "
        "read_config(None, ['arms.further=[{off=\"iqn\"}]'], {}); print('torch' in sys.modules or 'ray' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert shown.strip() == "False"


def test_python_and_toml_give_the_same_configuration():
    table = tomllib.loads(default_text())
    assert SweepConfig(**table) == strictly(SweepConfig, table)

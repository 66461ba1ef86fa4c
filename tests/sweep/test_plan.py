"""The plan: keys, seeds, folds, arms, and that it is the same plan each time."""

from __future__ import annotations

import re

import pytest

from sweep.errors import ConfigError
from sweep.features import KEYS, is_on
from sweep.plan import block_seeds, make_plan, planned
from sweep.toml_file import read_config
from trainer.config import FEATURES, Machine, TrainerConfig, config_key
from trainer.record.folder import check_name
from trainer.signals import FEATURE_SLOTS, SLOTS


def plan_of(*overrides: str):
    config = read_config(None, ["data.symbols=['IBM']", *overrides], {})
    return make_plan(config, Machine())


@pytest.fixture(scope="module")
def default_plan():
    return plan_of()


def without_time(plan) -> dict:
    return {key: value for key, value in plan.data.items() if key not in ("created", "versions")}


def test_the_same_configuration_gives_the_same_plan(default_plan):
    assert without_time(plan_of()) == without_time(default_plan)
    assert without_time(plan_of("sweep.seed=1")) != without_time(default_plan)


def test_a_trial_is_a_configuration_by_a_block_of_seeds(default_plan):
    trials = planned(default_plan.data)
    assert len(trials) == 8
    for launch, (key, trial) in enumerate(trials.items()):
        assert key == trial.key == f"{config_key(trial.data, trial.trainer)}-b0"
        assert trial.launch == launch
        base = [(m.seed, m.fold) for m in trial.members if m.arm == "base"]
        assert base == [(s, f) for s in (0, 1, 2) for f in (0, 1)]


def test_only_the_first_trial_runs_the_off_arm(default_plan):
    first, *others = planned(default_plan.data).values()
    assert [arm.name for arm in first.arms] == ["base", "off"]
    assert {gem.mode for gem in first.arms[0].gems.values()} == {"probe"}
    assert {gem.mode for gem in first.arms[1].gems.values()} == {"off"}
    assert len(first.members) == 12
    assert all([arm.name for arm in trial.arms] == ["base"] for trial in others)
    assert len(next(iter(planned(plan_of("arms.purity=false").data).values())).arms) == 1


WIRED_AND_WITHOUT = "arms.further=[{wired='g6_branch_indep', dose=0.2}, {off='noisy_nets'}]"
FURTHER = ["wired-g6_branch_indep-0.2", "off-noisy_nets"]


def test_further_arms_train_in_every_pack_on_the_seeds_and_folds_of_the_base_arm():
    first, *others = planned(plan_of(WIRED_AND_WITHOUT).data).values()
    assert [arm.name for arm in first.arms] == ["base", *FURTHER, "off"]
    assert all([arm.name for arm in trial.arms] == ["base", *FURTHER] for trial in others)
    for trial in (first, *others):
        draws = {arm.name: [(m.seed, m.fold) for m in trial.members if m.arm == arm.name] for arm in trial.arms}
        assert all(own == draws["base"] for own in draws.values())
        assert trial.arms[2].features_off == ("noisy_nets",)


def test_further_arms_leave_the_trials_and_their_keys_as_they_were(default_plan):
    base, more = planned(default_plan.data), planned(plan_of(WIRED_AND_WITHOUT).data)
    assert list(base) == list(more)
    single = planned(plan_of(WIRED_AND_WITHOUT, "sweep.pack='none'", "sweep.trials=1").data)
    assert list(single)[6] == f"{next(iter(base))}-wired-g6_branch_indep-0.2-s0-f0"
    assert all(check_name(key, "trial key") == key for key in single)


def test_an_arm_that_can_show_nothing_is_refused_or_told():
    off = "trainer.network.noisy_nets=false"
    with pytest.raises(ConfigError, match=r"arms.further\[1\]: noisy_nets is off in every configuration already"):
        plan_of(WIRED_AND_WITHOUT, off)
    some = plan_of(WIRED_AND_WITHOUT, "trainer.network.noisy_nets={grid=[true, false]}")
    assert any(note.startswith("arm off-noisy_nets changes ") for note in some.notes)
    probed = plan_of("arms.further=[{off='g10_temporal'}]")
    assert probed.notes == (
        "arm off-g10_temporal will train exactly as the base arm does, which only probes g10_temporal",
    )
    assert plan_of(WIRED_AND_WITHOUT).notes == ()


def test_every_feature_is_on_by_default_and_off_by_the_keys_that_an_arm_sets_to_0():
    for feature in FEATURES:
        assert is_on(TrainerConfig(), feature)
        sources = {slot.source or slot.name for slot in SLOTS if slot.name in FEATURE_SLOTS[feature]}
        assert set(KEYS[feature]) == sources


def test_gems_keep_the_order_of_the_configuration_in_the_plan(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from trainer.gems import Gem\n\n\nclass Mine(Gem):\n    name, inputs = 'mine', ('trunk',)\n"
        "    may_duplicate = ('iqn',)\n\n    def forward(self, ctx):\n        return ctx.trunk.sum(-1)\n"
    )
    rows = plan_of(f"arms.gems=['{path}:Mine', 'g10_temporal', 'g12_predictive']").data["gems"]
    assert [row["name"] for row in rows] == ["mine", "g10_temporal", "g12_predictive"]
    assert [row["may_duplicate"] for row in rows] == [["iqn"], ["spectral_norm"], []]


def test_unpacked_trials_are_the_members_of_the_packed_ones(default_plan):
    packed = planned(default_plan.data)
    single = planned(plan_of('sweep.pack="none"').data)
    expected = [f"{trial.key}-{m.arm}-s{m.seed}-f{m.fold}" for trial in packed.values() for m in trial.members]
    assert list(single) == expected
    assert all(len(trial.members) == 1 and len(trial.arms) == 1 for trial in single.values())
    assert [m for trial in single.values() for m in trial.members] == [
        m for trial in packed.values() for m in trial.members
    ]


def test_seeds_are_never_shared_between_blocks_and_sweeps():
    drawn = [block_seeds(seed, block, 1000) for seed in (0, 1, 2**32 - 1) for block in (0, 1, 999)]
    assert len({seed for seeds in drawn for seed in seeds}) == 9 * 1000
    assert max(map(max, drawn)) < 2**63


def test_the_verdict_is_fixed_before_the_first_trial(default_plan):
    verdict = default_plan.data["verdict"]
    assert verdict["rules_hash"] != plan_of("analysis.zero_limit=0.02").data["verdict"]["rules_hash"]
    assert verdict["schedule"][:3] == [5, 8, 12]
    assert [gem["name"] for gem in default_plan.data["gems"]] == ["g6_branch_indep", "g10_temporal", "g12_predictive"]
    assert default_plan.data["gems"][1]["may_duplicate"] == ["spectral_norm"]
    assert default_plan.data["label"] == "smoke, not evidence"


def test_spans_are_dated_by_the_timeline(default_plan):
    timeline = default_plan.timeline
    rows = [*default_plan.data["folds"], default_plan.data["holdout"]]
    assert {(row.get("fold"), row["span"]) for row in rows} == {
        (fold, span) for fold in (0, 1) for span in ("train", "validation", "judge")
    } | {(None, "holdout")}
    for row in rows:
        assert row["start_time"] == timeline[row["start"]].isoformat()
        assert row["stop_time"] == timeline[row["stop"] - 1].isoformat()


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("trainer.n_step=10", "data.folds.purge = 10: raise the purge to 11"),
        ("trainer.score_epochs=50", "score_epochs must not exceed epochs"),
        ("data.folds.count=9", "data.folds"),
        ("data.symbols=['TSLA']", "TSLA"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(override, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        plan_of(override)

import numpy as np
import pandas as pd
import pytest
from synthetic_experiment import TIMELINE, plan_of, specs, write_experiment, write_trial

import analysis
from analysis import VerdictRules, judge_signal, signals
from analysis.evidence import unit_sizes
from analysis.stage_one import needed_units, replay
from trainer.record import write_plan, write_timeline

RULES = VerdictRules()


def evidence(sizes, members=4, epochs=6, status="ok", final=True):
    """Rows of one gem: `sizes` by configuration, every member and epoch the same."""
    rows = [
        {"gem": "g", "config": f"c{launch}", "trial": f"c{launch}-b0", "launch": launch, "seed": seed, "fold": 0,
         "epoch": epoch, "remaining": epochs - epoch, "status": status, "final": final, "absent": "",
         "mode": "probe", "size": size, "value": 0.5}
        for launch, size in enumerate(sizes) for seed in range(members) for epoch in range(1, epochs + 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def draw(log10_size, n, sd=0.3, seed=0):
    return 10.0 ** np.random.default_rng(seed).normal(log10_size, sd, n)


def test_an_identically_zero_gem_is_deleted_at_the_first_look():
    verdict = judge_signal(evidence([0.0] * 5), n_gems=3)
    assert (verdict.label, verdict.grade, verdict.n) == ("DELETE", "zero", 5)
    assert verdict.title == "DELETE (zero)"
    assert "identically zero" in verdict.reason


def test_a_tiny_gem_is_deleted_and_the_reason_gives_number_and_limit():
    verdict = judge_signal(evidence([1e-5, 2e-5, 1e-5, 3e-5, 2e-5]), n_gems=3)
    assert verdict.title == "DELETE (zero)"
    assert "limit 1\u00a0%" in verdict.reason
    assert verdict.interval[1] < 0.01


def test_a_clear_gem_is_a_candidate_and_never_wire():
    verdict = judge_signal(evidence([0.2, 0.3, 0.25, 0.22, 0.31]), n_gems=3)
    assert verdict.title == "MORE TRIALS (candidate: run the wired arm)"
    assert verdict.interval[0] > 0.01
    assert verdict.provisional


def test_too_few_configurations_says_how_many():
    verdict = judge_signal(evidence([0.2] * 4), n_gems=3)
    assert (verdict.label, verdict.grade, verdict.needed, verdict.n) == ("MORE TRIALS", "too few", 5, 4)


def test_an_undecided_gem_says_what_more_would_do():
    verdict = judge_signal(evidence([0.002, 0.05, 0.01, 0.1, 0.004]), n_gems=3)
    assert (verdict.label, verdict.grade) == ("MORE TRIALS", "undecided")
    assert verdict.interval[0] < 0.01 < verdict.interval[1]
    assert verdict.needed is None or verdict.needed > 5


def test_members_of_a_configuration_are_one_unit():
    many = judge_signal(evidence([0.2] * 4, members=50), n_gems=1)
    assert many.n == 4


def test_size_is_the_median_of_the_last_epochs_and_a_geometric_mean_of_members():
    rows = evidence([0.1], members=2, epochs=8)
    rows.loc[rows["epoch"] <= 3, "size"] = 50.0  # before the last five epochs
    rows.loc[rows["epoch"] == 8, "size"] = 50.0  # one outlier in five
    rows.loc[rows["seed"] == 1, "size"] = 0.001
    units, _ = unit_sizes(rows, RULES)
    assert units["log10_size"].iloc[0] == pytest.approx(-2.0)


def test_the_untrained_network_is_no_late_epoch():
    """A run of two epochs has epoch 0 among its last five; no gradient was measured there, and none is missing."""
    rows = evidence([0.2] * 5, epochs=2)
    untrained = rows[rows["epoch"] == 1].assign(epoch=0, remaining=2, size=np.nan, value=np.nan)
    units, absent = unit_sizes(pd.concat([untrained, rows], ignore_index=True), RULES)
    assert absent == ()
    assert list(units["members"]) == [4] * 5


def test_the_prefix_in_launch_order_stops_at_the_first_that_is_not_final():
    rows = evidence(list(draw(-1.0, 9)))
    rows = rows.sample(frac=1.0, random_state=1)  # completion order does not matter
    assert judge_signal(rows).looks[-1].n == 8
    rows.loc[rows["launch"] == 5, "final"] = False
    assert judge_signal(rows).looks[-1].n == 5
    rows.loc[rows["launch"] == 2, "final"] = False
    assert judge_signal(rows).grade == "too few"


def test_the_first_crossing_decides_whatever_comes_later():
    sizes = [0.2, 0.3, 0.25, 0.22, 0.31, 1e-12, 1e-12, 1e-12]
    verdict = judge_signal(evidence(sizes))
    assert [look.finding for look in verdict.looks] == ["candidate", "undecided"]
    assert (verdict.grade, verdict.n) == ("candidate", 5)


def test_packs_that_failed_are_absent_and_listed_and_not_counted_as_zero():
    rows = evidence([0.2, 0.2, 0.25, 0.22, 0.31, 0.3])
    rows.loc[rows["launch"] == 1, ["absent", "size"]] = ["pack", np.nan]
    verdict = judge_signal(rows)
    assert verdict.absent == ("c1: pack",)
    assert (verdict.grade, verdict.n) == ("candidate", 5)


def test_frozen_members_leave_the_rest_of_their_configuration():
    rows = evidence([0.2] * 5)
    rows.loc[(rows["launch"] == 0) & (rows["seed"] == 0), ["status", "size"]] = ["frozen", np.nan]
    units, absent = unit_sizes(rows, RULES)
    assert list(units["members"]) == [3, 4, 4, 4, 4]
    assert absent == ()


def test_a_gem_that_is_off_is_not_measured():
    verdict = judge_signal(evidence([np.nan] * 5).assign(mode="off", value=np.nan))
    assert (verdict.label, verdict.grade) == ("MORE TRIALS", "not measured")
    assert "off, or its records" in verdict.reason


@pytest.mark.parametrize(("columns", "what"), [(["value", "size"], "value"), (["size"], "size")])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_gem_that_gives_no_number_in_healthy_members_is_told_from_one_that_is_off(columns, what, number):
    rows = evidence([0.2] * 5)
    rows[columns] = number
    assert f"its {what} is not finite in 4 of 4 healthy members" in judge_signal(rows).reason
    some = evidence([0.2] * 5)
    some.loc[(some["launch"] == 1) & (some["seed"] == 2), columns] = number
    verdict = judge_signal(some)
    assert verdict.n == 5
    assert verdict.absent == (f"c1: its {what} is not finite in 1 of 4 healthy members",)


def test_more_gems_and_looks_widen_the_interval():
    sizes = np.log10(draw(-1.5, 12))
    one, six = replay(sizes, RULES, 1), replay(sizes, RULES, 6)
    assert all(a.high < b.high and a.low > b.low for a, b in zip(one, six, strict=True))
    assert [look.n for look in one] == [5, 8, 12]


def test_needed_units_follow_the_distance_from_the_limit():
    near, far = np.log10(draw(-1.9, 5, seed=4)), np.log10(draw(-1.9, 5, seed=4)) + 0.5
    assert needed_units(far, RULES, 3) < (needed_units(near, RULES, 3) or 1000)


def test_rules_have_a_hash_and_survive_the_plan():
    assert VerdictRules.from_dict(RULES.to_dict()) == RULES
    assert VerdictRules(alpha=0.1).hash != RULES.hash
    assert len(RULES.hash) == 12
    with pytest.raises(ValueError, match="alfa"):
        VerdictRules.from_dict({"alfa": 0.1})


def test_error_rates_by_simulation():
    """Two and a half times the limit, 0.4 decades between configurations: rarely deleted. At the limit: neither claim
    more often than its level. Far from it: always decided."""
    rng = np.random.default_rng(11)

    def findings(log10_size, sweeps):
        decided = []
        for _ in range(sweeps):
            looks = replay(rng.normal(log10_size, 0.4, 40), RULES, 3)
            decided.append(next((look.finding for look in looks if look.finding != "undecided"), "undecided"))
        return {name: decided.count(name) / sweeps for name in ("zero", "candidate", "undecided")}

    assert findings(-1.6, 150)["zero"] == 0.0
    at_limit = findings(-2.0, 600)
    assert at_limit["zero"] <= 0.05
    assert at_limit["candidate"] <= 0.05
    assert findings(-0.7, 50)["candidate"] == 1.0
    assert findings(-3.5, 50)["zero"] == 1.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("verdict") / "made-up"
    write_experiment(path, specs(configs=5, seeds=2))
    return path


def test_a_whole_experiment_from_its_files(folder):
    experiment = analysis.load(folder)
    found = {verdict.gem: verdict for verdict in analysis.verdicts(experiment)}
    assert found["g10_temporal"].title == "DELETE (zero)"
    assert found["g6_branch_indep"].grade == "candidate"
    assert found["g6_branch_indep"].slices["trunk"] == pytest.approx(0.5 * found["g6_branch_indep"].estimate, rel=0.1)
    assert "predictive" not in found["g6_branch_indep"].slices
    assert experiment.purity.state == "pure"
    untested = {result.feature: result.untested for result in found["g6_branch_indep"].redundancy}
    assert untested["noisy_nets"] == "the feature is not recorded"
    assert untested["spectral_norm"] == ""


def test_an_impure_instrument_invalidates_every_gem(tmp_path):
    trials = specs(configs=1, seeds=2)
    write_plan(tmp_path, plan_of(trials))
    write_timeline(tmp_path, TIMELINE)
    write_trial(tmp_path, trials[0], impure=True)
    experiment = analysis.load(tmp_path)
    assert experiment.purity.state == "impure"
    assert "epoch 3" in experiment.purity.reason
    assert {verdict.label for verdict in analysis.verdicts(experiment)} == {"INVALID"}


def test_without_an_off_arm_purity_is_not_recorded(tmp_path):
    write_experiment(tmp_path, specs(configs=1, off=False))
    assert analysis.load(tmp_path).purity.state == "not recorded"


def test_rules_of_the_plan_decide(folder):
    strict = {"rules": VerdictRules(zero_limit=0.9).to_dict()}
    write_plan(folder, plan_of(specs(configs=5, seeds=2), verdict=strict), replace=True)
    experiment = analysis.load(folder)
    assert {verdict.title for verdict in analysis.verdicts(experiment)} == {"DELETE (zero)"}
    assert len({verdict.grade for verdict in analysis.verdicts(experiment, VerdictRules())}) == 2


def test_an_unknown_gem_is_named(tmp_path):
    write_experiment(tmp_path, specs(configs=1, off=False))
    with pytest.raises(KeyError, match="g7"):
        signals(analysis.load(tmp_path), "g7")

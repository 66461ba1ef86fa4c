import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_experiment import SHIFT, SPANS, TIMELINE, plan_of, specs, write_experiment, write_trial

import analysis
from analysis.frames import gradients_frame, structural_columns
from analysis.health import health_lines
from trainer.record import RecordError, write_plan, write_timeline
from trainer.sharpe import FLOOR, sharpe


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "made-up"
    write_experiment(folder)
    return analysis.load(folder)


def test_one_row_per_trial_member_and_epoch(finished):
    assert finished.problems == ()
    assert list(finished.trials["launch"]) == [0, 1, 2, 3, 4]
    assert (finished.trials["status"] == "done").all()
    assert finished.trials["config/learning_rate"].is_unique
    assert finished.trials["config/network.trunk"].iloc[0] == (64, 64)
    assert len(finished.members) == 5 * 6 + 6
    assert len(finished.epochs) == 7 * len(finished.members)
    assert not finished.members.duplicated(["trial", "arm", "seed", "fold"]).any()
    assert finished.name == "made-up"
    assert finished.label == "smoke, not evidence"
    assert finished.gems == ["g6_branch_indep", "g10_temporal", "g12_predictive"]


def test_the_made_up_records_have_no_column_that_real_ones_lack(finished):
    """What is read here is what the records page lists, and a test of the trainer holds that to a real trial."""
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text().split("## Columns of a part")[1]
    names = re.findall(r"^\| `([^`]+)` \|", page.split("\n## ")[0], re.MULTILINE)
    known = re.compile("|".join(re.sub("<[a-z]+>", "[a-z0-9_:/]+", name) for name in names))
    added = {"remaining", "scored"}  # by the loader
    assert [name for name in finished.epochs.columns if not known.fullmatch(name) and name not in added] == []


def test_score_concatenates_folds_and_averages_the_last_epochs(finished):
    run = finished.scores.iloc[1]
    windows = finished.windows
    own = windows[(windows["config"] == run["config"]) & (windows["arm"] == "base") & (windows["seed"] == run["seed"])]
    judged = own[own["span"] == "judge"]
    by_hand = [
        sharpe(rows.sort_values("timestamp")["return"], periods_per_year=252.0).value
        for epoch, rows in judged.groupby("epoch")
        if epoch > 4
    ]
    assert len(by_hand) == run["epochs"] == 2
    assert run["sharpe"] == pytest.approx(np.mean(by_hand), rel=1e-12)
    assert run["bars"] == 2 * (SPANS["judge"][1] - SPANS["judge"][0] - 1)


def test_windows_are_dated_from_the_bar_after_the_span_begins(finished):
    windows = finished.windows
    judged = windows[(windows["span"] == "judge") & (windows["fold"] == 1) & (windows["epoch"] == 6)]
    first = judged.groupby(["trial", "arm", "seed"], observed=True)["timestamp"].min().unique()
    assert list(first) == [TIMELINE[SPANS["judge"][0] + SHIFT + 1]]
    assert set(windows["span"]) == {"train", "validation", "judge"}
    assert str(windows["timestamp"].dt.tz) == "UTC"


def test_trials_summarise_their_base_seeds(finished):
    first = finished.trials.iloc[0]
    own = finished.scores[(finished.scores["config"] == first["config"]) & (finished.scores["arm"] == "base")]["sharpe"]
    assert first["seeds"] == 3
    assert first["sharpe"] == pytest.approx(own.mean())
    assert first["sharpe_var"] == pytest.approx(own.var(ddof=1))
    assert (first["sharpe_lo"], first["sharpe_hi"]) == (own.min(), own.max())


def test_gradients_tell_three_kinds_of_zero(finished):
    gradients = finished.gradients
    kinds = gradients.groupby(["component", "slice"])["zero"].agg(set)
    assert kinds["c51", "predictive"] == {"structural"}
    assert kinds["pred", "trunk"] == {"value", "unmeasured"}  # nothing is measured at epoch 0
    trunk = gradients[(gradients["component"] == "pred") & (gradients["slice"] == "trunk")]
    assert trunk.loc[trunk["zero"] == "value", "norm"].between(0.5, 2.0).all()


def test_a_zero_behind_a_closed_gate_is_gated_by_name(finished):
    epochs = finished.epochs.copy()
    rows = epochs["epoch"].isin([2, 3]) & (epochs["arm"] == "base")
    epochs["grad/cql_sx/trunk"] = epochs["grad/c51/trunk"].mask(rows, 0.0)
    epochs["signal/cql_coefficient"] = np.where(epochs["epoch"] == 3, 0.0, 0.1)
    found = gradients_frame(epochs)
    own = found[(found["component"] == "cql_sx") & (found["slice"] == "trunk") & (found["arm"] == "base")]
    by_epoch = own.groupby("epoch")[["zero", "gate"]].agg(set)
    assert by_epoch.loc[2].tolist() == [{"exact"}, {""}]
    assert by_epoch.loc[3].tolist() == [{"gated"}, {"cql_coefficient"}]
    assert set(found.loc[found["zero"] != "gated", "gate"]) == {""}


def test_an_experiment_introduces_itself_in_a_line(finished):
    form = r"Experiment\('.+': \d+ trials \(.*done\), \d+ members, \d+ runs, \d+ epoch rows\)"
    assert re.fullmatch(form, repr(finished))


def test_a_component_that_was_never_measured_is_unmeasured_and_not_structural(tmp_path):
    trials = specs(configs=1, seeds=1, off=False)
    write_plan(tmp_path, plan_of(trials))
    write_trial(tmp_path, trials[0], stop_after=0)
    experiment = analysis.load(tmp_path)
    assert set(experiment.gradients["zero"]) == {"unmeasured"}
    assert structural_columns(experiment.epochs) == set()
    assert "c51=n/a" in " ".join(health_lines(experiment))
    assert "No gradient has been measured yet" in analysis.write_report(experiment).read_text()


def test_pairs_are_empty_with_their_columns_without_a_wired_arm(finished):
    assert finished.pairs.empty
    assert {"gem", "config", "control", "treatment", "cause"} <= set(finished.pairs.columns)


def test_pairs_of_a_wired_arm(tmp_path):
    write_experiment(tmp_path, specs(configs=2, seeds=2, off=False, wired="g12_predictive"))
    experiment = analysis.load(tmp_path)
    pairs = experiment.pairs
    assert list(pairs["gem"].unique()) == ["g12_predictive"]
    assert len(pairs) == 4
    runs = experiment.scores.set_index(["config", "arm", "seed"])["sharpe"]
    row = pairs.iloc[3]
    assert row["treatment"] == runs[row["config"], "wired-g12_predictive", row["seed"]]
    assert row["control"] == runs[row["config"], "base", row["seed"]]
    assert (pairs["cause"] == "").all()


def test_a_running_experiment_has_what_is_there(tmp_path):
    trials = specs(configs=3)
    write_plan(tmp_path, plan_of(trials))
    write_timeline(tmp_path, TIMELINE)
    write_trial(tmp_path, trials[0])
    write_trial(tmp_path, trials[1], stop_after=3)
    experiment = analysis.load(tmp_path)
    assert list(experiment.trials["status"]) == ["done", "waiting", "waiting"]
    assert list(experiment.trials["epochs_recorded"]) == [6, 3, -1]
    assert np.isnan(experiment.trials["sharpe"].iloc[1])
    assert np.isnan(experiment.trials["objective"].iloc[1])
    assert set(experiment.scores.loc[experiment.scores["config"] == trials[1].config_key, "status"]) == {"unscored"}


def test_a_plan_without_any_record_loads(tmp_path):
    write_plan(tmp_path, plan_of(specs(configs=2)))
    experiment = analysis.load(tmp_path)
    assert list(experiment.trials["status"]) == ["waiting", "waiting"]
    assert experiment.epochs.empty
    assert experiment.windows.empty
    assert experiment.gradients.empty
    assert experiment.gems == []
    assert "timeline.parquet" in experiment.problems[0]


def test_a_damaged_part_costs_its_own_rows_and_is_named(tmp_path):
    trials = write_experiment(tmp_path, specs(configs=2))
    part = next((tmp_path / "trials" / trials[1].key / "epochs").glob("00003-*.parquet"))
    data = bytearray(part.read_bytes())
    data[200] ^= 1
    part.write_bytes(data)
    experiment = analysis.load(tmp_path)
    assert any(part.name in problem for problem in experiment.problems)
    rows = experiment.epochs.groupby("trial")["epoch"].agg(set)
    assert rows[trials[0].key] == set(range(7))
    assert rows[trials[1].key] == set(range(7)) - {3}
    assert experiment.scores["sharpe"].notna().all()


def test_a_damaged_judged_epoch_leaves_the_average_of_the_rest(tmp_path):
    trials = write_experiment(tmp_path, specs(configs=1, off=False))
    whole = analysis.load(tmp_path)
    part = next((tmp_path / "trials" / trials[0].key / "epochs").glob("00005-*.parquet"))
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    experiment = analysis.load(tmp_path)
    assert list(experiment.scores["epochs"]) == [1, 1, 1]
    assert not np.allclose(experiment.scores["sharpe"], whole.scores["sharpe"])


def test_a_finished_trial_with_a_lost_part_keeps_the_rest(tmp_path):
    trials = write_experiment(tmp_path, specs(configs=1, off=False))
    whole = analysis.load(tmp_path)
    next((tmp_path / "trials" / trials[0].key / "epochs").glob("00002-*.parquet")).unlink()
    experiment = analysis.load(tmp_path)
    assert list(experiment.trials["status"]) == ["damaged"]
    assert any("[2]" in problem for problem in experiment.problems)
    assert list(experiment.scores["sharpe"]) == list(whole.scores["sharpe"])
    assert analysis.signals(experiment, "g10_temporal")["final"].all()


def test_a_damaged_plan_is_replaced_by_the_trials_own_records(tmp_path):
    trials = write_experiment(tmp_path, specs(configs=2))
    (tmp_path / "plan.json").write_text("{")
    experiment = analysis.load(tmp_path)
    assert list(experiment.trials["trial"]) == [spec.key for spec in trials]
    assert "plan.json" in experiment.problems[0]


def test_frozen_members_score_the_floor_and_failed_packs_are_absent(tmp_path):
    trials = specs(configs=2, off=False)
    write_plan(tmp_path, plan_of(trials))
    write_timeline(tmp_path, TIMELINE)
    write_trial(tmp_path, trials[0], frozen=[(1, 0)])
    write_trial(tmp_path, trials[1], stop_after=3, fail="pack")
    experiment = analysis.load(tmp_path)
    runs = experiment.scores.set_index(["config", "seed"])
    assert runs.loc[(trials[0].config_key, 1), "sharpe"] == FLOOR
    assert runs.loc[(trials[0].config_key, 1), "status"] == "frozen"
    assert runs.loc[(trials[0].config_key, 0), "sharpe"] > FLOOR
    assert runs.loc[trials[1].config_key, "sharpe"].isna().all()
    assert list(experiment.trials["cause"]) == ["", "pack"]
    members = experiment.members.set_index(["config", "seed", "fold"])
    one = members.loc[(trials[0].config_key, 1, 0)]
    assert one["judge_sharpe"] == one["validation_sharpe"] == FLOOR
    assert one["validation_status"] == "frozen"
    assert (members.loc[trials[0].config_key, "judge_sharpe"] == FLOOR).sum() == 1
    assert experiment.trials["frozen"].iloc[0] == 1


def test_one_run_a_trial_gives_the_same_scores(tmp_path):
    packed, single = specs(configs=1, seeds=2, off=False)[0], []
    for launch, member in enumerate(packed.members):
        key = f"{packed.config_key}-b0-{member.arm}-s{member.seed}-f{member.fold}"
        single.append(packed.model_copy(update={"key": key, "members": (member,), "launch": launch}))
    write_experiment(tmp_path, single)
    scores = analysis.load(tmp_path).scores
    assert len(scores) == 2
    assert list(scores["folds"]) == [2, 2]
    assert scores["sharpe"].notna().all()


def test_a_folder_that_is_no_experiment_is_refused_by_name(tmp_path):
    with pytest.raises(RecordError, match=str(tmp_path)):
        analysis.load(tmp_path)


def test_frames_are_natural_in_pandas(finished):
    best = finished.epochs.groupby(["config", "seed"])["eval/validation/sharpe"].max().groupby("config").var()
    assert isinstance(best, pd.Series)
    assert best.notna().all()


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paired")
    write_experiment(folder, specs(configs=2, seeds=2, off=False, wired="g6_branch_indep"))
    return analysis.load(folder)


@pytest.mark.parametrize("frame", ["trials", "members", "scores", "windows", "gradients", "pairs"])
def test_every_column_of_a_frame_is_described_and_no_other(finished, paired, frame):
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text()
    section = page.split(f"\n### {frame}\n")[1].split("\n### ")[0].split("\n`epochs` holds")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    described = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)} - {"config/<key>"}
    columns = getattr(paired if frame == "pairs" else finished, frame).columns
    assert described == {re.sub(r"fold\d+$", "fold<k>", name) for name in columns if not name.startswith("config/")}

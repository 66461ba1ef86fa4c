"""The text of a commit: subject and body within 72 characters, what was measured, decided and pending."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_experiment import plan_of, specs, write_experiment, write_trial

import analysis
from analysis.commit_message import commit_message
from analysis.judge import verdicts
from trainer.record import write_plan


def sections(text):
    """Title -> lines of the section, each with its continuation lines joined."""
    found, title = {}, ""
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            title = line[:-1]
            found[title] = []
        elif line.startswith("- "):
            found[title].append(line[2:])
        elif line.startswith("  "):
            found[title][-1] += f" {line.strip()}"
        else:
            title = title if line else ""
    return found


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commit") / "measured"
    write_experiment(folder, specs(configs=8, seeds=2), name="measured", label="")
    return analysis.load(folder)


def test_a_subject_a_blank_line_and_no_line_above_72(experiment):
    text = commit_message(experiment)
    subject, blank, *body = text.splitlines()
    assert subject == "Delete g10_temporal; more trials for g6_branch_indep, g12_predictive"
    assert blank == ""
    assert max(map(len, text.splitlines())) <= 72
    assert text.endswith(".\n")
    assert "\u00a0" not in text
    assert not any(line != line.rstrip() for line in body)


def test_it_tells_the_verdicts_and_their_numbers(experiment):
    found = sections(commit_message(experiment))
    by_gem = {verdict.gem: verdict for verdict in verdicts(experiment)}
    assert found["What this decides"] == ["g10_temporal: DELETE (zero): gradient is identically zero"]
    assert any(
        f"at the look at {by_gem['g6_branch_indep'].n}" in line for line in found["Gem gradients, share of |c51_bs|"]
    )
    pending = " ".join(found["Pending"])
    assert "g6_branch_indep: MORE TRIALS (candidate: run the wired arm)" in pending
    assert "delete the code of g10_temporal" in pending
    assert found["Runs"][0] == "8 trials: 8 done"
    assert any(line.startswith("judge Sharpe +") and "(16 runs: " in line for line in found["Runs"])
    assert any("best Sharpe variance" in line and "never judged" in line for line in found["Runs"])
    assert any(line.startswith("grad_trunk at the last epoch") and " iqn=" in line for line in found["Runs"])


def test_what_ran_and_where_it_comes_from(experiment):
    text = " ".join(commit_message(experiment).split())
    assert "in experiment measured: 8 configurations x 2 seeds x 2 folds, 6 epochs, on AAA, BBB" in text
    assert "are forward-only: measured, never applied." in text
    assert f"Experiment measured, rules {analysis.VerdictRules().hash}, bars sha256 000000000000." in text


def test_before_the_first_look_nothing_is_decided(tmp_path):
    write_experiment(tmp_path, specs(configs=2), name="small")
    found = sections(commit_message(analysis.load(tmp_path)))
    assert found["What this decides"] == ["nothing yet"]
    assert "before the first look" in found["Gem gradients, share of |c51_bs|"][0]
    assert "this is labelled: smoke, not evidence" in found["Pending"]


def test_failures_and_unfinished_trials_are_pending(tmp_path):
    trials = specs(configs=6)
    write_plan(tmp_path, plan_of(trials, name="partly"))
    write_trial(tmp_path, trials[0])
    for spec in trials[1:5]:
        write_trial(tmp_path, spec, fail="pack", stop_after=2)
    pending = sections(commit_message(analysis.load(tmp_path)))["Pending"]
    assert "1 trial not finished" in pending
    assert sum(line.startswith("failed: ") for line in pending) == 3
    assert "1 more failed trials" in pending
    assert any(line.startswith("damaged: ") for line in pending)  # no timeline was written


def test_a_plan_without_a_run(tmp_path):
    write_plan(tmp_path, plan_of(specs(), name="planned"))
    text = commit_message(analysis.load(tmp_path))
    assert text.splitlines()[0] == "Gems after 0 scored configurations: none measured"
    assert "- 5 trials not finished" in text


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.from_regex(r"[a-z][a-z0-9_]{0,90}", fullmatch=True), label=st.text(max_size=200))
def test_long_names_and_odd_labels_stay_within_the_lines(tmp_path_factory, name, label):
    folder = tmp_path_factory.mktemp("odd")
    gems = {name: 0.2}
    write_experiment(folder, specs(configs=1, seeds=1, folds=1, epochs=2, gems=gems, off=False), gems, label=label)
    text = commit_message(analysis.load(folder))
    lines = text.split("\n")
    assert max(map(len, lines)) <= 72
    assert all(line.isprintable() for line in lines)
    assert lines[0]
    assert lines[1] == ""

"""Five smokes on made-up records: what passes, what fails, which limit decides, and how old and new failures differ."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.purity import Purity
from analysis.smokes import APPLIED, PRESENT, QUESTIONS, SLICES, SMOKES, Finding, findings, outcome
from trainer.config import BUILTIN_GEMS
from trainer.record import RecordError

EPOCHS = 6
NORMS = {
    "iqn": {"trunk": 0.2, "iqn": 0.1},
    "ens": {"trunk": 0.02, "ensemble": 0.05},
    "distill": dict.fromkeys(SLICES, 0.01),
    "rec": {"trunk": 0.03, "reconstruction": 0.04},
    "pred": {"trunk": 0.5, "predictive": 0.5},
} | {name: dict.fromkeys(SLICES[:4], 0.1) for name in ("c51", "cql", "cql_sx", "c51_bs")}


def member(seed):
    """Epochs 0..6 of a healthy member: IQN opens in the third epoch, health falls in the second and fourth."""
    epochs = np.arange(EPOCHS + 1)
    readiness = np.clip((epochs - 1) / 2, 0, 1)
    columns = {"trial": "t", "config": "c", "arm": "base", "seed": seed, "fold": 0, "epoch": epochs, "status": "ok"}
    columns |= {
        "updates": 60 * epochs,
        "watchdog": "",
        "remaining": EPOCHS - epochs,
        "signal/iqn_readiness": readiness,
    }
    columns |= {"feature/iqn/on": True, "feature/ensemble_kl/on": True, "entropy/magnitude": 0.4, "act/third": 0.2}
    columns |= {"act/two_thirds": 0.3, "act/full": 0.5, "eval/train/log_wealth": epochs * 0.1}
    for component in (*APPLIED, "c51", *PRESENT):
        for part in SLICES:
            norm = NORMS[component].get(part, np.nan)
            columns[f"grad/{component}/{part}"] = np.where(epochs > 0, norm, np.nan)
    for gem in BUILTIN_GEMS:
        columns |= {f"gem/{gem}/value": np.where(epochs > 0, 0.3, np.nan), f"gem/{gem}/mode": "probe"}
        columns[f"gem/{gem}/size"] = columns[f"gem/{gem}/value"]
    health = np.array([1.0, 1.0, 0.4, 1.0, 0.3, 1.0, 1.0])
    asked = np.append(0.0, 0.1 * np.clip((0.5 - health[:-1]) / 0.5, 0, 1))
    columns |= {"signal/learning_health": health, "signal/distill_alpha": asked, "signal/distill_alpha_max": 0.1}
    columns |= {"signal/distill_health_on": 0.5, "signal/distill_armed": (epochs > 0) * 1.0}
    columns |= {"counter/snapshots_accepted": epochs, "purity/params_sha": "x"}
    columns["grad/iqn/trunk"] = np.where(readiness == 0, 0.0 * columns["grad/iqn/trunk"], columns["grad/iqn/trunk"])
    columns["grad/applied"] = np.where(epochs > 0, 0.4, np.nan)
    return pd.DataFrame(columns)


def experiment(change=None):
    """Two such members, with `change(epochs)` made to their records."""
    epochs = pd.concat([member(0), member(1)], ignore_index=True)
    if change:
        change(epochs)
    members = pd.DataFrame({"arm": "base", "seed": [0, 1], "status": "ok", "train_log_wealth": [0.6, 0.5]})
    members["train_log_wealth_untrained"] = 0.1
    pure = Purity("pure", 14, "off arm equals base arm bit for bit")
    return SimpleNamespace(path="made-up", epochs=epochs, members=members, purity=pure)


def setting(column, value, where=None):
    """A change of records: `value` in `column`, in the rows that `where` chooses."""

    def change(epochs):
        rows = epochs["epoch"] > 0 if where is None else where(epochs)
        epochs.loc[rows, column] = value

    return change


def test_healthy_records_pass_all_five():
    found = findings(experiment())
    assert list(found) == [
        "magnitude_distribution", "gradient_decomposition", "gem_signals", "collapse_recovery", "learning",
    ]  # fmt: skip
    assert {name: finding.message for name, finding in found.items() if not finding.ok} == {}


PLANTED = [
    ("magnitude_distribution", setting("entropy/magnitude", 0.04), "one size everywhere"),
    ("magnitude_distribution", setting("act/two_thirds", 0.009), "two_thirds hardly used"),
    ("gradient_decomposition", setting("grad/iqn/trunk", 0.1), "iqn reaches the trunk before its ramp"),
    ("gradient_decomposition", setting("grad/iqn/trunk", 0.0), "iqn is 0 on the trunk after its ramp"),
    ("gradient_decomposition", setting("signal/iqn_readiness", 0.0), "the ramp of iqn never opened"),
    ("gradient_decomposition", setting("grad/ens/trunk", 0.0), "ens is 0 on the trunk"),
    ("gradient_decomposition", setting("grad/c51/trunk", 0.0), "c51 does not reach the trunk"),
    ("gradient_decomposition", setting("grad/iqn/direction", 0.0), "iqn is not structural in the branches"),
    ("gradient_decomposition", setting("grad/ens/magnitude", 1.0), "ens is not structural in the branches"),
    ("gradient_decomposition", setting("grad/distill/trunk", np.nan), "distill is not measured on the trunk"),
    ("gradient_decomposition", setting("grad/applied", 5.0), "outside what its components can sum to"),
    ("gradient_decomposition", setting("grad/c51_bs/trunk", 9.0), "outside what its components can sum to"),
    ("gem_signals", setting("gem/g10_temporal/value", 0.0), "g10_temporal is 0 or not finite"),
    ("gem_signals", setting("gem/g12_predictive/size", np.nan), "g12_predictive is 0 or not finite"),
    ("gem_signals", setting("gem/g6_branch_indep/mode", "off"), "g6_branch_indep is 0 or not finite"),
    ("collapse_recovery", setting("signal/distill_alpha", 0.0), "answered in 0 of 4 epochs"),
    ("collapse_recovery", setting("grad/distill/trunk", 0.0), "answered in 0 of 4 epochs"),
    ("collapse_recovery", setting("signal/distill_alpha", 0.01), "alpha is not 0 where health is not low"),
    ("collapse_recovery", setting("counter/snapshots_accepted", 0), "a member accepted no snapshot"),
    ("collapse_recovery", setting("watchdog", "INERT distill"), "watchdog: INERT distill"),
    ("collapse_recovery", setting("signal/distill_alpha_max", 0.0, lambda rows: rows["epoch"] >= 0), "that distils"),
]


@pytest.mark.parametrize(("name", "change", "message"), PLANTED)
def test_a_planted_fault_fails_its_smoke(name, change, message):
    found = SMOKES[name](experiment(change))
    assert not found.ok
    assert message in found.message


def test_the_fault_of_one_smoke_leaves_the_others_alone():
    found = findings(experiment(setting("entropy/magnitude", 0.0)))
    assert [name for name, finding in found.items() if not finding.ok] == ["magnitude_distribution"]


def test_an_impure_probe_fails_the_gems():
    made_up = experiment()
    made_up.purity = Purity("impure", 14, "parameters of base and off arm differ")
    found = SMOKES["gem_signals"](made_up)
    assert not found.ok
    assert "parameters of base and off arm differ" in found.message


@pytest.mark.parametrize(
    ("after", "frozen", "share", "ok"),
    [([0.6, 0.2], 0, 1.0, True), ([0.6, 0.1], 0, 0.5, False), ([0.6, 0.2], 1, 0.5, False)],
)
def test_learning_counts_members_that_gained_and_a_frozen_one_has_not(after, frozen, share, ok):
    made_up = experiment()
    made_up.members["train_log_wealth"] = after
    made_up.members.loc[: frozen - 1, "status"] = "frozen" if frozen else "ok"
    found = SMOKES["learning"](made_up)
    assert (found.figure, found.ok) == (share, ok)


def test_a_wired_gem_is_left_out_of_the_sum():
    def change(epochs):
        epochs["gem/g12_predictive/mode"] = "wired"
        epochs["grad/applied"] = 5.0  # more than the recorded parts without the gem

    assert SMOKES["gradient_decomposition"](experiment(change)).ok


def test_health_that_never_falls_is_said():
    def change(epochs):
        epochs["signal/learning_health"], epochs["signal/distill_alpha"] = 1.0, 0.0

    found = SMOKES["collapse_recovery"](experiment(change))
    assert found.ok
    assert "health was never low" in found.message


@pytest.mark.parametrize("name", list(SMOKES))
def test_an_experiment_without_records_of_healthy_members_fails(name):
    made_up = experiment(setting("status", "frozen", lambda rows: rows["epoch"] >= 0))
    made_up.members["status"] = "frozen"
    assert not SMOKES[name](made_up).ok


def test_other_arms_do_not_count():
    made_up = experiment()
    wired = made_up.epochs.assign(arm="wired", watchdog="INERT distill")
    made_up.epochs = pd.concat([made_up.epochs, wired], ignore_index=True)
    assert SMOKES["collapse_recovery"](made_up).ok


def test_absent_columns_are_named_in_one_line():
    made_up = experiment()
    made_up.epochs = made_up.epochs.drop(columns=["watchdog", "grad/distill/trunk"])
    with pytest.raises(RecordError, match=r"made-up: its records lack grad/distill/trunk, watchdog; ") as refused:
        SMOKES["collapse_recovery"](made_up)
    assert "\n" not in str(refused.value)


GOOD, BAD = Finding(True, 1.0, 0.0, ""), Finding(False, 0.0, 0.0, "")


@pytest.mark.parametrize(
    ("now", "before", "word"),
    [
        (GOOD, None, "ok"),
        (BAD, None, "failure"),
        (GOOD, GOOD, "ok"),
        (BAD, GOOD, "NEW failure"),
        (BAD, BAD, "old failure"),
        (GOOD, BAD, "fixed"),
    ],
)
def test_old_and_new_failures_differ(now, before, word):
    assert outcome(now, before) == word


def test_every_smoke_says_what_it_asks_and_which_way_its_limit_runs():
    assert list(QUESTIONS) == list(SMOKES)
    assert {sense for _, sense in QUESTIONS.values()} <= {"at least", "at most", "above"}

"""Five named smokes: is what the trainer promises still to be seen in an experiment's records?

A smoke is a pure function of loaded records, so it says about a run of today and about one of last month the same thing
in the same words, and a failure can be told from one that was there before. Only the base arm's healthy members count,
except that a frozen member has not learned. None of them says that a strategy earns anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from analysis.frames import MEMBER
from analysis.load import Experiment
from analysis.text import percent
from trainer.config import BUILTIN_GEMS
from trainer.record import RecordError

SIZES = ("third", "two_thirds", "full")
SLICES = ("trunk", "value", "direction", "magnitude", "iqn", "ensemble", "predictive", "reconstruction", "noise")
APPLIED = ("iqn", "ens", "distill", "rec", "cql_sx", "c51_bs")  # each with its weight in its norm
PRESENT = ("cql", "cql_sx", "distill", "rec", "pred")
COLLAPSED = 0.05  # entropy as a share of log 3 when one size is greedy in more than 99 % of the probe states
RAREST = 0.01  # share of the bars with a position that the rarest size must keep
LEARNED = 0.5  # share of members that must be exceeded
ROUNDING = 1e-4  # relative, of norms that are sums of float32


@dataclass(frozen=True)
class Finding:
    """`figure` is what was measured and `limit` what it is held against; the message says both in words."""

    ok: bool
    figure: float
    limit: float
    message: str


def magnitude_distribution(experiment: Experiment) -> Finding:
    """All three position sizes are in use: the magnitude branch has not collapsed to one.

    figure: mean entropy of the greedy size on the probe states, as a share of log 3, over members and the second half
    of the epochs; limit 0.05. A member flips between sizes from epoch to epoch and one alone says little. Besides, each
    size has 1 % of the bars with a position on the validation walks, over members and all epochs of training. Where one
    size is right on all bars this fails and is no fault.
    """
    _need(experiment, ["entropy/magnitude", *(f"act/{size}" for size in SIZES)])
    rows = _measured(experiment)
    late = rows[rows["remaining"] < rows["epoch"]]
    if late.empty:
        return _nothing(COLLAPSED)
    entropy = float(late["entropy/magnitude"].mean())
    shares = rows[[f"act/{size}" for size in SIZES]].mean()
    rarest = SIZES[int(shares.to_numpy().argmin())]
    used = ", ".join(f"{size} {percent(share)}" for size, share in zip(SIZES, shares, strict=True))
    ok = entropy >= COLLAPSED and shares.min() >= RAREST
    why = "" if ok else f"; collapsed: {'one size everywhere' if entropy < COLLAPSED else f'{rarest} hardly used'}"
    return Finding(bool(ok), entropy, COLLAPSED, f"entropy of the greedy size {entropy:.3f}; {used}{why}")


def gradient_decomposition(experiment: Experiment) -> Finding:
    """What the decomposition of the gradient must show. figure: number of statements that are wrong; limit 0."""
    names = [f"grad/{c}/{part}" for c in (*APPLIED, "c51", *PRESENT) for part in SLICES]
    gates = ["signal/iqn_readiness", "feature/iqn/on", "feature/ensemble_kl/on"]
    _need(experiment, [*names, *gates, "grad/applied", "updates"])
    rows = _measured(experiment)
    if rows.empty:
        return _nothing(0.0)
    wrong = [text for right, text in _statements(rows) if not right]
    last = rows[rows["epoch"] == rows["epoch"].max()]
    shown = ", ".join(f"{name} {last[f'grad/{name}/trunk'].median():.2e}" for name in ("iqn", "ens", "c51"))
    message = "; ".join(wrong) or f"closed before the ramp of iqn; trunk norms at the end: {shown}"
    return Finding(not wrong, float(len(wrong)), 0.0, message)


def _statements(rows: pd.DataFrame) -> Iterator[tuple[bool, str]]:
    """Acceptance of the older trainer's trunk diagnostic: (is it so, what is wrong when it is not)."""
    before = rows.groupby(MEMBER, sort=False)["signal/iqn_readiness"].shift(1)  # of the epoch before: it only rises
    iqn, ensemble = rows["feature/iqn/on"].astype(bool), rows["feature/ensemble_kl/on"].astype(bool)
    gated, opened = iqn & rows["signal/iqn_readiness"].eq(0), iqn & before.gt(0)
    yield bool(rows.loc[gated, "grad/iqn/trunk"].eq(0).all()), "iqn reaches the trunk before its ramp"
    yield bool(opened.any()), "the ramp of iqn never opened"
    yield bool(rows.loc[opened, "grad/iqn/trunk"].gt(0).all()), "iqn is 0 on the trunk after its ramp opened"
    yield bool(ensemble.any() and rows.loc[ensemble, "grad/ens/trunk"].gt(0).all()), "ens is 0 on the trunk"
    yield bool(rows["grad/c51/trunk"].gt(0).all()), "c51 does not reach the trunk"
    for name in ("iqn", "ens"):
        branches = rows[[f"grad/{name}/direction", f"grad/{name}/magnitude"]]
        yield bool(branches.isna().all(axis=None)), f"{name} is not structural in the branches"
    for name in PRESENT:
        yield bool(np.isfinite(rows[f"grad/{name}/trunk"]).all()), f"{name} is not measured on the trunk"
    yield _sums_up(rows), "the applied norm is outside what its components can sum to"


def _sums_up(rows: pd.DataFrame) -> bool:
    """Do the recorded means allow applied = the sum of its components? The triangle inequality from both sides.

    Rows with a wired gem are left out: its coefficient changes from update to update.
    """
    modes = [name for name in rows.columns if name.startswith("gem/") and name.endswith("/mode")]
    plain = rows[~rows[modes].eq("wired").any(axis=1)]
    norms = np.stack([plain[[f"grad/{name}/{part}" for part in SLICES]].fillna(0.0) for name in APPLIED])
    most = norms.sum(2)  # [components, rows]: a mean norm is at most the sum of its slices' means,
    least = np.sqrt(np.square(norms).sum(2))  # and at least the norm of their vector
    upper = most.sum(0)
    lower = (least + most).max(0) - upper  # one component less all the others
    applied = plain["grad/applied"].to_numpy(float)
    slack = ROUNDING * upper
    return bool(np.all((applied <= upper + slack) & (applied >= lower - slack)))


def gem_signals(experiment: Experiment) -> Finding:
    """The three built-in gems give finite values and gradients other than 0, and probing them changed no bit.

    figure: the smallest |value| or size that was recorded, which must exceed its limit of 0.
    """
    names = [f"gem/{gem}/{part}" for gem in BUILTIN_GEMS for part in ("value", "size", "mode")]
    _need(experiment, [*names, "purity/params_sha"])
    rows = _measured(experiment)
    if rows.empty:
        return _nothing(0.0)
    smallest = {gem: _smallest(rows, gem) for gem in BUILTIN_GEMS}
    silent = [gem for gem, value in smallest.items() if not value > 0]
    figure = min((0.0 if np.isnan(value) else value) for value in smallest.values())
    pure = experiment.purity
    messages = [f"{gem} is 0 or not finite somewhere" for gem in silent]
    messages += [f"probe against off: {pure.reason}"] if pure.state != "pure" else []
    good = ", ".join(f"{gem} {rows[f'gem/{gem}/value'].median():.2e}" for gem in BUILTIN_GEMS)
    message = "; ".join(messages) or f"median values: {good}; probe equals off in {pure.compared} rows"
    return Finding(not messages, figure, 0.0, message)


def _smallest(rows: pd.DataFrame, gem: str) -> float:
    """Smallest |value| or size of the gem; NaN when one is not finite or the gem is off everywhere."""
    on = rows[rows[f"gem/{gem}/mode"] != "off"]
    values = on[[f"gem/{gem}/value", f"gem/{gem}/size"]].abs().to_numpy(float)
    return float(values.min()) if values.size and np.isfinite(values).all() else float("nan")


def collapse_recovery(experiment: Experiment) -> Finding:
    """A snapshot is accepted, and from then on low health pulls: alpha follows health in the next epoch.

    figure: share of the epochs after low health in which alpha is what health asks for and reaches the trunk; limit 1.
    Besides, alpha is 0 where health is not low, the watchdog is silent, and each member accepted a snapshot.
    """
    signals = ("learning_health", "distill_alpha", "distill_alpha_max", "distill_health_on", "distill_armed")
    others = ("counter/snapshots_accepted", "watchdog", "grad/distill/trunk")
    _need(experiment, [*(f"signal/{name}" for name in signals), *others])
    rows = _base(experiment).sort_values([*MEMBER, "epoch"], kind="stable")
    rows = rows[rows["signal/distill_alpha_max"] > 0]
    if not (rows["epoch"] > 0).any():
        return _nothing(1.0, "no epoch of a healthy base member that distils is recorded")
    steps = _after(rows)
    low = steps[steps["asked"] > 0]
    answered = np.isclose(low["alpha"], low["asked"], rtol=1e-4, atol=0.0) & low["pull"].gt(0)
    share = float(answered.mean()) if len(low) else 1.0
    last = rows.groupby(MEMBER).tail(1)
    alarms = sorted({text for text in rows["watchdog"] if text})
    wrong = [] if share == 1.0 else [f"low health was answered in {answered.sum()} of {len(low)} epochs"]
    wrong += ["alpha is not 0 where health is not low"] if steps.loc[steps["asked"] == 0, "alpha"].ne(0).any() else []
    wrong += ["a member accepted no snapshot"] if last["counter/snapshots_accepted"].lt(1).any() else []
    wrong += [f"watchdog: {text}" for text in alarms]
    engaged = f"alpha > 0 in all {len(low)} epochs after low health" if len(low) else "health was never low"
    accepted = int(last["counter/snapshots_accepted"].sum())
    return Finding(not wrong, share, 1.0, "; ".join(wrong) or f"{engaged}; {accepted} snapshots accepted; no alarm")


def _after(rows: pd.DataFrame) -> pd.DataFrame:
    """Pairs of following epochs: alpha as the first asks for it, alpha and pull on the trunk as the second has them."""
    later = rows.groupby(MEMBER, sort=False)
    on, health = rows["signal/distill_health_on"], rows["signal/learning_health"]
    share = ((on - health) / on.where(on > 0)).fillna(0.0).clip(0.0, 1.0)
    steps = pd.DataFrame({"asked": rows["signal/distill_alpha_max"] * share * rows["signal/distill_armed"].gt(0)})
    steps["alpha"] = later["signal/distill_alpha"].shift(-1)
    steps["pull"] = later["grad/distill/trunk"].shift(-1)
    return steps[later["epoch"].shift(-1).eq(rows["epoch"] + 1)]


def learning(experiment: Experiment) -> Finding:
    """Members beat their own untrained network on the train span.

    figure: share of the base members whose log wealth there is larger after training; it must exceed 0.5.
    """
    _need(experiment, ["eval/train/log_wealth"])
    members = experiment.members[experiment.members["arm"] == "base"]
    gain = members["train_log_wealth"] - members["train_log_wealth_untrained"]
    frozen = members["status"].eq("frozen")
    known = gain.notna() | frozen
    if not known.any():
        return _nothing(LEARNED, "no base member has been evaluated on its train span before and after training")
    better = (gain.gt(0) & ~frozen)[known]
    message = f"{better.sum()} of {len(better)} members gained log wealth on train, median {gain[known].median():+.2f}"
    return Finding(bool(better.mean() > LEARNED), float(better.mean()), LEARNED, message)


Smoke = Callable[[Experiment], Finding]
# What each one asks, and how its figure stands to its limit.
QUESTIONS: Mapping[str, tuple[str, str]] = {
    "magnitude_distribution": ("are all three sizes in use? (entropy of the greedy size)", "at least"),
    "gradient_decomposition": ("does the decomposition add up? (wrong statements)", "at most"),
    "gem_signals": ("do the built-in gems speak, and does probing change no bit? (smallest signal)", "above"),
    "collapse_recovery": ("does low health pull towards the teacher? (share of epochs)", "at least"),
    "learning": ("do members beat their untrained selves? (share)", "above"),
}
SMOKES: Mapping[str, Smoke] = {
    "magnitude_distribution": magnitude_distribution,
    "gradient_decomposition": gradient_decomposition,
    "gem_signals": gem_signals,
    "collapse_recovery": collapse_recovery,
    "learning": learning,
}


def findings(experiment: Experiment) -> dict[str, Finding]:
    """All five on one experiment. Errors: RecordError naming the columns that it lacks."""
    return {name: smoke(experiment) for name, smoke in SMOKES.items()}


Outcome = Literal["ok", "failure", "NEW failure", "old failure", "fixed"]


def outcome(now: Finding, before: Finding | None) -> Outcome:
    """What a smoke says now, in the light of an earlier experiment."""
    if before is None:
        return "ok" if now.ok else "failure"
    if now.ok:
        return "ok" if before.ok else "fixed"
    return "NEW failure" if before.ok else "old failure"


def _base(experiment: Experiment) -> pd.DataFrame:
    """Rows of base members while they are healthy."""
    rows = experiment.epochs
    return rows[(rows["arm"] == "base") & (rows["status"] == "ok")]


def _measured(experiment: Experiment) -> pd.DataFrame:
    """The same after the first update, by member and epoch."""
    rows = _base(experiment)
    return rows[rows["epoch"] > 0].sort_values([*MEMBER, "epoch"], kind="stable")


def _nothing(limit: float, why: str = "no epoch of a healthy base member is recorded") -> Finding:
    return Finding(False, float("nan"), limit, why)


def _need(experiment: Experiment, columns: list[str]) -> None:
    absent = sorted(set(columns) - set(experiment.epochs.columns))
    if absent:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise RecordError(
            f"{experiment.path}: its records lack {', '.join(absent[:3])}{more}; they are of an older version, or "
            f"nothing is recorded yet: give an experiment that has them"
        )

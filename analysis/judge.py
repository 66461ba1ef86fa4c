"""The verdict on a gem, from frames: is its signal real, is it new, and does wiring it help?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.evidence import complete_pairs, complete_signals, effect_units, signal_units
from analysis.gate import Gate, gate_of
from analysis.load import Experiment
from analysis.market_path import path_interval
from analysis.purity import Purity
from analysis.reasons import reason_of
from analysis.redundancy import CoMovement
from analysis.replay import DELETES, Replay, replay_looks
from analysis.rules import VerdictRules, planned_rules
from analysis.signals import signals as signals_of
from analysis.signals import silent_features
from analysis.stage_one import needed_units
from analysis.stage_two import needed_pairs
from analysis.text import signed_interval
from analysis.units import NO_EFFECT, EffectUnits, SignalUnits
from analysis.verdict import NAN_PAIR, Verdict

ORDER = ("WIRE", "MORE TRIALS", "DELETE", "INVALID")  # of several doses of a gem, the first of these is told
PATH_NOTE = "all runs share one path of prices; the interval holds configurations, not that path"


def judge(
    pairs: pd.DataFrame,
    signals: pd.DataFrame,
    *,
    purity: Purity | None = None,
    rules: VerdictRules | None = None,
    n_gems: int = 1,
    gate: Gate | None = None,
) -> Verdict:
    """The verdict on the one gem in `signals`, wired at one dose in `pairs` (which may be empty).

    pairs: a row per configuration and seed: gem, trial, config, seed, launch, control and treatment (annualised Sharpe
    of the probed and the wired run; the floor for a run that failed by itself, NaN with a `cause` for a lost one),
    failed_control, failed_treatment, cause. Optional: dose, final (False: its trial still runs), difference/fold<k>
    (treatment - control of fold k alone).
    signals: a row per control member and epoch: gem, trial, config, seed, launch, epoch, size (share of |c51_bs|),
    value, and a column for each existing feature's signal (feature/<name>, or any further column of numbers) and for
    the gem's size with a feature off (off/<name>, from the same seed and epoch of the arm without it). Optional: fold,
    remaining (epochs still to come), status, final, absent (why a trial is no evidence), mode, size/<slice>.
    n_gems: gems times doses judged together, which share alpha. purity, gate: see `analysis.purity`, `analysis.gate`.

    Stateless: it replays every look of the schedule that the rows allow, in launch order, up to the first row that is
    not final. Errors: ValueError naming the column or row.
    """
    rules = rules or VerdictRules()
    rows, paired = complete_signals(signals), complete_pairs(pairs)
    _check_same(rows, paired, rules)
    units, _, absent = signal_units(rows, rules)
    effects, told, lost = effect_units(paired, rules) if len(paired) else (NO_EFFECT, (), ())
    found = replay_looks(units, effects, rules, n_gems)
    doses = paired["dose"].dropna().unique()
    verdict = Verdict(
        gem=_name(rows, paired), label=found.label, grade=found.grade, reason="", n=found.n, stage=found.stage,
        looks=tuple(f.look for f in found.signals), slices=_slices(rows, rules), effect_looks=found.effects,
        ablations=found.signals[-1].ablations if found.signals else (), redundancy=_redundancy(found, units),
        absent=(*absent, *lost), effects=told, win_rate=_win_rate(effects),
        dose=float(doses[0]) if len(doses) else np.nan,
        notes=(PATH_NOTE, *_later(found)) if found.stage == 2 else (),
    )  # fmt: skip
    verdict = _numbered(verdict, units, effects, rules, n_gems)
    if not found.signals and not len(units.log10_sizes) and absent:
        verdict = replace(verdict, grade="not measured")
    verdict = replace(verdict, reason=reason_of(verdict, found, units, rules))
    return _gated(_pure(verdict, purity), gate)


def judge_signal(
    evidence: pd.DataFrame, *, purity: Purity | None = None, rules: VerdictRules | None = None, n_gems: int = 1
) -> Verdict:
    """`judge` on the signal alone, without wired arms."""
    return judge(_no_pairs(evidence), evidence, purity=purity, rules=rules, n_gems=n_gems)


def verdicts(experiment: Experiment, rules: VerdictRules | None = None) -> list[Verdict]:
    """The verdict on every gem, by the rules of the plan unless others are given."""
    rules = rules or planned_rules(experiment.plan)
    names, pairs = experiment.gems, experiment.pairs
    doses = {gem: sorted(pairs.loc[pairs["gem"] == gem, "dose"].unique()) for gem in names}
    claims = sum(max(1, len(doses[gem])) for gem in names)
    entry = gate_of(experiment, rules.alpha) if names else None
    return [_of_gem(experiment, gem, doses[gem], rules, claims, entry) for gem in names]


def _of_gem(
    experiment: Experiment, gem: str, doses: Sequence[float], rules: VerdictRules, claims: int, entry: Gate | None
) -> Verdict:
    evidence = signals_of(experiment, gem)
    own = experiment.pairs[experiment.pairs["gem"] == gem]
    sides = [own[own["dose"] == dose] for dose in doses] or [_no_pairs(evidence)]
    found = [judge(side, evidence, purity=experiment.purity, rules=rules, n_gems=claims, gate=entry) for side in sides]
    best = min(found, key=lambda verdict: (ORDER.index(verdict.label), -np.nan_to_num(verdict.estimate)))
    others = [f"at dose {v.dose:g}: {v.title}: {v.reason}" for v in found if v is not best]
    if best.effect_looks:
        best = replace(best, path_interval=path_interval(experiment, gem, best.dose))
    best = replace(best, notes=(*best.notes, *others))
    return _with_untested(best, silent_features(experiment.epochs), experiment.may_duplicate(gem))


def _no_pairs(evidence: pd.DataFrame) -> pd.DataFrame:
    from analysis.pairs import COLUMNS

    return pd.DataFrame({name: pd.Series(dtype=float) for name in COLUMNS}).astype({"cause": str})


def _check_same(rows: pd.DataFrame, pairs: pd.DataFrame, rules: VerdictRules) -> None:
    if not len(rows):
        raise ValueError("judge: signals has no rows; it wants those of one gem")
    if len(pairs) and pairs["gem"].iloc[0] != rows["gem"].iloc[0]:
        raise ValueError(f"judge: pairs is about {pairs['gem'].iloc[0]!r} and signals about {rows['gem'].iloc[0]!r}")
    configs = set(rows["config"]) | set(pairs["config"])
    if rules.unit == "seed" and len(configs) > 1:
        raise ValueError(
            f"judge: unit = 'seed' is for one configuration, and there are {len(configs)}: effects differ between "
            f"configurations, and seeds of several taken as independent claim too often"
        )


def _name(rows: pd.DataFrame, pairs: pd.DataFrame) -> str:
    return str(rows["gem"].iloc[0])


def _numbered(verdict: Verdict, units: SignalUnits, effects: EffectUnits, rules: VerdictRules, claims: int) -> Verdict:
    """With the estimate and interval of the stage that decided, and what more would do."""
    waiting = verdict.label == "MORE TRIALS"
    if verdict.stage == 2:
        look = next(k for k in verdict.effect_looks if k.n == verdict.n)
        needed = needed_pairs(_first(effects, look.n), rules, claims) if waiting else None
        return replace(verdict, estimate=look.estimate, interval=(look.low, look.high), needed=needed)
    if not verdict.looks:
        return replace(verdict, n=len(units.log10_sizes), needed=rules.schedule[0], interval=NAN_PAIR)
    look_one = next(k for k in verdict.looks if k.n == verdict.n)
    open_ = waiting and verdict.grade == "undecided"
    needed = needed_units(units.log10_sizes[: look_one.n], rules, claims) if open_ else None
    return replace(verdict, estimate=look_one.estimate, interval=(look_one.low, look_one.high), needed=needed)


def _later(found: Replay) -> list[str]:
    """What a look after the claim says against it. The claim stands: its level covers all looks together."""
    against = [k for k in found.effects if found.label == "WIRE" and k.n > found.n and k.finding in DELETES]
    return [
        f"the first claim stands, but the look at {k.n} shows {k.finding}: {signed_interval(k.low, k.high)}"
        for k in against[-1:]
    ]


def _first(units: EffectUnits, n: int) -> EffectUnits:
    return replace(units, difference=units.difference[:n])


def _win_rate(effects: EffectUnits) -> float:
    return float(effects.gains.sum() / effects.pairs.sum()) if len(effects) else float("nan")


def _pure(verdict: Verdict, purity: Purity | None) -> Verdict:
    if purity is None or purity.state != "impure":
        return verdict
    return replace(
        verdict, label="INVALID", grade="impure", reason=f"measuring changes the training: {purity.reason}", needed=None
    )


def _gated(verdict: Verdict, gate: Gate | None) -> Verdict:
    """Nothing is concluded from an agent that has not learned; while that is open, only that more trials are needed."""
    if gate is None or gate.state in ("learned", "not tested") or verdict.label == "INVALID":
        return verdict if gate is None or gate.state != "not tested" else _ungated(verdict, gate)
    without = f"without this the verdict would be {verdict.title}: {verdict.reason}"
    if gate.state == "not learned":
        reason = f"the base agent has not learned: {gate.reason}; {without}"
        return replace(verdict, label="INVALID", grade="not learned", reason=reason, needed=None)
    if verdict.label not in ("WIRE", "DELETE"):
        return replace(verdict, notes=(*verdict.notes, f"not shown yet that the base agent has learned: {gate.reason}"))
    reason = f"not shown yet that the base agent has learned: {gate.reason}; {without}"
    return replace(verdict, label="MORE TRIALS", grade="not shown to have learned", reason=reason)


def _ungated(verdict: Verdict, gate: Gate) -> Verdict:
    return replace(verdict, notes=(*verdict.notes, f"whether the base agent has learned is not tested: {gate.reason}"))


def _slices(rows: pd.DataFrame, rules: VerdictRules) -> dict[str, float]:
    """Geometric mean size by slice over the members' last epochs; slices that the gem cannot reach are left out."""
    late = rows[(rows["remaining"] < rules.size_epochs) & (rows["status"] == "ok")]
    result = {}
    for column in (name for name in rows.columns if str(name).startswith("size/")):
        medians = late.groupby(["config", "trial", "seed", "fold"])[column].median().dropna()
        if len(medians):
            logs = np.log10(np.maximum(medians, rules.size_floor)).groupby("config").mean()
            result[column.removeprefix("size/")] = float(10.0 ** logs.mean())
    return result


def _redundancy(found: Replay, units: SignalUnits) -> tuple[CoMovement, ...]:
    """Of the look that decided, else the last one; before the first look, of everything."""
    if found.signals:
        at = next((f for f in found.signals if found.stage == 1 and f.look.n == found.n), found.signals[-1])
        return at.co_movements
    from analysis.redundancy import co_movement

    return tuple(co_movement(panel, name) for name, panel in units.panels.items())


def _with_untested(verdict: Verdict, silent: Sequence[str], suspected: Sequence[str]) -> Verdict:
    """Names the features that redundancy could not be tested against, which is not the same as none being found."""
    tested = {result.feature for result in verdict.redundancy} | {found.feature for found in verdict.ablations}
    missing = dict.fromkeys(silent, "the feature is off")
    missing |= {name: "the feature is not recorded" for name in suspected if name not in missing}
    extra = [_untested(name, verdict.n, why) for name, why in missing.items() if name not in tested]
    return replace(verdict, redundancy=(*verdict.redundancy, *extra))


def _untested(feature: str, units: int, why: str) -> CoMovement:
    return CoMovement(feature, float("nan"), float("nan"), "raw", units, why)

"""From the frames of `judge` to units: final ones in launch order, averaged to configurations, and what is absent."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from analysis.redundancy import panels
from analysis.rules import VerdictRules
from analysis.steadiness import deviation_change
from analysis.units import NO_EFFECT, EffectUnits, SignalUnits
from analysis.verdict import Effect

MEMBER = ["trial", "seed", "fold"]  # of one configuration, control arm
PAIR_COLUMNS = (
    "gem", "trial", "config", "seed", "launch", "control", "treatment", "failed_control", "failed_treatment", "cause",
)  # fmt: skip
SIGNAL_COLUMNS = ("gem", "trial", "config", "seed", "launch", "epoch", "size", "value")
PLAIN = (*SIGNAL_COLUMNS, "fold", "remaining", "status", "final", "absent", "mode")
FEATURE, WITHOUT, FOLD = "feature/", "off/", "difference/fold"
PREFIXES = ("size/", FEATURE, WITHOUT)


def check_columns(frame: pd.DataFrame, wanted: Iterable[str], what: str) -> None:
    """ValueError naming a missing column, or more than one gem."""
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise ValueError(f"judge: {what} lacks the column {missing[0]!r}; it needs {', '.join(wanted)}")
    names = frame["gem"].unique()
    if len(names) > 1:
        raise ValueError(f"judge: {what} holds the gems {sorted(names)}; it wants the rows of one")


def complete_signals(signals: pd.DataFrame) -> pd.DataFrame:
    """`signals` with every optional column: a hand-made frame is a finished one of healthy members. A plain further
    column of numbers is an existing feature."""
    check_columns(signals, SIGNAL_COLUMNS, "signals")
    frame = signals.copy()
    extra = [n for n in frame.columns if n not in PLAIN and not str(n).startswith(PREFIXES)]
    frame = frame.rename(columns={n: f"{FEATURE}{n}" for n in extra if pd.api.types.is_numeric_dtype(frame[n])})
    defaults = {"fold": 0, "status": "ok", "final": True, "absent": "", "mode": "probe"}
    for name, value in defaults.items():
        if name not in frame:
            frame[name] = value
    if "remaining" not in frame:
        frame["remaining"] = frame.groupby("trial")["epoch"].transform("max") - frame["epoch"]
    _numbers(frame, "size", "signals")
    _once(frame, ["trial", "seed", "fold", "epoch"], "signals")
    if (frame["size"] < 0.0).any():
        raise ValueError(f"judge: signals: size is negative in {_row(frame[frame['size'] < 0.0])}; it is a norm")
    return frame


def complete_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """`pairs` with every optional column, in launch order."""
    check_columns(pairs, PAIR_COLUMNS, "pairs")
    frame = pairs.copy()
    frame["final"] = frame.get("final", True)
    frame["dose"] = frame.get("dose", np.nan)
    frame["cause"] = frame["cause"].fillna("").astype(str)
    if frame["dose"].nunique() > 1:
        raise ValueError(
            f"judge: pairs holds the doses {sorted(frame['dose'].unique().tolist())}; judge each by itself"
        )
    _once(frame, ["trial", "config", "seed"], "pairs")
    for name in ("control", "treatment"):
        _scored(frame, name)
    return frame.sort_values(["launch", "seed"], kind="stable")


def _scored(pairs: pd.DataFrame, name: str) -> None:
    """Every final pair has a finite score or a cause for having none."""
    _numbers(pairs, name, "pairs")
    lost = pairs["final"].astype(bool) & pairs[name].isna() & (pairs["cause"] == "")
    for bad, what in ((lost, "missing"), (np.isinf(pairs[name]), "infinite")):
        if bad.any():
            raise ValueError(
                f"judge: pairs: {name} of {_row(pairs[bad])} is {what}; "
                f"give its score (the floor, if the run failed by itself) or say in `cause` what lost it"
            )


def _numbers(frame: pd.DataFrame, name: str, what: str) -> None:
    """NaN means none. A gem may give an infinite size: that is its fault and told apart later."""
    if not pd.api.types.is_numeric_dtype(frame[name]):
        raise ValueError(f"judge: {what}: column {name!r} must hold numbers, not {frame[name].dtype}")


def _once(frame: pd.DataFrame, key: list[str], what: str) -> None:
    again = frame[frame.duplicated(key)]
    if len(again):
        raise ValueError(f"judge: {what} holds {_row(again)} twice (same {', '.join(key)}); drop the copies")


def _row(rows: pd.DataFrame) -> str:
    return f"configuration {rows['config'].iloc[0]}, seed {rows['seed'].iloc[0]}"


def signal_units(rows: pd.DataFrame, rules: VerdictRules) -> tuple[SignalUnits, list[str], tuple[str, ...]]:
    """Units of stage 1, their names in launch order up to the first that is not final, and what is absent, with the
    reason. `rows` as `complete_signals` gives them."""
    unit = _unit(rules)
    units, absent = unit_sizes(rows, rules)
    names = list(units[unit])
    whole = rows["status"].eq("ok").groupby([rows[name] for name in MEMBER]).transform("all")  # none that froze later
    healthy = rows[whole & np.isfinite(rows["size"].astype(float)) & rows[unit].isin(names)]
    named = healthy if unit == "config" else healthy.assign(config=healthy[unit])
    features = [n for n in rows.columns if str(n).startswith(FEATURE)]
    found = {n.removeprefix(FEATURE): panels(named, names, "size", n) for n in features}
    without = {
        str(n).removeprefix(WITHOUT): _log_sizes(rows, n, names, rules)
        for n in rows.columns
        if str(n).startswith(WITHOUT)
    }
    return SignalUnits(units["log10_size"].to_numpy(float), found, without), names, absent


def unit_sizes(rows: pd.DataFrame, rules: VerdictRules) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """(config or seed, launch, log10_size, members) of the units in launch order up to the first that is not final, and
    what is absent from them, with the reason."""
    unit, found, absent = _unit(rules), [], []
    order = rows.groupby(unit)["launch"].min().sort_values(kind="stable")
    groups = dict(iter(rows.groupby(unit, sort=False)))
    for name, launch in order.items():
        own = groups[name]
        if not own["final"].all():
            break
        late = _late(own, rules)
        members = late[np.isfinite(late["size"])].groupby(MEMBER)["size"].median()
        if members.empty:
            absent.append(f"{name}: {_absence(own)}")
            continue
        if broken := _broken(late):
            absent.append(f"{name}: {broken}")
        size = float(np.log10(np.maximum(members, rules.size_floor)).mean())
        found.append((name, int(launch), size, len(members)))
    return pd.DataFrame(found, columns=[unit, "launch", "log10_size", "members"]), tuple(absent)


def _unit(rules: VerdictRules) -> str:
    return "config" if rules.unit == "configuration" else "seed"


def _late(rows: pd.DataFrame, rules: VerdictRules) -> pd.DataFrame:
    trained = (rows["epoch"] > 0) & (rows["status"] == "ok")  # epoch 0 has no gradient to measure
    return rows[(rows["remaining"] < rules.size_epochs) & trained]


def _log_sizes(rows: pd.DataFrame, column: str, names: list[str], rules: VerdictRules) -> np.ndarray:
    """log10 size of each named unit from another column of sizes; NaN where a unit has none."""
    late = _late(rows, rules)
    members = late[np.isfinite(late[column].astype(float))].groupby([_unit(rules), *MEMBER])[column].median()
    logs = np.log10(np.maximum(members, rules.size_floor)).groupby(level=0).mean()
    return logs.reindex(names).to_numpy(float)


def effect_units(pairs: pd.DataFrame, rules: VerdictRules) -> tuple[EffectUnits, tuple[Effect, ...], tuple[str, ...]]:
    """Units of stage 2 in launch order up to the first that is not final, each as told, and what is absent. `pairs` as
    `complete_pairs` gives them."""
    unit, rows, told, absent = _unit(rules), [], [], []
    order = pairs.groupby(unit)["launch"].min().sort_values(kind="stable")
    groups = dict(iter(pairs.groupby(unit, sort=False)))
    folds = sorted(n for n in pairs.columns if str(n).startswith(FOLD))
    for name in order.index:
        own = groups[name]
        if not own["final"].astype(bool).all():
            break
        absent += [f"{r.config} seed {r.seed}: {r.cause}" for r in own[own["cause"] != ""].itertuples()]
        whole = own[(own["cause"] == "") & own["control"].notna() & own["treatment"].notna()]
        if len(whole):
            rows.append(_effect_row(whole, folds))
            told.append(Effect(str(name), rows[-1][0], len(whole)))
    if not rows:
        return NO_EFFECT, (), tuple(absent)
    difference, steadiness, collapse, count, gains, *rest = (np.array(v, dtype=float) for v in zip(*rows, strict=True))
    by_fold = {int(n.removeprefix(FOLD)): column for n, column in zip(folds, rest, strict=True)}
    return EffectUnits(difference, steadiness, collapse, count, gains, by_fold), tuple(told), tuple(absent)


def _effect_row(pairs: pd.DataFrame, folds: list[str]) -> list[float]:
    control, treatment = pairs["control"].to_numpy(float), pairs["treatment"].to_numpy(float)
    failed = pairs["failed_treatment"].astype(float).mean() - pairs["failed_control"].astype(float).mean()
    row = [float((treatment - control).mean()), deviation_change(control, treatment), float(failed)]
    row += [float(len(pairs)), float((treatment > control).sum())]
    return row + [float(pairs[name].mean()) for name in folds]


def _absence(rows: pd.DataFrame) -> str:
    named = [cause for cause in rows["absent"].unique() if cause]
    if named:
        return ", ".join(named)
    if (rows["status"] == "frozen").any():
        return "its members froze before the last epochs"
    healthy = rows[(rows["status"] == "ok") & (rows["epoch"] > 0)]
    return _broken(healthy) or "the gem was not measured (off, or its records are damaged)"


def _broken(healthy: pd.DataFrame) -> str:
    """What is wrong with a gem that was on in rows of healthy members and gave no number; "" for nothing."""
    on = healthy[healthy["mode"].isin(["probe", "wired"])]
    bad = on[~(np.isfinite(on["size"]) & np.isfinite(on["value"]))]
    if bad.empty:
        return ""
    what = "size" if np.isfinite(bad["value"]).all() else "value"
    return f"its {what} is not finite in {bad.groupby(MEMBER).ngroups} of {on.groupby(MEMBER).ngroups} healthy members"

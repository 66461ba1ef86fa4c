"""From trial specifications and recorded parts to tidy frames. Every function here is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.gates import closed_gates
from analysis.text import count_statuses
from trainer.config import TrialSpec
from trainer.sharpe import ESTIMATED, FLOOR, iqm

MEMBER = ["trial", "arm", "seed", "fold"]
SPANS = ("train", "validation", "judge")
FINISHED = ("done", "damaged")  # states of a trial that trained to its end


def flatten(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Nested settings as `<prefix>/<dotted key>`; lists become tuples."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = tuple(value) if isinstance(value, list) else value
    return flat


def members_frame(
    specs: Iterable[TrialSpec], states: Mapping[str, Mapping[str, Any]], epochs: pd.DataFrame
) -> pd.DataFrame:
    """One row per member of every planned trial, recorded or not; see `analysis.load` for the columns."""
    rows = []
    for spec in specs:
        state = states[spec.key]
        shared = {"config": spec.config_key, "launch": spec.launch, "block": spec.block}
        shared |= {"trial_status": state["status"], "cause": state["cause"]}
        for position, member in enumerate(spec.members):
            row = {"trial": spec.key, "arm": member.arm, "seed": member.seed, "fold": member.fold}
            rows.append(row | {"member": position} | shared)
    frame = pd.DataFrame(rows)
    recorded = _member_outcomes(epochs)
    frame = frame.merge(recorded, how="left", on=MEMBER) if len(recorded) else _without_outcomes(frame)
    frame["status"] = frame["status"].where(frame["status"].notna(), "waiting").astype(str)
    for column in ("epoch", "updates", "frozen_at"):
        frame[column] = frame[column].fillna(-1).astype("int64")
    return frame


OUTCOMES = {
    "epoch": "last recorded", "updates": "", "status": "", "frozen_at": "", "judge_sharpe": "", "judge_se": "",
    "validation_sharpe": "", "validation_status": "", "train_sharpe_untrained": "", "train_sharpe": "",
    "train_log_wealth_untrained": "", "train_log_wealth": "", "seconds": "",
}  # fmt: skip


def _without_outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{name: None if name.endswith("status") else np.nan for name in OUTCOMES})


def _member_outcomes(epochs: pd.DataFrame) -> pd.DataFrame:
    """The last recorded row of each member and a few of its first."""
    if not len(epochs):
        return pd.DataFrame()
    ordered = epochs.sort_values("epoch", kind="stable")
    groups = ordered.groupby(MEMBER, sort=False)
    last = groups.tail(1).set_index(MEMBER)
    first = ordered[ordered["epoch"] == 0].set_index(MEMBER).reindex(last.index)
    scored = _judged(ordered[ordered["scored"]]).reindex(last.index)
    frozen = last["status"].eq("frozen")
    frame = pd.DataFrame(
        {
            "epoch": last["epoch"],
            "updates": last["updates"],
            "status": last["status"],
            "frozen_at": last["frozen_at"],
            "judge_sharpe": scored["sharpe"].mask(frozen, FLOOR),
            "judge_se": scored["se"].mask(frozen),
            "validation_sharpe": last["eval/validation/sharpe"].mask(frozen, FLOOR),
            "validation_status": last["eval/validation/status"].mask(frozen, "frozen"),
            "train_sharpe_untrained": first["eval/train/sharpe"],
            "train_sharpe": last["eval/train/sharpe"],
            "train_log_wealth_untrained": first["eval/train/log_wealth"],
            "train_log_wealth": last["eval/train/log_wealth"],
            "seconds": groups["clock/seconds"].sum() if "clock/seconds" in ordered else np.nan,
        }
    )
    return frame.reset_index()


def _judged(scored: pd.DataFrame) -> pd.DataFrame:
    """Mean judge Sharpe of each member over `scored` rows; its error over those rows where it is an estimate."""
    error = scored["eval/judge/se"].where(scored["eval/judge/status"].isin(ESTIMATED))
    rows = scored[MEMBER].assign(sharpe=scored["eval/judge/sharpe"], se=error)
    return rows.groupby(MEMBER)[["sharpe", "se"]].mean()


def trials_frame(
    specs: Iterable[TrialSpec], states: Mapping[str, Mapping[str, Any]], members: pd.DataFrame, scores: pd.DataFrame
) -> pd.DataFrame:
    """One row per planned trial in launch order; see `analysis.load` for the columns."""
    base = members[members["arm"] == "base"]
    base = base.merge(
        scores[["config", "arm", "seed", "sharpe", "sharpe_se", "status"]].rename(columns={"status": "run_status"}),
        how="left",
        on=["config", "arm", "seed"],
    )
    groups = dict(iter(base.groupby("trial", sort=False)))
    rows = []
    for spec in specs:
        own = groups.get(spec.key, base.iloc[:0])
        row: dict[str, Any] = {"trial": spec.key, "config": spec.config_key, "block": spec.block, "launch": spec.launch}
        row |= {**states[spec.key], "epochs_planned": spec.trainer.epochs} | _base_summary(own, spec)
        row |= flatten(spec.trainer.model_dump(mode="json"), "config/")
        rows.append(row | flatten({"data": spec.data.model_dump(mode="json")}, "config/"))
    return pd.DataFrame(rows).sort_values("launch", kind="stable", ignore_index=True)


def _base_summary(own: pd.DataFrame, spec: TrialSpec) -> dict[str, Any]:
    runs = own.drop_duplicates("seed")
    scored = runs["sharpe"].dropna()
    finished = own["epoch"].eq(spec.trainer.epochs) | own["status"].eq("frozen")
    ended = bool(len(own) and finished.all())
    return {
        "epochs_recorded": int(own["epoch"].max()) if len(own) else -1,
        "objective": _objective(own) if ended else np.nan,
        "objective_ok": ended and bool(own["validation_status"].eq("ok").mean() > 0.5),
        "sharpe": float(scored.mean()) if len(scored) else np.nan,
        "sharpe_var": float(scored.var(ddof=1)) if len(scored) > 1 else np.nan,
        "sharpe_lo": float(scored.min()) if len(scored) else np.nan,
        "sharpe_hi": float(scored.max()) if len(scored) else np.nan,
        "sharpe_se": float(runs["sharpe_se"].mean()) if len(scored) else np.nan,
        "seeds": len(scored),
        "statuses": count_statuses(runs["run_status"].where(runs["sharpe"].notna())),
        "validation_statuses": count_statuses(own["validation_status"]) if ended else "",
        "frozen": int(own["status"].eq("frozen").sum()),
        "seconds": float(own["seconds"].max()) if len(own) else np.nan,
    }


def _objective(own: pd.DataFrame) -> float:
    """What the search saw at the end: IQM of validation Sharpe over the base members, failures at the floor."""
    values = own["validation_sharpe"].where(own["status"].eq("ok"), FLOOR).fillna(FLOOR)
    return iqm(values.to_numpy(float))


def structural_columns(epochs: pd.DataFrame) -> set[str]:
    """Gradient columns without a number in any row where their component was measured elsewhere: it cannot reach there.

    A component that was never measured tells nothing about its reach.
    """
    components: dict[str, list[str]] = {}
    for name in epochs.columns:
        if name.startswith("grad/") and name.count("/") == 2:
            components.setdefault(name.split("/")[1], []).append(name)
    found: set[str] = set()
    for columns in components.values():
        measured = epochs.loc[epochs[columns].notna().any(axis=1), columns]
        found |= {name for name in columns if len(measured) and measured[name].isna().all()}
    return found


def gradients_frame(epochs: pd.DataFrame) -> pd.DataFrame:
    """Long table of gradient norms; see `analysis.load` for the columns."""
    columns = [name for name in epochs.columns if name.startswith("grad/") and name.count("/") == 2]
    if not columns:
        return pd.DataFrame(columns=[*MEMBER, "config", "epoch", "component", "slice", "norm", "zero", "gate"])
    keys = [*MEMBER, "config", "epoch"]
    long = epochs[[*keys, *columns]].melt(id_vars=keys, var_name="column", value_name="norm")
    parts = {name: name.split("/") for name in columns}
    long["component"] = long["column"].map({name: part[1] for name, part in parts.items()})
    long["slice"] = long["column"].map({name: part[2] for name, part in parts.items()})
    unreachable = structural_columns(epochs)
    closed = {name: closed_gates(epochs, name).to_numpy() for name in dict.fromkeys(p[1] for p in parts.values())}
    gates = np.concatenate([closed[parts[name][1]] for name in columns])  # melted column by column
    kinds = [long["column"].isin(unreachable), long["norm"].isna(), long["norm"].eq(0.0) & (gates != "")]
    kinds += [long["norm"].eq(0.0)]
    long["zero"] = np.select(kinds, ["structural", "unmeasured", "gated", "exact"], default="value")
    long["gate"] = np.where(long["zero"].eq("gated"), gates, "")
    return long.drop(columns="column")


def windows_frame(epochs: pd.DataFrame, spans: pd.DataFrame, timeline: pd.DatetimeIndex | None) -> pd.DataFrame:
    """Long table of evaluated returns; `epochs` must hold the list columns, `spans` has fold, span, start, stop."""
    blocks = []
    bounds = {(row.fold, row.span): (int(row.start), int(row.stop)) for row in spans.itertuples()}
    for span in SPANS:
        name = f"returns/{span}"
        if name not in epochs.columns:
            continue
        for row in epochs[[*MEMBER, "config", "epoch", name, f"exposure/{span}"]].itertuples(index=False, name=None):
            *keys, returns, exposure = row
            if len(returns):
                stamps = _stamps(timeline, bounds.get((keys[3], span)), len(returns))
                blocks.append((keys, span, stamps, returns, exposure))
    return _stack(blocks)


def _stamps(timeline: pd.DatetimeIndex | None, bound: tuple[int, int] | None, count: int) -> np.ndarray:
    if timeline is None or bound is None or bound[1] - bound[0] - 1 != count:
        return np.full(count, np.datetime64("NaT", "ns"))
    return timeline[bound[0] + 1 : bound[1]].tz_convert(None).to_numpy("datetime64[ns]")


def _stack(blocks: list[tuple[list[Any], str, np.ndarray, np.ndarray, np.ndarray]]) -> pd.DataFrame:
    names = [*MEMBER, "config", "epoch"]
    if not blocks:
        return pd.DataFrame(columns=[*names, "span", "timestamp", "return", "exposure"])
    counts = np.array([len(block[3]) for block in blocks])
    frame = pd.DataFrame({"row": np.repeat(np.arange(len(blocks)), counts)})
    for position, name in enumerate(names):
        values = pd.Series([block[0][position] for block in blocks])
        values = values.astype("category") if name in ("trial", "arm", "config") else values
        frame[name] = values.take(frame["row"].to_numpy()).array
    frame["span"] = pd.Series([block[1] for block in blocks], dtype="category").take(frame["row"].to_numpy()).array
    frame["timestamp"] = pd.DatetimeIndex(np.concatenate([block[2] for block in blocks]), tz="UTC")
    frame["return"] = np.concatenate([block[3] for block in blocks])
    frame["exposure"] = np.concatenate([block[4] for block in blocks]).astype(np.float64)
    return frame.drop(columns="row")

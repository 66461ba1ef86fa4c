"""`gemsweep confirm`: all promoted gems together, on fresh configurations and seeds and on the hold-out, opened once.

The hold-out takes the place of the judge span of a single fold whose training ends before it. Its openings are counted
in a file beside the experiments, by the digest of the bars, before any trial starts: a look that crashed was a look.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from sweep.config import SweepConfig
from sweep.errors import ConfigError
from sweep.memory import fit
from sweep.plan import Plan, planned, trials_of
from sweep.run import Outcome, begin, prepare, resume
from sweep.trainable import Body
from trainer.config import ArmConfig, DataConfig, GemConfig, TrialSpec
from trainer.record.files import read_json, write_json

OPENINGS = "holdout.json"  # in the folder of all experiments
JOINT = "joint"  # the arm that wires every promoted gem; the base arm probes them
FEWEST = 5  # configurations


def confirm(
    config: SweepConfig,
    console: Console,
    *,
    fallback_name: str = "confirm",
    again: bool = False,
    quiet: bool = False,
    body: Body | None = None,
) -> Outcome:
    """Train `sweep.trials` configurations with the wired gems of the base arm together, beside the same with these gems
    probed, and judge them on the hold-out (`analysis.confirmation`).

    Errors: ConfigError without a wired gem, without a hold-out, for too few configurations, and when the hold-out of
    these bars was opened before, unless `again`; nothing is written then.
    """
    promoted = [gem for gem, value in config.arms.base_arm().gems.items() if value.mode == "wired"]
    _check(config, promoted)
    opened = opened_on(config)
    named, plan, share, _ = prepare(opened, fallback_name)
    storage = Path(named.sweep.storage).expanduser().resolve()
    before = openings(storage, plan.data["data"]["sha256"])
    if before and not again:
        raise ConfigError(_seen(before))
    plan = _jointly(config, plan, promoted, len(before) + 1)
    fit(share, named.sweep.concurrent, planned(plan.data), plan.data)
    folder = begin(named, plan, console, quiet)
    _count(storage, plan, named)
    return resume(folder, console, quiet=quiet, body=body)


def _check(config: SweepConfig, promoted: list[str]) -> None:
    if not promoted:
        raise ConfigError(
            "arms.base: no gem is wired, so there is nothing to confirm; gemsweep promote writes such a file"
        )
    if not config.data.folds.holdout > 0.0:
        raise ConfigError("data.folds.holdout: 0, so there is no hold-out to open")
    if config.sweep.trials < FEWEST:
        raise ConfigError(f"sweep.trials: {config.sweep.trials} configurations are too few; give {FEWEST} or more")


def _seen(before: list[dict[str, Any]]) -> str:
    last = before[-1]
    return (
        f"the hold-out of these bars was opened before, by {last['experiment']} on {last['opened'][:10]}: a second "
        f"look is no fresh evidence. Bring bars that no one has looked at, or say --again and read the result as look "
        f"{len(before) + 1}"
    )


def opened_on(config: SweepConfig) -> SweepConfig:
    """The configuration whose one judge span is the hold-out and whose only arm, the base arm, wires no gem."""
    return config.model_copy(update={"data": holdout_data(config.data), "arms": _control(config)})


def holdout_data(data: DataConfig) -> DataConfig:
    """One fold, trained up to the purge and embargo before the hold-out and judged on it."""
    folds = data.folds.model_copy(update={"count": 1, "holdout": 0.0, "judge": data.folds.holdout})
    return data.model_copy(update={"folds": folds})


def _control(config: SweepConfig) -> Any:
    old = config.arms
    base = {
        gem: value if value.mode != "wired" else value.model_copy(update={"mode": "probe"})
        for gem, value in old.base.items()
    }
    return old.model_copy(update={"base": base, "further": (), "purity": False})


def _jointly(config: SweepConfig, plan: Plan, promoted: list[str], look: int) -> Plan:
    """The plan with the joint arm in every trial, and what it is for."""
    trials: list[TrialSpec] = []
    opened = opened_on(config)
    for raw in plan.data["trials"]:
        spec = TrialSpec.model_validate(raw)
        base = next(arm for arm in spec.arms if arm.name == "base")
        trials += trials_of(opened, spec.trainer, (base, _joint(config, base, promoted)), spec.machine, len(trials))
    rows = [row["name"] for row in plan.data["gems"] if row["reference"] in promoted]
    purpose = {"gems": rows, "arm": JOINT, "look": look, "configurations": len({t.config_key for t in trials})}
    data = plan.data | {"trials": [spec.model_dump(mode="json") for spec in trials], "confirmation": purpose}
    return replace(plan, data=data)


def _joint(config: SweepConfig, base: ArmConfig, promoted: list[str]) -> ArmConfig:
    """The base arm with every promoted gem wired at its own dose."""
    own = {gem: config.arms.base.get(gem, GemConfig()) for gem in promoted}
    wired = {gem: value.model_copy(update={"mode": "wired"}) for gem, value in own.items()}
    return ArmConfig(name=JOINT, gems={**base.gems, **wired})


def openings(storage: Path, sha256: str) -> list[dict[str, Any]]:
    """Every opening of the hold-out of these bars that the folder of experiments knows of, oldest first."""
    path = storage / OPENINGS
    return [row for row in read_json(path)["openings"] if row["data"] == sha256] if path.exists() else []


def _count(storage: Path, plan: Plan, config: SweepConfig) -> None:
    path = storage / OPENINGS
    rows = read_json(path)["openings"] if path.exists() else []
    row = {
        "data": plan.data["data"]["sha256"],
        "opened": datetime.now(UTC).isoformat(timespec="seconds"),
        "experiment": config.sweep.name,
        "gems": plan.data["confirmation"]["gems"],
    }
    storage.mkdir(parents=True, exist_ok=True)
    write_json(path, {"schema": 1, "openings": [*rows, row]})

"""`gemsweep promote`: the configuration that follows from the verdicts, with gems wired in the base arm or left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.config import SweepConfig
from sweep.decide import read_verdicts
from sweep.errors import ConfigError
from sweep.study import Study, open_study
from sweep.toml_file import to_toml
from trainer.config import GemConfig
from trainer.record.files import write_atomic

if TYPE_CHECKING:
    from analysis.verdict import Verdict

FILES = {
    "g6_branch_indep": "trainer/gems/branch_independence.py",
    "g10_temporal": "trainer/gems/temporal_consistency.py",
    "g12_predictive": "trainer/gems/predictive_coding.py",
}


@dataclass(frozen=True)
class Promotion:
    """What was written where, and what the author does by hand. `path` is None when no gem is left to go on with."""

    path: Path | None
    wired: tuple[str, ...]
    deleted: tuple[str, ...]
    kept: tuple[str, ...]
    files: tuple[str, ...]

    def lines(self) -> list[str]:
        """For the terminal."""
        parts = (("wired", self.wired), ("left out", self.deleted), ("still probed", self.kept))
        said = [f"{what}: {', '.join(names)}" for what, names in parts if names]
        said += [f"delete the code: {file}" for file in self.files]
        if self.path is None:
            return [*said, "no gem is left, so there is no next configuration"]
        said.append(f"next: {self.path}")
        confirm = "confirm" if self.wired else "decide"
        return [*said, f"go on with: gemsweep {confirm} {self.path}"]


def promote(folder: Path, target: Path | None = None) -> Promotion:
    """Write the configuration that follows from the verdicts of the experiment in `folder`.

    WIRE: wired in the base arm at the dose that was judged. DELETE: out of `arms.gems`, its file named. Otherwise it
    stays as it is. The seed is the next one, so that configurations and runs are fresh. Default target:
    `<experiment>-next.toml` beside the experiment's folder. Errors: ConfigError when the target exists; ResumeError
    when bars or gems have changed since the plan.
    """
    study = open_study(folder)
    verdicts = read_verdicts(study.folder)
    target = target or study.folder.parent / f"{study.folder.name}-next.toml"
    if target.exists():
        raise ConfigError(f"{target}: exists; give another file with --to, or delete it")
    by_label = {label: [v for v in verdicts if v.label == label] for label in ("WIRE", "DELETE")}
    references = {row["name"]: row["reference"] for row in study.plan["gems"]}
    deleted = [references[v.gem] for v in by_label["DELETE"]]
    kept = [v.gem for v in verdicts if v.label not in by_label]
    path = None
    if len(deleted) < len(study.config.arms.gems):
        config = next_config(study, by_label["WIRE"], deleted)
        write_atomic(target, (_evidence(study, verdicts) + to_toml(_written(config))).encode())
        path = target
    wired = [f"{v.gem} at {dose_of(study, v):g}" for v in by_label["WIRE"]]
    gone = tuple(v.gem for v in by_label["DELETE"])
    return Promotion(path, tuple(wired), gone, tuple(kept), tuple(file_of(reference) for reference in deleted))


def next_config(study: Study, wired: Sequence[Verdict], deleted: Sequence[str]) -> SweepConfig:
    """The study's configuration with gems wired and left out, and the next seed."""
    references = {row["name"]: row["reference"] for row in study.plan["gems"]}
    old, changed = study.config.arms, [references[v.gem] for v in wired]
    base = {gem: value for gem, value in old.base.items() if gem not in deleted}
    for verdict, reference in zip(wired, changed, strict=True):
        own = base.get(reference, GemConfig())
        base[reference] = own.model_copy(update={"mode": "wired", "dose": dose_of(study, verdict)})
    further = tuple(arm for arm in old.further if not {arm.wired, arm.off} & {*changed, *deleted})
    gems = tuple(gem for gem in old.gems if gem not in deleted)
    arms = old.model_copy(update={"gems": gems, "base": base, "further": further})
    section = study.config.sweep
    fresh = {"name": "", "label": f"after {study.folder.name}", "seed": (section.seed + 1) % 2**32}
    sweep = section.model_copy(update=fresh)
    return study.config.model_copy(update={"arms": arms, "sweep": sweep})


def dose_of(study: Study, verdict: Verdict) -> float:
    """The dose at which a gem was judged."""
    judged = getattr(verdict, "dose", None)
    reference = {row["name"]: row["reference"] for row in study.plan["gems"]}[verdict.gem]
    return float(judged) if judged else study.config.arms.base.get(reference, GemConfig()).dose


def file_of(reference: str) -> str:
    """Where the code of a gem stands."""
    return FILES.get(reference) or reference.rpartition(":")[0] or f"the package that installs {reference!r}"


def _written(config: SweepConfig) -> dict[str, Any]:
    return config.model_dump(mode="json")


def _evidence(study: Study, verdicts: Sequence[Verdict]) -> str:
    """What the file follows from, as its opening comment."""
    rows = [f"#   {v.gem}: {v.title}: {v.reason}" for v in verdicts]
    rules = study.plan["verdict"]["rules_hash"]
    head = f"# Follows from {study.folder} ({len(study.configurations)} configurations, rules {rules}):"
    return "\n".join(line.replace("\r", " ") for line in [head, *(row.replace("\n", " ") for row in rows)]) + "\n\n"

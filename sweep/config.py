"""The configuration of a sweep: one schema for TOML files and Python, complete with its version.

`[trainer]` may hold distributions wherever `TrainerConfig` has a value; everything else is plain. Nothing in this
file imports ray or torch.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sweep.arms import ArmsSection
from sweep.space import SearchSpace
from trainer.config import DataConfig, Fraction, Frozen, Positive

MAX_SEEDS = 1000  # seeds of one block; keeps the seeds of blocks and sweeps apart


class SweepSection(Frozen):
    """How many trials, on which seeds, and how the machine is shared among them."""

    name: str = ""  # empty: named after the file
    label: str = ""  # printed with every table of this sweep
    trials: Positive = 8  # configurations
    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS)] = 3  # of every configuration, the same for all
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0  # draws the configurations and sets the seeds of the runs
    search: Literal["random", "grid"] = "random"
    pack: Literal["all", "none"] = "all"  # none: one run a trial, the reference that packing changes nothing
    concurrent: Annotated[int, Field(ge=0)] = 0  # trials at a time; 0: as many as the machine has room for
    threads: Positive = 1  # of each trial
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    precision: Literal["tf32", "float32", "bf16"] = "tf32"  # of matrix products on CUDA
    gpus_per_trial: Annotated[float, Field(ge=0.0)] = 0.0  # share of a GPU; 0 on a GPU device: a whole one
    max_failures: Annotated[int, Field(ge=0)] = 2  # times a trial is tried again after a crash
    storage: str = "experiments"  # folder of all experiments

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})?", name):
            raise ValueError(
                f"must be letters, digits, dot, - and _, a letter or digit first, at most 100; not {name!r}"
            )
        return name

    @model_validator(mode="after")
    def _consistent(self) -> SweepSection:
        if self.device == "cpu" and self.gpus_per_trial > 0:
            raise ValueError(f'gpus_per_trial = {self.gpus_per_trial} needs device = "cuda" or "auto", not "cpu"')
        if self.gpus_per_trial > 1 and self.gpus_per_trial != int(self.gpus_per_trial):
            raise ValueError(f"gpus_per_trial above 1 must be whole, not {self.gpus_per_trial}")
        return self


class AnalysisSection(Frozen):
    """What decides a verdict, fixed in the plan before the first trial: `analysis.rules.VerdictRules`, by field."""

    alpha: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.05  # one-sided, for each claim, divided by the number of gems
    schedule: tuple[Positive, ...] = (5, 8, 12, 18, 27, 40, 60, 90, 135)  # configurations at each look
    zero_limit: Annotated[float, Field(gt=0.0)] = 0.01  # gem gradient over |c51_bs|: below is practically zero
    size_floor: Annotated[float, Field(gt=0.0)] = 1e-12  # what a size of exactly 0 counts as
    size_epochs: Positive = 5  # the size of a run is the median of this many last epochs
    redundant_r2: Fraction = 0.81  # |correlation| 0.9: above, a gem repeats an existing feature
    policy: Literal["benefit", "noninferior", "seed"] = "benefit"  # what WIRE needs; seed: the signal alone
    unit: Literal["configuration", "seed"] = "configuration"  # seed: of one configuration, and a claim about it alone
    delta_ni: Annotated[float, Field(gt=0.0)] = 0.20  # annualised Sharpe: the largest loss accepted unseen
    delta_benefit: Annotated[float, Field(gt=0.0)] = 0.30  # annualised Sharpe: a gain below is not worth having
    steady_units: Annotated[int, Field(ge=2)] = 40  # configurations before `steadies` may be claimed
    collapse_margin: Fraction = 0.05  # of the rate of failed runs: `steadies` must rule out a larger rise
    spread_quantile: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2  # of chi-square, to plan how many more trials

    @field_validator("schedule")
    @classmethod
    def _increasing(cls, schedule: tuple[int, ...]) -> tuple[int, ...]:
        if not schedule or schedule[0] < 2 or any(b <= a for a, b in pairwise(schedule)):
            raise ValueError(f"must hold increasing numbers of configurations from 2, not {list(schedule)}")
        return schedule

    @model_validator(mode="after")
    def _floor_below_limit(self) -> AnalysisSection:
        if self.size_floor >= self.zero_limit:
            raise ValueError(f"size_floor = {self.size_floor} must be below zero_limit = {self.zero_limit}")
        return self


class SweepConfig(Frozen):
    """Everything that `gemsweep run` needs."""

    schema_version: Literal[1] = 1
    data: DataConfig = DataConfig()
    trainer: dict[str, Any] = Field(default={})  # TrainerConfig as a table, with distributions
    arms: ArmsSection = ArmsSection()
    sweep: SweepSection = SweepSection()
    analysis: AnalysisSection = AnalysisSection()

    @field_validator("trainer")
    @classmethod
    def _is_space(cls, trainer: dict[str, Any]) -> dict[str, Any]:
        SearchSpace.parse(trainer)
        return trainer

    @cached_property
    def space(self) -> SearchSpace:
        """The search space of [trainer]."""
        return SearchSpace.parse(self.trainer)

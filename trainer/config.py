"""The configuration of one trial, as data: every field is validated here and read from here.

`TrialSpec` is everything that `run_trial` needs; it is stored whole, so that a trial can be run again years later.
Units stand in the field names or their comments. Nothing in this file imports torch or ray.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SCHEMA_VERSION = 1
BUILTIN_GEMS = ("g6_branch_indep", "g10_temporal", "g12_predictive")
# Existing features that a built-in gem may only repeat: known here, so that planning need not load torch to say so.
MAY_DUPLICATE: dict[str, tuple[str, ...]] = {
    "g6_branch_indep": ("noisy_nets", "ensemble_kl"),
    "g10_temporal": ("spectral_norm",),
    "g12_predictive": (),
}
GemMode = Literal["off", "probe", "wired"]
# Parts of the trainer that an arm can leave out, to see what they do and which gem only repeats them.
Feature = Literal[
    "spectral_norm",
    "noisy_nets",
    "ensemble_kl",
    "iqn",
    "cql",
    "reconstruction",
    "distillation",
    "prioritised_replay",
]
FEATURES: tuple[Feature, ...] = get_args(Feature)
Positive = Annotated[int, Field(ge=1)]
Width = Annotated[int, Field(ge=2)]  # products with one column round differently in a pack of one
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]  # of a loss; 0 switches it off


class Frozen(BaseModel):
    """Immutable, and an unknown key is an error rather than a silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FoldConfig(Frozen):
    """How the bars are cut into (train, validation, judge) spans and a hold-out at the end."""

    count: Annotated[int, Field(ge=1, le=20)] = 2
    mode: Literal["anchored", "rolling"] = "anchored"  # anchored: train from the first bar; rolling: a fixed length
    holdout: Annotated[float, Field(ge=0.0, lt=0.9)] = 0.15  # share of all bars that no search and no verdict reads
    judge: Annotated[float, Field(gt=0.0, lt=0.9)] = 0.15  # share of all bars in one judge span
    validation: Annotated[float, Field(gt=0.0, lt=0.9)] = 0.10  # share of all bars in one validation span
    train: Annotated[float, Field(gt=0.0, lt=0.9)] = 0.30  # share of all bars in one train span; rolling only
    purge: Annotated[int, Field(ge=1)] = 10  # bars left out after a span; at least n_step + 1, the fill delay included
    embargo: Annotated[int, Field(ge=0)] = 5  # bars left out after each span, beyond the purge


class DataConfig(Frozen):
    """Where the bars come from and how strictly they are read."""

    source: str = "us-daily"  # a bundled name or a path to a CSV or Parquet file
    symbols: tuple[str, ...] = ()  # empty: every symbol in the source
    adjust: Literal["auto", "none"] = "auto"  # auto: scale open, high, low, close by adjusted close / close
    on_bad: Literal["raise", "drop"] = "raise"
    on_duplicate: Literal["raise", "first", "last"] = "raise"
    max_gap_days: Annotated[float, Field(gt=0.0)] = 10.0  # an episode does not continue across a longer hole
    folds: FoldConfig = FoldConfig()


class MarketConfig(Frozen):
    """Costs and limits of the simulated account. Rates are charged on traded or held notional."""

    commission_bps: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.5
    half_spread_bps: Annotated[float, Field(ge=0.0, le=1000.0)] = 1.0
    slippage_bps: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.5
    financing_rate: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0  # per year, on the absolute exposure
    borrow_rate: Annotated[float, Field(ge=0.0, le=1.0)] = 0.01  # per year, on a short exposure, besides financing
    rebalance_band: Annotated[float, Field(ge=0.0, lt=2.0)] = 0.0  # trade only when the target moves by more
    bankruptcy_equity: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05  # share of the starting equity that ends it


class NetworkConfig(Frozen):
    """Widths of the packed branching dueling network and the support of its return distribution."""

    trunk: tuple[Width, Width] = (64, 64)
    head: Width = 32
    atoms: Annotated[int, Field(ge=2, le=96)] = 51
    v_max: Annotated[float, Field(gt=0.0)] = 10.0  # the support is [-v_max, v_max], in train volatilities
    moving_support: bool = False  # after an epoch the support follows the range of the action values
    spectral_norm: bool = True  # divide w_s2 by its largest singular value
    noisy_nets: bool = True  # factorised noise on the hidden layers of the three heads
    noise_sigma: Annotated[float, Field(gt=0.0, le=10.0)] = 0.5  # its start, times 1 / sqrt(inputs)


class IQNConfig(Frozen):
    """Implicit quantile head on the trunk; it shapes the features and never acts."""

    weight: Weight = 2.0  # the loss is summed over the online quantiles, so it scales with their number
    quantiles: Annotated[int, Field(ge=1, le=64)] = 4  # drawn for the online and for the target network
    cosines: Width = 16
    kappa: Annotated[float, Field(gt=0.0)] = 1.0  # of the Huber loss, in train volatilities
    warmup_updates: Annotated[int, Field(ge=0)] = 100  # the head learns alone for so long
    ramp_updates: Positive = 200  # then its trunk gradient opens linearly


class EnsembleConfig(Frozen):
    """Bootstrapped heads: what they disagree about is explored, and their disagreement is recorded."""

    weight: Weight = 1.0
    heads: Annotated[int, Field(ge=2, le=64)] = 5
    hidden: Width = 16  # units of one head
    mask_probability: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5  # share of the replay places a head learns from
    bonus: Weight = 0.1  # added to an action's value while walking, in standard deviations over the heads


class CQLConfig(Frozen):
    """Conservative penalty; its coefficient falls linearly from `weight` to `weight_end`."""

    weight: Weight = 0.05
    weight_end: Weight = 0.0
    anneal_updates: Positive = 500
    budget: Annotated[float, Field(gt=0.0)] = 0.5  # largest |cql| before its coefficient, in |c51_bs|


class DistillationConfig(Frozen):
    """Pull towards the best snapshot while learning health is low."""

    alpha_max: Weight = 0.5  # gradient per unit of parameter distance at health 0
    health_on: Fraction = 0.3  # below this health it pulls
    ring: Annotated[int, Field(ge=1, le=64)] = 4  # accepted snapshots kept; the largest Q-gap teaches


class TrainerConfig(Frozen):
    """Hyperparameters of one configuration: everything a search may vary."""

    epochs: Positive = 12
    updates_per_epoch: Positive = 50
    batch_size: Annotated[int, Field(ge=2)] = 64
    environments: Positive = 8  # market walks of one member, one bar each before every update
    episode_bars: Annotated[int, Field(ge=2)] = 256
    replay_capacity: Annotated[int, Field(ge=16)] = 8192  # transitions
    n_step: Annotated[int, Field(ge=1, le=64)] = 3
    discount: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.9
    learning_rate: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-3
    adam_beta1: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.9
    adam_beta2: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.999
    adam_epsilon: Annotated[float, Field(gt=0.0)] = 1.5e-4
    clip_norm: Annotated[float, Field(gt=0.0)] = 10.0
    target_rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.02  # share of the online network taken in per update
    epsilon_start: Fraction = 1.0
    epsilon_end: Fraction = 0.05
    epsilon_decay_updates: Positive = 500
    priority_alpha: Fraction = 0.5  # of prioritised replay; 0: uniform
    priority_beta_start: Fraction = 0.4  # of the importance weights, rising linearly
    priority_beta_end: Fraction = 1.0
    priority_beta_updates: Positive = 1000
    reconstruction_weight: Weight = 0.1  # of the loss that rebuilds the observation from the trunk
    c51_budget: Annotated[float, Field(gt=0.0)] = 2.0  # largest |c51| applied, in running means of the applied norm
    norm_ema_rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.01  # of that running mean, per update
    diagnostics_per_epoch: Positive = 4  # updates of an epoch on which gems and gradient norms are measured
    score_epochs: Positive = 5  # the score averages the Sharpe of this many last epochs
    network: NetworkConfig = NetworkConfig()
    iqn: IQNConfig = IQNConfig()
    ensemble: EnsembleConfig = EnsembleConfig()
    cql: CQLConfig = CQLConfig()
    distillation: DistillationConfig = DistillationConfig()
    market: MarketConfig = MarketConfig()

    @model_validator(mode="after")
    def _consistent(self) -> TrainerConfig:
        if self.diagnostics_per_epoch > self.updates_per_epoch:
            raise ValueError("diagnostics_per_epoch must not exceed updates_per_epoch")
        if self.score_epochs > self.epochs:
            raise ValueError(
                f"score_epochs must not exceed epochs, but {self.score_epochs} > {self.epochs}: the score averages so "
                f"many of the last epochs; set trainer.score_epochs too"
            )
        if self.replay_capacity % self.environments:
            raise ValueError("replay_capacity must be a multiple of environments")
        if self.replay_capacity < (self.n_step + 2) * self.environments:
            raise ValueError("replay_capacity must hold more than n_step + 1 bars of every environment")
        return self


class GemConfig(Frozen):
    """One gem in one arm."""

    mode: GemMode = "probe"
    coefficient: Annotated[float, Field(gt=0.0)] | None = None  # scales the probed size; None: the gem's own weight
    dose: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1  # wired: its gradient norm as a share of |c51_bs|


class ArmConfig(Frozen):
    """How the gems are set for the members of one arm, and which existing features it leaves out."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    gems: dict[str, GemConfig] = {}  # keys: a built-in name or an import path `file.py:Class` or `module:Class`
    features_off: tuple[Feature, ...] = ()


class Member(Frozen):
    """One network in training, named by what distinguishes it within its trial."""

    arm: str
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    fold: Annotated[int, Field(ge=0)]


class Machine(Frozen):
    """Settings that may change bits but not the meaning: recorded, and outside the trial key."""

    device: str = "cpu"
    threads: Positive = 1
    # Of matrix products. "tf32": on CUDA, float32 on a CPU. "bf16": the acting network's activations are bfloat16 in an
    # update, sums, losses, gradient rows, parameters and all else float32, other heads as under "tf32".
    precision: Literal["tf32", "float32", "bf16"] = "tf32"
    capture: bool = True  # on CUDA: the iteration as one graph; off: launch by launch, for a debugger


class TrialSpec(Frozen):
    """Everything `run_trial` needs. `arms` lists the arms that `members` name."""

    key: str
    config_key: str  # hash of (data, trainer): equal for all trials of one configuration
    block: Annotated[int, Field(ge=0)] = 0
    launch: Annotated[int, Field(ge=0)] = 0  # position in the plan
    data: DataConfig = DataConfig()
    trainer: TrainerConfig = TrainerConfig()
    arms: tuple[ArmConfig, ...]
    members: tuple[Member, ...]
    machine: Machine = Machine()

    @field_validator("members")
    @classmethod
    def _distinct(cls, members: tuple[Member, ...]) -> tuple[Member, ...]:
        if not members or len(set(members)) != len(members):
            raise ValueError("members must be one or more, each once")
        return members

    @model_validator(mode="after")
    def _known(self) -> TrialSpec:
        names = [arm.name for arm in self.arms]
        if len(set(names)) != len(names):
            raise ValueError(f"arm names must differ: {names}")
        for member in self.members:
            if member.arm not in names:
                raise ValueError(f"member names arm {member.arm!r}; the arms are {names}")
            if member.fold >= self.data.folds.count:
                raise ValueError(f"member names fold {member.fold}; the data has {self.data.folds.count} folds")
        if self.trainer.n_step + 1 > self.data.folds.purge:
            raise ValueError(
                f"n_step {self.trainer.n_step} plus the fill delay reaches past data.folds.purge = "
                f"{self.data.folds.purge}: raise the purge to {self.trainer.n_step + 1} or more"
            )
        return self


def canonical_json(value: Any) -> str:
    """Equal values give equal text: keys sorted, no spaces, floats as Python prints them."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def config_key(data: DataConfig, trainer: TrainerConfig) -> str:
    """Ten hexadecimal digits naming a configuration, without seeds, arms and machine settings."""
    text = canonical_json({"data": data.model_dump(mode="json"), "trainer": trainer.model_dump(mode="json")})
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()

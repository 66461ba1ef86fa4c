"""Which existing features a configuration has on, and what the arms that leave one out can therefore not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from sweep.arms import ArmsSection
from sweep.errors import ConfigError
from trainer.config import Feature, TrainerConfig

# A feature is on where any of these keys of [trainer] is not 0.
KEYS: dict[Feature, tuple[str, ...]] = {
    "spectral_norm": ("network.spectral_norm",),
    "noisy_nets": ("network.noisy_nets",),
    "ensemble_kl": ("ensemble.weight", "ensemble.bonus"),
    "iqn": ("iqn.weight",),
    "cql": ("cql.weight", "cql.weight_end"),
    "reconstruction": ("reconstruction_weight",),
    "distillation": ("distillation.alpha_max",),
    "prioritised_replay": ("priority_alpha",),
}


def is_on(trainer: TrainerConfig, feature: Feature) -> bool:
    """Does this configuration use the feature, where no arm leaves it out?"""
    return any(reduce(getattr, key.split("."), trainer) != 0 for key in KEYS[feature])


def arm_notes(arms: ArmsSection, configurations: Sequence[TrainerConfig]) -> Iterator[str]:
    """What the user should hear about further arms that train as the base arm does.

    Errors: ConfigError for an arm that leaves out a feature which no configuration has.
    """
    base = arms.base_arm()
    for index, arm in enumerate(arms.further_arms()):
        for feature in arm.features_off:
            using = sum(is_on(trainer, feature) for trainer in configurations)
            if not using:
                keys = " and ".join(f"trainer.{key}" for key in KEYS[feature])
                raise ConfigError(f"arms.further[{index}]: {feature} is off in every configuration already ({keys})")
            if using < len(configurations):
                yield f"arm {arm.name} changes {using} of {len(configurations)} configurations; the others have it off"
        for gem, setting in arm.gems.items():
            if setting.mode == "off" and base.gems[gem].mode == "probe":
                yield f"arm {arm.name} will train exactly as the base arm does, which only probes {gem}"

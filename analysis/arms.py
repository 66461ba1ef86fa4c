"""What the arms of a configuration change against its base arm."""

from __future__ import annotations

from collections.abc import Iterable

from trainer.config import ArmConfig, TrialSpec


def arms_by_config(specs: Iterable[TrialSpec]) -> dict[str, dict[str, ArmConfig]]:
    """Arms by name of every configuration, gathered over its trials (with one run a trial, each knows only its own)."""
    found: dict[str, dict[str, ArmConfig]] = {}
    for spec in specs:
        found.setdefault(spec.config_key, {}).update({arm.name: arm for arm in spec.arms})
    return found


def wired_gem(base: ArmConfig, arm: ArmConfig) -> tuple[str, float] | None:
    """(gem, dose) when `arm` is `base` with exactly one probed gem wired, and the same features."""
    if set(base.features_off) != set(arm.features_off):
        return None
    changed = [gem for gem in {**base.gems, **arm.gems} if base.gems.get(gem) != arm.gems.get(gem)]
    if len(changed) != 1 or changed[0] not in base.gems or changed[0] not in arm.gems:
        return None
    before, after = base.gems[changed[0]], arm.gems[changed[0]]
    if (before.mode, after.mode) != ("probe", "wired") or before.coefficient != after.coefficient:
        return None
    return changed[0], after.dose


def feature_off(base: ArmConfig, arm: ArmConfig) -> str | None:
    """The existing feature when `arm` is `base` without exactly that one, and the same gems."""
    left_out = set(arm.features_off) - set(base.features_off)
    if arm.gems != base.gems or set(base.features_off) - set(arm.features_off) or len(left_out) != 1:
        return None
    return left_out.pop()


def is_off_arm(base: ArmConfig, arm: ArmConfig) -> bool:
    """True when `arm` turns every probed gem of `base` off and changes nothing else: then both must train alike.

    An arm that also takes a wired gem or a feature away trains differently for a good reason and proves nothing.
    """
    if set(base.features_off) != set(arm.features_off):
        return False
    for gem, setting in base.gems.items():
        other = arm.gems.get(gem)
        off = other is None or other.mode == "off"
        if not (off if setting.mode == "probe" else other == setting):
            return False
    return True

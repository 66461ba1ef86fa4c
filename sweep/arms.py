"""The `[arms]` section: which gems are looked at, how the base arm sets them, and what further arms change about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from sweep.nearest import did_you_mean
from trainer.config import BUILTIN_GEMS, FEATURES, ArmConfig, Frozen, GemConfig
from trainer.gems.installed import installed_gems

NAME_LENGTH = 64  # of an arm
FIELDS = ("wired", "off", "dose")


class FurtherArm(Frozen):
    """The base arm with one thing changed: a gem wired at a dose, or a gem or an existing feature off."""

    wired: str | None = None
    off: str | None = None
    dose: Annotated[float, Field(gt=0.0, le=1.0)] | None = None  # of `wired`; None: 0.1

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: Any) -> Any:
        for key in given if isinstance(given, dict) else ():
            if key not in FIELDS:
                raise ValueError(f"unknown key {key!r}; an arm has wired, off and dose{did_you_mean(key, FIELDS)}")
        return given

    @model_validator(mode="after")
    def _one_change(self) -> FurtherArm:
        if (self.wired is None) == (self.off is None):
            given = "neither" if self.wired is None else "both"
            raise ValueError(f'an arm changes one thing: give wired = "gem" or off = "gem or feature", not {given}')
        if self.wired is None and self.dose is not None:
            raise ValueError("dose belongs to a wired gem; what is off has none")
        return self

    def of(self, base: ArmConfig) -> ArmConfig:
        """The changed arm. ValueError when the base arm has no such gem, or is like this already."""
        wired, target = self.wired is not None, self.wired or self.off or ""
        if target not in base.gems:
            return self._without_feature(base, target)
        own = base.gems[target]
        changed = own.model_copy(update={"mode": "wired", "dose": self._dose} if wired else {"mode": "off"})
        if changed == own:
            state = f"wired at {own.dose:g}" if wired else "off"
            raise ValueError(f"{target} is {state} in the base arm already; this arm would change nothing")
        return ArmConfig(name=self._name(target), gems={**base.gems, target: changed})

    def naming(self, references: Mapping[str, str]) -> FurtherArm:
        """This arm with its gem named as `references` has it."""
        names = {key: references.get(name, name) for key in ("wired", "off") if (name := getattr(self, key))}
        return self.model_copy(update=names)

    @property
    def _dose(self) -> float:
        return GemConfig().dose if self.dose is None else self.dose

    def _without_feature(self, base: ArmConfig, target: str) -> ArmConfig:
        if self.wired is not None or target not in FEATURES:
            known = tuple(base.gems) if self.wired is not None else (*base.gems, *FEATURES)
            raise ValueError(_unknown(target, known, wired=self.wired is not None))
        return ArmConfig.model_validate({"name": self._name(target), "gems": base.gems, "features_off": (target,)})

    def _name(self, target: str) -> str:
        start, end = ("wired-", f"-{self._dose:g}") if self.wired is not None else ("off-", "")
        return start + arm_word(target)[: NAME_LENGTH - len(start) - len(end)] + end


def _unknown(target: str, known: tuple[str, ...], *, wired: bool) -> str:
    if target in FEATURES:
        return f"{target!r} is a feature, which can only be off; wired takes a gem of arms.gems"
    if target in BUILTIN_GEMS:
        return f"{target!r} is not among arms.gems; name it there too"
    kinds = "gem in arms.gems" if wired else f"gem in arms.gems, and no feature ({', '.join(FEATURES)})"
    return f"{target!r}: no such {kinds}{did_you_mean(target, known)}"


def arm_word(gem: str) -> str:
    """A gem's reference as a part of an arm's name: the class of an import path, in lower case."""
    return re.sub(r"[^a-z0-9_.-]", "_", gem.rpartition(":")[2].lower())


class ArmsSection(Frozen):
    """Which gems are looked at, how the base arm sets them, and the arms that differ from it."""

    # Built-in or installed names, `file.py:Class` or `module:Class`.
    gems: Annotated[tuple[str, ...], Field(min_length=1)] = BUILTIN_GEMS
    base: dict[str, GemConfig] = Field(default={})  # a gem that is not named is probed
    further: tuple[FurtherArm, ...] = ()  # arms that every trial trains beside the base arm
    purity: bool = True  # the first trial also runs an `off` arm: proof that probing changes no parameter

    @field_validator("gems")
    @classmethod
    def _known(cls, gems: tuple[str, ...]) -> tuple[str, ...]:
        for gem in gems:
            if gem in FEATURES:
                raise ValueError(f"{gem!r} is a feature of the trainer, not a gem; further arms can switch it off")
            if ":" not in gem and gem not in BUILTIN_GEMS:
                _check_installed(gem)
        if len(set(gems)) != len(gems):
            raise ValueError(f"a gem is named twice: {list(gems)}")
        return gems

    @field_validator("base", mode="before")
    @classmethod
    def _mode_alone(cls, base: Any) -> Any:
        """`gem = "wired"` is short for `gem = {mode = "wired"}`."""
        if not isinstance(base, dict):
            return base
        return {gem: {"mode": value} if isinstance(value, str) else value for gem, value in base.items()}

    @model_validator(mode="after")
    def _consistent(self) -> ArmsSection:
        for gem in self.base:
            if gem not in self.gems:
                raise ValueError(f"base.{gem}: no such gem in arms.gems{did_you_mean(gem, self.gems)}")
        list(self._further())
        return self

    def base_arm(self) -> ArmConfig:
        """The arm that every trial runs."""
        return ArmConfig(name="base", gems={gem: self.base.get(gem, GemConfig()) for gem in self.gems})

    def further_arms(self) -> tuple[ArmConfig, ...]:
        """The arms that every trial runs beside it, in the order given."""
        return tuple(self._further())

    def off_arm(self) -> ArmConfig | None:
        """The base arm with every probed gem off, or None when it would be the same arm."""
        base = self.base_arm().gems
        off = {gem: set_to if set_to.mode != "probe" else GemConfig(mode="off") for gem, set_to in base.items()}
        return ArmConfig(name="off", gems=off) if off != base else None

    def _further(self) -> Iterator[ArmConfig]:
        """ValueError naming the arm that is impossible or there twice."""
        base = self.base_arm()
        names: dict[str, int] = {}
        for index, further in enumerate(self.further):
            try:
                arm = further.of(base)
            except ValueError as error:
                raise ValueError(f"further[{index}]: {error}") from None
            if arm.name in names:
                first = names[arm.name]
                raise ValueError(f"further[{index}]: {arm.name!r} is further[{first}] already; arms must differ")
            names[arm.name] = index
            yield arm


def _check_installed(gem: str) -> None:
    installed = tuple(installed_gems())
    if gem in installed:
        return
    extra = f"; installed are {', '.join(installed)}" if installed else "; none is installed"
    raise ValueError(
        f"{gem!r} is no built-in gem ({', '.join(BUILTIN_GEMS)}), no gem of an installed package{extra}, and no import "
        f"path such as 'my_gem.py:MyGem'{did_you_mean(gem, (*BUILTIN_GEMS, *installed))}"
    )

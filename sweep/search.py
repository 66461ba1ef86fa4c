"""Which configurations a sweep runs: drawn at random from the space, or all points of a grid. None comes twice.

A random draw is keyed by (sweep seed, dotted key, number of the draw): the same seed gives the same configurations,
more trials extend the list, and a further searched key leaves the values of the others alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from sweep.domains import CONTINUOUS, Domain
from sweep.errors import ConfigError
from sweep.space import SearchSpace
from trainer.config import TrainerConfig, canonical_json

MAX_REPEATS = 1000  # draws of known configurations in a row after which a random search counts as exhausted


def draw(space: SearchSpace, search: str, trials: int, seed: int) -> tuple[list[TrainerConfig], str]:
    """At most `trials` different configurations and a note (empty when the number was reached).

    `random` crosses every draw with every value of the `grid` domains; `grid` takes the product of all domains.
    """
    points = _grid(space, trials) if search == "grid" else _random(space, seed)
    found: dict[str, TrainerConfig] = {}
    repeats = 0
    for point in points:
        config = space.configuration(point)
        known = found.setdefault(canonical_json(config), config)
        repeats = 0 if known is config else repeats + 1
        if len(found) >= min(trials, space.size) or repeats >= MAX_REPEATS:
            break
    if len(found) == trials:
        return list(found.values()), ""
    return list(found.values()), _exhausted(space, len(found), trials)


def _exhausted(space: SearchSpace, found: int, trials: int) -> str:
    advice = "widen it or add a distribution, such as trainer.learning_rate = {loguniform = [3e-4, 3e-3]}"
    different = "1 configuration" if found == 1 else f"{found} different configurations"
    return f"the search space is exhausted: {different} of the {trials} asked for (sweep.trials); {advice}"


def _grid(space: SearchSpace, trials: int) -> Iterator[dict[str, Any]]:
    for key, domain in space.domains.items():
        if domain.kind in CONTINUOUS:
            raise ConfigError(
                f"trainer.{key}: a grid search needs finitely many values; use grid or choice, not {domain.kind}, "
                'or sweep.search = "random"'
            )
    if space.size > trials:
        raise ConfigError(
            f"sweep.trials: the grid has {space.size} configurations and only {trials} are allowed; "
            f"set sweep.trials = {space.size} or take values out"
        )
    options = [domain.options or () for domain in space.domains.values()]
    for values in itertools.product(*options):
        yield dict(zip(space.domains, values, strict=True))


def _random(space: SearchSpace, seed: int) -> Iterator[dict[str, Any]]:
    crossed = {key: domain for key, domain in space.domains.items() if domain.kind == "grid"}
    cells = [dict(zip(crossed, values, strict=True)) for values in itertools.product(*_options(crossed))]
    for number in itertools.count():
        drawn = {
            key: domain.at(_quantile(seed, key, number)) for key, domain in space.domains.items() if key not in crossed
        }
        for cell in cells:
            yield {key: (cell if key in crossed else drawn)[key] for key in space.domains}


def _options(domains: dict[str, Domain]) -> list[Sequence[Any]]:
    return [domain.options or () for domain in domains.values()]


def _quantile(seed: int, key: str, number: int) -> float:
    """A uniform number in [0, 1) with 53 random bits."""
    digest = hashlib.blake2b(f"{seed}/{key}/{number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53

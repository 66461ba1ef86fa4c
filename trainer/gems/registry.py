"""Find gems by built-in name, by entry point, or by import path: `package.module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

from trainer.config import BUILTIN_GEMS, FEATURES
from trainer.gems.contract import Gem, GemContext, GemError
from trainer.gems.installed import installed_gems

BUILTIN = {
    "g6_branch_indep": "trainer.gems.branch_independence:BranchIndependence",
    "g10_temporal": "trainer.gems.temporal_consistency:TemporalConsistency",
    "g12_predictive": "trainer.gems.predictive_coding:PredictiveCoding",
}
assert tuple(BUILTIN) == BUILTIN_GEMS
# In which order gems add their gradients, whatever the configuration's order; users' gems follow in theirs. Float sums
# depend on the order, and a configuration that names the same gems otherwise must train the same bits.
AUX_ORDER = ("g12_predictive", "g6_branch_indep", "g10_temporal")
assert set(AUX_ORDER) == set(BUILTIN_GEMS)
NAME = re.compile(r"^[a-z][a-z0-9_]{0,47}$")
COMPONENT_OF = {"g12_predictive": "pred"}  # a row that the older trainer already had keeps its name there
DATA = frozenset({"observation", "next_observation", "direction", "magnitude"})  # what the network is given and did
CARRIERS = frozenset(GemContext.__dataclass_fields__) - DATA - {"continues", "returns", "temperature", "active"}


def component_name(gem: str) -> str:
    """Name of a gem's row in the gradient decomposition."""
    return COMPONENT_OF.get(gem, f"gem:{gem}")


def _module(place: str, reference: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise GemError(f"gem {reference!r}: there is no file {path}")
    name = f"gemsweep_user_gem_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_gem(reference: str) -> Gem:
    """Instance of the gem that `reference` names; GemError says which part of it is wrong."""
    try:
        found, attribute = _find(reference)
        gem = _checked(found, attribute, reference)()
        gem.reference = reference
        return gem
    except GemError:
        raise
    except Exception as error:  # a user's file may raise anything while it is imported
        raise GemError(f"gem {reference!r}: {type(error).__name__}: {error}") from error


def _find(reference: str) -> tuple[object, str]:
    """What `reference` names, and the attribute's own name. A built-in name comes before an installed one."""
    place, _, attribute = BUILTIN.get(reference, reference).rpartition(":")
    if place:
        return getattr(_module(place, reference), attribute), attribute
    if reference.endswith(".py"):
        raise GemError(f"gem {reference!r}: say which class of it, as in '{reference}:MyGem'")
    installed = installed_gems()
    points = installed.get(reference, ())
    if not points:
        known = f"a built-in name ({', '.join(BUILTIN)})"
        known += f", an installed one ({', '.join(installed)})" if installed else ""
        raise GemError(f"gem {reference!r}: give {known} or `file.py:Class` or `module:Class`")
    if len(points) > 1:
        places = " and ".join(point.value for point in points)
        raise GemError(f"gem {reference!r}: installed packages disagree about it: {places}; name it by `module:Class`")
    return points[0].load(), points[0].attr


def _checked(found: object, attribute: str, reference: str) -> type[Gem]:
    """`found` if it is a gem class that can be used."""
    if not (inspect.isclass(found) and issubclass(found, Gem)):
        raise GemError(f"gem {reference!r}: {attribute} is not a class derived from trainer.gems.Gem")
    if inspect.isabstract(found):
        raise GemError(f"gem {reference!r}: {attribute} does not define forward(ctx)")
    if not NAME.match(str(getattr(found, "name", ""))) or not isinstance(found.name, str):
        raise GemError(f"gem {reference!r}: `name` must be lower case letters, digits and underscores")
    unknown = set(getattr(found, "inputs", ())) - CARRIERS
    if unknown or not getattr(found, "inputs", ()):
        raise GemError(f"gem {reference!r}: `inputs` must name tensors among {', '.join(sorted(CARRIERS))}")
    repeats = found.may_duplicate
    if isinstance(repeats, str) or not set(repeats) <= set(FEATURES):
        raise GemError(f"gem {reference!r}: `may_duplicate` must name features among {', '.join(FEATURES)}")
    return found


def load_gems(references: tuple[str, ...]) -> tuple[Gem, ...]:
    """All gems of an experiment in the order in which they act; two with one name are refused."""
    gems = tuple(sorted((load_gem(reference) for reference in references), key=_turn))
    names = [gem.name for gem in gems]
    if len(set(names)) != len(names):
        raise GemError(f"two gems share a name: {names}")
    return gems


def _turn(gem: Gem) -> int:
    return AUX_ORDER.index(gem.name) if gem.name in AUX_ORDER else len(AUX_ORDER)

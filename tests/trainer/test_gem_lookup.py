"""Gems by bare name: built in, or an entry point of an installed package; and the order in which all of them act."""

from itertools import permutations

import pytest

from trainer.config import BUILTIN_GEMS
from trainer.gems.installed import installed_gems
from trainer.gems.registry import AUX_ORDER, GemError, load_gem, load_gems

MODULE = """
from trainer.gems import Gem

class First(Gem):
    name = "first"
    inputs = ("trunk",)

    def forward(self, ctx):
        return ctx.trunk.sum(-1)

class Second(First):
    name = "second"
"""


def install(folder, package, **gems):
    """A distribution in `folder` that declares entry points."""
    place = folder / f"{package}-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in gems.items())
    (place / "entry_points.txt").write_text(f"[gemsweep.gems]\n{points}")


@pytest.fixture
def site(tmp_path, monkeypatch):
    (tmp_path / "gems_from_a_package.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_installed_gem_goes_by_the_name_of_its_entry_point(site):
    install(site, "one", q_first="gems_from_a_package:First", q_second="gems_from_a_package:Second")
    gem = load_gem("q_second")
    assert (gem.name, gem.reference) == ("second", "q_second")
    assert [gem.name for gem in load_gems(("q_second", "q_first"))] == ["second", "first"]


def test_a_built_in_name_comes_first(site):
    install(site, "one", g10_temporal="gems_from_a_package:First")
    assert load_gem("g10_temporal").name == "g10_temporal"


def test_an_unknown_name_lists_what_there_is(site):
    install(site, "one", q_first="gems_from_a_package:First")
    with pytest.raises(
        GemError, match=r"a built-in name \(g6_branch_indep, .*\), an installed one \(q_first\) or `file"
    ):
        load_gem("nothing")


def test_packages_that_disagree_about_a_name_are_told_and_the_import_path_still_works(site):
    install(site, "one", q_first="gems_from_a_package:First")
    install(site, "two", q_first="gems_from_a_package:Second")
    with pytest.raises(GemError, match=r"disagree about it: gems_from_a_package:.* and gems_from_a_package:"):
        load_gem("q_first")
    assert load_gem("gems_from_a_package:First").name == "first"


def test_a_package_that_is_listed_twice_agrees_with_itself(site):
    install(site, "one", q_first="gems_from_a_package:First")
    install(site, "two", q_first="gems_from_a_package:First")
    assert len(installed_gems()["q_first"]) == 1
    assert load_gem("q_first").name == "first"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module_at_all:Gem", "no_such_module_at_all"),
        ("gems_from_a_package:Absent", "Absent"),
        ("pathlib:Path", "not a class derived"),
    ],
)
def test_a_broken_entry_point_is_named(site, value, message):
    install(site, "one", broken=value)
    with pytest.raises(GemError, match=f"gem 'broken': .*{message}"):
        load_gem("broken")


def test_a_file_without_its_class_says_what_is_missing():
    with pytest.raises(GemError, match=r"say which class of it, as in 'my_gem.py:MyGem'"):
        load_gem("my_gem.py")


@pytest.mark.parametrize("order", list(permutations(BUILTIN_GEMS)))
def test_gems_act_in_one_order_whatever_the_configuration_names_first(site, order):
    mine = ("gems_from_a_package:Second", "gems_from_a_package:First")
    found = load_gems((mine[0], *order, mine[1]))
    assert tuple(gem.name for gem in found) == ("g12_predictive", "g6_branch_indep", "g10_temporal", "second", "first")
    assert tuple(gem.name for gem in found[:3]) == AUX_ORDER
    assert {gem.reference for gem in found} == {*mine, *order}

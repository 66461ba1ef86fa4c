"""docs/gems.md, taken at its word: its gem, its tests and its configuration run as they stand there."""

import re
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from tiny_trial import BASE, OFF, run, tiny_spec

from sweep.config import SweepConfig
from sweep.gem_check import check
from sweep.toml_file import read_config
from trainer.config import FEATURES, ArmConfig, GemConfig
from trainer.gems import GemContext
from trainer.gems.conformance import CHECKS
from trainer.gems.installed import GROUP
from trainer.gems.registry import CARRIERS, load_gem

PAGE = (Path(__file__).parents[2] / "docs" / "gems.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def my_gem(tmp_path, monkeypatch):
    """The file of step 1, in the folder where its user stands."""
    (tmp_path / "my_gem.py").write_text(blocks("python")[0])
    monkeypatch.chdir(tmp_path)
    return "my_gem.py:ValueJump"


def test_the_file_is_about_20_lines_and_passes_the_checks_as_the_page_says(my_gem):
    assert len(blocks("python")[0].splitlines()) <= 22
    lines, failed = check(my_gem)
    assert failed == []
    assert f"The last line should be `{lines[-1]}`" in PAGE


def test_it_is_probed_without_a_changed_bit_and_wired_at_its_dose(market_file, my_gem):
    probed = ArmConfig(name="base", gems={**BASE.gems, my_gem: GemConfig()})
    wired = ArmConfig(name="wired", gems={**BASE.gems, my_gem: GemConfig(mode="wired", dose=0.2)})
    columns = (
        run(tiny_spec(market_file, ["base 0 0", "wired 0 0", "off 0 0"], arms=(probed, wired, OFF))).records[-1].columns
    )
    digests = columns["purity/params_sha"]
    assert digests[0] == digests[2] != digests[1]
    assert columns["gem/value_jump/mode"] == ["probe", "wired", "off"]
    assert columns["gem/value_jump/value"][0] > 0
    assert columns["gem/value_jump/size"][0] > 0
    assert columns["grad/gem:value_jump/direction"][0] > 0


def test_the_tests_of_the_page_are_collected_and_pass(my_gem, pytester_like):
    assert pytester_like(blocks("python")[1]) == list(CHECKS)


@pytest.fixture
def pytester_like(tmp_path, monkeypatch):
    """Runs the parametrised test of a module's text and gives the parameters it ran with."""

    def collect(text):
        monkeypatch.syspath_prepend(tmp_path)
        space = {}
        exec(compile(text, "test_value_jump.py", "exec"), space)
        (mark,) = space["test_value_jump"].pytestmark
        for parameter in mark.args[1]:
            space["test_value_jump"](parameter)
        return list(mark.args[1])

    yield collect
    sys.modules.pop("my_gem", None)


def test_the_configuration_of_the_page_has_the_arms_that_its_comments_name(my_gem, tmp_path):
    (tmp_path / "my.toml").write_text(blocks("toml")[0])
    arms = read_config(tmp_path / "my.toml", [], {}).arms
    assert [arm.name for arm in arms.further_arms()] == re.findall(r"# arm ([\w.-]+)", blocks("toml")[0])
    assert arms.base_arm().gems["g12_predictive"].mode == "wired"
    overrides = re.findall(r"--set '([^']+)'", PAGE)
    assert [arm.name for arm in read_config(None, overrides, {}).arms.further_arms()] == ["wired-valuejump-0.1"]


def test_the_entry_point_of_the_page_is_that_of_the_group():
    assert tomllib.loads(blocks("toml")[1])["project"]["entry-points"] == {
        GROUP: {"value_jump": "my_package.my_gem:ValueJump"}
    }


def rows(heading):
    """First cells of the table below a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [line.split("|")[1] for line in section.splitlines() if re.match(r"\s*\| `", line)]


def test_every_field_of_ctx_and_every_check_and_feature_is_named():
    named, may_enter = set(), set()
    for line in PAGE.split("| fields |")[1].split("\n\n")[0].splitlines()[2:]:
        cells = line.strip().strip("|").split("|")
        fields_of_row = set(re.findall(r"`(\w+)`(?!`)", cells[0].split(": the predictive")[0])) - {"next_"}
        if "both with `next_`" in cells[0]:
            fields_of_row |= {f"next_{name}" for name in fields_of_row if name.startswith(("direction", "magnitude"))}
        named |= fields_of_row
        may_enter |= fields_of_row if cells[-1].strip() == "yes" else set()
    assert named == {field.name for field in fields(GemContext)}
    assert may_enter == CARRIERS
    assert [cell.strip(" `") for cell in rows("The conformance suite")] == list(CHECKS)
    assert set(FEATURES) <= set(re.findall(r"`(\w+)`", PAGE.split("**may_duplicate**")[1].split("\n\n")[0]))


def test_the_built_in_gems_of_the_page_are_ours():
    for cell in rows("The built-in gems"):
        assert load_gem(cell.strip(" `")).name == cell.strip(" `")
    assert len(rows("The built-in gems")) == 3
    assert SweepConfig().arms.gems == tuple(cell.strip(" `") for cell in rows("The built-in gems"))

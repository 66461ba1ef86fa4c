"""Arms beside one another in a pack: each changes what it names, on common random numbers, and no other member."""

import pytest
from tiny_trial import OFF, rows_differ, run, tiny_spec

from sweep.arms import ArmsSection
from trainer.config import BUILTIN_GEMS, FEATURES

EPOCHS = {"epochs": 2}
FURTHER = [{"wired": "g6_branch_indep", "dose": 0.5}, {"wired": "g12_predictive"}]
ARMS = ArmsSection.model_validate({"further": FURTHER + [{"off": feature} for feature in FEATURES]})
NAMES = [arm.name for arm in ARMS.further_arms()]


@pytest.fixture(scope="module")
def packed(market_file):
    arms = (ARMS.base_arm(), *ARMS.further_arms(), OFF)
    return run(tiny_spec(market_file, [f"{arm.name} 0 0" for arm in arms], arms=arms, **EPOCHS))


def parameters(found, row):
    return [record.columns["purity/params_sha"][row] for record in found.records]


def test_every_arm_starts_alike_and_probing_changes_nothing(packed):
    assert len(set(packed.records[0].columns["purity/params_sha"])) == 1
    assert parameters(packed, -1) == parameters(packed, 0)


# Nothing collapses in two epochs, so there is no pull of distillation to leave out.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "off-distillation"])
def test_what_an_arm_changes_shows_in_its_parameters(packed, name):
    row = NAMES.index(name) + 1
    assert parameters(packed, row)[1:] != parameters(packed, 0)[1:]
    assert packed.records[-1].columns["status"][row] == "ok"


def test_the_base_arm_has_the_bits_that_it_has_alone(packed, market_file):
    alone = run(tiny_spec(market_file, ["base 0 0"], arms=(ARMS.base_arm(),), **EPOCHS))
    for one, other in zip(packed.records, alone.records, strict=True):
        other.columns = {name: column for name, column in other.columns.items() if name in one.columns}
        one.columns = {name: column for name, column in one.columns.items() if name in other.columns}
        assert rows_differ(one, 0, other, 0, ("clock/", "member")) == []


def test_the_order_of_the_configuration_changes_no_bit(market_file):
    found = []
    for order in (BUILTIN_GEMS, BUILTIN_GEMS[::-1]):
        section = ArmsSection(gems=order, base={gem: {"mode": "wired", "dose": 0.3} for gem in order})
        found.append(run(tiny_spec(market_file, ["base 0 0"], arms=(section.base_arm(),), **EPOCHS)))
    assert parameters(found[0], 0) == parameters(found[1], 0)
    for one, other in zip(found[0].records, found[1].records, strict=True):
        assert rows_differ(one, 0, other, 0) == []

"""Lanes of a pack never mix, and the same inputs give the same bits."""

import pytest
import torch
from kernel_cases import BY_NAME, arguments, differing, lane_axis

LANES = 3


def run(name, values):
    BY_NAME[name](*values)
    return values


def pick(name, values, lanes):
    """The arguments with only the given lanes, in that order."""
    axes = [lane_axis(name, i) for i in range(len(values))]
    return [
        v if axis is None else v.index_select(axis, torch.tensor(lanes)).contiguous()
        for v, axis in zip(values, axes, strict=True)
    ]


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("lanes", [[0], [2], [2, 0, 1], [1, 1, 0, 2, 1]], ids=str)
def test_a_lane_has_the_same_bits_in_any_place_and_company(name, lanes):
    alone = run(name, pick(name, arguments(name, LANES), lanes))
    together = pick(name, run(name, arguments(name, LANES)), lanes)
    assert differing(name, alone, together) == []


@pytest.mark.parametrize("name", BY_NAME)
def test_repeated_calls_give_the_same_bits(name):
    first = run(name, arguments(name, LANES, 16))
    assert all(differing(name, first, run(name, arguments(name, LANES, 16))) == [] for _ in range(5))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_nan_stays_in_its_lane(name):
    clean, spoilt = arguments(name, LANES), arguments(name, LANES)
    for i, value in enumerate(spoilt):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and lane_axis(name, i) is not None:
            value.select(lane_axis(name, i), 1).fill_(torch.nan)
    run(name, clean)
    run(name, spoilt)
    assert differing(name, pick(name, clean, [0, 2]), pick(name, spoilt, [0, 2])) == []
    lacks_floats = name in ("uniform", "observe")  # no lane of theirs holds a floating-point input
    assert lacks_floats or differing(name, pick(name, clean, [1]), pick(name, spoilt, [1])) != []


@pytest.mark.parametrize(
    "name", [name for name, operation in BY_NAME.items() if any(a.name == "active" for a in operation.arguments)]
)
def test_an_inactive_lane_keeps_its_outputs(name):
    everyone, some = arguments(name, LANES), arguments(name, LANES)
    active = [a.name for a in BY_NAME[name].arguments].index("active")
    some[active][1] = 0
    for value in some[active + 1 :]:
        value.fill_(-7.0)
    run(name, everyone)
    run(name, some)
    assert differing(name, pick(name, everyone, [0, 2]), pick(name, some, [0, 2])) == []
    assert all((value[1] == -7.0).all() for value in some[active + 1 :])

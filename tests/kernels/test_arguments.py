"""What a call must look like, and what is said when it does not."""

import pytest
import torch
from kernel_cases import BY_NAME, arguments

from numba_kernels import ArgumentError

X, ACTIVE, GRAD = 0, 2, 4  # places among the arguments of branch_independence


def wrong(place, change):
    values = arguments("branch_independence")
    values[place] = change(values[place])
    return values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (wrong(X, torch.Tensor.double), r"\(x\): dtype float64, wants float32\[P, B, H1\]"),
        (wrong(ACTIVE, torch.Tensor.bool), r"\(active\): dtype bool, wants int32\[P\]"),
        (wrong(X, lambda t: t[0]), r"\(x\): 2 axes, wants"),
        (wrong(X, lambda t: t.transpose(1, 2).contiguous().transpose(1, 2)), r"\(x\): not contiguous; pass"),
        (wrong(X, lambda t: t.requires_grad_()), r"\(x\): requires a gradient.*detach"),
        (wrong(X, lambda t: t.numpy()), r"\(x\): ndarray, wants a tensor"),
        (wrong(X, lambda t: t.to("meta")), r"\(y\): on cpu, the first argument is on meta"),
        (
            wrong(GRAD, lambda t: t[:, :, :-1].contiguous()),
            r"\(grad_x\): shape \[3, 10, 7\]: axis 2 has 7 entries, 8 wa",
        ),
        (
            wrong(ACTIVE, lambda t: t[:-1]),
            r"\(active\): shape \[2\]: axis 0 has 2 entries, 3 wanted \(P in int32\[P\]\)",
        ),
        (
            arguments("branch_independence")[:-1],
            r"branch_independence: 5 arguments given, 6 wanted: x, y, active, value",
        ),
        ([v.to("meta") for v in arguments("branch_independence")], "tensors on meta; kernels run on cpu and cuda"),
    ],
    ids=lambda p: p[:20] if isinstance(p, str) else "",
)
def test_a_bad_argument_is_named_and_nothing_runs(values, message):
    with pytest.raises(ArgumentError, match=message):
        BY_NAME["branch_independence"](*values)
    outputs = [v for v in values[3:] if v.device.type == "cpu"]
    assert all(torch.equal(v, torch.zeros_like(v)) for v in outputs)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_tensor_of_every_operation_is_checked(name):
    for i, argument in enumerate(BY_NAME[name].arguments):
        if argument.is_tensor:
            for change in (lambda t: t.half(), lambda t: t[None], lambda t: t.to("meta")):
                values = arguments(name)
                values[i] = change(values[i])
                with pytest.raises(ArgumentError, match=rf"{name}\(\w+\): "):
                    BY_NAME[name](*values)


def test_shapes_are_checked_again_after_a_good_call():
    values = arguments("lane_mean")
    BY_NAME["lane_mean"](*values)
    with pytest.raises(ArgumentError, match=r"lane_mean\(weight\)"):
        BY_NAME["lane_mean"](values[0], values[1][:, :-1].contiguous(), values[2])


@pytest.mark.parametrize("name", BY_NAME)
def test_no_lanes_is_no_work(name):
    BY_NAME[name](*arguments(name, lanes=0))

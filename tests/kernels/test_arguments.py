"""What a call must look like, and what is said when it does not."""

import pytest
import torch
from kernel_cases import BY_NAME, arguments

from numba_kernels import ArgumentError, LaunchError
from numba_kernels.launch import Launch

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


def test_a_grid_that_cuda_does_not_take_is_refused_before_the_gpu_is_touched():
    operation, values = BY_NAME["lane_mean"], arguments("lane_mean")
    with pytest.raises(LaunchError, match=r"lane_mean_kernel: a grid of \(1, 65536\) blocks; CUDA takes 65535"):
        Launch(operation.kernels[0], (1, 65536), tuple(values)).run(0)


def test_rows_of_random_numbers_may_be_of_any_length():
    key = torch.zeros(2, dtype=torch.int64)
    (launch,) = BY_NAME["uniform"].launches(key, 3, key, torch.empty(2, 10_000_000, device="meta"))
    assert launch.grid[0] * launch.kernel.block >= 10_000_000
    assert max(launch.grid[1:]) <= 2


def test_a_lone_lane_may_have_any_stride():
    """Its stride says nothing: torch calls a single row contiguous whatever it is."""
    x, lane = torch.randn(1, 3, 4), torch.randn(4, 1).t()
    assert lane.stride(0) == 1
    expected = (x + lane[:, None]).relu()
    BY_NAME["bias_relu"](x, lane)
    assert torch.equal(x, expected)
    gradient, output, sums = torch.ones(1, 3, 4), torch.randn(3, 4, 1).permute(2, 0, 1), torch.zeros(1, 4)
    BY_NAME["relu_gradient"](gradient, output, sums)
    assert torch.equal(sums[0], (output[0] > 0).float().sum(0))


def test_lanes_that_are_not_contiguous_in_themselves_are_refused():
    with pytest.raises(ArgumentError, match=r"bias_relu\(bias\): its lanes are not contiguous in themselves"):
        BY_NAME["bias_relu"](torch.zeros(2, 3, 4), torch.zeros(2, 8)[:, ::2])

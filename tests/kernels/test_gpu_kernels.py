"""On a GPU: kernels against their CPU twins, inside captured graphs, and lanes apart."""

import numpy as np
import pytest
import torch
from kernel_cases import BY_NAME, arguments, differing, lane_axis

from numba_kernels import ArgumentError, LaunchError, warmup

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

ULP_CLASS = {"temporal_consistency", "market_step"}


@pytest.fixture(scope="module", autouse=True)
def _warm():
    warmup("cuda")


def on_gpu(values):
    return [v.cuda() if isinstance(v, torch.Tensor) else v for v in values]


def on_cpu(values):
    return [v.cpu() if isinstance(v, torch.Tensor) else v for v in values]


def check(name, expected, got):
    """To the bit where that is promised, else within a few ulp of each tensor's largest entry."""
    got = on_cpu(got)
    if name not in ULP_CLASS:
        assert differing(name, expected, got) == []
    for left, right in zip(expected, got, strict=True):
        if isinstance(left, torch.Tensor) and left.is_floating_point():
            ulps = 1e-14 if left.dtype == torch.float64 else 1e-5
            largest = left.abs().max().item() if left.numel() else 0.0
            np.testing.assert_allclose(right.double(), left.double(), rtol=ulps, atol=ulps * largest)


@pytest.mark.parametrize("lanes", [1, 3, 33])
@pytest.mark.parametrize("size", [3, 8, 70])
@pytest.mark.parametrize("name", BY_NAME)
def test_equal_to_the_cpu_twin(name, size, lanes):
    expected, got = arguments(name, lanes, size), on_gpu(arguments(name, lanes, size))
    BY_NAME[name](*expected)
    BY_NAME[name](*got)
    check(name, expected, got)


@pytest.mark.parametrize("name", BY_NAME)
def test_hundred_runs_give_the_same_bits(name):
    runs = [on_gpu(arguments(name, 8, 40)) for _ in range(100)]
    for values in runs:
        BY_NAME[name](*values)
    assert all(differing(name, on_cpu(runs[0]), on_cpu(values)) == [] for values in runs[1:])


@pytest.mark.parametrize("name", BY_NAME)
def test_captured_and_replayed(name):
    """A replay reads what stands in the tensors then, not what stood there at capture."""
    values = on_gpu(arguments(name, 4, 9, seed=0))
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream):
        BY_NAME[name](*values)
    expected = arguments(name, 4, 9, seed=1)
    for place, value in zip(values, expected, strict=True):
        if isinstance(place, torch.Tensor):
            place.copy_(value)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    BY_NAME[name](*expected)
    check(name, expected, values)


def test_launches_follow_torchs_stream():
    values, out = torch.zeros(1, 1000, device="cuda"), torch.zeros(1, device="cuda")
    side = torch.cuda.Stream()
    for turn in range(1, 50):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000)
            values.fill_(float(turn))
            BY_NAME["lane_mean"](values, torch.ones_like(values), out)
            seen = out.clone()
        side.synchronize()
        assert seen.item() == turn


@pytest.mark.parametrize("name", BY_NAME)
def test_a_nan_stays_in_its_lane(name):
    clean, spoilt = on_gpu(arguments(name, 3, 8)), on_gpu(arguments(name, 3, 8))
    axes = [lane_axis(name, i) for i in range(len(clean))]
    for value, axis in zip(spoilt, axes, strict=True):
        if axis is not None and value.is_floating_point():
            value.select(axis, 1).fill_(torch.nan)
    BY_NAME[name](*clean)
    BY_NAME[name](*spoilt)
    for lane in (0, 2):
        pairs = zip(clean, spoilt, axes, strict=True)
        assert all(axis is None or torch.equal(a.select(axis, lane), b.select(axis, lane)) for a, b, axis in pairs)


def test_tensors_of_two_devices_are_refused():
    values = arguments("lane_mean")
    with pytest.raises(ArgumentError, match=r"lane_mean\(weight\): on cpu, the first argument is on cuda:0"):
        BY_NAME["lane_mean"](values[0].cuda(), values[1], values[2])


def test_capture_without_warm_up_is_refused_and_harmless():
    operation = BY_NAME["lane_mean"]
    values = on_gpu(arguments("lane_mean"))
    (kernel,) = operation.kernels
    compiled, bound = dict(kernel._compiled), dict(kernel._bound)
    kernel._compiled.clear()
    kernel._bound.clear()
    try:
        with pytest.raises(LaunchError, match="call warmup"), torch.cuda.graph(torch.cuda.CUDAGraph()):
            operation(*values)
    finally:
        kernel._compiled.update(compiled)
        kernel._bound.update(bound)
    operation(*values)
    torch.cuda.synchronize()

"""The CUDA sources, run thread by thread, against the CPU twins; and the simulator's own eyes."""

import re

import numpy as np
import pytest
import torch
from kernel_cases import BY_NAME, arguments, differing
from numba import float32

pytest.importorskip("greenlet")
from numba_kernels.argument import declare
from numba_kernels.cuda_target import cuda
from numba_kernels.launch import CudaKernel, Launch
from numba_kernels.simulator import KernelFault, simulate

ULP_CLASS = {"temporal_consistency", "market_step"}  # exp, log1p and log come from other libraries
SIZES = {"branch_independence": 17, "slice_norms": 9}  # more than one tile, not a multiple of it


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", BY_NAME)
def test_kernels_equal_their_cpu_twins(name, seed):
    lanes = 1 if name == "branch_independence" else 2
    size = SIZES.get(name, 6)
    on_cpu, simulated = arguments(name, lanes, size, seed), arguments(name, lanes, size, seed)
    BY_NAME[name](*on_cpu)
    simulate(BY_NAME[name].launches(*simulated), seed)
    if name not in ULP_CLASS:
        assert differing(name, on_cpu, simulated) == [], f"seed {seed}"
    for left, right in zip(on_cpu, simulated, strict=True):
        if isinstance(left, torch.Tensor):
            limits = (1e-14, 1e-16) if left.dtype == torch.float64 else (2e-5, 1e-7)
            np.testing.assert_allclose(left.double(), right.double(), *limits, err_msg=f"seed {seed}")


@pytest.mark.parametrize(
    "name", [name for name, operation in BY_NAME.items() if any(a.name == "active" for a in operation.arguments)]
)
def test_an_inactive_lane_keeps_its_outputs(name):
    values = arguments(name, lanes=2, size=3)
    active = [a.name for a in BY_NAME[name].arguments].index("active")
    values[active][:] = torch.tensor([0, 1])
    for value in values[active + 1 :]:
        value.fill_(-7.0)
    simulate(BY_NAME[name].launches(*values))
    assert all((value[0] == -7.0).all() and (value[1] != -7.0).all() for value in values[active + 1 :])


BLOCK = 8


def fault_of(function, *tensors):
    """What the simulator says of a kernel over `tensors`."""
    names = ", ".join(f"{name}: float32[N]" for name in function.__code__.co_varnames[: len(tensors)])
    kernel = CudaKernel(cuda.jit(function), declare(names), BLOCK)
    with pytest.raises(KernelFault) as caught:
        simulate([Launch(kernel, (1, 1), tensors)], seed=4)
    return str(caught.value)


def test_a_missing_barrier_is_a_race():
    def neighbour(out):
        shared = cuda.shared.array(BLOCK, float32)
        shared[cuda.threadIdx.x] = out[cuda.threadIdx.x]
        out[cuda.threadIdx.x] = shared[(cuda.threadIdx.x + 1) % BLOCK]

    assert re.search("race|before anything was written", fault_of(neighbour, torch.zeros(BLOCK)))


def test_two_writers_of_a_cell_race():
    def total(out):
        out[0] = out[0] + cuda.threadIdx.x

    assert "out[0]" in fault_of(total, torch.zeros(1))


def test_a_barrier_that_some_threads_skip():
    def early_return(out):
        if cuda.threadIdx.x > 2:
            return
        cuda.syncthreads()
        out[cuda.threadIdx.x] = 1.0

    assert "3 threads wait at a barrier, 5 have left" in fault_of(early_return, torch.zeros(BLOCK))


def test_unwritten_shared_memory():
    def tail(out):
        shared = cuda.shared.array(2 * BLOCK, float32)
        shared[cuda.threadIdx.x] = 0.0
        out[cuda.threadIdx.x] = shared[cuda.threadIdx.x + BLOCK]

    assert "before anything was written" in fault_of(tail, torch.zeros(BLOCK))


@pytest.mark.parametrize("shift", [1, -1])
def test_an_index_outside_the_array(shift):
    def beyond(out):
        out[cuda.threadIdx.x + shift] = 1.0

    assert "outside its shape [8]" in fault_of(beyond, torch.zeros(BLOCK))


def test_barriers_order_writes_and_reads():
    def reverse(values, out):
        shared = cuda.shared.array(BLOCK, float32)
        shared[cuda.threadIdx.x] = values[cuda.threadIdx.x]
        cuda.syncthreads()
        out[cuda.threadIdx.x] = shared[BLOCK - 1 - cuda.threadIdx.x]

    values, out = torch.arange(8.0), torch.zeros(8)
    kernel = CudaKernel(cuda.jit(reverse), declare("values: float32[N], out: float32[N]"), BLOCK)
    simulate([Launch(kernel, (1, 1), (values, out))], seed=5)
    assert out.tolist() == values.flip(0).tolist()


def test_an_exchange_hands_values_across_the_block():
    def total(values, out):
        x = values[cuda.threadIdx.x]
        for step in (4, 2, 1):
            x += cuda.shfl_xor_sync(0xFFFFFFFF, x, step)
        out[cuda.threadIdx.x] = x

    values, out = torch.arange(8.0), torch.zeros(8)
    kernel = CudaKernel(cuda.jit(total), declare("values: float32[N], out: float32[N]"), BLOCK)
    simulate([Launch(kernel, (1, 1), (values, out))], seed=6)
    assert out.tolist() == [28.0] * 8


def test_an_exchange_orders_no_memory():
    def neighbour(out):
        shared = cuda.shared.array(BLOCK, float32)
        shared[cuda.threadIdx.x] = out[cuda.threadIdx.x]
        cuda.shfl_xor_sync(0xFFFFFFFF, 1.0, 1)
        out[cuda.threadIdx.x] = shared[(cuda.threadIdx.x + 1) % BLOCK]

    assert "race" in fault_of(neighbour, torch.zeros(BLOCK))


def test_an_exchange_beside_a_barrier():
    def parted(out):
        if cuda.threadIdx.x > 2:
            cuda.syncthreads()
        else:
            cuda.shfl_xor_sync(0xFFFFFFFF, 1.0, 1)
        out[cuda.threadIdx.x] = 1.0

    assert "some threads wait at a barrier, others at an exchange" in fault_of(parted, torch.zeros(BLOCK))


def test_a_local_array_is_unwritten_at_first_and_each_threads_own():
    def unwritten(out):
        own = cuda.local.array(2, float32)
        own[0] = 1.0
        out[cuda.threadIdx.x] = own[1]

    assert "local array[1] is read" in fault_of(unwritten, torch.zeros(BLOCK))

    def squares(out):
        own = cuda.local.array(2, float32)
        own[0] = float32(cuda.threadIdx.x)
        own[1] = own[0] * own[0]
        out[cuda.threadIdx.x] = own[1]

    out = torch.zeros(BLOCK)
    simulate([Launch(CudaKernel(cuda.jit(squares), declare("out: float32[N]"), BLOCK), (1, 1), (out,))], seed=7)
    assert out.tolist() == [float(t * t) for t in range(BLOCK)]


def test_a_part_of_an_array_is_watched_like_the_whole():
    def beyond(out):
        row = out[0]
        row[cuda.threadIdx.x + 1] = 1.0

    kernel = CudaKernel(cuda.jit(beyond), declare("out: float32[P, N]"), BLOCK)
    with pytest.raises(KernelFault, match=r"outside its shape \[1, 8\]"):
        simulate([Launch(kernel, (1, 1), (torch.zeros(1, BLOCK),))], seed=8)

"""One bar of every training walk."""

from __future__ import annotations

from numba import int32

from . import account
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 64
ARGUMENTS = declare(
    "open: float64[R], close: float64[R], years: float64[R], row: int64[P, E], target: int64[P, E], "
    "weight: float64[P, E], equity: float64[P, E], choice: int64[P, E], costs: float64[P, 5], reward: float64[P, E], "
    "bankrupt: int32[P, E]"
)

_step_cuda = for_cuda(account).step_walk
_step_cpu = for_cpu(account).step_walk


@cuda_kernel(BLOCK)
def market_step_kernel(open, close, years, row, target, weight, equity, choice, costs, reward, bankrupt):
    """Grid (P, walks / BLOCK); a thread advances one walk. No reduction."""
    p = int32(cuda.blockIdx.x)
    e = int32(cuda.blockIdx.y) * int32(BLOCK) + int32(cuda.threadIdx.x)
    if e < row.shape[1]:
        _step_cuda(open, close, years, row, target, weight, equity, choice, costs, reward, bankrupt, p, e)


@cpu_kernel
def market_step_cpu(open, close, years, row, target, weight, equity, choice, costs, reward, bankrupt):
    for p in range(row.shape[0]):
        for e in range(row.shape[1]):
            _step_cpu(open, close, years, row, target, weight, equity, choice, costs, reward, bankrupt, p, e)


KERNEL = CudaKernel(market_step_kernel, ARGUMENTS, BLOCK, float64=True)


def launches(*tensors):
    lanes, walks = tensors[3].shape
    return [Launch(KERNEL, (lanes, -(-walks // BLOCK)), tensors)]


OPERATION = Operation("market_step", ARGUMENTS, market_step_cpu, launches, (KERNEL,))


def market_step(open, close, years, row, target, weight, equity, choice, costs, reward, bankrupt) -> None:
    """Advances every walk by one bar, in place: it holds at close[row], trades to `choice` at open[row+1], holds to
    close[row+1].

    open, close: float64[R], symbols stacked; years: float64[R], from a row's close to the next, in years; row,
    target, choice: int64[P, E], target indices of `EXPOSURES`; weight (drifted exposure), equity (1 at the walk's
    start), reward: float64[P, E]; bankrupt: int32[P, E]; costs: float64[P, 5]: trade rate (fraction of traded
    notional), financing per year on |exposure|, borrow per year on short exposure, rebalance band on targets,
    bankruptcy equity.

    reward = log(equity after / equity before). A walk at or below the bankruptcy equity is set to exactly that
    equity, flat, with bankrupt 1: its rewards sum to log(bankruptcy equity). From then on only its row advances and
    its reward is 0. A row without a successor in the table, or a target outside 0..6, gives reward NaN and leaves the
    walk as it is. State: same bits on every backend. Reward: within 2 ulp between CPU and GPU (log).
    """
    OPERATION(open, close, years, row, target, weight, equity, choice, costs, reward, bankrupt)

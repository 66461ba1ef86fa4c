"""Walks over whole spans, given the action for every bar and every last target."""

from __future__ import annotations

from numba import int32

from . import account
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 32
ARGUMENTS = declare(
    "open: float64[R], close: float64[R], years: float64[R], row0: int64[P, S], length: int64[P, S], "
    "choice: int8[P, S, T, 7], costs: float64[P, 5], returns: float64[P, S, T], target: int8[P, S, T], "
    "turnover: float64[P, S, T], bankrupt: int32[P, S]"
)

_walk_cuda = for_cuda(account).scan_walk
_walk_cpu = for_cpu(account).scan_walk


@cuda_kernel(BLOCK)
def evaluation_scan_kernel(open, close, years, row0, length, choice, costs, returns, target, turnover, bankrupt):
    """Grid (P, symbols / BLOCK); a thread walks one symbol. No reduction."""
    p = int32(cuda.blockIdx.x)
    s = int32(cuda.blockIdx.y) * int32(BLOCK) + int32(cuda.threadIdx.x)
    if s < row0.shape[1]:
        _walk_cuda(open, close, years, row0, length, choice, costs, returns, target, turnover, bankrupt, p, s)


@cpu_kernel
def evaluation_scan_cpu(open, close, years, row0, length, choice, costs, returns, target, turnover, bankrupt):
    for p in range(row0.shape[0]):
        for s in range(row0.shape[1]):
            _walk_cpu(open, close, years, row0, length, choice, costs, returns, target, turnover, bankrupt, p, s)


KERNEL = CudaKernel(evaluation_scan_kernel, ARGUMENTS, BLOCK, float64=True)


def launches(*tensors):
    lanes, symbols = tensors[3].shape
    return [Launch(KERNEL, (lanes, -(-symbols // BLOCK)), tensors)]


OPERATION = Operation("evaluation_scan", ARGUMENTS, evaluation_scan_cpu, launches, (KERNEL,))


def evaluation_scan(open, close, years, row0, length, choice, costs, returns, target, turnover, bankrupt) -> None:
    """Walks each (member, symbol) over its span: at bar row0 + t it holds target `last` and takes choice[p, s, t,
    last].

    open, close, years, costs: as for `market_step`; row0, length: int64[P, S], first bar and number of decisions (the
    bar after the last decision must exist); choice: int8[P, S, T, 7], the action for every last target. Walks start
    flat. Written at [t]: returns (float64[P, S, T]), the simple net return of bar row0 + t + 1; target (int8[P, S,
    T]), the executed target; turnover (float64[P, S, T]), traded notional / equity at that bar's open. bankrupt:
    int32[P, S]. Beyond `length` and after a bankruptcy: returns and turnover 0, target the last one (0 after a
    bankruptcy). From a bar or a choice that does not exist on: returns NaN. Same bits on every backend, and as
    `market_step` called bar by bar.
    """
    OPERATION(open, close, years, row0, length, choice, costs, returns, target, turnover, bankrupt)

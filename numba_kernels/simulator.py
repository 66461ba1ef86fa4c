"""Runs a kernel's Python source thread by thread and watches every memory access. For tests; needs greenlet.

numba's own simulator starts an OS thread per CUDA thread and overlooks the mistakes that matter. Here each CUDA
thread is a greenlet that runs until a barrier or its end, in an order drawn from a seed, and these raise
`KernelFault`: a barrier that only a part of a block reaches; two threads that touch the same cell without a barrier
between them, one of them writing; a read of shared memory that nobody wrote; an index outside the array, negative
ones included.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import greenlet
import numpy as np
import torch

from . import cuda_target, fma, reinterpret
from .argument import Argument
from .cuda_target import cuda
from .launch import Launch

Dispatcher = type(cuda.jit(lambda: None))
BARRIER, EXCHANGE = "barrier", "exchange"
PRIMITIVES = {
    cuda_target.fma: fma.fma,
    cuda_target.bits_of: reinterpret.bits_of,
    cuda_target.float_of: reinterpret.float_of,
}


class KernelFault(RuntimeError):
    """The kernel would be wrong on a GPU, perhaps only sometimes; the message names what happened where."""


class Index(NamedTuple):
    """threadIdx, blockIdx and their like."""

    x: int
    y: int = 0
    z: int = 0


class Moment(NamedTuple):
    """Which thread runs (None: several), in which block (None: several), after how many barriers of that block."""

    block: Index | None
    thread: Index | None
    phase: int

    def before_or_after(self, other: Moment) -> bool:
        """Whether a barrier, or being the same thread, puts the two moments in order."""
        if self.block is None or self.block != other.block:
            return False
        return self.phase != other.phase or (self.thread is not None and self.thread == other.thread)


class WatchedArray:
    """An array as threads see it. `module.moment` says who is looking."""

    def __init__(self, name: str, data: np.ndarray, module: SimulatedCuda, written: bool):
        self._name, self._data, self._module, self._written = name, data, module, written
        self._last_write: dict[tuple, Moment] = {}
        self._last_read: dict[tuple, Moment] = {}
        self.shape, self.size, self.dtype = data.shape, data.size, data.dtype

    def __getitem__(self, index: Any) -> Any:
        place = index if isinstance(index, tuple) else (index,)
        if len(place) < len(self.shape):
            return WatchedPart(self, place)
        cell, now = self._cell(index), self._module.moment
        write = self._last_write.get(cell)
        if write is None and not self._written:
            raise KernelFault(f"{self._name}{list(cell)} is read by {now} before anything was written there")
        self._refuse_race(cell, now, write)
        read = self._last_read.get(cell)
        if read is None or read.before_or_after(now):
            self._last_read[cell] = now
        else:
            self._last_read[cell] = Moment(now.block if read.block == now.block else None, None, now.phase)
        return self._data[cell]

    def __setitem__(self, index: Any, value: Any) -> None:
        cell, now = self._cell(index), self._module.moment
        self._refuse_race(cell, now, self._last_write.get(cell))
        self._refuse_race(cell, now, self._last_read.pop(cell, None))
        self._last_write[cell] = now
        self._data[cell] = value

    def _cell(self, index: Any) -> tuple:
        cell = index if isinstance(index, tuple) else (index,)
        if len(cell) != len(self.shape) or not all(0 <= i < n for i, n in zip(cell, self.shape, strict=True)):
            raise KernelFault(f"{self._name}{list(cell)} is outside its shape {list(self.shape)}")
        return cell

    def _refuse_race(self, cell: tuple, now: Moment, other: Moment | None) -> None:
        if other is not None and other is not now and not other.before_or_after(now):
            raise KernelFault(f"{self._name}{list(cell)}: {now} and {other} race")


class WatchedPart:
    """What is left of a watched array once its first indices are given."""

    def __init__(self, whole: WatchedArray, place: tuple):
        self._whole, self._place = whole, place
        self.shape = whole.shape[len(place) :]
        self.size = int(np.prod(self.shape))

    def _full(self, index: Any) -> tuple:
        return self._place + (index if isinstance(index, tuple) else (index,))

    def __getitem__(self, index: Any) -> Any:
        return self._whole[self._full(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._whole[self._full(index)] = value


class SimulatedCuda:
    """Stands in for the module numba.cuda while a kernel runs."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.shared = types.SimpleNamespace(array=self._shared_array)
        self.local = types.SimpleNamespace(array=self._local_array)
        self.moment = Moment(None, None, 0)
        self._arrays: dict[int, WatchedArray] = {}
        self._exchanged: dict[tuple[int, int], Any] = {}

    @property
    def threadIdx(self) -> Any:
        return self.moment.thread

    @property
    def blockIdx(self) -> Any:
        return self.moment.block

    def syncthreads(self) -> None:
        greenlet.getcurrent().parent.switch(BARRIER)

    def shfl_xor_sync(self, mask: int, value: Any, step: int) -> Any:
        """The value of the thread `step` away by exclusive or. It orders no memory accesses; the whole block takes
        part here, which is stricter than the warp of a GPU."""
        me = greenlet.getcurrent()
        turn = me.exchange_count = getattr(me, "exchange_count", 0) + 1
        thread = self.threadIdx.x
        self._exchanged[turn % 2, thread] = value
        me.parent.switch(EXCHANGE)
        return self._exchanged[turn % 2, thread ^ step]

    def _shared_array(self, shape: int | tuple, dtype: Any) -> WatchedArray:
        """The n-th shared array that a thread asks for is the n-th one of its block."""
        me = greenlet.getcurrent()
        key = me.shared_count = getattr(me, "shared_count", 0) + 1
        if key not in self._arrays:
            data = np.zeros(shape, str(dtype))
            self._arrays[key] = WatchedArray(f"shared array {key}", data, self, written=False)
        return self._arrays[key]

    def _local_array(self, shape: int | tuple, dtype: Any) -> WatchedArray:
        """An array of the thread's own."""
        return WatchedArray("local array", np.zeros(shape, str(dtype)), self, written=False)

    def _run_thread(self, body: Callable, arguments: list[Any]) -> None:
        with np.errstate(all="ignore"):  # integers wrap and floats overflow silently on a GPU
            body(*arguments)

    def run_block(self, body: Callable, block: Index, threads: int, arguments: list[Any]) -> None:
        self._arrays = {}
        waiting = [(Index(t), greenlet.greenlet(self._run_thread)) for t in range(threads)]
        start: tuple = (body, arguments)
        phase = 0
        while True:
            self.random.shuffle(waiting)
            stops = set()
            for thread, running in waiting:
                self.moment = Moment(block, thread, phase)
                stops.add(running.switch(*start))
            left = [(thread, running) for thread, running in waiting if not running.dead]
            if not left:
                return
            if len(left) < len(waiting):
                raise KernelFault(
                    f"{block}: {len(left)} threads wait at a barrier, {len(waiting) - len(left)} have left"
                )
            if len(stops) > 1:
                raise KernelFault(f"{block}: some threads wait at a barrier, others at an exchange")
            phase += BARRIER in stops
            waiting, start = left, ()


def simulate(launches: list[Launch], seed: int = 0) -> None:
    """Runs the launches one after the other on the CPU tensors they hold, blocks and threads in an order from
    `seed`."""
    for launch in launches:
        module = SimulatedCuda(seed)
        body = _plain(launch.kernel.body.py_func, module)
        arguments = [
            WatchedArray(a.name, _numpy(v, a), module, written=True) if a.is_tensor else np.dtype(a.kind).type(v)
            for a, v in zip(launch.kernel.arguments, launch.values, strict=True)
        ]
        blocks = list(_blocks(launch.grid))
        module.random.shuffle(blocks)
        for block in blocks:
            module.run_block(body, block, launch.kernel.block, arguments)


def _blocks(grid: tuple[int, ...]) -> Iterator[Index]:
    return (Index(*block) for block in np.ndindex(*grid))


def _numpy(tensor: Any, argument: Argument) -> np.ndarray:
    if argument.kind == "bfloat16":
        array = tensor.view(torch.int16).numpy().view(np.uint16)
    else:
        array = tensor.numpy().view(np.dtype(argument.kind))
    if not argument.strided:
        return array
    shape, strides = (array.shape[0], array[0].size if array.size else 0), (array.strides[0], array.itemsize)
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def _plain(function: types.FunctionType, module: SimulatedCuda) -> types.FunctionType:
    """`function` with numba.cuda replaced by `module`, and likewise every device function it calls."""
    namespace = dict(function.__globals__)
    for name in function.__code__.co_names:
        if name in namespace:
            namespace[name] = _replaced(namespace[name], module)
    cells = tuple(types.CellType(_replaced(cell.cell_contents, module)) for cell in function.__closure__ or ())
    return types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, cells)


def _replaced(value: Any, module: SimulatedCuda) -> Any:
    if value is cuda:
        return module
    if isinstance(value, Dispatcher):
        return PRIMITIVES.get(value) or _plain(value.py_func, module)
    return value

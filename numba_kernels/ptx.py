"""Compiles kernels to PTX and machine code for a chosen GPU generation on a machine without one.

Needs NVIDIA's compilers from pip: `cuda-toolkit[nvrtc,nvvm,nvcc]`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from .cuda_target import cuda, has_compiler
from .launch import CudaKernel

INSTRUCTION = r"^\s+(?:@!?%p\d+\s+)?"
FLOAT64 = re.compile(INSTRUCTION + r"[a-z][\w.]*\.f64\b.*$", re.M)
ATOMIC = re.compile(INSTRUCTION + r"(?:atom|red)\..*$", re.M)


@dataclasses.dataclass(frozen=True)
class Resources:
    """What ptxas reports of a kernel: registers a thread, bytes of spills, stack and shared memory."""

    registers: int
    spill: int
    stack: int
    shared: int


def missing_tools() -> str | None:
    """Why PTX cannot be made here, or None."""
    from numba.cuda.cudadrv import nvrtc

    if not has_compiler():
        return "libnvvm not found: pip install 'cuda-toolkit[nvvm]==13.*'"
    try:
        nvrtc.get_supported_ccs()  # type: ignore[attr-defined]
    except Exception as error:
        return f"libnvrtc not found: pip install 'cuda-toolkit[nvrtc]==13.*' ({error})"
    return None if find_ptxas() else "ptxas not found: pip install 'cuda-toolkit[nvcc]==13.*'"


def find_ptxas() -> str | None:
    """ptxas of the pip toolkit, which knows the PTX version that its libnvvm writes; else the one on PATH."""
    for folder in map(Path, sys.path):
        for found in folder.glob("nvidia/cu*/bin/ptxas"):
            return str(found)
    return shutil.which("ptxas")


@contextlib.contextmanager
def _device(capability: tuple[int, int]) -> Iterator[None]:
    """numba-cuda 0.30 asks the driver for the current device as soon as a kernel calls a device function, even when
    the capability is given; this answers for it."""
    from numba.cuda import compiler, dispatcher

    device = types.SimpleNamespace(compute_capability=capability)
    with (
        mock.patch.object(dispatcher, "get_current_device", return_value=device),
        mock.patch.object(compiler, "get_current_device", return_value=device),
    ):
        yield


def ptx_of(kernel: CudaKernel, capability: tuple[int, int]) -> str:
    """The kernel's PTX for compute capability (major, minor)."""
    with _device(capability):
        text, _ = cuda.compile_ptx(kernel.body.py_func, kernel.signature, cc=capability, launch_bounds=kernel.block)
    return text


def float64_instructions(ptx: str) -> list[str]:
    return [line.strip() for line in FLOAT64.findall(ptx)]


def atomic_instructions(ptx: str) -> list[str]:
    return [line.strip() for line in ATOMIC.findall(ptx)]


def resources(ptx: str, capability: tuple[int, int]) -> Resources:
    """Assembles the PTX and returns what the kernel needs of a multiprocessor."""
    tool = find_ptxas()
    if tool is None:
        raise RuntimeError("ptxas not found: pip install 'cuda-toolkit[nvcc]==13.*'")
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [tool, "-v", f"-arch=sm_{capability[0]}{capability[1]}", file.name, "-o", "/dev/null"]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    count = lambda pattern: sum(map(int, re.findall(pattern, report)))
    return Resources(
        registers=max(map(int, re.findall(r"Used (\d+) registers", report))),
        spill=count(r"(\d+) bytes spill stores") + count(r"(\d+) bytes spill loads"),
        stack=count(r"(\d+) bytes stack frame"),
        shared=count(r"(\d+) bytes smem"),
    )

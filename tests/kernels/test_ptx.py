"""Every kernel compiles for every supported GPU generation, without a GPU, within its means."""

import functools

import pytest

from numba_kernels import KERNELS
from numba_kernels.ptx import atomic_instructions, float64_instructions, missing_tools, ptx_of, resources

reason = missing_tools()
pytestmark = pytest.mark.skipif(reason is not None, reason=reason or "")

MOST_SHARED = 99 * 1024  # bytes a block may have on every generation from sm_86 on
REGISTERS = 64 * 1024  # of a multiprocessor
THREADS = 512  # of one kernel that should fit on a multiprocessor side by side
NEWEST = (9, 0)
GENERATIONS = [NEWEST, *(pytest.param(c, marks=pytest.mark.slow) for c in ((8, 0), (8, 6), (8, 9)))]

compiled = functools.cache(ptx_of)


@pytest.mark.parametrize("capability", GENERATIONS, ids=lambda c: f"sm_{c[0]}{c[1]}")
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_kernel_compiles_within_its_means(kernel, capability):
    text = compiled(kernel, capability)
    assert f".target sm_{capability[0]}{capability[1]}" in text
    assert atomic_instructions(text) == []
    assert kernel.float64 == bool(float64_instructions(text)), float64_instructions(text)[:5]
    needs = resources(text, capability)
    assert needs.spill == 0
    assert needs.stack == 0
    assert needs.shared <= MOST_SHARED
    assert needs.registers <= REGISTERS // THREADS
    assert needs.registers * kernel.block <= REGISTERS


def test_the_gate_sees_float64_and_atomics():
    ptx = "\tadd.f64 %fd1, %fd2, %fd3;\n\t@%p1 cvt.rn.f32.f64 %f1, %fd1;\n\tatom.global.add.f32 %f1, [%rd1], %f2;\n"
    assert len(float64_instructions(ptx)) == 2
    assert len(atomic_instructions(ptx + "\tst.shared.f32 [%rd1], %f1;\n")) == 1

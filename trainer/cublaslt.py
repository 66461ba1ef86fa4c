"""relu(x @ w + b) for all members in one pass over the output: cuBLASLt, which torch ships, with its epilogue.

torch.bmm has no epilogue, so bias and ReLU would read and write every activation once more. The library is called
through ctypes; where it is not found, or has no kernel for a shape, the caller takes the product and the pass.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from dataclasses import dataclass

import torch

# Values of cublasLt.h and library_types.h, part of the library's binary interface.
TYPES = {torch.float32: 0, torch.bfloat16: 14}
COMPUTE_FLOAT32, COMPUTE_TF32 = 68, 77
EPILOGUE, BIAS_POINTER, BIAS_STRIDE = 7, 8, 10  # attributes of a product
BATCH, BATCH_STRIDE = 5, 6  # attributes of a matrix
RELU_BIAS = 6
MOST_WORKSPACE = 1  # attribute of a preference
CANDIDATES = 8
PRODUCT, MATRIX = "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutSetAttribute"
PREFERENCE = "cublasLtMatmulPreferenceSetAttribute"
WORKSPACE_BYTES = 32 << 20  # what torch gives the library on Hopper; its best kernels ask for some


class _Candidate(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("status", c_int),
        ("waves", ctypes.c_float),
        ("reserved", c_int * 4),
    )


@dataclass(frozen=True)
class Plan:
    """A product as the library wants it described, and the kernel chosen for it."""

    product: c_void_p
    matrices: tuple[c_void_p, c_void_p, c_void_p]
    algorithm: _Candidate


@functools.cache
def library() -> ctypes.CDLL | None:
    """The library that belongs to this torch, or None."""
    if torch.version.cuda is None:
        return None
    try:
        return ctypes.CDLL(f"libcublasLt.so.{torch.version.cuda.split('.')[0]}")
    except OSError:
        return None


@functools.cache
def _handle(device: int) -> c_void_p:
    handle = c_void_p()
    _check(_library().cublasLtCreate(byref(handle)))
    return handle


@functools.cache
def _workspace(device: int) -> torch.Tensor:
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=torch.device("cuda", device))


def _library() -> ctypes.CDLL:
    found = library()
    assert found is not None
    return found


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLASLt: status {status}")


def _set(function: str, described: c_void_p, attribute: int, value: ctypes._SimpleCData) -> None:
    _check(getattr(_library(), function)(described, attribute, byref(value), c_size_t(sizeof(value))))


def _matrix(tensor: torch.Tensor) -> c_void_p:
    """`tensor` `[P, rows, columns]`, its rows contiguous, as the column-major transposes that the library thinks in."""
    matrix, (members, rows, columns) = c_void_p(), tensor.shape
    kind = c_int(TYPES[tensor.dtype])
    sizes = c_uint64(columns), c_uint64(rows), c_int64(tensor.stride(1))
    _check(_library().cublasLtMatrixLayoutCreate(byref(matrix), kind, *sizes))
    _set(MATRIX, matrix, BATCH, c_int32(members))
    _set(MATRIX, matrix, BATCH_STRIDE, c_int64(tensor.stride(0)))
    return matrix


def _product(dtype: torch.dtype, tf32: bool) -> c_void_p:
    product, scale = c_void_p(), c_int(TYPES[torch.float32])
    compute = c_int(COMPUTE_TF32 if tf32 and dtype is torch.float32 else COMPUTE_FLOAT32)
    _check(_library().cublasLtMatmulDescCreate(byref(product), compute, scale))
    _set(PRODUCT, product, EPILOGUE, c_uint32(RELU_BIAS))
    return product


def _set_bias(product: c_void_p, bias: torch.Tensor) -> None:
    _set(PRODUCT, product, BIAS_STRIDE, c_int64(bias.stride(0)))
    _set(PRODUCT, product, BIAS_POINTER, c_void_p(bias.data_ptr()))


def _candidates(device: int, product: c_void_p, matrices: tuple[c_void_p, ...]) -> list[_Candidate]:
    """Kernels for the product, the library's favourite first: a choice that is the same in every process."""
    preference, found, number = c_void_p(), (_Candidate * CANDIDATES)(), c_int()
    _check(_library().cublasLtMatmulPreferenceCreate(byref(preference)))
    _set(PREFERENCE, preference, MOST_WORKSPACE, c_size_t(WORKSPACE_BYTES))
    described = (product, matrices[0], matrices[1], matrices[2], matrices[2])
    choose = _library().cublasLtMatmulAlgoGetHeuristic
    status = choose(_handle(device), *described, preference, c_int(CANDIDATES), found, byref(number))
    _check(_library().cublasLtMatmulPreferenceDestroy(preference))
    return [] if status else list(found[: number.value])


def _run(plan: Plan, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> None:
    device = out.device.index
    _set_bias(plan.product, bias)
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    of_w, of_x, of_out = plan.matrices
    output, workspace = c_void_p(out.data_ptr()), c_void_p(_workspace(device).data_ptr())
    stream = c_void_p(torch.cuda.current_stream(device).cuda_stream)
    operands = (c_void_p(w.data_ptr()), of_w, c_void_p(x.data_ptr()), of_x, byref(zero), output, of_out, output, of_out)
    how = (byref(plan.algorithm), workspace, c_size_t(WORKSPACE_BYTES), stream)
    _check(_library().cublasLtMatmul(_handle(device), plan.product, byref(one), *operands, *how))


def _keeps_nan(plan: Plan, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> bool:
    """Whether the ReLU of a kernel lets a NaN through. Some make it 0, and a broken member would train on unseen."""
    trial, nan = torch.empty_like(out), torch.full_like(bias, float("nan"), memory_format=torch.contiguous_format)
    _run(plan, trial, x, w, nan)
    return bool(trial.isnan().all())


def _choose(out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, tf32: bool) -> Plan | None:
    product, matrices = _product(out.dtype, tf32), (_matrix(w), _matrix(x), _matrix(out))
    _set_bias(product, bias)
    plans = (Plan(product, matrices, candidate) for candidate in _candidates(out.device.index, product, matrices))
    return next((plan for plan in plans if _keeps_nan(plan, out, x, w, bias)), None)


_plans: dict[tuple, Plan | None] = {}


def relu_product(out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> bool:
    """out = relu(x @ w + bias) for each member, a NaN staying one; False when it cannot be done here, nothing written.

    `out` `[P, B, N]`, `x` `[P, B, K]`, `w` `[P, K, N]` and `bias` `[P, N]`, all float32 or all bfloat16, on one CUDA
    device, rows contiguous; members may lie apart. The kernel of a shape is chosen on its first use, which must not
    fall into a capture: an iteration runs eagerly before it is captured.
    """
    if library() is None:
        return False
    tf32 = torch.get_float32_matmul_precision() != "highest"
    key = (out.device.index, out.dtype, tf32, *((t.shape, t.stride()) for t in (out, x, w)))
    if key not in _plans:
        if torch.cuda.is_current_stream_capturing():
            return False
        _plans[key] = _choose(out, x, w, bias, tf32)
    plan = _plans[key]
    if plan is not None:
        _run(plan, out, x, w, bias)
    return plan is not None

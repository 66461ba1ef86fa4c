"""All operations and kernels of the package, for warm-up and for the tests that go over every kernel."""

from __future__ import annotations

import torch

from .action_offsets import OPERATION as ACTION_OFFSETS
from .adam_step import OPERATION as ADAM_STEP
from .anneal import OPERATION as ANNEAL
from .bias_relu import NARROWED as BIAS_RELU_BFLOAT16
from .bias_relu import OPERATION as BIAS_RELU
from .branch_independence import OPERATION as BRANCH_INDEPENDENCE
from .budget import OPERATION as BUDGET
from .c51 import NARROWED as C51_BFLOAT16
from .c51 import OPERATION as C51
from .clip import OPERATION as CLIP
from .cql import NARROWED as CQL_BFLOAT16
from .cql import OPERATION as CQL
from .distill_saxpy import OPERATION as DISTILL_SAXPY
from .draw_evenly import OPERATION as DRAW_EVENLY
from .ensemble_divergence import OPERATION as ENSEMBLE_DIVERGENCE
from .ensemble_huber import OPERATION as ENSEMBLE_HUBER
from .evaluation_scan import OPERATION as EVALUATION_SCAN
from .lane_mean import OPERATION as LANE_MEAN
from .launch import CudaKernel
from .market_step import OPERATION as MARKET_STEP
from .mixing_gradient import OPERATION as MIXING_GRADIENT
from .n_step import OPERATION as N_STEP
from .observe import OPERATION as OBSERVE
from .operation import Operation
from .predictive_coding import OPERATION as PREDICTIVE_CODING
from .quantile_huber import OPERATION as QUANTILE_HUBER
from .relu_gradient import BIAS_GRADIENT, NARROWED_BIAS_GRADIENT, NARROWED_RELU_GRADIENT, RELU_GRADIENT
from .saxpy import OPERATION as SAXPY
from .scaled import OPERATION as SCALED
from .slice_norms import OPERATION as SLICE_NORMS
from .temporal_consistency import OPERATION as TEMPORAL_CONSISTENCY
from .uniform import OPERATION as UNIFORM

OPERATIONS: tuple[Operation, ...] = (
    UNIFORM,
    SLICE_NORMS,
    BRANCH_INDEPENDENCE,
    TEMPORAL_CONSISTENCY,
    PREDICTIVE_CODING,
    LANE_MEAN,
    MARKET_STEP,
    OBSERVE,
    DRAW_EVENLY,
    N_STEP,
    ACTION_OFFSETS,
    EVALUATION_SCAN,
    C51,
    C51_BFLOAT16,
    BIAS_RELU,
    BIAS_RELU_BFLOAT16,
    RELU_GRADIENT,
    NARROWED_RELU_GRADIENT,
    BIAS_GRADIENT,
    NARROWED_BIAS_GRADIENT,
    CQL,
    CQL_BFLOAT16,
    QUANTILE_HUBER,
    MIXING_GRADIENT,
    ENSEMBLE_HUBER,
    ENSEMBLE_DIVERGENCE,
    ANNEAL,
    BUDGET,
    CLIP,
    ADAM_STEP,
    SAXPY,
    SCALED,
    DISTILL_SAXPY,
)
KERNELS: tuple[CudaKernel, ...] = tuple(kernel for operation in OPERATIONS for kernel in operation.kernels)


def warmup(device: str | torch.device = "cpu") -> dict[str, float]:
    """Compiles every operation for `device` ("cpu", "cuda", "cuda:1") or loads it from the cache; seconds by operation.

    On CUDA this must happen before a graph is captured.
    """
    place = torch.device(device)
    return {operation.name: operation.warm(place) for operation in OPERATIONS}

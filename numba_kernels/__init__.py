"""Kernels for a pack of members, on torch tensors: numba.cuda where the tensors live on a GPU, a CPU twin otherwise.

Axis 0 is the lane (member) of the pack; lanes never mix. All tensors are contiguous, outputs are written in place,
sums have a fixed order, nothing is atomic: the same inputs give the same bits. A call that does not fit raises
`ArgumentError` before anything runs. Launches go to torch's current stream, so a capturing `torch.cuda.graph` records
them.
"""

from .account import exposure as _exposure
from .action_offsets import action_offsets
from .adam_step import adam_step
from .anneal import anneal
from .argument import ArgumentError
from .bias_relu import bias_relu
from .branch_independence import branch_independence
from .budget import budget
from .c51 import c51
from .clip import COLUMNS as CLIP_COLUMNS
from .clip import SLOTS as CLIP_SLOTS
from .clip import clip
from .cql import cql
from .distill_saxpy import distill_saxpy
from .draw_evenly import draw_evenly
from .ensemble_divergence import ensemble_divergence
from .ensemble_huber import ensemble_huber
from .evaluation_scan import evaluation_scan
from .lane_mean import lane_mean
from .launch import LaunchError
from .market_step import market_step
from .mixing_gradient import mixing_gradient
from .n_step import n_step
from .observe import observe
from .operation import Operation, watched
from .predictive_coding import predictive_coding
from .quantile_huber import quantile_huber
from .registry import KERNELS, OPERATIONS, warmup
from .relu_gradient import bias_gradient, relu_gradient
from .saxpy import saxpy
from .scaled import scaled
from .slice_norms import slice_norms
from .temporal_consistency import temporal_consistency
from .uniform import uniform

EXPOSURES: tuple[float, ...] = tuple(float(_exposure(index)) for index in range(7))

__all__ = [
    "CLIP_COLUMNS",
    "CLIP_SLOTS",
    "EXPOSURES",
    "KERNELS",
    "OPERATIONS",
    "ArgumentError",
    "LaunchError",
    "Operation",
    "action_offsets",
    "adam_step",
    "anneal",
    "bias_gradient",
    "bias_relu",
    "branch_independence",
    "budget",
    "c51",
    "clip",
    "cql",
    "distill_saxpy",
    "draw_evenly",
    "ensemble_divergence",
    "ensemble_huber",
    "evaluation_scan",
    "lane_mean",
    "market_step",
    "mixing_gradient",
    "n_step",
    "observe",
    "predictive_coding",
    "quantile_huber",
    "relu_gradient",
    "saxpy",
    "scaled",
    "slice_norms",
    "temporal_consistency",
    "uniform",
    "warmup",
    "watched",
]

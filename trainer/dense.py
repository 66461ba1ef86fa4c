"""Linear layers of a pack: axis 0 of every tensor is the member; forwards, and the gradients that a backward stores."""

from __future__ import annotations

import torch

import numba_kernels as nk
from trainer.cublaslt import relu_product

Weights = dict[str, torch.Tensor]


def product(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """out = a @ b for each member, `out` a view with gaps; a float32 `out` of bfloat16 factors is summed in float32.

    On CPU through a copy: torch takes another path for a view without gaps, which a pack of one has, and its last bits
    differ there.
    """
    if not out.is_cuda:
        out.copy_(torch.bmm(a.to(out.dtype), b.to(out.dtype)))
    elif out.dtype is not a.dtype:
        torch.bmm(a, b, out_dtype=out.dtype, out=out)
    else:
        torch.bmm(a, b, out=out)


def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """x @ w + b: `[P, B, inputs]`, `[P, inputs, outputs]`, `[P, 1, outputs]`."""
    return torch.baddbmm(b, x, w)


def relu_layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """relu(x @ w + b), shapes as in `linear`; a NaN stays one."""
    out, bias = x.new_empty(*x.shape[:2], w.shape[2]), b.squeeze(1)
    if not (out.is_cuda and relu_product(out, x, w, bias)):
        torch.bmm(x, w, out=out)
        nk.bias_relu(out, bias.float())
    return out


def input_gradient(w: torch.Tensor, d_output: torch.Tensor) -> torch.Tensor:
    """d loss / d x `[P, B, inputs]` of `x @ w`."""
    return torch.bmm(d_output, w.transpose(1, 2))


def store(out: Weights, name: str, x: torch.Tensor, d_output: torch.Tensor) -> None:
    """Gradients of `x @ w + b` with respect to w and b over `out`; `d_output` float32 or bfloat16, contiguous."""
    product(out[f"w_{name}"], x.transpose(1, 2), d_output)
    nk.bias_gradient(d_output, 0, out[f"b_{name}"].squeeze(1))


def store_hidden(out: Weights, name: str, x: torch.Tensor, output: torch.Tensor, d_output: torch.Tensor) -> None:
    """Gradients of `output = relu(x @ w + b)` with respect to w and b over `out`; `d_output` becomes that of `x @ w`.

    By selection: an infinite gradient at a closed unit stays 0.
    """
    nk.relu_gradient(d_output, output, out[f"b_{name}"].squeeze(1))
    product(out[f"w_{name}"], x.transpose(1, 2), d_output)

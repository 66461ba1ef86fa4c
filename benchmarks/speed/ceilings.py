"""What the device can do at most: copy bandwidth, and matrix products in TF32 and bf16, measured in the same run."""

from __future__ import annotations

from typing import Any

import torch
from timing import summary, torch_rates

BUFFER = 4 << 30  # bytes
SIDE = 8192


def copy_bandwidth(device: str, repeats: int, seconds: float, size: int = BUFFER) -> list[float]:
    """Bytes read and written per second by a device copy of `size` bytes."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    return torch_rates(lambda: target.copy_(source), device, 2.0 * size, repeats, seconds)


def product_rate(device: str, kind: torch.dtype, repeats: int, seconds: float, side: int = SIDE) -> list[float]:
    """Floating-point operations per second of a square product of random matrices; float32 runs in TF32."""
    torch.set_float32_matmul_precision("high")
    left, right = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    out = torch.empty_like(left)
    return torch_rates(lambda: torch.mm(left, right, out=out), device, 2.0 * side**3, repeats, seconds)


def measure(device: str, repeats: int, seconds: float, small: bool = False) -> dict[str, Any]:
    """Summaries in bytes/s and operations/s; `small` sizes serve tests."""
    size, side = (1 << 20, 64) if small else (BUFFER, SIDE)
    return {
        "copy_bytes": summary(copy_bandwidth(device, repeats, seconds, size)),
        "tf32_operations": summary(product_rate(device, torch.float32, repeats, seconds, side)),
        "bf16_operations": summary(product_rate(device, torch.bfloat16, repeats, seconds, side)),
    }

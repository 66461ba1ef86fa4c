"""What a run's last bits depend on besides its configuration: versions, processor, threads, source code.

Nothing here imports the packages it asks about; a package that is already loaded is asked for what it decided.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("gemsweep", "torch", "numba", "numba-cuda", "numpy", "ray", "pandas", "pyarrow", "safetensors")
FEATURES = ("fma", "avx2", "avx512f", "avx512bw", "avx512_bf16", "amx_tile", "asimd", "sve")  # choose code paths
VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
)
SOURCES = ("trainer", "numba_kernels")  # the packages that compute what is recorded


def environment(device: str = "cpu", threads: int = 1) -> dict[str, Any]:
    """JSON-plain description of where a trial runs. `threads`: as asked for, when torch is not loaded yet."""
    torch = sys.modules.get("torch")
    return {
        "python": platform.python_version(),
        "versions": {name: package_version(name) for name in PACKAGES},
        "cpu": cpu_class(),
        "torch_cpu": torch.backends.cpu.get_cpu_capability() if torch else None,
        "threads": torch.get_num_threads() if torch else threads,
        "device": device_name(device),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "commit": git_commit(),
        "source": source_hash(),
    }


def package_version(name: str) -> str | None:
    """Installed version of a distribution, None when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@lru_cache(maxsize=1)
def cpu_class() -> str:
    """Architecture, vendor, model and the vector features that numerical libraries choose their code paths by."""
    fields = _cpuinfo()
    name = [fields.get(key, "") for key in ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")]
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    present = [feature for feature in FEATURES if feature in flags]
    return " ".join([platform.machine(), *filter(None, name or [platform.processor()]), *present])


def _cpuinfo() -> dict[str, str]:
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0]
    except OSError:
        return {"vendor_id": platform.processor()}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def device_name(device: str) -> str:
    """`cpu`, or the model of the CUDA device when torch is loaded and sees it."""
    torch = sys.modules.get("torch")
    if device.startswith("cuda") and torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name(device))
    return device


@lru_cache(maxsize=1)
def git_commit() -> str | None:
    """Commit of the checkout that gemsweep runs from, with `+changes` when files differ; None when installed."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return commit and commit + ("+changes" if changed else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


@lru_cache(maxsize=1)
def source_hash() -> str:
    """16 hex digits over the Python sources that compute records: equal code gives an equal hash, commit or not."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in SOURCES:
        for path in sorted((root / package).rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()[:16]


def environment_differences(stored: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """One line for each entry that differs, stored value first. Nested entries are named `versions.torch`."""
    before, now = _flat(stored), _flat(present)
    names = sorted(before.keys() | now.keys())
    return [
        f"{name}: {before.get(name)} then, {now.get(name)} now" for name in names if before.get(name) != now.get(name)
    ]


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return flat

"""Where compiled kernels are kept between processes.

numba's own key for a cached function is the time stamp of the one file that defines it: an edit to the arithmetic in
another file would leave the old machine code in use. Here the folder itself is named after a hash of every source
file of this package and of the compiler versions, so a cache hit is always the code that is on disk.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numba.core.config

COMPILERS = ("numba", "numba-cuda", "llvmlite", "numpy", "cuda-toolkit", "nvidia-nvvm")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


@functools.cache
def source_key() -> str:
    """16 hex digits over the package's sources and the versions of what compiles them."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    versions = [f"{name}={_version(name)}" for name in COMPILERS]
    digest.update("\n".join([*versions, sys.version, platform.machine()]).encode())
    return digest.hexdigest()[:16]


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("GEMSWEEP_CACHE_DIR"):
        yield Path(chosen)
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "gemsweep"
    yield Path(tempfile.gettempdir()) / f"gemsweep-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"


@functools.cache
def cache_directory() -> Path | None:
    """The first writable of $GEMSWEEP_CACHE_DIR, $XDG_CACHE_HOME/gemsweep (~/.cache/gemsweep) and a folder in the
    system's temporary directory, extended by the source key; None when none can be written (kernels are then compiled
    afresh in every process)."""
    for base in _candidates():
        folder = base / "numba" / source_key()
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


@contextlib.contextmanager
def caching_into_our_folder(config: object = numba.core.config) -> Iterator[None]:
    """While active, functions decorated with `cache=True` remember our folder; numba looks the folder up at decoration.

    Works no matter when numba was imported, and leaves the caches of the user's own functions where they were.
    """
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(cache_directory() or "")  # type: ignore[attr-defined]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


@contextlib.contextmanager
def one_compiler_at_a_time() -> Iterator[None]:
    """Lets the first of several starting processes compile while the others wait to load its result.

    Only saves work: numba replaces cache files atomically, so without the lock (no flock here) nothing breaks.
    """
    folder = cache_directory()
    if folder is None or sys.platform == "win32":
        yield
        return
    import fcntl

    with open(folder / "compile.lock", "a") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield

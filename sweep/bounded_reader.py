"""A compressed file of unknown origin, read forward only and within bounds: what tarfile is given to read."""

from __future__ import annotations

import gzip
from pathlib import Path

from sweep.errors import SweepError

RATIO = 200  # most bytes that one byte of an honest archive unpacks to; nothing but zeros comes to 1,000
FREE = 1 << 26  # bytes that are read whatever the ratio
LARGEST_READ = 1 << 24  # bytes at a time; longer names and headers are made up


class BoundedReader:
    """`read`, `seek` and `tell` of a gzip file. Errors: SweepError for what would fill memory, or never end.

    Python's tarfile reads the header of a member at whatever length it claims, and seeks backwards when that length is
    negative.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._most = FREE + RATIO * path.stat().st_size
        self._file = gzip.open(path)  # noqa: SIM115 closed by `close`

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_READ:
            raise SweepError(f"{self._path}: claims a header of {size} bytes; do not unpack it")
        self._check(self._file.tell() + size)
        return self._file.read(size)

    def seek(self, position: int) -> int:
        if position < self._file.tell():
            raise SweepError(f"{self._path}: claims that a file has less than no bytes; do not unpack it")
        self._check(position)
        return self._file.seek(position)

    def _check(self, end: int) -> None:
        if end > self._most:
            raise SweepError(f"{self._path}: unpacks to more than {RATIO} times its size; do not unpack it")

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> BoundedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

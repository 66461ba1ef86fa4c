"""Which files an exported experiment holds, by name: what a sweep records and a reader needs, and nothing else.

A list of what may go in is safer than one of what may not: locks, caches, Ray's pickles and half-written files never
match, whatever a later version of some library leaves in the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

MANIFEST = "MANIFEST"
REPORT = "report.html"
KEY = r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}"
RECORDS = re.compile(
    rf"plan\.json|config\.toml|timeline\.parquet|trials/{KEY}/(trial\.json|done\.json|failed\.json|log\.txt"
    rf"|epochs/\d{{5,}}-[0-9a-f]{{16}}\.parquet)"
)
CHECKPOINT = re.compile(rf"trials/{KEY}/checkpoints/\d{{5,}}\.safetensors")


def record_files(folder: Path, checkpoints: bool) -> Iterator[str]:
    """Relative names of the files of an experiment that an archive holds, sorted; the report is not among them."""
    for path in sorted(folder.glob("*")) + sorted((folder / "trials").glob("**/*")):
        name = path.relative_to(folder).as_posix()
        wanted = RECORDS.fullmatch(name) or (checkpoints and CHECKPOINT.fullmatch(name))
        if wanted and path.is_file() and not path.is_symlink():
            yield name


def belongs(name: str) -> bool:
    """Whether a relative name is one that an export writes."""
    return name in (MANIFEST, REPORT) or bool(RECORDS.fullmatch(name) or CHECKPOINT.fullmatch(name))

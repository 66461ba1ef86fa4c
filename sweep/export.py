"""An experiment as one archive that can be checked: records, plan, report, and a MANIFEST of their sha256 digests.

The archive is a tar in gzip with one folder, named after the experiment. Equal records give equal bytes: members are
sorted and carry no time, owner or rights of the machine. MANIFEST has the format of `sha256sum`, so that it can be
checked without gemsweep too. Digests find damage; whoever can change the archive can change them, so the sha256 of the
whole file, which the command prints, belongs somewhere else.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import secrets
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from sweep.archive_names import MANIFEST, REPORT, belongs, record_files
from sweep.bounded_reader import BoundedReader
from sweep.errors import SweepError
from trainer.record import RecordError
from trainer.record.files import read_bytes, sync_folder

LEVEL = 6  # of gzip; the parts are compressed already
CHUNK = 1 << 20  # bytes
LONGEST_MANIFEST = 1 << 24  # bytes, a hundred thousand files; read whole
LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")  # of the manifest


@dataclass(frozen=True)
class Archive:
    """A written or checked archive: `files` without the manifest, `size` in bytes, `sha256` of the whole file.
    problems: what was damaged in the experiment before it was exported."""

    path: Path
    folder: str
    files: int
    size: int
    sha256: str
    problems: tuple[str, ...] = ()

    def line(self) -> str:
        """For the terminal."""
        return f"{self.path}: {self.files} files, {self.size / 1e6:.1f} MB, sha256 {self.sha256}"


def export(folder: Path, target: Path | None = None, *, checkpoints: bool = False) -> Archive:
    """Write the archive of the experiment in `folder` to `target` (default: `<experiment>.tar.gz` here).

    The report is drawn anew from the records. Errors: RecordError when the folder holds no experiment; SweepError when
    the target exists or cannot be written, and then nothing is left behind.
    """
    from analysis.load import load

    folder = folder.resolve()  # however it was spelled: the report names it
    experiment, name = load(folder), folder.name
    target = target if target is not None else Path(f"{name}.tar.gz")
    if target.exists():
        raise SweepError(f"{target}: exists; delete it, or give another name with --to")
    with tempfile.TemporaryDirectory() as scratch, _written(target) as file:
        from analysis.report import write_report

        report = write_report(experiment, Path(scratch) / REPORT)
        _write(file, folder, name, report, checkpoints)
    return replace(check(target), problems=tuple(experiment.problems))  # as it lies there now


@contextmanager
def _written(target: Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name that becomes `target` at the end of the block, and is deleted by an error in it."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise SweepError(f"{target}: cannot be written ({error.strerror or error}); check space and rights") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write(file: IO[bytes], folder: Path, name: str, report: Path, checkpoints: bool) -> None:
    """Fill the archive. Each file is read once: a log that grows meanwhile has the digest of what went in."""
    lines = []
    # No file name and no time in the gzip header, or the bytes would depend on when and where.
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for relative in sorted([*record_files(folder, checkpoints), REPORT]):
            path = report if relative == REPORT else folder / relative
            if not path.exists():
                continue  # a sweep is running: checkpoints come and go
            data = read_bytes(path)
            lines.append(f"{hashlib.sha256(data).hexdigest()}  {relative}\n")
            _add(archive, f"{name}/{relative}", data)
        _add(archive, f"{name}/{MANIFEST}", "".join(lines).encode())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644  # all else stays 0 or empty
    archive.addfile(member, io.BytesIO(data))


def check(path: Path) -> Archive:
    """Read every byte of an archive and compare it with its manifest. Nothing is unpacked.

    Errors: SweepError naming the archive and the first member that is damaged, missing, doubled, not listed, a link or
    a device, outside the folder, of a kind that no export writes, or far larger than any export.
    """
    if not path.is_file():
        raise SweepError(f"{path}: no such file; give an archive that `gemsweep export` wrote")
    try:
        with BoundedReader(path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:  # type: ignore[call-overload]
            folder, found, manifest = _read(path, archive, packed)
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, OverflowError) as error:
        raise SweepError(f"{path}: not a complete archive ({_reason(error)}); export it again") from None
    if manifest is None:
        raise SweepError(f"{path}: has no {MANIFEST}, so nothing in it can be checked; export it again")
    listed = _listed(path, manifest)
    for name in sorted(found.keys() | listed.keys()):
        if name not in found:
            raise SweepError(f"{path}: {name} is listed in {MANIFEST} and missing; export it again")
        if name not in listed:
            raise SweepError(f"{path}: {name} is not listed in {MANIFEST}; do not unpack it")
        if found[name] != listed[name]:
            raise SweepError(f"{path}: {name} was changed: sha256 {found[name][:16]}, not {listed[name][:16]}")
    return Archive(path, folder, len(found), path.stat().st_size, _digest_of_file(path))


def _read(path: Path, archive: tarfile.TarFile, packed: BoundedReader) -> tuple[str, dict[str, str], bytes | None]:
    """(top folder, sha256 by relative name, bytes of the manifest) of the members, each refused if it is not plain."""
    folder, found, manifest = "", dict[str, str](), None
    for member in archive:
        top, name = _plain_name(path, member)
        folder = folder or top
        if top != folder:
            raise SweepError(f"{path}: {member.name!r} lies outside the folder {folder!r}; do not unpack it")
        if name in found or (name == MANIFEST and manifest is not None):
            raise SweepError(f"{path}: holds {name} twice; do not unpack it")
        content = archive.extractfile(member)
        assert content is not None  # of a regular file
        if name == MANIFEST:
            if member.size > LONGEST_MANIFEST:
                raise SweepError(f"{path}: {MANIFEST} has {member.size} bytes; no export writes so many")
            manifest = content.read()
        else:
            found[name] = _digest(content)
    while chunk := packed.read(CHUNK):  # zeros, and at last the checksum of gzip, which is compared when it is reached
        if any(chunk):
            raise SweepError(f"{path}: holds data after its end; do not unpack it")
    return folder, found, manifest


def _plain_name(path: Path, member: tarfile.TarInfo) -> tuple[str, str]:
    """Top folder and name below it of a regular file that an export could have written."""
    if not member.isreg() or member.issparse():
        kind = "a link" if member.issym() or member.islnk() else "no regular file"
        raise SweepError(f"{path}: {member.name!r} is {kind}; do not unpack it")
    top, _, name = member.name.partition("/")
    odd = top in ("", ".", "..") or "\\" in member.name or not member.name.isprintable()
    if odd or not belongs(name):
        raise SweepError(f"{path}: {member.name!r} is no file that an export writes; do not unpack it")
    return top, name


def _listed(path: Path, manifest: bytes) -> dict[str, str]:
    """sha256 by name, from the lines of the manifest."""
    listed: dict[str, str] = {}
    for number, line in enumerate(manifest.decode(errors="replace").splitlines(), start=1):
        match = LINE.fullmatch(line)
        if match is None or match[2] in listed:
            raise SweepError(f"{path}: {MANIFEST}, line {number}: {line[:80]!r} is not a digest and a new name")
        listed[match[2]] = match[1]
    return listed


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _digest_of_file(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return _digest(file)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error})") from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)

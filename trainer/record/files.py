"""Durable files: nothing half-written ever stands under a final name, and every JSON file carries its checksum.

A file is written under a temporary name, flushed to the disk, renamed, and the folder is flushed too; a crash at any
moment leaves either the old file, the new one, or a leftover that `remove_temporary` deletes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1  # of every file of an experiment folder
OLDEST_SCHEMA = 1  # that this version still reads
CHECKSUM = "checksum"
TEMPORARY = ".tmp"
DAMAGED = ".damaged"
ASIDE = ".aside"


class RecordError(RuntimeError):
    """An experiment folder cannot be written or read as asked; the message names the file and the way out."""


class DamagedFile(RecordError):
    """A file exists but is not what was written: cut short, changed, or of another trial."""


def write_atomic(path: Path, data: bytes | bytearray) -> None:
    """Write `data` to `path` so that a reader sees all of it or none of it, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RecordError(f"{path}: cannot be written ({error.strerror or error}); check space and rights") from error


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to the disk, without which a renamed file may be lost in a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: Path) -> bytes:
    """The content of `path`; a `RecordError` that names it when it is missing or cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error})") from error


def set_aside(path: Path, suffix: str) -> Path:
    """Rename `path` to `<path><suffix>`, numbered when that name is taken; returns the new path."""
    target = path.with_name(path.name + suffix)
    number = 1
    while target.exists():
        target = path.with_name(f"{path.name}{suffix}.{number}")
        number += 1
    os.replace(path, target)
    sync_folder(path.parent)
    return target


def remove_temporary(folder: Path) -> None:
    """Delete what a killed writer left; only for the holder of the trial's lock."""
    for path in folder.glob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)


def plain_json(value: Any, where: str) -> Any:
    """`value` as JSON types, numpy scalars included; `where` names the offending entry in the error."""
    if isinstance(value, Mapping):
        return {_text_key(key, where): plain_json(item, f"{where}: {key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item, f"{where}[{position}]") for position, item in enumerate(value)]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if not isinstance(value, float) and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return plain_json(value.item(), where)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise RecordError(f"{where} is {value}, which JSON cannot hold; write None and a status beside it")
    raise RecordError(f"{where} is a {type(value).__name__}; use None, bool, int, float, str, list or dict")


def _text_key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise RecordError(f"{where} has the key {key!r}; use text keys")
    return key


def write_json(path: Path, payload: Mapping[str, Any]) -> None:
    """Write a JSON object with the sha256 of its canonical text as its last entry, `checksum`."""
    plain = plain_json({key: value for key, value in payload.items() if key != CHECKSUM}, str(path))
    text = json.dumps({**plain, CHECKSUM: _checksum(plain)}, indent=1, ensure_ascii=False)
    write_atomic(path, text.encode() + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """The object that `write_json` wrote, without its checksum. Errors: `RecordError` (missing), `DamagedFile`."""
    data = read_bytes(path)
    try:
        payload = json.loads(data.decode())
        checksum = payload.pop(CHECKSUM)
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path}: not a complete JSON record ({error!r})") from error
    if checksum != _checksum(payload):
        raise DamagedFile(f"{path}: was changed after it was written (its checksum does not match)")
    check_schema(path, payload)
    return payload


def check_schema(path: Path, payload: Mapping[str, Any]) -> None:
    """Refuse a record of another schema rather than misread it."""
    schema = payload.get("schema", SCHEMA_VERSION)
    if isinstance(schema, int) and schema < OLDEST_SCHEMA:
        raise RecordError(f"{path}: schema {schema} is older than this gemsweep reads; use the version that wrote it")
    if not isinstance(schema, int) or schema > SCHEMA_VERSION:
        raise RecordError(f"{path}: schema {schema} is newer than this gemsweep reads; install a later version")


def _checksum(plain: Any) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_name(name: str, what: str) -> str:
    """`name` when it can stand as one folder name; an error otherwise, so that no key leaves the experiment folder."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}", name):
        raise RecordError(f"{what} {name!r} is not a name of letters, digits, dot, - and _ (at most 127, no dot first)")
    return name

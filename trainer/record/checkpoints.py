"""Checkpoints as safetensors files: tensors, JSON meta and a checksum over every byte of the file. No pickle.

The checksum stands in the file's metadata and is computed with its own 64 digits set to zero.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainer.record.files import (
    SCHEMA_VERSION,
    DamagedFile,
    RecordError,
    check_schema,
    plain_json,
    read_bytes,
    write_atomic,
)

CHECKPOINT_NAME = re.compile(r"(\d{5,})\.safetensors")
KEPT = 2
METADATA = "gemsweep"
ZEROS = b"0" * 64
CHECKSUM_START = b'{\\"sha256\\":\\"'  # as JSON text inside the JSON header


@dataclass
class Checkpoint:
    """The whole state after `epoch`: tensors by name, and JSON-plain `meta` (no NaN, text keys).

    Given: torch tensors of any device, or numpy arrays. Read back: torch tensors on the CPU.
    """

    epoch: int
    tensors: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)


def write_checkpoint(folder: Path, key: str, checkpoint: Checkpoint) -> Path:
    """Write `<folder>/<epoch>.safetensors`; a file of that name is replaced at once or not at all."""
    path = folder / f"{checkpoint.epoch:05d}.safetensors"
    meta = {
        "sha256": ZEROS.decode(),
        "schema": SCHEMA_VERSION,
        "trial": key,
        "epoch": checkpoint.epoch,
        "meta": plain_json(checkpoint.meta, f"{path.name}: meta"),
    }
    text = json.dumps(meta, separators=(",", ":"), allow_nan=False)
    data = bytearray(_serialize(checkpoint.tensors, {METADATA: text}))
    start = _checksum_position(path, data)
    data[start : start + 64] = hashlib.sha256(data).hexdigest().encode()
    write_atomic(path, data)
    return path


def _serialize(tensors: Mapping[str, Any], metadata: dict[str, str]) -> bytes:
    if all(isinstance(tensor, np.ndarray) for tensor in tensors.values()):
        import safetensors.numpy

        arrays = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in tensors.items()}
        return safetensors.numpy.save(arrays, metadata)
    import safetensors.torch
    import torch

    owned = {name: torch.as_tensor(tensor).detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(owned, metadata)


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """Checkpoint files by epoch, ascending."""
    matches = ((CHECKPOINT_NAME.fullmatch(path.name), path) for path in folder.glob("*.safetensors"))
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


def prune_checkpoints(folder: Path) -> None:
    """Delete all but the newest two: the second serves when a crash falls between a checkpoint and its part."""
    for path in list(list_checkpoints(folder).values())[:-KEPT]:
        path.unlink(missing_ok=True)


def verify_checkpoint(path: Path, key: str) -> tuple[bytes, dict[str, Any]]:
    """(file content, meta record) of an undamaged checkpoint of trial `key`; `DamagedFile` otherwise. No torch."""
    data = bytearray(read_bytes(path))
    start = _checksum_position(path, data)
    stored = bytes(data[start : start + 64])
    data[start : start + 64] = ZEROS
    if hashlib.sha256(data).hexdigest().encode() != stored:
        raise DamagedFile(f"{path}: its content is not what was written (sha256 differs)")
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    record = json.loads(header["__metadata__"][METADATA])
    check_schema(path, record)
    match = CHECKPOINT_NAME.fullmatch(path.name)
    if match is None or (record["trial"], record["epoch"]) != (key, int(match[1])):
        raise DamagedFile(f"{path}: holds epoch {record['epoch']} of trial {record['trial']}")
    return bytes(data), record


def _checksum_position(path: Path, data: bytearray) -> int:
    header_end = 8 + int.from_bytes(data[:8], "little") if len(data) >= 8 else 0
    start = data.find(CHECKSUM_START, 8, min(header_end, 256))
    if start < 0 or header_end > len(data):
        raise DamagedFile(f"{path}: not a complete checkpoint written by gemsweep")
    return start + len(CHECKSUM_START)


def read_checkpoint(path: Path, key: str) -> Checkpoint:
    """Load one verified checkpoint; its tensors are torch tensors on the CPU (imports torch)."""
    data, record = verify_checkpoint(path, key)
    import safetensors
    import safetensors.torch

    try:
        tensors = safetensors.torch.load(data)
    except safetensors.SafetensorError as error:
        raise RecordError(f"{path}: safetensors cannot read it ({error})") from error
    return Checkpoint(int(record["epoch"]), tensors, record["meta"])

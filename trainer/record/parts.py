"""One Parquet part per trial and epoch: P rows, one a member, in a file named by its epoch and its own sha256.

Values come back with the bits and dtypes that were given: dictionary pages are off because Arrow's dictionary merges
NaNs of different payload.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainer.record.files import SCHEMA_VERSION, DamagedFile, RecordError, check_schema, read_bytes, write_atomic

METADATA = b"gemsweep"  # key of the file's own record: schema, trial, epoch
PART_NAME = re.compile(r"(\d{5,})-([0-9a-f]{16})\.parquet")
Column = np.ndarray | Sequence[Any]


def encode_columns(columns: Mapping[str, Column]) -> pa.Table:
    """An Arrow table of one row per member. A column is a 1-D array, or a list of str, bool, int, float or 1-D arrays.

    Errors: `RecordError` naming the column when lengths differ or a value has no exact Arrow type.
    """
    arrays = {name: _encode(name, column) for name, column in columns.items()}
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) != 1 or not min(rows.values()):
        lengths = sorted(set(rows.values()))
        odd = [name for name, count in rows.items() if count != lengths[-1]][:3]
        raise RecordError(f"columns must have one entry per member; lengths {lengths}, see {odd}")
    return pa.table(arrays)


def _encode(name: str, column: Column) -> pa.Array:
    try:
        if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "fiub":
            return pa.array(np.ascontiguousarray(column))
        entries = list(column)
        if entries and all(isinstance(entry, str) for entry in entries):
            return pa.array([str(entry) for entry in entries], pa.string())
        if entries and all(isinstance(entry, (list, tuple, np.ndarray)) for entry in entries):
            return _encode_lists(name, entries)
        values = np.asarray(entries)
        if values.ndim == 1 and values.dtype.kind in "fiub" and len({type(entry) for entry in entries}) == 1:
            return pa.array(values)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise RecordError(f"column {name}: {error}") from error
    raise RecordError(f"column {name}: give numbers, text or 1-D arrays of one type, not {_types(column)}")


def _encode_lists(name: str, entries: list[Any]) -> pa.Array:
    rows = [np.asarray(entry) for entry in entries]
    dtypes = {row.dtype for row, entry in zip(rows, entries, strict=True) if len(row) or isinstance(entry, np.ndarray)}
    dtype = dtypes.pop() if dtypes else np.dtype(np.float64)
    if dtypes or dtype.kind not in "fiub" or any(row.ndim != 1 for row in rows):
        raise RecordError(f"column {name}: every row must be a 1-D array of one numeric dtype")
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.concatenate([row.astype(dtype) for row in rows])))


def _types(column: Column) -> str:
    return ", ".join(sorted({type(entry).__name__ for entry in column})) or "nothing"


def write_part(folder: Path, key: str, epoch: int, columns: Mapping[str, Column]) -> Path:
    """Write one part; returns its path `<folder>/<epoch>-<16 hex digits of the sha256>.parquet`."""
    data = _encode_file(encode_columns(columns), {"schema": SCHEMA_VERSION, "trial": key, "epoch": epoch})
    path = folder / f"{epoch:05d}-{hashlib.sha256(data).hexdigest()[:16]}.parquet"
    write_atomic(path, data)
    return path


def _encode_file(table: pa.Table, meta: Mapping[str, Any]) -> bytes:
    """Parquet bytes. Only list columns are compressed: for a few rows a codec costs more than it saves."""
    lists = {f"{field.name}.list.element": "zstd" for field in table.schema if pa.types.is_list(field.type)}
    options: dict[str, Any] = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, table.schema, compression=lists or "none", **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA: json.dumps(meta)})
    return buffer.getvalue()


def list_parts(folder: Path) -> dict[int, list[Path]]:
    """Paths by epoch, ascending. More than one path an epoch means that the folder was tampered with."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.glob("*.parquet")):
        if match := PART_NAME.fullmatch(path.name):
            found.setdefault(int(match[1]), []).append(path)
    return dict(sorted(found.items()))


def verify_part(path: Path) -> bytes:
    """The content of a part whose sha256 is the one in its name; `DamagedFile` otherwise."""
    match = PART_NAME.fullmatch(path.name)
    data = read_bytes(path)
    if match is None or hashlib.sha256(data).hexdigest()[:16] != match[2]:
        raise DamagedFile(f"{path}: its content is not what was written (sha256 differs from the name)")
    return data


def read_table(path: Path, key: str, columns: Callable[[str], bool] | None = None) -> pa.Table:
    """The verified part of trial `key` as an Arrow table; `columns(name)` chooses columns, all by default."""
    data = verify_part(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = file.schema_arrow.names
        meta = json.loads((file.metadata.metadata or {})[METADATA])
        table = file.read([name for name in names if columns is None or columns(name)], use_threads=False)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise DamagedFile(f"{path}: not a part written by gemsweep ({error!r})") from error
    check_schema(path, meta)
    if (meta["trial"], meta["epoch"]) != (key, int(path.name.split("-")[0])):
        raise DamagedFile(f"{path}: holds epoch {meta['epoch']} of trial {meta['trial']}")
    return table.replace_schema_metadata(None)


def decode_columns(table: pa.Table) -> dict[str, Column]:
    """The columns as `encode_columns` took them: arrays of the stored dtype, lists of text, lists of arrays."""
    return {name: _decode(table.column(name).combine_chunks()) for name in table.column_names}


def _decode(array: Any) -> Column:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_string(array.type):
        return array.to_pylist()
    if pa.types.is_list(array.type):
        return [array[row].values.to_numpy(zero_copy_only=False) for row in range(len(array))]
    return array.to_numpy(zero_copy_only=False)

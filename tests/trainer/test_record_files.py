"""Single files of the store: exact round trips, and no damage that goes unnoticed."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest
from fake_trial import fake_spec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainer import record
from trainer.record import checkpoints, files, parts

KEY = "0123456789-b0"
DTYPES = st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])


def bits(array):
    return np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}").tobytes()


def arrays(length):
    """Any bit pattern of any numeric dtype, NaN payloads included."""

    def patterns(dtype):
        if dtype == "?":
            return hnp.arrays("?", length)
        return hnp.arrays("u1", length * np.dtype(dtype).itemsize).map(lambda data: data.view(dtype))

    return DTYPES.flatmap(patterns)


@settings(max_examples=40, deadline=None)
@given(column=arrays(3), lists=DTYPES.flatmap(lambda dtype: st.tuples(*[hnp.arrays(dtype, st.integers(0, 4))] * 3)))
def test_columns_keep_every_bit_and_dtype(column, lists):
    table = parts.encode_columns({"a": column, "b": list(lists), "c": ["", "é", "x"]})
    back = parts.decode_columns(table)
    assert back["a"].dtype == column.dtype
    assert bits(back["a"]) == bits(column)
    assert [(row.dtype, bits(row)) for row in back["b"]] == [(row.dtype, bits(row)) for row in lists]
    assert back["c"] == ["", "é", "x"]


@settings(max_examples=20, deadline=None)
@given(column=arrays(3), rows=st.integers(0, 3).flatmap(arrays))
def test_a_part_on_disk_keeps_every_bit_and_dtype(tmp_path_factory, column, rows):
    folder = tmp_path_factory.mktemp("parts")
    path = parts.write_part(folder, KEY, 7, {"a": column, "l": [rows, rows[:0], rows], "s": ["x", "", "y"]})
    back = parts.decode_columns(parts.read_table(path, KEY))
    assert back["a"].dtype == column.dtype
    assert bits(back["a"]) == bits(column)
    assert [bits(row) for row in back["l"]] == [bits(rows), b"", bits(rows)]
    assert {row.dtype for row in back["l"]} == {rows.dtype}
    assert back["s"] == ["x", "", "y"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1, 2], "b": [1]}, "one entry per member"),
        ({"a": []}, "column a"),
        ({"a": [1, "x"]}, "column a.*int, str"),
        ({"a": [1.0, None]}, "column a"),
        ({"a": np.zeros((2, 0), complex)}, "column a"),
        ({"a": [np.zeros(2, np.float32), np.zeros(2)]}, "column a.*one numeric dtype"),
        ({"a": [np.zeros((2, 2)), np.zeros((2, 2))]}, "column a.*1-D"),
    ],
)
def test_a_column_that_cannot_be_stored_exactly_is_refused(columns, words):
    with pytest.raises(record.RecordError, match=words):
        parts.encode_columns(columns)


def damages(data):
    """Every way a file goes bad, as (name, new content)."""
    middle = len(data) // 2
    return {
        "empty": b"",
        "one byte": data[:1],
        "half": data[:middle],
        "short": data[:-2],
        "longer": data + b"\0",
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "zeroed": bytes(len(data)),
    }


@pytest.mark.parametrize("damage", list(damages(b"abc")))
def test_a_damaged_file_is_never_loaded(tmp_path, damage):
    columns = {"a": np.arange(3.0), "l": [np.arange(9.0)] * 3}
    part = parts.write_part(tmp_path, KEY, 0, columns)
    saved = checkpoints.write_checkpoint(tmp_path, KEY, record.Checkpoint(3, {"w": np.arange(40.0)}, {"n": 1}))
    plain = tmp_path / "x.json"
    record.write_json(plain, {"schema": 1, "value": 0.1})
    for path in (part, saved, plain):
        path.write_bytes(damages(path.read_bytes())[damage])
    with pytest.raises(record.DamagedFile, match=part.name):
        parts.read_table(part, KEY)
    with pytest.raises(record.DamagedFile, match=saved.name):
        checkpoints.verify_checkpoint(saved, KEY)
    with pytest.raises(record.DamagedFile, match=plain.name):
        record.read_json(plain)


def test_every_byte_of_a_checkpoint_is_covered(tmp_path):
    path = checkpoints.write_checkpoint(tmp_path, KEY, record.Checkpoint(3, {"w": np.arange(4.0)}, {"n": 1}))
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
        with pytest.raises(record.DamagedFile):
            checkpoints.verify_checkpoint(path, KEY)


def test_files_of_another_trial_or_epoch_are_refused(tmp_path):
    part = parts.write_part(tmp_path, "other-b0", 2, {"a": [1]})
    saved = checkpoints.write_checkpoint(tmp_path, KEY, record.Checkpoint(3, {"w": np.zeros(1)}))
    with pytest.raises(record.DamagedFile, match="epoch 2 of trial other-b0"):
        parts.read_table(part, KEY)
    renamed = saved.rename(tmp_path / "00004.safetensors")
    with pytest.raises(record.DamagedFile, match="epoch 3"):
        checkpoints.verify_checkpoint(renamed, KEY)


def test_a_later_schema_is_refused_not_misread(tmp_path):
    record.write_json(tmp_path / "done.json", {"schema": files.SCHEMA_VERSION + 1})
    with pytest.raises(record.RecordError, match="newer"):
        record.read_json(tmp_path / "done.json")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_checkpoint_round_trip(tmp_path, library):
    import torch

    tensors = {
        "weights": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not contiguous
        "nan": np.array([0x7FC00001, 0x80000000], np.uint32).view(np.float32),
        "count": np.array(7, np.int64),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float64),
    }
    if library == "torch":
        tensors = {name: torch.from_numpy(array) for name, array in tensors.items()}
        tensors["half"] = torch.tensor([1.5], dtype=torch.bfloat16)
    meta = {"rng": [1, 2**62], "name": 'quote " and \\ and é', "x": 0.1, "none": None}
    path = checkpoints.write_checkpoint(tmp_path, KEY, record.Checkpoint(12, tensors, meta))
    back = record.read_checkpoint(path, KEY)
    assert (path.name, back.epoch, back.meta) == ("00012.safetensors", 12, meta)
    assert back.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        expected = torch.as_tensor(tensor).contiguous()
        assert back.tensors[name].dtype == expected.dtype
        assert back.tensors[name].shape == expected.shape
        assert back.tensors[name].reshape(-1).view(torch.uint8).equal(expected.reshape(-1).view(torch.uint8))
    back.tensors["weights"].add_(1)  # the trainer owns what it gets


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda key: key not in ("checksum", "schema")),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_json_round_trip(tmp_path_factory, payload):
    path = tmp_path_factory.mktemp("json") / "x.json"
    try:
        json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return  # lone surrogates are no text
    record.write_json(path, payload)
    assert record.read_json(path) == payload


def test_json_takes_numpy_scalars_and_names_what_it_cannot_hold(tmp_path):
    path = tmp_path / "x.json"
    record.write_json(path, {"a": np.float32(0.5), "b": np.int64(3), "c": [np.bool_(True)]})
    assert record.read_json(path) == {"a": 0.5, "b": 3, "c": [True]}
    for value, words in ((float("nan"), "a: b is nan"), ({1, 2}, "a: b is a set"), ({1: 2}, "a: b has the key 1")):
        with pytest.raises(record.RecordError, match=words):
            record.write_json(path, {"a": {"b": value}})
    assert record.read_json(path)["a"] == 0.5  # the file before stays


def test_an_edited_plan_is_noticed_and_a_plan_is_not_overwritten(tmp_path):
    path = record.write_plan(tmp_path / "e", {"schema": 1, "alpha": 0.05})
    with pytest.raises(record.RecordError, match="exists; resume"):
        record.write_plan(tmp_path / "e", {"schema": 1, "alpha": 0.5})
    path.write_text(path.read_text().replace("0.05", "0.5"))
    with pytest.raises(record.DamagedFile, match="changed after it was written"):
        record.read_plan(tmp_path / "e")
    record.write_plan(tmp_path / "e", {"schema": 1, "alpha": 0.1}, replace=True)
    assert record.read_plan(tmp_path / "e") == {"schema": 1, "alpha": 0.1}
    with pytest.raises(record.RecordError, match="gemsweep run"):
        record.read_plan(tmp_path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    record.write_json(path, {"a": 1})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(record.RecordError, match=r"No space left.*check space"):
        record.write_json(path, {"a": 2})
    assert record.read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize(
    "key", ["", ".", "..", "../x", "a/b", "a\\b", "/etc", ".x", "-x", "é", "a\n", "x" * 200, "a\0"]
)
def test_a_key_cannot_leave_the_experiment(tmp_path, key):
    with pytest.raises(record.RecordError, match="trial key"):
        record.read_epochs(tmp_path, key)
    with pytest.raises(record.RecordError, match="trial key"):
        record.TrialStore(tmp_path, fake_spec(key))
    assert not list(tmp_path.iterdir())


def test_timeline_round_trip(tmp_path):
    timeline = pd.DatetimeIndex(["2000-03-01", "2000-03-02 15:30:00.000000001"], tz="UTC")
    record.write_timeline(tmp_path, timeline)
    assert record.read_timeline(tmp_path).equals(timeline.as_unit("ns"))
    (tmp_path / "timeline.parquet").write_bytes(b"PAR1")
    with pytest.raises(record.DamagedFile, match="timeline"):
        record.read_timeline(tmp_path)

"""An experiment as one archive: equal bytes for equal records, and a check that refuses every other kind of archive."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from synthetic_experiment import specs, write_experiment

import analysis
from sweep import bounded_reader
from sweep.errors import SweepError
from sweep.export import check, export
from trainer.record import RecordError


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "made-up"
    write_experiment(path, specs(configs=2, seeds=2, folds=1, epochs=2))
    return path


@pytest.fixture(scope="module")
def archive(folder) -> Path:
    return export(folder, folder.parent / "made-up.tar.gz").path


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def written(path: Path, files: dict[str, bytes], change=lambda member: None, extra=()) -> Path:
    """A tar.gz of `files`, each header passed to `change`; `extra`: further headers without content."""
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            change(member)
            archive.addfile(member, io.BytesIO(data))
        for member in extra:
            archive.addfile(member)
    return path


def test_two_exports_are_equal_byte_by_byte_and_pass_the_check(folder, archive, tmp_path):
    again = export(folder, tmp_path / "again.tar.gz")
    assert again.path.read_bytes() == archive.read_bytes()
    found = check(archive)
    assert (found.folder, found.files, found.sha256) == ("made-up", again.files, again.sha256)
    assert found.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()


def test_what_was_unpacked_is_the_experiment(archive, folder, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    found, before = analysis.load(tmp_path / "made-up"), analysis.load(folder)
    assert found.problems == ()
    assert found.scores.equals(before.scores)
    assert (tmp_path / "made-up" / "report.html").stat().st_size > 1000
    assert [p.name for p in (tmp_path / "made-up").rglob("checkpoints")] == []
    for line in (tmp_path / "made-up" / "MANIFEST").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "made-up" / name).read_bytes()).hexdigest() == digest


def test_headers_tell_nothing_of_the_machine(archive):
    with tarfile.open(archive) as packed:
        facts = {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in packed}
    assert facts == {(0, 0, 0, "", "", 0o644)}
    assert archive.read_bytes()[4:8] == b"\0\0\0\0"  # the time of gzip


def test_only_what_a_sweep_records_goes_in(folder, tmp_path):
    key = next((folder / "trials").iterdir())
    for path in (folder / "stray.pickle", key / "stray.bin", key / "epochs" / "00001-half.tmp"):
        path.write_bytes(b"x")
    (folder / "link.json").symlink_to("/etc/passwd")
    (key / "failed.json").symlink_to("/etc/passwd")
    try:
        names = members(export(folder, tmp_path / "a.tar.gz", checkpoints=True).path)
    finally:
        for path in (folder / "stray.pickle", key / "stray.bin", key / "epochs" / "00001-half.tmp"):
            path.unlink()
        (folder / "link.json").unlink()
        (key / "failed.json").unlink()
    assert [name for name in names if "stray" in name or "tmp" in name or "lock" in name or "link" in name] == []
    assert f"made-up/trials/{key.name}/failed.json" not in names
    assert any("checkpoints/" in name for name in names)


def test_a_damaged_part_is_exported_and_told(folder, tmp_path):
    part = sorted(folder.glob("trials/*/epochs/*.parquet"))[0]
    before = part.read_bytes()
    part.write_bytes(before[:-9])
    try:
        found = export(folder, tmp_path / "a.tar.gz")
    finally:
        part.write_bytes(before)
    assert part.name in found.problems[0]


def test_refusals_to_write_leave_nothing(folder, archive, tmp_path):
    before = archive.read_bytes()
    with pytest.raises(SweepError, match=r"exists; delete it, or give another name with --to"):
        export(folder, archive)
    assert archive.read_bytes() == before
    with pytest.raises(RecordError, match=r"plan\.json: not found"):
        export(tmp_path, tmp_path / "b.tar.gz")
    with pytest.raises(SweepError, match="cannot be written"):
        export(folder, tmp_path / "missing" / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_nothing(folder, tmp_path, monkeypatch):
    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sweep.export._add", broken)
    with pytest.raises(KeyboardInterrupt):
        export(folder, tmp_path / "a.tar.gz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["../plan.json", "/plan.json", "made-up/../plan.json", "other/plan.json", "made-up/trials/../plan.json",
     "made-up/run.py", "made-up/trials/x/epochs/evil.parquet", "made-up\\plan.json", "..\\made-up/plan.json",
     "plan.json", "made-up/trials/a/b/done.json", "mad\x07e-up/plan.json", "made-up/config.toml\n"],
)  # fmt: skip
def test_a_name_that_no_export_writes_is_refused(archive, tmp_path, name):
    files = members(archive)
    evil = written(tmp_path / "evil.tar.gz", {**files, name: b"x"})
    with pytest.raises(SweepError, match="do not unpack it"):
        check(evil)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(archive, tmp_path, kind):
    link = tarfile.TarInfo("made-up/trials/x/done.json")
    link.type, link.linkname = kind, "../../../../etc/passwd"
    evil = written(tmp_path / "evil.tar.gz", members(archive), extra=[link])
    with pytest.raises(SweepError, match=r"is (a link|no regular file); do not unpack it"):
        check(evil)


def test_changed_missing_doubled_and_unlisted_files_are_named(archive, tmp_path):
    files = members(archive)
    victim = "made-up/plan.json"
    changed = {**files, victim: files[victim] + b" "}
    with pytest.raises(SweepError, match=r"plan\.json was changed"):
        check(written(tmp_path / "1.tar.gz", changed))
    with pytest.raises(SweepError, match=r"plan\.json is listed in MANIFEST and missing"):
        check(written(tmp_path / "2.tar.gz", {n: d for n, d in files.items() if n != victim}))
    with pytest.raises(SweepError, match=r"log\.txt is not listed in MANIFEST"):
        check(written(tmp_path / "3.tar.gz", {**files, "made-up/trials/x/log.txt": b""}))
    with pytest.raises(SweepError, match="has no MANIFEST"):
        check(written(tmp_path / "4.tar.gz", {n: d for n, d in files.items() if "MANIFEST" not in n}))
    with pytest.raises(SweepError, match="twice"):
        check(written(tmp_path / "5.tar.gz", files, extra=[tarfile.TarInfo(victim)]))
    manifest = files["made-up/MANIFEST"]
    with pytest.raises(SweepError, match=r"MANIFEST, line 1: .* is not a digest"):
        check(written(tmp_path / "6.tar.gz", {**files, "made-up/MANIFEST": b"rm -rf /\n" + manifest}))
    with pytest.raises(SweepError, match="is not a digest and a new name"):
        check(written(tmp_path / "7.tar.gz", {**files, "made-up/MANIFEST": manifest + manifest}))


def test_data_after_the_end_is_refused(archive, tmp_path):
    raw = gzip.decompress(archive.read_bytes())
    evil = tmp_path / "evil.tar.gz"
    evil.write_bytes(gzip.compress(raw + b"hidden"))
    with pytest.raises(SweepError, match="data after its end"):
        check(evil)


def test_a_bomb_is_refused_before_it_is_unpacked(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_reader, "FREE", 1 << 20)
    files = {**members(archive), "made-up/trials/x/log.txt": bytes(400 << 20)}
    with pytest.raises(SweepError, match="unpacks to more than 200 times its size; do not unpack it"):
        check(written(tmp_path / "bomb.tar.gz", files))


def header(kind: bytes, size: int) -> bytes:
    """One block of a tar header that claims `size`."""
    member = tarfile.TarInfo("x")
    member.type = kind
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = size.to_bytes(12, "big", signed=True) if size < 0 else b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
@pytest.mark.parametrize("size", [-512, -100_000, 7 << 30])
def test_a_header_that_lies_about_its_size_ends_neither_the_memory_nor_the_day(tmp_path, kind, size):
    evil = tmp_path / "evil.tar.gz"
    evil.write_bytes(gzip.compress(header(kind, size) + bytes(4096)))
    with pytest.raises(SweepError, match=r"evil\.tar\.gz"):
        check(evil)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_changed_byte_never_passes_and_never_breaks_the_check(archive, data):
    raw = bytearray(gzip.decompress(archive.read_bytes()))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, 2000))] ^= data.draw(st.integers(1, 255))
    evil = archive.with_name("changed.tar.gz")
    evil.write_bytes(gzip.compress(bytes(raw), compresslevel=1))
    with suppress(SweepError):  # any other error fails; a byte that says nothing may pass: of the time, the owner
        assert check(evil).files == check(archive).files


@pytest.mark.parametrize("cut", [0, 10, 400, -9, -1])
def test_an_archive_that_was_cut_short(archive, tmp_path, cut):
    short = tmp_path / "short.tar.gz"
    short.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(SweepError, match=r"not a complete archive .*; export it again|has no MANIFEST"):
        check(short)


def test_what_is_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none.tar.gz"):
        with pytest.raises(SweepError, match="no such file; give an archive that `gemsweep export` wrote"):
            check(path)

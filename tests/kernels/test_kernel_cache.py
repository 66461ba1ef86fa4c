"""Compiled kernels on disk, imports without CUDA, and several processes at once."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest

from numba_kernels import cache

ROOT = Path(__file__).parents[2]
SMALL = "import torch; from numba_kernels import lane_mean; o = torch.zeros(1)\n"
CALL = SMALL + "lane_mean(torch.ones(1, 3), torch.ones(1, 3), o); print(o.item())\n"
CONTEXT = "from numba.cuda.cudadrv.driver import driver; print(driver.pid)\n"
HITS = "from numba_kernels.lane_mean import lane_mean_cpu as f; print(sum(f.stats.cache_hits.values()))\n"


def start(code, folder, **environment):
    env = {**os.environ, "GEMSWEEP_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=env | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(code, folder, **environment):
    process = start(code, folder, **environment)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert errors == ""
    return out.split()


def test_processes_share_what_the_first_compiled(tmp_path):
    """Two start together; a third, which imports numba before us, finds their result and has no CUDA context."""
    together = [start(CALL, tmp_path) for _ in range(2)]
    assert [p.communicate(timeout=200) for p in together] == [("1.0\n", "")] * 2
    assert run("import numba\n" + CALL + HITS + CONTEXT, tmp_path) == ["1.0", "1", "None"]
    (folder,) = (tmp_path / "numba").iterdir()
    assert folder.name == cache.source_key.__wrapped__()


def test_an_unwritable_folder_falls_back(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setenv("GEMSWEEP_CACHE_DIR", str(blocked))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache.cache_directory.__wrapped__().parents[1] == tmp_path / "home" / "gemsweep"
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(blocked))
    assert cache.cache_directory.__wrapped__() is None


def test_the_users_own_cache_stays_where_it_was():
    before = numba.config.CACHE_DIR
    with cache.caching_into_our_folder():
        assert str(cache.cache_directory()) == numba.config.CACHE_DIR
    assert before == numba.config.CACHE_DIR


def test_the_key_follows_every_source_file(tmp_path, monkeypatch):
    for path in (ROOT / "numba_kernels").glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = cache.source_key.__wrapped__()
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))
    assert cache.source_key.__wrapped__() == before
    arithmetic = tmp_path / "divergence.py"
    arithmetic.write_text(arithmetic.read_text().replace("float32(0.3)", "float32(0.2)"))
    assert cache.source_key.__wrapped__() != before


@pytest.mark.slow
def test_numbas_simulator_is_refused_plainly(tmp_path):
    process = start("import numba_kernels", tmp_path, NUMBA_ENABLE_CUDASIM="1")
    assert "ImportError: unset NUMBA_ENABLE_CUDASIM" in process.communicate(timeout=120)[1]

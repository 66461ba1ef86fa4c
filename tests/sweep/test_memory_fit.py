"""A sweep whose packs do not fit into memory is refused before anything starts, with the numbers and the way out."""

from __future__ import annotations

import subprocess
import sys

import pytest
from rich.console import Console

from sweep import memory
from sweep.errors import ConfigError
from sweep.memory import fit, free_bytes, free_gpu_bytes
from sweep.plan import make_plan, planned
from sweep.resources import Share
from sweep.run import run
from sweep.toml_file import read_config
from trainer.config import Machine
from trainer.data.source import load_table
from trainer.memory import bars_of, bars_of_plan, pack_bytes

SETTINGS = ["data.symbols=['IBM']", "sweep.trials=2", "sweep.seeds=1"]
CPU, GPU = Share(Machine(), 0.0, 4), Share(Machine(device="cuda"), 0.25, 4)


@pytest.fixture(scope="module")
def plan():
    return make_plan(read_config(None, SETTINGS, {}), Machine()).data


@pytest.fixture
def need(plan):
    """Bytes of the largest pack."""
    return round(fit(CPU, 0, planned(plan), plan)[1] * memory.GB)


def test_a_plan_says_almost_the_sizes_of_its_table(plan):
    spec = next(iter(planned(plan).values()))
    planned_bytes, read_bytes = (
        pack_bytes(spec, bars) for bars in (bars_of_plan(plan), bars_of(load_table(spec.data)))
    )
    assert read_bytes.total <= planned_bytes.total <= 1.01 * read_bytes.total


def with_free(monkeypatch, size):
    monkeypatch.setattr(memory, "free_bytes", lambda: size + memory.RAY_BYTES)
    monkeypatch.setattr(memory, "free_gpu_bytes", lambda: size)


def test_a_pack_that_does_not_fit_is_refused_with_the_ways_out(monkeypatch, plan, need):
    with_free(monkeypatch, need - 1)
    told = rf"a pack of 4 members takes {need / 1e9:.1f} GB \(predicted\); this machine has .* GB free .*sweep.seeds"
    with pytest.raises(
        ConfigError, match=told + r".*trainer.batch_size \(now 64\), trainer.replay_capacity \(now 8192"
    ):
        fit(CPU, 0, planned(plan), plan)


def test_as_many_trials_run_as_memory_holds_unless_a_number_was_asked_for(monkeypatch, plan, need):
    specs = planned(plan)
    with_free(monkeypatch, 2 * need)
    assert fit(CPU, 0, specs, plan)[0] == Share(Machine(), 0.0, 2)
    with pytest.raises(ConfigError, match=r"so 4 at a time do not fit. Lower sweep.concurrent to 2, or 0: automatic"):
        fit(CPU, 4, specs, plan)
    with_free(monkeypatch, 4 * need)
    assert fit(CPU, 4, specs, plan)[0] == CPU


def test_a_gpu_must_hold_all_trials_that_share_it(monkeypatch, plan, need):
    specs = planned(plan)
    with_free(monkeypatch, 4 * need)
    assert fit(GPU, 0, specs, plan)[0] == GPU
    with_free(monkeypatch, 2 * need)
    with pytest.raises(ConfigError, match=r"so 4 do not fit on it. Raise sweep.gpus_per_trial to 0.5 or more"):
        fit(GPU, 0, specs, plan)


def test_where_the_machine_does_not_tell_everything_fits(monkeypatch, plan):
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    monkeypatch.setattr(memory.shutil, "which", lambda name: None)
    assert free_gpu_bytes() is None
    for share in (CPU, GPU):
        assert fit(share, 0, planned(plan), plan)[0] == share


def test_free_memory_is_below_the_limit_of_the_container(monkeypatch, tmp_path):
    free = free_bytes()
    assert free is not None
    assert free > 10**7
    monkeypatch.setattr(memory, "CGROUP_LIMIT", tmp_path / "memory.max")
    (tmp_path / "memory.max").write_text("1000000\n")
    assert free_bytes() == 1_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes() > 10**7


def test_the_fullest_visible_gpu_counts(monkeypatch, tmp_path):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nfor a; do case $a in --id=*) echo 3;; esac; done\necho 5\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert free_gpu_bytes() == 5 * 2**20
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert free_gpu_bytes() == 3 * 2**20


def test_a_refused_sweep_leaves_no_folder(monkeypatch, tmp_path):
    with_free(monkeypatch, 0)
    config = read_config(None, [*SETTINGS, f"sweep.storage={tmp_path}", "sweep.name=large"], {})
    with pytest.raises(ConfigError, match="memory: a pack of 4 members"):
        run(config, Console())
    assert not (tmp_path / "large").exists()


def test_predicting_starts_neither_ray_nor_cuda():
    code = (
        "import sys; from sweep import memory; from sweep.plan import make_plan, planned; from sweep.resources import "
        "Share; from sweep.toml_file import read_config; from trainer.config import Machine\n"
        f"plan = make_plan(read_config(None, {SETTINGS!r}, {{}}), Machine()).data; print('torch' in sys.modules)\n"
        "memory.fit(Share(Machine(device='cuda'), 1.0, 1), 0, planned(plan), plan)\n"
        "import torch; print('ray' in sys.modules, torch.cuda.is_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]

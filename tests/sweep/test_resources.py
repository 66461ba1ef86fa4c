"""How a machine is shared among trials, and what each setting of [sweep], [arms] and [analysis] changes."""

from __future__ import annotations

import pytest

from sweep import resources
from sweep.config import ArmsSection, SweepSection
from sweep.errors import ConfigError
from sweep.plan import make_plan
from sweep.resources import Share, share_out
from sweep.toml_file import read_config
from trainer.config import Machine


@pytest.fixture
def machine(monkeypatch):
    """Eight processors and two GPUs."""
    monkeypatch.setattr(resources, "cpu_count", lambda: 8)
    monkeypatch.setattr(resources, "gpu_count", lambda: 2)


@pytest.mark.parametrize(
    ("settings", "device", "threads", "gpus", "concurrent"),
    [
        ({}, "cpu", 1, 0.0, 8),
        ({"threads": 3}, "cpu", 3, 0.0, 2),
        ({"concurrent": 5}, "cpu", 1, 0.0, 5),
        ({"device": "cuda"}, "cuda", 1, 1.0, 2),
        ({"device": "auto"}, "cuda", 1, 1.0, 2),
        ({"device": "cuda", "gpus_per_trial": 0.25}, "cuda", 1, 0.25, 8),
        ({"device": "cuda", "gpus_per_trial": 0.4}, "cuda", 1, 0.4, 4),  # two on each GPU: a trial is never split
        ({"device": "cuda", "gpus_per_trial": 2.0}, "cuda", 1, 2.0, 1),
        ({"device": "cuda", "threads": 8}, "cuda", 8, 1.0, 1),
    ],
)
def test_as_many_trials_run_as_processors_and_gpus_allow(machine, settings, device, threads, gpus, concurrent):
    assert share_out(SweepSection(**settings)) == Share(Machine(device=device, threads=threads), gpus, concurrent)


def test_the_precision_of_products_goes_with_the_gpu(machine):
    assert share_out(SweepSection(device="cuda", precision="float32")).machine.precision == "float32"
    assert share_out(SweepSection(device="cuda")).machine.precision == "tf32"


def test_a_trial_that_cannot_fit_is_refused(machine):
    with pytest.raises(ConfigError, match="asked for 9 threads a trial; this machine has 8 CPUs"):
        share_out(SweepSection(threads=9))
    with pytest.raises(ConfigError, match="asked for 3 GPU a trial; this machine has 2"):
        share_out(SweepSection(device="cuda", gpus_per_trial=3.0))


def test_without_a_gpu_cuda_is_refused_and_auto_takes_the_cpu(machine, monkeypatch):
    monkeypatch.setattr(resources, "gpu_count", lambda: 0)
    with pytest.raises(ConfigError, match=r'this machine has 0 that torch can use \(sweep.device = "auto"'):
        share_out(SweepSection(device="cuda"))
    assert share_out(SweepSection(device="auto")) == Share(Machine(), 0.0, 8)


def plan_of(*overrides: str) -> dict:
    settings = ["data.symbols=['IBM']", "trainer.n_step={choice=[1, 3]}", *overrides]
    data = make_plan(read_config(None, settings, {}), Machine()).data
    return {key: value for key, value in data.items() if key not in ("created", "versions")}


PERTURBED = [
    "arms.gems=['g10_temporal']",
    "arms.base.g10_temporal=wired",
    "arms.further=[{off='iqn'}]",
    "arms.purity=false",
    "sweep.name=other",
    "sweep.label=study",
    "sweep.trials=3",
    "sweep.seeds=2",
    "sweep.seed=7",
    "sweep.pack=none",
    "analysis.alpha=0.01",
    "analysis.schedule=[5, 9]",
    "analysis.zero_limit=0.05",
    "analysis.size_floor=1e-9",
    "analysis.size_epochs=3",
    "analysis.redundant_r2=0.5",
    "analysis.spread_quantile=0.5",
]
ELSEWHERE = {"search", "concurrent", "threads", "device", "precision", "gpus_per_trial", "max_failures", "storage"}


@pytest.fixture(scope="module")
def plan():
    return plan_of()


@pytest.mark.parametrize("override", PERTURBED)
def test_every_setting_of_the_plan_changes_the_plan(plan, override):
    assert plan_of(override) != plan


def test_no_setting_is_left_out_of_these_tests(plan):
    """The rest shows in the share of a trial (above), in faults and folders (test_launch) or in the search."""
    named = {override.split("=")[0].split(".")[1] for override in PERTURBED if override.startswith(("sweep", "arms"))}
    assert set(SweepSection.model_fields) | set(ArmsSection.model_fields) == named | ELSEWHERE
    grid = [
        "trainer.n_step={choice=[5, 3, 1]}",
        "trainer.learning_rate=1e-3",
        "trainer.discount=0.9",
        "trainer.target_rate=0.02",
    ]
    assert plan_of(*grid, "sweep.search=grid")["trials"] != plan_of(*grid)["trials"]

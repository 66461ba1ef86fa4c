"""Where the trials ran, from what each recorded at its start, and which backend no record speaks for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from analysis.load import Experiment
from trainer.record import RecordError, read_trial, trial_keys

BACKENDS = ("cpu", "cuda")


@dataclass(frozen=True)
class Machine:
    """One kind of machine and how many trials have a start there. `backend`: cpu or cuda; `name`: the model of the CUDA
    device, or the processor."""

    backend: str
    name: str
    trials: int


def machines(experiment: Experiment) -> tuple[Machine, ...]:
    """Every kind of machine with a recorded start, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    started = set(trial_keys(experiment.path))
    for spec in experiment.specs:
        if spec.key in started:
            counts.update(_starts(experiment, spec.key, spec.machine.device))
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return tuple(Machine(backend, name, count) for (backend, name), count in ranked)


def _starts(experiment: Experiment, key: str, device: str) -> set[tuple[str, str]]:
    try:
        trial = read_trial(experiment.path, key)
    except RecordError:
        return set()
    backend = "cuda" if device.startswith("cuda") else "cpu"
    found = [start.get("environment") or {} for start in (trial, *trial.get("resumed", []))]
    field = "device" if backend == "cuda" else "cpu"
    return {(backend, str(entry.get(field) or "not recorded")) for entry in found}


def verified(found: tuple[Machine, ...]) -> str:
    """What the records speak for."""
    if not found:
        return "no trial has started"
    return "; ".join(f"{m.backend} ({m.name}): {m.trials} trial{'s' * (m.trials > 1)}" for m in found)


def pending(found: tuple[Machine, ...]) -> str:
    """The backends that no trial of this experiment ran on; "" for none."""
    return ", ".join(name for name in BACKENDS if name not in {machine.backend for machine in found})

"""The body of a trial: epochs of updates, then evaluation, diagnostics, record. It knows a reporter and no Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import numba_kernels as nk
from trainer import columns as col
from trainer import snapshots, watchdog
from trainer.capture import Step
from trainer.config import Machine, TrialSpec
from trainer.data.folds import SpanName
from trainer.data.table import MarketTable
from trainer.diagnostics import health_line
from trainer.evaluate import Walk, evaluate
from trainer.health import move_support, observe_q_gap, observe_values
from trainer.pack import Pack, load_state, state
from trainer.probe import Probe, measure_probe
from trainer.record import Checkpoint
from trainer.reporter import EpochRecord, Reporter
from trainer.session import Session
from trainer.sharpe import FLOOR, iqm
from trainer.step import begin_walks, walk


@dataclass(frozen=True)
class Moment:
    """Where a trial stands: after iteration `update` (from 1) of `epoch`; after the whole epoch where `record` is."""

    pack: Pack
    epoch: int
    update: int
    diagnosed: bool
    record: EpochRecord | None = None


def run_trial(
    spec: TrialSpec, reporter: Reporter, table: MarketTable | None = None, session: Session | None = None
) -> None:
    """Train all members of `spec` and hand one record an epoch to `reporter`, starting where it says.

    `table` takes the place of the bars that `spec.data` names; a `session` lends what the process keeps from its last
    trial and changes no bit. Epoch 0 is the untrained network. Deterministic: the same spec gives the same records on
    the same kind of machine.
    """
    for _ in walk_trial(spec, reporter, table, session):
        pass


@torch.no_grad()
def walk_trial(
    spec: TrialSpec,
    reporter: Reporter,
    table: MarketTable | None = None,
    session: Session | None = None,
    wrap: Callable[[Step], Step] | None = None,
) -> Iterator[Moment]:
    """`run_trial` for whoever wants to look in between: stops after every iteration and every epoch.

    `wrap` makes another step of the iteration, such as one that watches it.
    """
    torch.set_num_threads(spec.machine.threads)
    torch.set_float32_matmul_precision(_precision(spec.machine))
    session = session or Session()
    nk.warmup(spec.machine.device)
    pack, step = session.open(spec, table or session.table(spec.data))
    step = wrap(step) if wrap else step
    begun = _start(pack, reporter)
    for epoch in range(begun, spec.trainer.epochs + 1):
        if (yield from run_epoch(pack, step, epoch, reporter)):
            return
    reporter.finish({"epochs": spec.trainer.epochs, "members": pack.size, "frozen": _frozen(pack)})


def _precision(machine: Machine) -> str:
    """torch's word for the precision of matrix products; on a CPU "high" could mean bfloat16."""
    return "high" if machine.device.startswith("cuda") and machine.precision != "float32" else "highest"


def run_epoch(pack: Pack, step: Step, epoch: int, reporter: Reporter) -> Generator[Moment, None, bool]:
    """Updates (none in epoch 0), evaluation, record. Returns True when the reporter wants to stop."""
    clock = time.perf_counter()
    pack.measurements.clear()
    if epoch > 0:
        for update, diagnosed in train_epoch(pack, step):
            yield Moment(pack, epoch, update, diagnosed)
    trained = time.perf_counter()
    record = make_record(pack, epoch)
    record.columns["clock/train_seconds"] = np.full(pack.size, trained - clock)
    record.columns["clock/seconds"] = np.full(pack.size, time.perf_counter() - clock)
    stop = reporter.epoch(record, lambda: Checkpoint(epoch, state(pack), {"key": pack.spec.key}))
    yield Moment(pack, epoch, pack.spec.trainer.updates_per_epoch if epoch > 0 else 0, epoch > 0, record)
    return stop


def train_epoch(pack: Pack, step: Step) -> Iterator[tuple[int, bool]]:
    """`updates_per_epoch` iterations; the diagnostic ones are spread evenly and the last update is one of them.

    Yields after each: its number from 1, and whether it was diagnostic.
    """
    trainer = pack.spec.trainer
    every = trainer.updates_per_epoch / trainer.diagnostics_per_epoch
    marked = {round(every * (i + 1)) for i in range(trainer.diagnostics_per_epoch)}
    for update in range(1, trainer.updates_per_epoch + 1):
        step(pack, update in marked)
        yield update, update in marked


def end_epoch(pack: Pack, probe: Probe, epoch: int) -> None:
    """What changes between two epochs, all on the device: health, the teacher, the support, the watchdog's memory."""
    watchdog.check_health(pack.watch, pack.signals)
    triggered = watchdog.armed(pack)
    observe_q_gap(pack.signals, probe)
    observe_values(pack.signals, probe)
    if pack.snapshots is not None:
        snapshots.offer(pack.snapshots, pack.online.params, pack.signals, pack.counters, epoch)
    if pack.spec.trainer.network.moving_support:
        move_support(pack.support, pack.signals)
    watchdog.observe(pack.watch, triggered, pack.measurements, probe, pack.signals)


def make_record(pack: Pack, epoch: int) -> EpochRecord:
    """Probe, update what the epoch decides, evaluate what it must know, and gather all columns."""
    probe = measure_probe(pack)
    if epoch > 0:
        end_epoch(pack, probe, epoch)
    walks: dict[str, list[Walk]] = {span: evaluate(pack, span) for span in spans_of(pack, epoch)}
    columns: dict[str, Any] = col.identity(pack, epoch)
    columns |= col.gradients(pack) | col.gem_sizes(pack) | col.features(pack, probe) | col.health(pack, probe)
    columns |= col.actions(walks.get("validation"), pack.size)
    for span in col.SPANS:
        columns |= col.evaluation(pack.table, span, walks.get(span), pack.size)
    columns |= col.purity(pack)
    lines = [health_line(columns, row, pack.components) for row in range(pack.size)]
    return EpochRecord(epoch, columns, objective(pack, columns), lines)


def spans_of(pack: Pack, epoch: int) -> tuple[SpanName, ...]:
    """Validation after every epoch; train at both ends; judge for the untrained network and the scored epochs."""
    trainer = pack.spec.trainer
    spans: list[SpanName] = ["train"] if epoch in (0, trainer.epochs) else []
    spans.append("validation")
    if epoch == 0 or epoch > trainer.epochs - trainer.score_epochs:
        spans.append("judge")
    return tuple(spans)


def objective(pack: Pack, columns: dict[str, Any]) -> float:
    """What a search maximises: interquartile mean of the first arm's validation Sharpe; failed members at the floor."""
    base = pack.spec.arms[0].name
    ranked = [
        value if status == "ok" else FLOOR
        for arm, value, status in zip(columns["arm"], columns["eval/validation/sharpe"], columns["status"], strict=True)
        if arm == base
    ]
    return float(iqm(ranked)) if ranked else FLOOR


def _start(pack: Pack, reporter: Reporter) -> int:
    """First epoch to run: after the reporter's checkpoint, or 0 once the replay holds enough to sample from."""
    checkpoint = reporter.resume()
    if checkpoint is not None:
        load_state(pack, checkpoint.tensors)
        return checkpoint.epoch + 1
    trainer = pack.spec.trainer
    begin_walks(pack)
    for _ in range(trainer.n_step + -(-trainer.batch_size // trainer.environments)):
        walk(pack)
    return 0


def _frozen(pack: Pack) -> list[str]:
    broken = (pack.counters["frozen_at"] >= 0).tolist()
    return [f"{m.arm} seed {m.seed} fold {m.fold}" for m, bad in zip(pack.spec.members, broken, strict=True) if bad]

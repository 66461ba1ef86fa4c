"""What Ray costs and what it gains: the same trials through `gemsweep run` and through a plain pool of processes.

    python benchmarks/ray_overhead.py                      # the default sweep, three repeats
    python benchmarks/ray_overhead.py --repeats 1 --set trainer.epochs=10

Each repeat measures, one after another, the wall time of three fresh processes:

    ray      gemsweep run, all trials at a time that the machine holds (report included)
    pool     the same trials in a multiprocessing pool of as many processes, records written the same way
    single   gemsweep run, one trial at a time

overhead = ray / pool - 1; side by side = ray / single. Median and range over the repeats; `--json` also writes them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]


def run_pooled(job: tuple[str, str, str]) -> None:
    """Run one trial of the plan in `experiment`, recorded below `storage`."""
    experiment, storage, key = job
    from sweep.experiment import open_plan
    from trainer.loop import run_trial
    from trainer.record import TrialStore
    from trainer.reporter import StoreReporter

    spec = open_plan(Path(experiment))[key]
    with TrialStore(storage, spec) as store:
        run_trial(spec, StoreReporter(store))


def pool(experiment: str, storage: str, processes: int) -> None:
    """The plain way: every trial of the plan through `processes` processes, the next one to whoever is free."""
    from sweep.experiment import open_plan

    jobs = [(experiment, storage, key) for key in open_plan(Path(experiment))]
    with multiprocessing.get_context("spawn").Pool(processes) as workers:
        workers.map(run_pooled, jobs, chunksize=1)


def timed(command: list[str], storage: Path) -> float:
    """Wall seconds of a command with single-threaded libraries, as trials have them."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=storage, env=os.environ | threads | {"PYTHONPATH": paths}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started


def gemsweep(storage: Path, name: str, concurrent: int, settings: list[str]) -> float:
    command = [sys.executable, "-m", "sweep.cli", "run", "--quiet", "--storage", str(storage), "--name", name]
    return timed([*command, "--concurrent", str(concurrent), *settings], storage)


def repeat(storage: Path, number: int, processes: int, settings: list[str]) -> dict[str, float]:
    """One round of the three measurements, in seconds."""
    ray = gemsweep(storage, f"ray-{number}", processes, settings)
    command = [sys.executable, str(Path(__file__).resolve()), "--pool", str(storage / f"ray-{number}")]
    pooled = timed([*command, str(storage / f"pool-{number}"), str(processes)], storage)
    single = gemsweep(storage, f"single-{number}", 1, settings)
    return {"ray": ray, "pool": pooled, "single": single, "overhead": ray / pooled - 1, "side by side": ray / single}


def summary(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Median, smallest and largest of every quantity."""
    columns = {name: [row[name] for row in rounds] for name in rounds[0]}
    return {
        name: {"median": statistics.median(values), "low": min(values), "high": max(values)}
        for name, values in columns.items()
    }


def table(found: dict[str, dict[str, float]], title: str) -> Table:
    shown = Table(title=title)
    for heading in ("", "median", "range"):
        shown.add_column(heading, justify="right" if heading else "left")
    for name, value in found.items():
        show = (lambda x: f"{x:.1f} s") if name in ("ray", "pool", "single") else (lambda x: f"{100 * x:.1f} %")
        shown.add_row(name, show(value["median"]), f"{show(value['low'])} to {show(value['high'])}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="trials at a time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in gemsweep run")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--pool", nargs=3, metavar=("EXPERIMENT", "STORAGE", "PROCESSES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pool:
        pool(options.pool[0], options.pool[1], int(options.pool[2]))
        return
    settings = [part for text in options.set for part in ("--set", text)]
    storage = Path(tempfile.mkdtemp(prefix="ray-overhead-"))
    try:
        warm_up = ["--trials", "1", "--seeds", "1", "--set", "trainer.epochs=1", "--set", "trainer.score_epochs=1"]
        gemsweep(storage, "warm-up", 1, [*settings, *warm_up])  # kernels compiled, files in the page cache
        rounds = []
        for number in range(options.repeats):
            rounds.append(repeat(storage, number, options.processes, settings))
            print(f"repeat {number + 1}:", ", ".join(f"{name} {value:.3g}" for name, value in rounds[-1].items()))
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    found = summary(rounds)
    machine = f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"
    Console().print(table(found, f"{options.repeats} repeats, {options.processes} at a time, {machine}"))
    if options.json:
        figures = {"machine": machine, "settings": options.set, "rounds": rounds, "summary": found}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

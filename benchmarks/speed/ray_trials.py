"""The full trainer as separate Ray Tune trials on shares of a GPU, beside one Ray Tune trial that holds a pack.

    python benchmarks/speed/ray_trials.py --share 0.0625 --pack 64 256 --json OUT
    python benchmarks/speed/ray_trials.py --device cpu --tiny --trials 2 --pack 2      # a smoke run

Separate trials are Ray's usual way: so many `tune.Tuner` trials at a time, each in a worker process of its own with one
member and a fraction of the GPU. The pack is one trial with the whole GPU. All go through Ray Tune, on one Ray, in this
run. Figures are updates a second summed over members, median [smallest, largest] over windows in which every trial of
the case runs (`ray_windows.py`). Eager is how a trainer is usually written; captured is the same step as a CUDA graph.
The first trial only fills the cache of compiled kernels; it is not counted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the project, where it is not installed

from apart import apart
from ray_windows import Case, Start, run_trial
from run import TINY, device_name, versions
from shapes import Shape
from timing import summary

from sweep.launch import environment, start_ray
from sweep.resources import Share
from trainer.config import Machine

Row = dict[str, Any]


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Separate trials first, eager before captured; a CPU has no graphs."""
    kinds = options.alone if options.device == "cuda" else ["eager"]
    share = options.share if options.device == "cuda" else 0.0
    for kind in kinds:
        yield Case(f"separate-{kind}", options.trials, options.members, kind == "captured", share)
    for members in options.pack:
        yield Case(f"pack-{members}", 1, members, True, float(options.device == "cuda"))


def fit(case: Case, options: argparse.Namespace, windows: int) -> list[Row]:
    """What each trial of the case reports. Errors: SystemExit when one fails."""
    import ray
    from ray import tune

    shape = replace(TINY if options.tiny else Shape(), members=case.members)
    start = ray.remote(num_cpus=0)(Start).remote(case.trials)

    def trial(config: dict[str, Any]) -> None:
        tune.report(run_trial(case, shape, options.device, windows, options.seconds, start))

    storage = tempfile.mkdtemp(prefix="ray-trials-")
    try:
        found = tune.Tuner(
            tune.with_resources(trial, {"cpu": 1, "gpu": case.share}),
            param_space={"number": tune.grid_search(list(range(case.trials)))},
            tune_config=tune.TuneConfig(max_concurrent_trials=case.trials),
            run_config=tune.RunConfig(
                name="speed", storage_path=storage, verbose=0, failure_config=tune.FailureConfig(fail_fast=True)
            ),
        ).fit()
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    if found.errors:
        raise SystemExit(f"{case.name}: {found.errors[0]}")
    return [found[i].metrics or {} for i in range(len(found))]


def row_of(case: Case, reports: list[Row]) -> Row:
    """Rates summed over the trials of a case, window by window."""
    if len(reports) != case.trials:
        raise SystemExit(f"{case.name}: {len(reports)} of {case.trials} trials reported")
    rates = [sum(window) for window in zip(*(report["rates"] for report in reports), strict=True)]
    ready = max(report["ready_seconds"] for report in reports)
    return asdict(case) | {"updates_per_second": summary(rates), "ready_seconds": ready}


def lines(rows: list[Row]) -> Iterator[str]:
    """One a row; each ratio is of the row's median to that of the separate case in its column."""
    bases = [row for row in rows if row["trials"] > 1]
    heads = "".join(f"{'x ' + row['name']:>22}" for row in bases)
    yield f"{'case':22}{'trials':>7}{'members':>9}{'updates/s':>12}  {'[min, max]':24}{'ready s':>8}{heads}"
    for row in rows:
        rate = row["updates_per_second"]
        spread = f"[{rate['min']:,.1f}, {rate['max']:,.1f}]"
        ratios = "".join(f"{rate['median'] / base['updates_per_second']['median']:>22.2f}" for base in bases)
        start = f"{row['name']:22}{row['trials']:>7}{row['trials'] * row['members']:>9}"
        yield f"{start}{rate['median']:>12,.1f}  {spread:24}{row['ready_seconds']:>8.1f}{ratios}"


def measure(options: argparse.Namespace, found: Row) -> None:
    """Every case on one Ray; `found["rows"]` grows."""
    wanted = list(cases(options))
    machine = Machine(device=options.device)
    share = Share(machine=machine, gpus=wanted[-1].share, concurrent=max(case.trials for case in wanted))
    with environment(share):
        import ray

        start_ray(share)
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            fit(replace(wanted[0], trials=1), options, windows=0)
            for case in wanted:
                found["rows"].append(row_of(case, fit(case, options, options.windows)))
                print(list(lines(found["rows"]))[-1], flush=True)
                if options.json:
                    options.json.write_text(json.dumps(found, indent=1) + "\n")
        finally:
            ray.shutdown()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.0625, help="of the GPU, for a separate trial")
    parser.add_argument("--trials", type=int, help="separate trials at a time; default: as many as the share allows")
    parser.add_argument("--members", type=int, default=1, help="of a separate trial")
    parser.add_argument("--pack", type=int, nargs="+", default=[64, 256], help="members of the one packed trial")
    parser.add_argument("--alone", nargs="+", choices=("eager", "captured"), default=["eager", "captured"])
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a window")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a smoke run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    options.trials = options.trials or int(1.0 / options.share)
    if options.device == "cuda" and options.trials * options.share > 1.0:
        parser.error(f"{options.trials} trials with {options.share:g} of a GPU each do not run at a time")
    return options


def main(arguments: list[str] | None = None) -> Row:
    options = parse(arguments)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found: Row = {"command": " ".join(sys.argv), "date": date, "versions": versions(), "rows": []}
    found["device_name"] = apart(device_name, options.device)
    measure(options, found)
    print("\n" + "\n".join(lines(found["rows"])))
    return found


if __name__ == "__main__":
    main()

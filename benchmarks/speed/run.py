"""Updates per second of every rival, side by side.

    python run.py --members 1 8 24 64 256 --repeats 5 --json OUT
    python run.py --only torch-packed --precision bf16 --search 64 --ratio-to torch-packed-tf32
    python run.py --device cpu --tiny --only torch-eager torch-packed      # a smoke run

Each measurement runs in a process of its own. A rival with variants tries them at the member counts of `--search`; at
any other count it takes the winner of the nearest. A module `ours` in this folder, if there is one, adds a rival.

FLOP/s and bytes/s are shares of the ceilings measured first, as lower bounds: see `shown.shares`. A variant that is not
built and tried in `--limit` seconds is left out; the JSON's `tried` says so.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import math
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from apart import apart
from rivals import RIVALS, Job, Outcome
from shapes import Shape
from shown import Row, shares, table
from timing import summary

TINY = Shape(batch=32, capacity=512, rows=600)
PACKAGES = "torch", "triton", "jax", "jaxlib", "numpy"


def add_ours() -> None:
    if importlib.util.find_spec("ours"):
        importlib.import_module("ours")


def run_job(job: Job) -> Outcome:
    add_ours()
    return RIVALS[job.name].run(job)


def run_ceilings(device: str, repeats: int, seconds: float, small: bool) -> Row:
    import ceilings

    return ceilings.measure(device, repeats, seconds, small) | {"device_name": device_name(device)}


def device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "cpu"


def versions() -> Row:
    found: Row = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Searched member counts first, so that the others know what won."""
    search = options.members if options.search is None else options.search
    ordered = sorted(options.members, key=lambda p: (p not in search, p))
    for name in options.only:
        rival = RIVALS[name]
        for precision in options.precision:
            counts = ordered if rival.members is None else [rival.members]
            for members in counts if precision in rival.precisions else ():
                shape = replace(TINY if options.tiny else Shape(batch=options.batch), members=members)
                timing = options.repeats, options.seconds
                yield Job(name, shape, options.device, precision, *timing, limit=options.limit)


def narrowed(job: Job, rows: list[Row], options: argparse.Namespace) -> Job:
    """The job with the variants it shall try."""
    if options.variants:
        return replace(job, variants=tuple(options.variants))
    if options.search is None or job.shape.members in options.search:
        return job
    known = [r for r in rows if r["rival"] == job.name and r["precision"] == job.precision and r.get("variant")]
    known = [r for r in known if r["members"] in options.search]
    if not known:
        return job
    near = min(known, key=lambda r: abs(math.log(r["members"] / job.shape.members)))
    return replace(job, variants=(near["variant"],))


def measure(job: Job, ceilings: Row) -> Row:
    row: Row = {"rival": job.name, "members": job.shape.members, "precision": job.precision}
    row["name"] = f"{job.name}-{job.precision}"
    try:
        outcome = apart(run_job, job)
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {str(error)[:500]}"}
    found = {k: v for k, v in asdict(outcome).items() if k != "values"}
    rate = summary(outcome.values)
    return row | found | {"updates_per_second": rate} | shares(job, rate["median"], ceilings)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 8, 24, 64, 256])
    parser.add_argument("--search", type=int, nargs="*", help="member counts at which variants are tried; default: all")
    parser.add_argument("--variants", nargs="+", help="try these alone, everywhere")
    parser.add_argument("--only", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--precision", nargs="+", choices=("float32", "tf32", "bf16"), default=["tf32", "bf16"])
    parser.add_argument("--batch", type=int, default=Shape.batch)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one repeat")
    parser.add_argument("--limit", type=float, default=Job.limit, help="seconds to build and try one variant")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a smoke run")
    parser.add_argument("--no-ceilings", action="store_true")
    parser.add_argument("--ratio-to", default="torch-captured-tf32", help="name-precision")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    add_ours()
    options = parse()
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found: Row = {"command": " ".join(sys.argv), "date": date, "versions": versions(), "rows": []}
    if not options.no_ceilings:
        found["ceilings"] = apart(run_ceilings, options.device, options.repeats, options.seconds, options.tiny)
        for name, value in found["ceilings"].items():
            print(name, value if isinstance(value, str) else f"{value['median'] / 1e12:.2f} T/s", flush=True)
    for job in jobs(options):
        row = measure(narrowed(job, found["rows"], options), found.get("ceilings", {}))
        found["rows"].append(row)
        print(list(table([row], None))[1], flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    print("\n" + "\n".join(table(found["rows"], options.ratio_to)))


if __name__ == "__main__":
    main()

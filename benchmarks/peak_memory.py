"""Peak memory of a command with everything it starts, as proportional set size (shared pages counted once).

    python benchmarks/peak_memory.py gemsweep run --storage /tmp/experiments

Samples every process that began after the command did and belongs to its tree or to a Ray it started. Linux only.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PERIOD = 0.5  # seconds between samples


def processes() -> dict[int, tuple[int, str]]:
    """(parent, command line) of every process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = (parent, (folder / "cmdline").read_text().replace("\0", " "))
        except (OSError, ValueError, IndexError):
            continue  # it ended while being read
    return found


def belongs(pid: int, table: dict[int, tuple[int, str]], root: int, before: set[int]) -> bool:
    if pid in before:
        return False
    if "ray" in table[pid][1]:
        return True
    while pid in table and pid != root:
        pid = table[pid][0]
    return pid == root


def pss(pid: int) -> int:
    """Bytes; 0 for a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def main() -> int:
    before, start, peak = set(processes()), time.perf_counter(), 0
    command = subprocess.Popen(sys.argv[1:])
    while command.poll() is None:
        table = processes()
        peak = max(peak, sum(pss(pid) for pid in table if belongs(pid, table, command.pid, before)))
        time.sleep(PERIOD)
    print(f"peak {peak / 2**30:.2f} GiB (PSS), {time.perf_counter() - start:.1f} s, exit code {command.returncode}")
    return command.returncode


if __name__ == "__main__":
    raise SystemExit(main())

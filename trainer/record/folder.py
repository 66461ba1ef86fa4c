"""Where everything stands in an experiment folder, and how it is read back.

    <experiment>/plan.json  config.toml  timeline.parquet
    <experiment>/trials/<key>/trial.json  log.txt  lock  done.json | failed.json
    <experiment>/trials/<key>/epochs/00007-<16 hex>.parquet
    <experiment>/trials/<key>/checkpoints/00007.safetensors

Readers change nothing: what is damaged is named in a list of problems and left where it is.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from trainer.record.checkpoints import list_checkpoints, verify_checkpoint
from trainer.record.files import (
    DamagedFile,
    RecordError,
    check_name,
    read_bytes,
    read_json,
    write_atomic,
    write_json,
)
from trainer.record.lock import is_locked
from trainer.record.parts import list_parts, read_table, verify_part

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["done", "failed", "running", "waiting"]


def trial_folder(experiment: Path | str, key: str) -> Path:
    """`<experiment>/trials/<key>`; a key that could leave the experiment folder is an error."""
    return Path(experiment) / "trials" / check_name(key, "trial key")


def write_plan(experiment: Path | str, plan: Mapping[str, Any], *, replace: bool = False) -> Path:
    """Write `plan.json` with its checksum. A plan is a pre-registration: replacing one must be asked for."""
    path = Path(experiment) / "plan.json"
    if path.exists() and not replace:
        raise RecordError(f"{path}: exists; resume that experiment or choose another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, plan)
    return path


def read_plan(experiment: Path | str) -> dict[str, Any]:
    """The plan. Errors: `RecordError` when the folder has none, `DamagedFile` when it was changed."""
    path = Path(experiment) / "plan.json"
    if not path.exists():
        raise RecordError(f"{path}: not found; give the experiment folder that `gemsweep run` printed")
    plan = read_json(path)
    _check_gem_rows(path, plan.get("gems", []))
    return plan


def _check_gem_rows(path: Path, rows: Any) -> None:
    """The first plans listed bare names where a row of facts about each gem is needed now."""
    for row in rows if isinstance(rows, list) else [rows]:
        if not isinstance(row, Mapping) or not {"name", "may_duplicate"} <= set(row):
            raise RecordError(
                f"{path}: gems: {row!r} does not say what this gemsweep needs of a gem; the plan is of an older "
                f"version: use that one, or start a new sweep"
            )


def write_config(experiment: Path | str, text: str) -> Path:
    """Write the resolved configuration as `config.toml`."""
    path = Path(experiment) / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode())
    return path


def write_timeline(experiment: Path | str, timeline: pd.DatetimeIndex) -> Path:
    """Write the pooled timeline [T], UTC, so that position i of a return series can be dated."""
    path = Path(experiment) / "timeline.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    stamps = pa.array(timeline.as_unit("ns").asi8).cast(pa.timestamp("ns", "UTC"))
    buffer = io.BytesIO()
    pq.write_table(pa.table({"timestamp": stamps}), buffer, use_dictionary=False)
    write_atomic(path, buffer.getvalue())
    return path


def read_timeline(experiment: Path | str) -> pd.DatetimeIndex:
    """The pooled timeline [T] as a UTC DatetimeIndex in nanoseconds."""
    import pandas as pd

    path = Path(experiment) / "timeline.parquet"
    data = read_bytes(path)
    try:
        column = pq.read_table(pa.BufferReader(data)).column("timestamp")
    except (pa.ArrowException, KeyError) as error:
        raise DamagedFile(f"{path}: not a timeline written by gemsweep ({error})") from error
    return pd.DatetimeIndex(column.cast(pa.int64()).to_numpy(), tz="UTC")


def trial_keys(experiment: Path | str) -> list[str]:
    """Keys of the trials that were started, sorted."""
    folder = Path(experiment) / "trials"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def read_trial(experiment: Path | str, key: str) -> dict[str, Any]:
    """`spec`, `started`, `environment`, `resumed` (list of later starts) as the trial's process recorded them."""
    return read_json(trial_folder(experiment, key) / "trial.json")


def read_done(experiment: Path | str, key: str) -> dict[str, Any]:
    """`finished`, `epoch` (the last), `parts` (bytes by file name) and `summary` of a finished trial."""
    return read_json(trial_folder(experiment, key) / "done.json")


def read_failed(experiment: Path | str, key: str) -> dict[str, Any]:
    """`cause`, `error`, `epoch` (the last recorded, -1 for none) and `failed` (time) of a failed trial."""
    return read_json(trial_folder(experiment, key) / "failed.json")


def read_log(experiment: Path | str, key: str) -> list[str]:
    """The lines of the trial's log; an unfinished last line is included as it is."""
    path = trial_folder(experiment, key) / "log.txt"
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def trial_status(experiment: Path | str, key: str) -> Status:
    """`done` and `failed` as recorded, `running` while a process writes it, else `waiting` (to be started or resumed).

    A finished trial of which a part is missing or cut short is `waiting`: a resume repairs it.
    """
    folder = trial_folder(experiment, key)
    if _recorded(folder / "done.json") and not _missing_parts(folder):
        return "done"
    if is_locked(folder / "lock"):
        return "running"
    return "failed" if _recorded(folder / "failed.json") else "waiting"


def _recorded(path: Path) -> bool:
    try:
        return path.exists() and bool(read_json(path))
    except RecordError:
        return False


def _missing_parts(folder: Path) -> list[str]:
    """Names in `done.json` whose file is absent or of another length."""
    sizes = {path.name: path.stat().st_size for paths in list_parts(folder / "epochs").values() for path in paths}
    return [name for name, size in read_json(folder / "done.json")["parts"].items() if sizes.get(name) != size]


def read_parts(
    experiment: Path | str, key: str, columns: Callable[[str], bool] | None = None
) -> tuple[dict[int, pa.Table], list[str]]:
    """Verified parts by epoch as Arrow tables, and the problems found: damaged, doubled or missing parts."""
    folder = trial_folder(experiment, key)
    tables: dict[int, pa.Table] = {}
    problems: list[str] = []
    for epoch, paths in list_parts(folder / "epochs").items():
        for path in paths:
            try:
                table = read_table(path, key, columns)
            except RecordError as error:
                problems.append(str(error))
                continue
            if epoch in tables:
                problems.append(f"{path}: a second part for epoch {epoch}; the first is used")
            tables.setdefault(epoch, table)
    return tables, problems + _gaps(folder, set(tables))


def _gaps(folder: Path, epochs: set[int]) -> list[str]:
    last = max(epochs, default=-1)
    problems = []
    if (folder / "done.json").exists():
        try:
            last = max(last, int(read_json(folder / "done.json")["epoch"]))
        except RecordError as error:
            problems.append(str(error))
    missing = sorted(set(range(last + 1)) - epochs)
    return problems + ([f"{folder / 'epochs'}: no readable part for epochs {missing}"] if missing else [])


def stored_epochs(experiment: Path | str, key: str) -> list[int]:
    """Epochs that have a part, ascending, whether or not it can be read."""
    return list(list_parts(trial_folder(experiment, key) / "epochs"))


def read_part(experiment: Path | str, key: str, epoch: int) -> pa.Table:
    """The verified part of one epoch. Errors: `RecordError` when it is missing or damaged."""
    folder = trial_folder(experiment, key) / "epochs"
    paths = list_parts(folder).get(epoch)
    if not paths:
        raise RecordError(f"{folder}: no part for epoch {epoch}")
    return read_table(paths[0], key)


def read_epochs(
    experiment: Path | str, key: str, columns: Callable[[str], bool] | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """All readable parts as one frame, rows by epoch then member, and the problems found (empty: complete).

    List columns hold numpy arrays. `columns(name)` chooses columns, for instance to leave out the return series.
    """
    import pandas as pd

    tables, problems = read_parts(experiment, key, columns)
    if not tables:
        return pd.DataFrame(), problems
    try:
        table = pa.concat_tables(tables.values(), promote_options="permissive")
    except pa.ArrowException as error:
        raise RecordError(f"{trial_folder(experiment, key)}: parts do not fit together ({error})") from error
    return table.to_pandas(), problems


def check_trial(experiment: Path | str, key: str) -> list[str]:
    """Every problem of a trial's files, each byte verified; empty when all is well."""
    folder = trial_folder(experiment, key)
    problems = []
    for path in (folder / "trial.json", folder / "failed.json"):
        problems += _problem(read_json, path) if path.exists() else []
    for paths in list_parts(folder / "epochs").values():
        problems += [problem for path in paths for problem in _problem(verify_part, path)]
    for path in list_checkpoints(folder / "checkpoints").values():
        problems += _problem(lambda path: verify_checkpoint(path, key), path)
    return problems + _gaps(folder, set(list_parts(folder / "epochs")))


def _problem(read: Callable[[Path], Any], path: Path) -> list[str]:
    try:
        read(path)
    except RecordError as error:
        return [str(error)]
    return []

"""The file formats of an experiment folder: the plan, and for each trial its records, checkpoints, log and end.

`TrialStore` is the only writer of a trial; the `read_*` functions never change a file and never import torch.
"""

from trainer.record.checkpoints import Checkpoint, list_checkpoints, read_checkpoint, verify_checkpoint
from trainer.record.files import DamagedFile, RecordError, read_json, write_json
from trainer.record.folder import (
    Status,
    check_trial,
    read_done,
    read_epochs,
    read_failed,
    read_log,
    read_part,
    read_parts,
    read_plan,
    read_timeline,
    read_trial,
    stored_epochs,
    trial_folder,
    trial_keys,
    trial_status,
    write_config,
    write_plan,
    write_timeline,
)
from trainer.record.lock import TrialLocked
from trainer.record.parts import decode_columns, encode_columns
from trainer.record.store import DamagedRecordWarning, TrialFinished, TrialStore, mark_failed

__all__ = [
    "Checkpoint",
    "DamagedFile",
    "DamagedRecordWarning",
    "RecordError",
    "Status",
    "TrialFinished",
    "TrialLocked",
    "TrialStore",
    "check_trial",
    "decode_columns",
    "encode_columns",
    "list_checkpoints",
    "mark_failed",
    "read_checkpoint",
    "read_done",
    "read_epochs",
    "read_failed",
    "read_json",
    "read_log",
    "read_part",
    "read_parts",
    "read_plan",
    "read_timeline",
    "read_trial",
    "stored_epochs",
    "trial_folder",
    "trial_keys",
    "trial_status",
    "verify_checkpoint",
    "write_config",
    "write_json",
    "write_plan",
    "write_timeline",
]

"""Results as JSON: one document, plain values, null for every number that is not finite."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def json_text(value: Any) -> str:
    """`value` as one JSON document, valid for every parser: no NaN, no Infinity."""
    return json.dumps(json_value(value), indent=1, ensure_ascii=False, allow_nan=False)


def json_value(value: Any) -> Any:
    """`value` as JSON types. Dataclasses and mappings become objects, frames lists of rows, times ISO text.

    Errors: TypeError naming a type that has no JSON form.
    """
    if value is None or (isinstance(value, str | bool | int) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, np.generic):
        return json_value(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return _compound(value)


def _compound(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, pd.DataFrame):
        return json_value(value.to_dict("records"))
    if isinstance(value, list | tuple | np.ndarray | pd.Series | pd.Index):
        return [json_value(item) for item in value]
    if value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")

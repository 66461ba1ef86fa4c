"""pydantic's findings as sentences that name the dotted key and, for an unknown one, the nearest valid key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sweep.errors import ConfigError
from sweep.nearest import nearest

Model = TypeVar("Model", bound=BaseModel)


def strictly(model: type[Model], raw: dict[str, Any], prefix: str = "", known: Iterable[str] = ()) -> Model:
    """`model` from plain data without type coercion: the text "3" is not an integer, and 3.0 is none either.

    Errors: ConfigError with one line a finding, each naming its key below `prefix`. For an unknown key the nearest of
    the model's own keys and of `known` (dotted) is proposed.
    """
    try:
        return model.model_validate_json(json.dumps(raw, default=str), strict=True)
    except ValidationError as error:
        keys = [*dotted_keys(model, f"{prefix}." if prefix else ""), *known]
        findings = [_sentence(finding, prefix, keys) for finding in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(findings))) from None


def dotted_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of the schema, tables included, as `a.b.c`."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        yield key
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from dotted_keys(field.annotation, f"{key}.")


def unknown_key(key: str, known: list[str]) -> str:
    """The sentence for a key that the schema does not have: a sibling is proposed before a key of another table."""
    table, _, name = key.rpartition(".")
    siblings = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == table}
    others = {k.rpartition(".")[2]: k for k in known}
    for names in (siblings, others):
        close = nearest(name, names)
        if close:
            return f"{key}: unknown key; did you mean {names[close]!r}?"
    where = f"[{table}]" if table else "the file"
    return f"{key}: unknown key; {where} has {', '.join(siblings)}"


def _sentence(finding: ErrorDetails, prefix: str, known: list[str]) -> str:
    key = prefix + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in finding["loc"])
    key = key.removeprefix(".")
    cause = finding.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return str(cause)
    if finding["type"] == "extra_forbidden":
        return unknown_key(key, known)
    message = finding["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if cause is not None:
        return f"{key}: {message}" if key else message
    return f"{key}: {message}; got {finding['input']!r}"

"""Sweep configurations as TOML: the embedded default, files, `--set` overrides, and the text for the record."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from sweep.config import SweepConfig
from sweep.errors import ConfigError
from sweep.schema_errors import dotted_keys, strictly
from trainer.config import TrainerConfig


def default_text() -> str:
    """The embedded default configuration with its comments."""
    return files("sweep").joinpath("default.toml").read_text(encoding="utf-8")


def read_config(path: Path | None, overrides: list[str], flags: dict[str, Any]) -> SweepConfig:
    """The configuration in `path` (None: the embedded default) with `a.b=v` overrides and `flags` (dotted key: value).

    Relative paths of data and gems are taken from the folder of the file and made absolute, since a trial may run
    elsewhere. Errors: ConfigError, a line a finding.
    """
    table = tomllib.loads(default_text()) if path is None else _file(path)
    if "trainer" not in table:
        table["trainer"] = tomllib.loads(default_text())["trainer"]
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: write it as key=value, such as --set trainer.epochs=10")
        _set(table, key.strip(), _value(value.strip()), f"--set {text}")
    for key, value in flags.items():
        if value is not None:
            _set(table, key, value, key)
    config = strictly(SweepConfig, table, known=dotted_keys(TrainerConfig, "trainer."))
    return resolved(config, (path.parent if path else Path()).resolve())


def resolved(config: SweepConfig, folder: Path) -> SweepConfig:
    """The configuration with the file paths in it absolute and checked; ConfigError for a file that is not there."""
    from trainer.data import BUNDLED

    source = config.data.source
    if source not in BUNDLED:
        source = str((folder / Path(source).expanduser()).resolve())
        if not Path(source).is_file():
            raise ConfigError(f"data.source: no file {source}, and no bundled data of that name ({', '.join(BUNDLED)})")
    gems = {gem: _gem_path(gem, folder) for gem in config.arms.gems}
    base = {gems[gem]: value for gem, value in config.arms.base.items()}
    further = tuple(arm.naming(gems) for arm in config.arms.further)
    arms = config.arms.model_copy(update={"gems": tuple(gems.values()), "base": base, "further": further})
    return config.model_copy(update={"data": config.data.model_copy(update={"source": source}), "arms": arms})


def to_toml(table: dict[str, Any]) -> str:
    """Plain nested values as TOML: scalars and lists first, then one table after another; tables in lists inline.

    TOML has no null: a key whose value is None is left out, so None must be its default.
    """
    return "\n".join(_lines(table, "")).strip() + "\n"


def _lines(table: dict[str, Any], prefix: str) -> list[str]:
    table = {key: value for key, value in table.items() if value is not None}
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    lines = [f"{_key(key)} = {_literal(value)}" for key, value in table.items() if key not in tables]
    for key, value in tables.items():
        name = f"{prefix}{_key(key)}"
        lines += ["", f"[{name}]", *_lines(value, f"{name}.")]
    return lines


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        given = {key: item for key, item in value.items() if item is not None}
        return "{" + ", ".join(f"{_key(key)} = {_literal(item)}" for key, item in given.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def _key(key: str) -> str:
    return key if key.replace("-", "_").isidentifier() and key.isascii() else json.dumps(key)


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `gemsweep config > {path}` writes one to start from") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _value(text: str) -> Any:
    """`text` read as a TOML value; bare words are strings."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set(table: dict[str, Any], key: str, value: Any, source: str) -> None:
    *tables, name = key.split(".")
    for part in tables:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{source}: {part} is a value, not a table")
    table[name] = value


def _gem_path(gem: str, folder: Path) -> str:
    """`file.py:Class` with the file absolute; ConfigError when it is not there."""
    file, colon, name = gem.rpartition(":")
    if not colon or not file.endswith(".py"):
        return gem
    path = (folder / Path(file).expanduser()).resolve()
    if not path.is_file():
        raise ConfigError(f"arms.gems: no file {path} (for {gem!r})")
    return f"{path}:{name}"

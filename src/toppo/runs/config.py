"""A config file: YAML or JSON with what ``spec.json`` holds, or with a part of it."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from toppo.algos.settings import Common, help_texts
from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.runs.spec import SCHEMA, algorithm, refuse_unknown

EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
TYPES: dict[str, tuple[type, str]] = {
    "env": (str, "a name"),
    "algo": (str, "a name"),
    "total_timesteps": (int, "a whole number"),
    "seed": (int, "a whole number"),
    "env_kwargs": (dict, "names with values"),
    "common": (dict, "names with values"),
    "config": (dict, "names with values"),
}


class Config(NamedTuple):
    """What a config file says; whatever it leaves out has a default."""

    env: str = ""
    algo: str = "toppo"
    total_timesteps: int = 1_000_000
    seed: int = 0
    env_kwargs: dict[str, object] = {}  # noqa: RUF012 - never changed
    common: dict[str, object] = {}  # noqa: RUF012 - never changed
    config: dict[str, object] = {}  # noqa: RUF012 - never changed

    @property
    def settings(self) -> dict[str, object]:
        """Shared and own settings by name."""
        return self.common | self.config


def read_config(path: Path) -> Config:
    """Read a config file; its settings are checked with those of the command line."""
    data = _numbers(_parsed(path))
    try:
        return _config(data)
    except ValueError as error:
        raise ToppoError(f"{path}: {error}", BAD_DATA) from error


def _parsed(path: Path) -> Any:
    import yaml  # a JSON file is a YAML file; imported here, so that other commands start faster

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ToppoError(f"{path} cannot be read ({error.strerror}): give a YAML or JSON file", NO_INPUT) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1}: {getattr(error, 'problem', '')})" if where else ""
        raise ToppoError(f"{path} is not valid YAML or JSON{line}", BAD_DATA) from error


def _numbers(data: Any) -> Any:
    """Make numbers of what YAML 1.1 reads as text: 1e-3 has no point."""
    if isinstance(data, str) and EXPONENT.fullmatch(data):
        return float(data)
    if isinstance(data, list):
        return [_numbers(value) for value in data]
    return {name: _numbers(value) for name, value in data.items()} if isinstance(data, dict) else data


def _config(data: Any) -> Config:
    if not isinstance(data, dict):
        raise ValueError("it holds no names with values; `toppo train ENV --print-config` prints an example")
    if data.get("schema", SCHEMA) != SCHEMA:
        raise ValueError(f"it has schema {data['schema']!r}, but this version of toppo reads {SCHEMA}")
    given = {name: value for name, value in data.items() if name != "schema"}
    algo = algorithm(str(given.get("algo", Config().algo)))
    own = help_texts(algo.config)
    for name in given:
        section = "common" if name in help_texts(Common) else "config" if name in own else ""
        if section:
            raise ValueError(f"`{name}` stands at the top, but belongs under `{section}`")
    refuse_unknown("it", given, TYPES)
    for name, value in given.items():
        kind, words = TYPES[name]
        if kind is int and isinstance(value, float) and value.is_integer():
            given[name] = int(value)
        elif type(value) is not kind:
            raise ValueError(f"{name} is {value!r}, but must be {words}")
    refuse_unknown("`common`", given.get("common", {}), help_texts(Common))
    refuse_unknown(f"`config` of {algo.title}", given.get("config", {}), own)
    return Config(**given)

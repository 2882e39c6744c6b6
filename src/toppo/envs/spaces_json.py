"""Spaces in a JSON file, which may be untrusted."""

from math import inf, isfinite
from typing import Any

from toppo.envs.spaces import Part, Spaces
from toppo.errors import BAD_DATA, ToppoError

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def spaces_to_json(spaces: Spaces) -> dict[str, Any]:
    """The Spaces as JSON data; an unbounded side is null, because JSON has no infinity."""
    bounds = {name: [x if isfinite(x) else None for x in getattr(spaces, name)] for name in ("low", "high")}
    return {**spaces._asdict(), "parts": [part._asdict() for part in spaces.parts], **bounds}


def spaces_from_json(data: Any) -> Spaces:
    """The Spaces that ``spaces_to_json`` wrote."""
    if not isinstance(data, dict) or set(data) != set(Spaces._fields) or not isinstance(data["parts"], list):
        raise ToppoError("the file does not hold the spaces of an environment", BAD_DATA)
    limit = data["episode_limit"]
    ok = (
        all(_is_part(part) for part in data["parts"])
        and all(_list_of(data[name], int) for name in ("choices", "starts", "action_shape"))
        and all(_list_of(data[name], float, type(None)) for name in ("low", "high"))
        and len(data["starts"]) == len(data["choices"])
        and len(data["low"]) == len(data["high"])
        and bool(data["choices"]) != bool(data["low"])
        and data["action_dtype"] in DTYPES
        and type(data["masked"]) is bool
        and (limit is None or type(limit) is int)
        and _list_of(data["left_out"], str)
    )
    if not ok:
        raise ToppoError("the file's spaces hold values that no environment has", BAD_DATA)
    low = [-inf if x is None else x for x in data["low"]]
    high = [inf if x is None else x for x in data["high"]]
    parts = [Part(**_with_tuples(part)) for part in data["parts"]]
    return Spaces(**_with_tuples({**data, "parts": parts, "low": low, "high": high}))


def _is_part(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and set(data) == set(Part._fields)
        and data["kind"] in ("numbers", "choices", "image")
        and _list_of(data["path"], str, int)
        and all(_list_of(data[name], int) for name in ("shape", "choices", "starts"))
        and all(n >= 0 for n in (*data["shape"], *data["choices"]))
        and len(data["starts"]) == len(data["choices"])
    )


def _list_of(values: Any, *kinds: type) -> bool:
    return isinstance(values, list) and all(type(v) in kinds for v in values)


def _with_tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}

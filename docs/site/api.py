"""The Python API as Markdown, from signatures and docstrings."""

import inspect
from collections.abc import Iterator
from dataclasses import fields
from inspect import Parameter, Signature
from typing import Any

import toppo
from toppo.agent import Agent
from toppo.algos import REGISTRY
from toppo.algos.settings import Common, help_texts
from toppo.callbacks import Checkpoint, Evaluate, LogTo, StopOnPlateau, StopOnReturn
from toppo.envs import EnvSource, Source
from toppo.errors import ToppoError
from toppo.learn.loop import Iteration
from toppo.runs.presets import defaults
from toppo.runs.training import Training

KINDS = {"mujoco": "MuJoCo tasks", "atari": "Atari games"}


def api() -> str:
    """Agents with their settings, what an agent does, and what else is public."""
    kinds = sorted(Agent.__subclasses__(), key=lambda kind: list(REGISTRY).index(kind.algo))
    parts = ["## Agents", _table([_row(kind) for kind in kinds], "class", "algorithm")]
    parts += [part for kind in kinds for part in _agent(kind)]
    parts += ["### Shared settings", _settings(Common, Common())]
    parts += ["## What an agent does", _plain(Agent)]
    parts += [part for name, member in _members(Agent) for part in _function(f"Agent.{name}", member)]
    parts += ["## Functions", *_function("toppo.load", toppo.load)]
    parts += ["## Callbacks", "From `toppo.callbacks`; [the page about them](callbacks.md) has examples."]
    for kind in (Evaluate, Checkpoint, StopOnReturn, StopOnPlateau, LogTo):
        parts += [
            f"### {kind.__name__}",
            f"```python\n{_call(kind.__name__, inspect.signature(kind))}\n```",
            _sentence(kind),
        ]
    parts += ["## What a callback is given", _sentence(Training)]
    parts += [part for name, member in _members(Training) for part in _function(f"Training.{name}", member)]
    parts += ["The newest iteration:", _fields(Iteration)]
    parts += ["## Errors", _plain(ToppoError)]
    return "\n\n".join(parts)


def _row(kind: type[Agent]) -> list[str]:
    return [f"[`toppo.{kind.__name__}`](#toppo{kind.__name__.lower()})", _sentence(kind)]


def _agent(kind: type[Agent]) -> list[str]:
    common, config = defaults(kind.algo, "")
    parts = [f"### toppo.{kind.__name__}", _sentence(kind)]
    parts += [f"```python\ntoppo.{kind.__name__}(env, *, seed=0, **settings)\n```"]
    parts += [f"Own settings; [{kind.algo}](algorithms/{kind.algo}.md) explains them.", _settings(type(config), config)]
    notes = _changes(vars(Common()), vars(common), "Of the [shared settings](#shared-settings)")
    for name, text in KINDS.items():
        source = Source(given="", name="", kind=name)  # type: ignore[arg-type]
        before = vars(common) | vars(config)
        after = vars(defaults(kind.algo, source)[0]) | vars(defaults(kind.algo, source)[1])
        notes += _changes(before, after, f"For {text}")
    return [*parts, *notes]


def _changes(before: dict[str, Any], after: dict[str, Any], where: str) -> list[str]:
    changed = [f"`{name}={after[name]!r}`" for name in after if after[name] != before[name]]
    return [f"{where}: {', '.join(changed)}."] if changed else []


def _settings(kind: type, values: Any) -> str:
    hints = inspect.get_annotations(kind, eval_str=True)
    texts = help_texts(kind)
    rows = [
        [
            f"`{f.name}`",
            f"`{_type(hints[f.name]).replace('|', 'or')}`",
            f"`{getattr(values, f.name)!r}`",
            texts[f.name].replace("|", "\\|"),
        ]
        for f in fields(kind)
    ]
    return _table(rows, "setting", "type", "default", "meaning")


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(kind).items():
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property | classmethod)):
            yield name, getattr(kind, name) if isinstance(member, classmethod) else member


def _function(name: str, member: Any) -> list[str]:
    if isinstance(member, property):
        return [f"### {name}", _plain(member)]
    return [f"### {name}", f"```python\n{_call(name, inspect.signature(member))}\n```", _plain(member)]


def _call(name: str, signature: Signature) -> str:
    """A signature, on several lines if it is long."""
    given = [_parameter(p) for p in signature.parameters.values() if p.name not in ("self", "cls")]
    result = "" if signature.return_annotation is Signature.empty else f" -> {_type(signature.return_annotation)}"
    line = f"{name.rpartition('.')[2]}({', '.join(given)}){result}"
    if len(line) <= 88:
        return line
    return line.partition("(")[0] + "(\n    " + ",\n    ".join(given) + f",\n){result}"


def _parameter(parameter: Parameter) -> str:
    annotation = "" if parameter.annotation is Parameter.empty else f": {_type(parameter.annotation)}"
    default = "" if parameter.default is Parameter.empty else f" = {parameter.default!r}"
    return f"{parameter.name}{annotation}{default}"


def _fields(kind: Any) -> str:
    hints = inspect.get_annotations(kind, eval_str=True)
    return _table(
        [[f"`{name}`", f"`{_type(hints[name]).replace('|', 'or')}`"] for name in kind._fields], "field", "type"
    )


def _type(hint: Any) -> str:
    named = {EnvSource: "EnvSource", EnvSource | None: "EnvSource | None"}
    text = hint if isinstance(hint, str) else named.get(hint) or inspect.formatannotation(hint)
    return text.replace("toppo.", "").replace("collections.abc.", "").replace("pathlib.", "")


def _sentence(thing: Any) -> str:
    return _plain(thing).partition("\n\n")[0]


def _plain(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").replace("``", "`")


def _table(rows: list[list[str]], *head: str) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

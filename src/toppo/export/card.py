"""A model card: what a policy is, how it was trained, what it reaches, and how to use it."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toppo.agent import Agent
from toppo.envs import Source, open_player
from toppo.hub import CARD, CURVE, PREFIX
from toppo.plotting import save, write_output
from toppo.report import statistics
from toppo.report.doubts import has_return
from toppo.report.load import read_all
from toppo.report.plot import Wanted, metric_figure
from toppo.report.tables import number, show
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.versions import versions
from toppo.runs.evaluate import evaluate_policy
from toppo.runs.spec import algorithm, to_json


class Tested(NamedTuple):
    """Test episodes with the most likely action."""

    returns: list[float]
    seed: int


def play(agent: Agent, source: Source, episodes: int, seed: int) -> Tested:
    """Play the test episodes of a card."""
    with closing(open_player(source)) as player:
        results = evaluate_policy(agent.state, agent.setup, player, episodes, seed)
    return Tested([result.episode_return for result in results], seed)


def pack(agent: Agent, tested: Tested, run: Path, folder: Path, name: str) -> None:
    """Write all that a model on the hub has into a new folder."""
    agent.save(folder)
    write_card(agent, tested, run, folder, name)


def write_card(agent: Agent, tested: Tested, run: Path, folder: Path, name: str = "") -> list[Path]:
    """Write the card and, of a run directory, its learning curve; return what was written."""
    written = [folder / CARD]
    layout = Layout(run)
    has_curve = False
    if layout.episodes.is_file():
        found = read_all(run)
        has_curve = any(map(has_return, found.runs))
        if has_curve:
            written.append(folder / CURVE)
            save(metric_figure(found, Wanted()), folder / CURVE)
    trained_with = read_json(layout.versions) if layout.versions.is_file() else versions()
    write_output(folder / CARD, card(agent, tested, trained_with, has_curve, name).encode())
    return written


def card(agent: Agent, tested: Tested, trained_with: dict[str, Any], has_curve: bool, name: str = "") -> str:
    """Return the card as Markdown with the block of metadata that the hub reads; ``name`` is owner/name there."""
    spec = agent.spec
    title = algorithm(spec.algo).title
    env = plain(spec.env)
    returns = np.array(tested.returns)
    mean = show(statistics.bootstrap([returns], statistics.pooled(statistics.mean)))
    interval = " (mean, 95% bootstrap interval in brackets)" if "[" in mean else " (mean)"
    where = f"{PREFIX}{name}" if name else "PATH/OF/THIS/FOLDER"
    rows = "\n".join(f"| {plain(package)} | {plain(version)} |" for package, version in sorted(trained_with.items()))
    curve = f"![Learning curve]({CURVE})\n\n" if has_curve else ""
    return f"""{metadata(agent, returns)}
# {title} on {env}

A policy for `{env}`, trained with {title} of toppo for {agent.num_timesteps:,} environment steps with seed {spec.seed}.

## Returns

{len(returns)} test episodes with the most likely action, seed {tested.seed}: {mean}{interval}, standard deviation
{number(float(returns.std()))}, lowest {number(float(returns.min()))}, highest {number(float(returns.max()))}.
All of them are of one policy from one training run.

{curve}## Use

```python
import toppo

agent = toppo.load("{where}")
action, _ = agent.predict(observation, deterministic=True)
```

The normaliser of the observations and the bounds of the actions are part of the policy.
Loading executes nothing of these files.

## Settings

```json
{plain(json.dumps(to_json(spec), indent=1, sort_keys=True))}
```

## Versions

| package | version |
|---|---|
{rows}
"""


def metadata(agent: Agent, returns: np.ndarray) -> str:
    """Return the block of metadata: YAML whose values are JSON."""
    env = plain(agent.spec.env)
    task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    metric = {
        "type": "mean_reward",
        "name": "mean_reward",
        "value": f"{returns.mean():.2f} +/- {returns.std():.2f}",
        "verified": False,
    }
    result = {"task": task, "dataset": {"name": env, "type": env}, "metrics": [metric]}
    data = {
        "library_name": "toppo",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", "toppo", agent.spec.algo, env],
        "model-index": [{"name": algorithm(agent.spec.algo).title, "results": [result]}],
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in data.items()]
    return "\n".join(["---", *lines, "---"])


def plain(text: object) -> str:
    """Return text of an untrusted file with nothing that Markdown or HTML would read as more than text."""
    kept = "".join(c if c.isprintable() or c == "\n" else "?" for c in str(text))
    return kept.translate({ord("`"): "'", ord("<"): "(", ord(">"): ")", ord("|"): "/"})

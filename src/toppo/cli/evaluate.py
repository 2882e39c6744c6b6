"""``toppo evaluate`` and ``toppo plot``."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Annotated, Literal

from toppo import agent
from toppo.cli.flags import OwnEnv, flag, parse, require_at_least
from toppo.display.console import Terminal
from toppo.envs import open_player
from toppo.errors import NO_INPUT, ToppoError
from toppo.runs import run as runs
from toppo.runs.evaluate import MAX_STEPS, evaluate_policy
from toppo.runs.spec import algorithm, default_settings
from toppo.runs.video import VideoOptions, record_video


@dataclass(frozen=True, kw_only=True)
class EvaluateFlags:
    """Play episodes with a trained policy; its normaliser stays as it is."""

    run: Annotated[Path, flag("Run directory, or what Agent.save wrote.", "RUN")]
    episodes: Annotated[int, flag("Episodes to play.")] = 10
    stochastic: Annotated[bool, flag("Sample actions instead of taking the most likely ones.")] = False
    seed: Annotated[int, flag("Seed of the episodes.")] = 0
    max_steps: Annotated[int, flag("Cut an episode off after so many steps, since some never end.")] = MAX_STEPS
    video: Annotated[Path | None, flag("Record the first seconds of an episode into this file (mp4).", "PATH")] = None
    video_seconds: Annotated[int, flag("Length of the video.")] = VideoOptions().seconds
    video_height: Annotated[int | None, flag("Its height in pixels (default: as it is drawn).", "INT")] = None
    env: OwnEnv = None


@dataclass(frozen=True, kw_only=True)
class PlotFlags:
    """Draw learning curves: means over runs that differ in their seeds alone."""

    runs: Annotated[tuple[Path, ...], flag("Run directories, studies, or directories with either.", "RUN")]
    metric: Annotated[
        str, flag("Name in metrics.jsonl or timing.jsonl, eval/mean_reward, length, or return (default).", "NAME")
    ] = "return"
    smooth: Annotated[int, flag("Every point is the mean of the last N of 100 points (default: 1).", "N")] = 1
    x: Annotated[
        Literal["steps", "seconds", "iterations"],
        flag("Horizontal axis: steps, seconds or iterations (default: steps).", "AXIS"),
    ] = "steps"
    out: Annotated[Path, flag("Image to write (png, svg or pdf).")] = Path("curve.png")


def evaluate(arguments: list[str]) -> None:
    """Play episodes with a trained policy, print their returns, and record a video if asked to."""
    given = parse("evaluate", EvaluateFlags, arguments)
    require_at_least(given, episodes=1, max_steps=1, seed=0, video_seconds=1, video_height=16)
    trained = agent.load(given.run)
    source = runs.source_for(trained.spec, given.env) if given.env else runs.registered_source(trained.spec)
    player = open_player(source)
    episodes = evaluate_policy(
        trained.state, trained.setup, player, given.episodes, given.seed, not given.stochastic, given.max_steps
    )
    returns = [episode.episode_return for episode in episodes]
    cut = sum(not episode.ended for episode in episodes)
    console = Terminal()
    console.say(
        f"{algorithm(trained.spec.algo).title} on {source.name} after {trained.num_timesteps:,} steps:\n"
        f"return {fmean(returns):.1f} +- {pstdev(returns):.1f} over {len(returns)} episodes, "
        f"mean length {fmean(episode.length for episode in episodes):.0f}"
        + (f"\n{cut} of them were cut off after {given.max_steps:,} steps (--max-steps)" if cut else "")
    )
    if given.video:
        options = VideoOptions(given.video_seconds, given.video_height)
        so_far = record_video(trained.state, trained.setup, source, given.video, given.seed, options)
        console.say(f"video of the first seconds of an episode (return {so_far:.1f}): {given.video}")


def plot(arguments: list[str]) -> None:
    """Draw learning curves."""
    from toppo.plotting import save
    from toppo.report.load import read_all
    from toppo.report.plot import Wanted, metric_figure

    given = parse("plot", PlotFlags, arguments)
    if not given.runs:
        raise ToppoError("no run was given: name at least one run directory or study")
    require_at_least(given, smooth=1)
    found = read_all(*given.runs, defaults=default_settings)
    if not found.runs:
        nothing = f"there is no run in {', '.join(map(str, given.runs))}: name a run directory or a study"
        raise ToppoError(next(iter(found.problems), nothing), NO_INPUT)
    save(metric_figure(found, Wanted(metric=given.metric, x=given.x, smooth=given.smooth)), given.out)
    console = Terminal()
    for sentence in found.problems:
        console.say(f"note: {sentence}")
    console.say(f"learning curves: {given.out}")

"""Atari: scores between random and human play, game by game and over all games."""

import numpy as np

from toppo.report.compare import Group
from toppo.report.statistics import MIN_FOR_IQM, iqm, mean
from toppo.report.tables import Cell, number, numbers

GAME_COLUMNS = ("game", "arm", "runs", "score", "random, measured", "random", "human", "human-normalised")
ACROSS_COLUMNS = ("arm", "games", "mean", "median", "IQM")
# (random, human), the values in common use; there are none for Carnival and Pooyan.
SCORES: dict[str, tuple[float, float]] = {
    "BattleZone": (2360.0, 37187.5),
    "Breakout": (1.7, 30.5),
    "Centipede": (2090.9, 12017.0),
    "CrazyClimber": (10780.5, 35829.4),
    "Enduro": (0.0, 860.5),
    "FishingDerby": (-91.7, -38.7),
    "Gopher": (257.6, 2412.5),
    "Gravitar": (173.0, 3351.4),
    "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3),
    "MsPacman": (307.3, 6951.6),
    "NameThisGame": (2292.3, 8049.0),
    "Qbert": (163.9, 13455.0),
}


def game_of(env_id: str) -> str:
    """Return the game of an id: ``BreakoutNoFrameskip-v4`` and ``ALE/Breakout-v5`` are Breakout."""
    return env_id.removeprefix("ALE/").partition("-v")[0].removesuffix("NoFrameskip")


def human_normalised(env_id: str, score: float) -> float | None:
    """(score - random) / (human - random), or None where no such scores are in use."""
    known = SCORES.get(game_of(env_id))
    return None if known is None else (score - known[0]) / (known[1] - known[0])


def known_games(groups: list[Group]) -> list[Group]:
    """Return the groups on Atari games whose random and human scores are known."""
    return [g for g in groups if game_of(g.env) in SCORES]


def score_rows(groups: list[Group], measured: dict[str, float]) -> list[list[Cell]]:
    """Return a row for every arm on every game; ``measured`` is what a random policy scored here."""
    rows = []
    for g in known_games(groups):
        score = float(g.final().mean())
        scores = (score, measured.get(g.env), *SCORES[game_of(g.env)], human_normalised(g.env, score))
        rows.append([Cell(game_of(g.env)), Cell(g.arm), *numbers(str(len(g.runs)), *map(number, scores))])
    return rows


def rows_across_games(groups: list[Group]) -> list[list[Cell]]:
    """Return a row for every arm: human-normalised scores over the games with at least one finished episode."""
    known = known_games(groups)
    rows = []
    for arm in dict.fromkeys(g.arm for g in known):
        scores = np.array([human_normalised(g.env, float(g.final().mean())) for g in known if g.arm == arm], float)
        scores = scores[np.isfinite(scores)]
        if len(scores):
            shown = [number(float(n)) for n in (mean(scores), np.median(scores), iqm(scores))]
            shown[-1] += " (mean)" if len(scores) < MIN_FOR_IQM else ""
            rows.append([Cell(arm), *numbers(str(len(scores)), *shown)])
    return rows

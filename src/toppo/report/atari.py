"""Scores on Atari games between random and human play, game by game and over all of them."""

import numpy as np

from toppo.report.compare import Group
from toppo.report.scores import SCORES, game_of, human_normalised
from toppo.report.statistics import MIN_FOR_IQM, iqm, mean
from toppo.report.tables import Cell, number

GAME_COLUMNS = ("game", "arm", "runs", "score", "random, measured", "random", "human", "human-normalised")
ACROSS_COLUMNS = ("arm", "games", "mean", "median", "IQM")


def games_in(groups: list[Group]) -> list[Group]:
    """The groups on Atari games whose random and human scores are known."""
    return [g for g in groups if human_normalised(g.env, 0.0) is not None]


def games(groups: list[Group], measured: dict[str, float]) -> list[list[Cell]]:
    """Every arm on every game; ``measured`` is what a random policy scored here."""
    rows = []
    for g in games_in(groups):
        score, (random, human) = float(g.final().mean()), SCORES[game_of(g.env)]
        numbers = (score, measured.get(g.env), random, human, human_normalised(g.env, score))
        cells = [Cell(number(n), "n") for n in numbers]
        rows.append([Cell(game_of(g.env)), Cell(g.arm), Cell(str(len(g.runs)), "n"), *cells])
    return rows


def across(groups: list[Group]) -> list[list[Cell]]:
    """Human-normalised scores of every arm over the games on which it finished any."""
    known, rows = games_in(groups), []
    for arm in dict.fromkeys(g.arm for g in known):
        scores = np.array([human_normalised(g.env, float(g.final().mean())) for g in known if g.arm == arm], float)
        scores = scores[np.isfinite(scores)]
        if len(scores):
            found = [number(float(n)) for n in (mean(scores), np.median(scores), iqm(scores))]
            found[-1] += " (mean)" if len(scores) < MIN_FOR_IQM else ""
            rows.append([Cell(arm), Cell(str(len(scores)), "n"), *(Cell(text, "n") for text in found)])
    return rows

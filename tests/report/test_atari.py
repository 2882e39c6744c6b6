"""Atari scores in the report, against sums done by hand."""

from tests.support.curves import curve, group
from toppo.report.atari import rows_across_games, score_rows
from toppo.report.load import load
from toppo.report.page import About, write_report
from toppo.rundir.layout import write_json

BREAKOUT, QBERT, CARNIVAL, GOPHER = (f"{g}NoFrameskip-v4" for g in ("Breakout", "Qbert", "Carnival", "Gopher"))


def text(rows):
    return [[cell.text for cell in row] for row in rows]


def test_scores_stand_between_random_and_human_play():
    half = (30.5 + 1.7) / 2
    groups = [
        group([[0.0] * 9 + [half - 1], [0.0] * 9 + [half + 1]], env=BREAKOUT),
        group([[163.9]], env=QBERT),
        group([[2 * 13455.0 - 163.9]], env="ALE/Qbert-v5"),
        group([[None]], env=GOPHER),  # no game was finished
        group([[500.0]], env=CARNIVAL),  # no human score is in use
        group([[5.0]], env="Pendulum-v1"),
    ]
    assert text(score_rows(groups, {BREAKOUT: 1.5})) == [
        ["Breakout", "toppo", "2", "16.1", "1.5", "1.7", "30.5", "0.5"],
        ["Qbert", "toppo", "1", "163.9", "-", "163.9", "13,455", "0"],
        ["Qbert", "toppo", "1", "26,746", "-", "163.9", "13,455", "2"],
        ["Gopher", "toppo", "1", "-", "-", "257.6", "2,412", "-"],
    ]
    assert text(rows_across_games(groups)) == [["toppo", "3", "0.8333", "0.5", "0.8333 (mean)"]]


def test_the_report_shows_them_and_only_where_there_are_games(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    for algo, score in (("toppo", 30.5), ("ppo", 1.7)):
        for env in (BREAKOUT, CARNIVAL):
            write_json(tmp_path / "a" / f"{algo}-{env}-0.json", curve(algo=algo, env=env, returns=[score]))
    write_json(tmp_path / "a" / "random.json", {"schema": 1, "returns": {BREAKOUT: 1.25}})
    write_json(tmp_path / "b" / "toppo-E-0.json", curve())
    pages = {}
    for name in "ab":
        write_report(load(tmp_path / name), tmp_path / f"{name}.html", About("x", "toppo report"))
        pages[name] = (tmp_path / f"{name}.html").read_text()
    assert "human-normalised" in pages["a"]
    assert "1.25" in pages["a"]
    assert "human-normalised" not in pages["b"]

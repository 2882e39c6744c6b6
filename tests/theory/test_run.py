"""The radius and gradient studies, and the report they end in."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from toppo.cli.info import TheoryDisplay
from toppo.display.console import Terminal, live_view
from toppo.errors import ToppoError
from toppo.theory import gradient, radius
from toppo.theory.catalogue import EXHAUSTIVE, STATEMENTS
from toppo.theory.mdp import Case, mean_kl, solve, with_mu_towards
from toppo.theory.random_mdps import full_support, random_mdps, random_policies
from toppo.theory.report import render, write
from toppo.theory.run import PARTS, Report, check_all


def test_radii_are_ordered_and_tiny() -> None:
    near, far = (radius.radii(np.random.default_rng(0), 30, gamma) for gamma in (0.5, 0.99))
    for r in (near, far):
        # Proved for every direction: none that was tried may fall below it, but for the grid's step.
        assert (r.by_bound["explicit"] <= r.by_bound["paper"] * 10**0.11).all()
        assert (r.by_bound["explicit"] > 0.0).all()
        assert (r.by_bound["paper"] <= r.by_bound["strengthened"]).all()
        assert 0.03 < r.tv_at_alpha < 0.123
        assert r.certified_at_alpha == 0.0
    assert np.median(far.by_bound["paper"]) < 1e-2 * np.median(near.by_bound["paper"])
    assert np.median(far.by_bound["second_order"]) > 100.0 * np.median(far.by_bound["paper"])


def test_filter_distance_is_met() -> None:
    rng = np.random.default_rng(1)
    mdp = random_mdps(rng, 20, (4, 3), np.full(20, 0.9))
    pi_k = random_policies(rng, 20, 4, 3)
    target = random_policies(rng, 20, 4, 3)
    solved = solve(mdp, pi_k)
    case = Case(mdp=mdp, mu=solved, pi_k=solved, pi=solved)
    weight = radius.weight_at_alpha(case, target)
    reached = mean_kl(with_mu_towards(case, target, weight).mu, pi_k)
    inside = weight < 0.999
    assert inside.sum() > 10
    np.testing.assert_allclose(reached[inside], radius.ALPHA, rtol=1e-3)


def test_gradients_have_their_closed_forms() -> None:
    rng = np.random.default_rng(0)
    mdp = random_mdps(rng, 30, (4, 3), np.full(30, 0.9))
    policy = random_policies(rng, 30, 4, 3)
    pi_k = solve(mdp, policy)
    mu = solve(mdp, full_support(policy * np.exp(rng.normal(size=policy.shape))))
    truth = pi_k.rho[..., None] * policy * pi_k.adv / 0.1
    np.testing.assert_allclose(gradient.return_gradient(mdp, policy), truth, atol=1e-10)
    centred = mu.adv - (policy * mu.adv).sum(-1, keepdims=True)
    expected = mu.rho[..., None] * policy * centred
    np.testing.assert_allclose(gradient.surrogate_gradient(mu, policy, mu.adv), expected, atol=1e-10)
    own = gradient.cosine(gradient.surrogate_gradient(pi_k, policy, pi_k.adv), truth)
    np.testing.assert_allclose(own, 1.0, atol=1e-12)


def test_direction_worsens_with_distance_and_faster_with_old_advantages() -> None:
    cosines = gradient.study(np.random.default_rng(0), 1000)
    inside, outside = gradient.binned(cosines, np.asarray([1e-4, radius.ALPHA, 3.0]))
    assert inside.own[0] > 0.998
    assert inside.own[2] == 0.0
    assert outside.own[1] < inside.own[1]
    assert outside.own[1] < outside.current[1]


@pytest.fixture(scope="module")
def begun() -> list[str]:
    return []


@pytest.fixture(scope="module")
def small(begun: list[str]) -> Report:
    return check_all(24, 5, steps=4, observe=begun.append)


def test_every_part_is_announced_when_it_begins(small: Report, begun: list[str]) -> None:
    assert begun == list(PARTS)
    assert begun[: len(small.results)] == [result.statement.title for result in small.results]


@pytest.mark.parametrize("terminal", [False, True])
def test_the_checks_do_not_look_like_a_hang(terminal: bool) -> None:
    console = Terminal(file=io.StringIO(), width=80, force_terminal=terminal)
    with live_view(console) as live:
        display = TheoryDisplay(3, console, live)
        display("Lemma 1")
        display("Lemma 2")
        if live:
            live.refresh()
    shown = console.file.getvalue()
    if terminal:
        assert "2 of 3" in shown
        assert "Lemma 2" in shown
    else:
        assert shown == "1/3  Lemma 1\n2/3  Lemma 2\n"


def test_same_seed_same_bytes(small: Report, tmp_path: Path) -> None:
    first = write(small, tmp_path / "a")
    second = write(check_all(24, 5, steps=4), tmp_path / "b")
    assert [path.name for path in first] == [path.name for path in second]
    assert len(first) == 5
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
        assert a.stat().st_size < 200_000


def test_report_has_every_statement(small: Report, tmp_path: Path) -> None:
    titles = [statement.title for statement in (*STATEMENTS, *EXHAUSTIVE)]
    keys = [statement.key for statement in (*STATEMENTS, *EXHAUSTIVE)]
    paths = write(small, tmp_path)
    assert tmp_path / "report.md" in paths
    for text in (render(small), (tmp_path / "report.md").read_text()):
        assert all(title in text for title in titles)
    data = json.loads((tmp_path / "report.json").read_text())
    assert [s["key"] for s in data["statements"]] == keys


def test_directory_that_cannot_be_written_is_one_sentence(small: Report, tmp_path: Path) -> None:
    in_the_way = tmp_path / "report"
    in_the_way.write_text("")
    with pytest.raises(ToppoError, match=r"report\.json cannot be written"):
        write(small, in_the_way)


def test_no_processes_is_an_error() -> None:
    with pytest.raises(ValueError, match="mdps is 0"):
        check_all(0, 0)


def test_documented_report_is_of_these_statements() -> None:
    docs = Path(__file__).parents[2] / "docs"
    data = json.loads((docs / "results" / "theory" / "report.json").read_text())
    verdicts = {s["key"]: s["holds"] for s in data["statements"]}
    assert list(verdicts) == [statement.key for statement in (*STATEMENTS, *EXHAUSTIVE)]
    assert not verdicts["ppo-theorem"]
    assert verdicts["ppo-theorem-tabular"]
    page = (docs / "theory.md").read_text()
    for name in ("tightness", "radius", "gradient"):
        assert f"(results/theory/theory-{name}.png)" in page
        assert (docs / "results" / "theory" / f"theory-{name}.png").exists()

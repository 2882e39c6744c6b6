"""The verdicts on the paper's claims."""

from itertools import combinations

import numpy as np
import pytest

from benchmarks import verdicts
from benchmarks.evidence import committed, evidence_of
from benchmarks.findings import fill
from benchmarks.verdicts import (
    CONFIRMED,
    CONTRADICTED,
    NO_DIFFERENCE,
    NOT_RUN,
    Comparison,
    Verdict,
    holm,
    judge,
    overall,
)


def closed_testing(p_values, level):
    """Reject what every set of hypotheses that contains it rejects by Bonferroni: Holm's procedure by definition."""
    places = range(len(p_values))
    sets = [s for size in range(1, len(p_values) + 1) for s in combinations(places, size)]
    rejected = {s for s in sets if min(p_values[i] for i in s) <= level / len(s)}
    return [all(s in rejected for s in sets if i in s) for i in places]


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_the_closure_of_bonferroni(seed):
    p_values = list(np.random.default_rng(seed).uniform(0, 0.05, 6) ** 1.5)
    assert [rejects for rejects, _ in holm(p_values)] == closed_testing(p_values, 0.05)


def test_holms_levels_by_hand():
    assert holm([0.04, 0.01, 0.03]) == [(False, 0.025), (True, pytest.approx(0.05 / 3)), (False, 0.025)]
    assert holm([0.9]) == [(False, 0.05)]


def rows_of(monkeypatch, finals, **changes):
    monkeypatch.setattr(verdicts, "final_returns", lambda c: (*map(np.array, finals[c.env]), 10))
    return judge([Comparison("s", env, "a", "b")._replace(**changes) for env in finals])


@pytest.mark.parametrize("seed", range(5))
def test_an_interval_leaves_out_zero_exactly_where_holm_rejects(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    finals = {
        env: (rng.normal(gap, 1, 7), rng.normal(5, 1, 6)) for env, gap in zip("pqrst", (5, 6, 7, 3, 5.5), strict=True)
    }
    for row in rows_of(monkeypatch, finals):
        outside = row.low > 0 or row.high < 0
        assert outside == (row.verdict.word in (CONFIRMED, CONTRADICTED))
        assert row.low < row.value < row.high


def test_words_follow_the_side_that_a_claim_expects(monkeypatch):
    far = {"E": ([9.0, 9.1, 9.2], [1.0, 1.1, 1.2])}
    words = {side: rows_of(monkeypatch, far, expected=side)[0].verdict.word for side in (1, -1, 0)}
    assert words == {1: CONFIRMED, -1: CONTRADICTED, 0: "higher"}
    assert rows_of(monkeypatch, far)[0].verdict.text == "provisional: **confirmed**"


def test_a_row_without_a_difference_says_what_it_excludes(monkeypatch):
    (row,) = rows_of(monkeypatch, {"E": ([9.0, 10.0, 11.0], [9.0, 10.5, 12.0])})
    assert row.excluded == max(-row.low, row.high)
    assert f"**no difference** above {row.excluded:.4g} ({100 * row.excluded / 10.5:.0f}%)" in row.cells()[2]


def test_too_few_runs_have_no_verdict_and_equal_runs_no_difference(monkeypatch):
    few, equal = rows_of(monkeypatch, {"E": ([1.0, 2.0], [3.0, 4.0]), "F": ([1.0] * 3, [1.0] * 3)})
    assert few.verdict == Verdict(NOT_RUN, 2, 10)
    assert equal.verdict.word == NO_DIFFERENCE


@pytest.mark.parametrize(
    ("words", "sometimes", "told"),
    [
        ([CONFIRMED, CONFIRMED], False, "**confirmed** (2 of 2 rows)"),
        ([CONFIRMED, NO_DIFFERENCE], False, "**confirmed in part** (1 of 2 rows)"),
        ([CONFIRMED, NO_DIFFERENCE], True, "**confirmed** (1 of 2 rows)"),
        ([CONFIRMED, CONTRADICTED], False, "**contradicted** (1 of 2 rows), confirmed (1 of 2 rows)"),
        ([NO_DIFFERENCE, NO_DIFFERENCE], False, "**no difference** above 20% (2 of 2 rows)"),
        ([CONFIRMED, NOT_RUN], False, "provisional: **confirmed** (1 of 2 rows)"),
        ([NOT_RUN, NOT_RUN], False, "**not run yet**"),
        ([CONFIRMED], False, "**confirmed**"),
    ],
)
def test_the_verdict_on_a_claim(words, sometimes, told):
    assert overall([Verdict(word, 10, 10, 20.0) for word in words], sometimes) == told


def test_a_run_counts_for_every_study_that_asks_for_it_and_only_at_its_length():
    assert len(committed()) > 300
    main = evidence_of("performance")["HalfCheetah-v5", "toppo"]
    assert main.seeds >= 7
    assert evidence_of("labels")["HalfCheetah-v5", "toppo"].seeds == main.seeds
    for study in ("selection", "alpha-n"):
        runs = [run for e in evidence_of(study).values() for run in e.group.runs]
        assert {run.budget for run in runs} <= {1_000_000}


def test_only_what_stands_between_marks_is_generated():
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
    filled = fill(page, {"x": lambda: ["new"]})
    assert filled == "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb\n"
    assert fill(filled, {"x": lambda: ["new"]}) == filled

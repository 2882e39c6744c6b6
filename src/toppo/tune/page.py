"""The page about a search: one HTML file that needs nothing else."""

from pathlib import Path

from toppo.algos.settings import help_texts
from toppo.plotting import write_output
from toppo.report.page import MAX_COMMAND, Section, drawings, templates
from toppo.report.tables import VERSION_COLUMNS, Cell, number
from toppo.report.text import clean
from toppo.rundir.versions import versions
from toppo.tune import figures
from toppo.tune.search import Found, Place, Plan
from toppo.tune.space import Choices, Range
from toppo.tune.trials import MIN_FOR_IMPORTANCE, Trial

MAX_ROWS = 1000
SETTING_COLUMNS = ("setting", "best", "default", "searched", "what it is")


def write_page(plan: Plan, place: Place, found: Found, best: Trial, command: str) -> None:
    """Write the page about a search that has a best trial, and that this command makes again."""
    sections = sections_of(plan, found, best)
    page = templates(Path(__file__).parent).get_template("tune.html")
    text = page.render(
        title=clean(f"{plan.search.algo} on {plan.search.env}", 300),
        command=clean(command, MAX_COMMAND),
        search=plan.search,
        best=best,
        value=number(best.value),
        counts=found.counts(),
        config=clean(place.best, 300),
        atari=plan.task.source.kind == "atari",
        sections=sections,
        drawings=drawings(sections),
    )
    write_output(place.page, text.encode())


def sections_of(plan: Plan, found: Found, best: Trial) -> dict[str, Section]:
    """Return all sections that the trials allow, by name."""
    trials = found.trials
    importance = Section(note=f"This needs {MIN_FOR_IMPORTANCE} finished trials.")
    if found.importances:
        importance = Section(figures.importance_figure(found.importances))
    return {
        "settings": Section(columns=SETTING_COLUMNS, rows=setting_rows(plan, best)),
        "history": Section(figures.history_figure(trials, best)),
        "curves": Section(figures.curves_figure(plan.search, trials, best)),
        "importance": importance,
        "slices": Section(figures.slices_figure(plan.space, trials, best)),
        "trials": Section(columns=trial_columns(plan), rows=trial_rows(plan, trials, best)),
        "versions": Section(columns=VERSION_COLUMNS, rows=[[Cell(n), Cell(v)] for n, v in versions().items()]),
    }


def setting_rows(plan: Plan, best: Trial) -> list[list[Cell]]:
    """Return a row for every searched setting and for every one that all trials share."""
    spec = plan.task.spec(plan.search.seed, {})
    default = {**vars(spec.common), **vars(spec.config)}
    texts = {**help_texts(type(spec.common)), **help_texts(type(spec.config))}
    chosen = plan.space.settings(best.drawn)
    rows = []
    for name in (*plan.space.searched, *plan.space.fixed):
        entry = plan.space.searched.get(name)
        # A preset is no setting of its own: it has no default among them.
        before = shown(default.get(name, "default"))
        cells = (name, shown(chosen[name]), before, shown_entry(entry), texts.get(name, ""))
        rows.append([Cell(clean(text, 300), "best" if i == 1 else "") for i, text in enumerate(cells)])
    return rows


def trial_columns(plan: Plan) -> tuple[str, ...]:
    """Return the names of the columns of the table of trials."""
    return ("trial", "state", "return", *plan.space.searched)


def trial_rows(plan: Plan, trials: list[Trial], best: Trial) -> list[list[Cell]]:
    """Return a row for every trial, the best first, then the pruned and the failed ones."""
    order = sorted(trials, key=lambda trial: (trial.value is None, -(trial.value or 0.0), trial.number))
    rows = []
    for trial in order[:MAX_ROWS]:
        state = clean(f"failed: {trial.fault}", 200) if trial.fault else trial.state
        settings = [Cell(clean(shown(trial.drawn.get(name, "-"))), "n") for name in plan.space.searched]
        value = Cell(number(trial.value), "n best" if trial is best else "n")
        rows.append([Cell(str(trial.number), "n"), Cell(state), value, *settings])
    return rows


def shown(value: object) -> str:
    """Return a setting as a page shows it."""
    if isinstance(value, tuple):
        return str(list(value))
    return f"{value:.4g}" if type(value) is float else str(value)


def shown_entry(entry: Range | Choices | None) -> str:
    """Return what was searched of a setting."""
    if entry is None:
        return "not searched"
    if isinstance(entry, Choices):
        return ", ".join(shown(label) for label in entry.values)
    return f"{shown(entry.low)} to {shown(entry.high)}{', logarithmic' if entry.log else ''}"

"""The committed curves, found by what was trained: a run counts for every study that asks for it."""

import json
from functools import cache
from typing import NamedTuple

from benchmarks.page import RESULTS
from toppo.report.compare import Group
from toppo.report.curves import Run, run_from_curve
from toppo.runs.spec import from_json, spec_hash
from toppo.studies.paper import paper_study
from toppo.studies.study import jobs_of, with_seeds

SEEDS = {"alpha-n": 5}  # of the studies that are planned with fewer than their ten


class Evidence(NamedTuple):
    """The runs of one arm on one environment that are there, and how many there should be."""

    group: Group
    planned: int

    @property
    def seeds(self) -> int:
        """Return the number of runs that are there."""
        return len(self.group.runs)


@cache
def committed() -> dict[str, Run]:
    """Return all curves under docs/results by the hash of their spec."""
    found = {}
    for path in sorted(RESULTS.rglob("*.json")):
        data = json.loads(path.read_text())
        if isinstance(data, dict) and {"grid", "spec"} <= set(data):
            found[spec_hash(from_json(data["spec"]))] = run_from_curve(data, path.stem)
    return found


@cache
def evidence_of(study: str) -> dict[tuple[str, str], Evidence]:
    """Return what is there of a study at the paper's budget, by environment and arm, in the study's order."""
    found: dict[tuple[str, str], Evidence] = {}
    for job in jobs_of(with_seeds(paper_study(study), SEEDS.get(study))):
        key = (job.spec.env, job.arm)
        known = found.get(key, Evidence(Group(job.arm, job.spec.env, []), 0))
        run = committed().get(spec_hash(job.spec))
        runs = [*known.group.runs, *([run._replace(arm=job.arm)] if run else [])]
        found[key] = Evidence(known.group._replace(runs=runs), known.planned + 1)
    return found


def groups_of_study(study: str) -> list[Group]:
    """Return the groups of a study that have at least one run."""
    return [e.group for e in evidence_of(study).values() if e.seeds]

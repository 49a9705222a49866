"""Container sizes: YARN's tables of ask -> size."""

from __future__ import annotations

from rm_emulator.lab.cases.checks import Case, Check, Checks, kind
from schedulers.yarn.vectors import normalise, normalised


@kind("normalise_mem", {"rows"})
def normalise_mem(case: Case) -> Checks:
    """Rows of [ask, minimum, maximum, size] in MB; the step is the minimum, as in the capacity scheduler."""
    rows = case["rows"]
    got = [[ask, low, high, normalised(ask, low, low, high)] for ask, low, high, _ in rows]
    yield Check("", rows, got)


@kind("normalise_drc", {"rows", "min", "max"})
def normalise_drc(case: Case) -> Checks:
    """Rows of [ask, size], each [memory, vcores]; both resources are normalised (DominantResourceCalculator)."""
    low, high = tuple(case["min"]), tuple(case["max"])
    yield Check("", case["rows"], [[ask, list(normalise(tuple(ask), low, low, high))] for ask, _ in case["rows"]])

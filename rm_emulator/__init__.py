"""Shell 1: the resource manager emulated on simulated time.

    import rm_emulator
    results = rm_emulator.run("scenario.yaml", seeds="1..5")
    results.comparisons
    print(rm_emulator.explain(results, "job-7"))

`rm_emulator.api` has what whole studies need besides. Importing this package is cheap; what `run` needs is imported
when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rm_emulator.version import __version__

if TYPE_CHECKING:
    from rm_emulator.experiments.api import Comparison, Explanation, Results

__all__ = ["__version__", "compare", "explain", "load", "run"]


def run(
    scenario: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    seeds: str | Iterable[int] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 (the name of the command's option)
    policies: Iterable[Any] = (),
    jobs: int | None = None,
    plugins: Iterable[str | Path] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> Results:
    """Run every policy x seed of a scenario and return what it left behind.

    scenario: a file, the name of a packaged example, or a dict of what a file has in it.

    out: the run directory, where finished cells are reused; without it nothing is written where you are, and the
    results live in a temporary place for as long as the returned object. overwrite: replace the results of another
    scenario in `out`. seeds: `"1..5"` or numbers.
    set: changes to the scenario by path, such as `{"spec.workload.load": 0.8}`. jobs: processes at once.
    policies: run beside the scenario's own: classes, names, or dicts such as `{"kind": MyPolicy, "predictor": {"kind":
    "slearn"}}`. Wherever a dict says `kind`, a class can stand for its name. A class that is in no plug-in and no
    installed package runs in this process alone.
    progress: show bars on standard error.
    Raises `rm_emulator.issues.InvalidInput` with every mistake of the scenario, and
    `rm_emulator.experiments.api.CellsFailed` when cells could not be computed.
    """
    from rm_emulator.experiments import api

    return api.run(
        scenario, out, seeds, set or {}, jobs, plugins, policies=policies, overwrite=overwrite, progress=progress
    )


def load(out: str | Path) -> Results:
    """The results of a finished run directory."""
    from rm_emulator.experiments import api

    return api.load(out)


def explain(
    run: Results | str | Path,
    job: str,
    task: str | int | None = None,
    *,
    label: str | None = None,
    seed: int | None = None,
    point: int = 0,
    advise: bool = False,
    plugins: Iterable[str | Path] = (),
) -> Explanation:
    """What a job waited for, when and why: `print` it, or look at its `story` and `advice`.

    run: results, a run directory, or an event log. task: STAGE/INDEX, its attempts are told too. label, seed: the first
    ones by default; point: of a sweep, from 1. advise: try what would have helped, by running the cell again.
    Raises `rm_emulator.issues.InvalidInput` for what is not there, `schedulers.core.replay.LogDiffers` for a log whose
    replay decides otherwise.
    """
    from rm_emulator.experiments import api

    return api.explain(run, job, task, label, seed, point, plugins, advise=advise)


def compare(
    left: Results | str | Path,
    right: Results | str | Path | None = None,
    *,
    labels: Sequence[str] = (),
    seed: int | None = None,
) -> Comparison:
    """Two runs side by side, the right one relative to the left: `print` it, or read it as a mapping.

    left, right: results or run directories; two labels of one run without `right`. labels: at most one a side; by
    default the first of each run, of one run the baseline and the first other.
    Raises `rm_emulator.results.compare.CompareError` for what is not there.
    """
    from rm_emulator.experiments import api

    return api.compare(left, right, labels, seed)

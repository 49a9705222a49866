"""Shell 1: the resource manager emulated on simulated time.

    import rm_emulator
    results = rm_emulator.run("scenario.yaml", seeds="1..5")
    results.comparisons

Importing this package is cheap; what `run` needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rm_emulator.version import __version__

if TYPE_CHECKING:
    from rm_emulator.experiments.api import Results

__all__ = ["__version__", "load", "run"]


def run(
    scenario: str | Path,
    *,
    out: str | Path | None = None,
    seeds: str | Iterable[int] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 (the name of the command's option)
    jobs: int | None = None,
    plugins: Iterable[str | Path] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> Results:
    """Run every policy x seed of a scenario file (or packaged example) and return what it left behind.

    out: the run directory, where finished cells are reused; without it nothing is written where you are, and the
    results live in a temporary place for as long as the returned object. overwrite: replace the results of another
    scenario in `out`. seeds: `"1..5"` or numbers.
    set: changes to the scenario by path, such as `{"spec.workload.load": 0.8}`. jobs: processes at once.
    progress: show bars on standard error.
    Raises `rm_emulator.issues.InvalidInput` with every mistake of the scenario, and
    `rm_emulator.experiments.api.CellsFailed` when cells could not be computed.
    """
    from rm_emulator.experiments import api

    return api.run(scenario, out, seeds, set or {}, jobs, plugins, overwrite=overwrite, progress=progress)


def load(out: str | Path) -> Results:
    """The results of a finished run directory."""
    from rm_emulator.experiments import api

    return api.load(out)

"""Who computes cells and rollouts: processes of this machine, or the workers of a Dask cluster (`--engine`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rm_emulator.experiments import pool
from rm_emulator.experiments.cell import Cell
from rm_emulator.issues import InvalidInput, Issue, show_value

if TYPE_CHECKING:
    from rm_emulator.experiments.dask_engine import DaskEngine

_WAYS: Final = "expected dask://HOST:PORT of a Dask scheduler, dask:FILE.json that it wrote, or dask:local"
_ADDRESS: Final = re.compile(r"(?:(tls|tcp|ws|wss)://|//)([^\s/]+:\d+)")


class CellEngine(Protocol):
    """Computes cells."""

    def check(self, cells: Sequence[Cell]) -> None:
        """Raise InvalidInput where these cells could not be computed; nothing is written."""

    def run_cells(self, cells: Sequence[tuple[Cell, Path]], listener: pool.CellListener) -> None:
        """Compute each cell into its directory, and tell the listener; see `pool.run_cells`."""


class Processes:
    """Processes of this machine. jobs: at once; a single one is the calling process."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def check(self, cells: Sequence[Cell]) -> None:
        """See CellEngine."""

    def run_cells(self, cells: Sequence[tuple[Cell, Path]], listener: pool.CellListener) -> None:
        """See CellEngine."""
        pool.run_cells(cells, self._jobs, listener)


def engine_of(text: str, jobs: int | None) -> DaskEngine:
    """The engine that a user names. jobs: workers of `dask:local`, by default one a core.

    Raises InvalidInput for other text, for `jobs` with workers of other machines, and without the extra `dask`.
    """
    kind, _, where = text.partition(":")
    found = _ADDRESS.fullmatch(where)
    if kind != "dask" or not (found or where == "local" or where.endswith(".json")):
        raise InvalidInput([Issue(f"engine {show_value(text)}", _WAYS)])
    if jobs is not None and where != "local":
        message = "a scheduler has workers of its own, and their number is theirs: leave jobs out"
        raise InvalidInput([Issue(f"engine {show_value(text)}", message)])
    try:
        from rm_emulator.experiments.dask_engine import DaskEngine
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{error.name} is not installed: pip install 'rm-emulator[dask]'") from None
    return DaskEngine(f"{found[1] or 'tcp'}://{found[2]}" if found else where, jobs or pool.cores())

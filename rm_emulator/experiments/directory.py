"""The run directory: who it belongs to, which cells are in it, and how results get into it whole.

scenario.yaml               as resolved; written first, so that it marks the directory as ours
runs/LABEL/SEED/            moved here when complete, with its key in cell.json
baselines/NAME/LABEL/SEED/  likewise, what a run is compared with; baselines/ideal/SEED/ belongs to all labels
failed/LABEL-SEED.txt       tracebacks of cells that failed in the last run
.partial/                   where cells are being computed; locked by the process that runs them
summary.json, report.html   written when all cells are there
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml

from rm_emulator.experiments.cell import Cell
from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput, Issue

_OURS: Final = ("runs", "baselines", "failed", "workload.json", "summary.json", "report.html")
_SCENARIO: Final = "scenario.yaml"
_PARTIAL: Final = ".partial"


class RunDirectory:
    """A directory that this process alone writes into, between `__enter__` and `__exit__`.

    Raises InvalidInput (and has changed nothing) when the directory belongs to something or someone else.
    """

    def __init__(self, path: Path, cells: Iterable[Cell], scenario: Mapping[str, Any], *, overwrite: bool) -> None:
        self.path, self._cells, self._scenario, self._overwrite = path, list(cells), scenario, overwrite
        self._lock: int | None = None

    def __enter__(self) -> RunDirectory:
        if not self._overwrite:
            self._refuse_others()
        self._refuse_strangers()
        existed = self.path.exists()
        try:
            (self.path / _PARTIAL).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput([Issue(str(self.path), f"cannot be written: {error.strerror}")]) from None
        try:
            self._take_lock()
        except InvalidInput:
            if not existed:
                shutil.rmtree(self.path, ignore_errors=True)
            raise
        for left in (self.path / _PARTIAL).iterdir():
            shutil.rmtree(left, ignore_errors=True)
        if self._overwrite:
            for name in _OURS:
                _remove(self.path / name)
        _remove(self.path / "failed")
        write_file(
            self.path / _SCENARIO, yaml.safe_dump(self._scenario, sort_keys=False, allow_unicode=True, width=110)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path / _PARTIAL, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def done(self) -> list[Cell]:
        """Cells that an earlier run has completed."""
        return [cell for cell in self._cells if stored_key(self.cell(cell)) == cell.key]

    def cell(self, cell: Cell) -> Path:
        """Where the results of a cell belong."""
        return self.path / cell.place

    def workplace(self, cell: Cell) -> Path:
        """A fresh directory to compute a cell in."""
        return Path(tempfile.mkdtemp(dir=self.path / _PARTIAL, prefix=f"{_joined(cell)}-"))

    def accept(self, cell: Cell, workplace: Path) -> None:
        """Move a complete cell to its place, at once."""
        target = self.cell(cell)
        target.parent.mkdir(parents=True, exist_ok=True)
        workplace.chmod(0o755)
        workplace.rename(target)

    def failure(self, cell: Cell, workplace: Path, text: str) -> Path:
        """Keep the traceback of a failed cell, and nothing else of it."""
        shutil.rmtree(workplace, ignore_errors=True)
        (self.path / "failed").mkdir(exist_ok=True)
        name = f"failed/{_joined(cell)}.txt"
        write_file(self.path / name, text)
        return self.path / name

    def _refuse_others(self) -> None:
        """Raise InvalidInput when cells are there that this grid would not compute, or would compute otherwise."""
        wanted = {cell.place for cell in self._cells}
        for stored in sorted((self.path / "runs").glob("*/*")):
            if stored.relative_to(self.path) not in wanted:
                name = f"{stored.parent.name} seed {stored.name}"
                raise self._other(f"{name} is there, which this scenario does not have")
        # A baseline that the scenario no longer asks for does no harm, and is there when it asks again.
        for cell in self._cells:
            stored = self.cell(cell)
            if stored.exists() and stored_key(stored) != cell.key:
                same = _stored(stored).get("settings") == cell.settings
                cause = "by another version of rm-emulator" if same else "from other settings or another workload"
                raise self._other(f"{cell.title} seed {cell.seed} was computed {cause}")

    def _other(self, why: str) -> InvalidInput:
        message = f"holds the results of another scenario ({why}): choose another --out, or --overwrite it"
        return InvalidInput([Issue(str(self.path), message)])

    def _refuse_strangers(self) -> None:
        """Raise InvalidInput when our file names are taken by something that is not a run."""
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInput([Issue(str(self.path), "is a file: expected a folder for --out")])
        taken = [name for name in _OURS if (self.path / name).exists()]
        if taken and not (self.path / _SCENARIO).is_file():
            message = f"is not a run directory, but has '{taken[0]}' in it: choose another --out"
            raise InvalidInput([Issue(str(self.path), message)])

    def _take_lock(self) -> None:
        handle = os.open(self.path / _PARTIAL, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise InvalidInput([Issue(str(self.path), "another run is writing there: choose another --out")]) from None
        self._lock = handle


def _joined(cell: Cell) -> str:
    """The cell's name as part of a file's name."""
    return f"{cell.title.replace(' ', '-')}-{cell.seed}"


def stored_key(cell: Path) -> str | None:
    """The key of a complete cell, None when there is none."""
    key = _stored(cell).get("key")
    return key if isinstance(key, str) else None


def _stored(cell: Path) -> dict[str, Any]:
    try:
        counters = json.loads((cell / "cell.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return counters if isinstance(counters, dict) else {}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

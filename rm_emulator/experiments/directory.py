"""The run directory: its owner, its cells, and how results get into the directory whole.

.rm-emulator.json           files written by a run apart from its cells: nothing else is ever replaced
scenario.yaml               as resolved
run.json                    data to repeat the run (`experiments.metadata`)
workers.jsonl               places of cells that run.json lacks, while a run is at work or after it was killed
runs/LABEL/SEED/            moved here when complete, with its key in cell.json
points/N/                   of a sweep: the same for each point, with scenario.yaml, summary.json and report.html
baselines/NAME/LABEL/SEED/  likewise, cells of baselines; baselines/ideal/SEED/ belongs to all labels
failed/LABEL-SEED.txt       tracebacks of failed cells of the last run
.partial/                   cells under computation; locked by the running process
summary.json, report.html   written when all cells are there
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import yaml

from rm_emulator.experiments.cell import Cell
from rm_emulator.files import sha256_of, write_file
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.results.summary import point_folder

_SCENARIO: Final = "scenario.yaml"
_PARTIAL: Final = ".partial"
JOURNAL: Final = "workers.jsonl"
_FILES: Final = (_SCENARIO, "run.json", JOURNAL, "workload.json", "summary.json", "report.html")
_OF_A_POINT: Final = (_SCENARIO, "summary.json", "report.html")
_CELLS: Final = ("runs", "baselines", "points")
_FOLDERS: Final = (*_CELLS, "failed")
#: The sha256 of each file that a run left there, null for one that it may be about to write.
_WRITTEN: Final = ".rm-emulator.json"
_OF_A_CELL: Final = ("cell.json", "*.parquet", "trace.json*", "events*.jsonl*")


class OptionNames(NamedTuple):
    """Names of the directory and of the leave to replace its contents in messages: options, or Python's arguments."""

    out: str = "--out"
    overwrite: str = "--overwrite it"


COMMAND: Final = OptionNames()
PYTHON: Final = OptionNames("out=", "pass overwrite=True")


class RunDirectory:
    """A directory with a single writing process, between `__enter__` and `__exit__`.

    Raises InvalidInput (and has changed nothing) for a directory of a different owner.
    """

    def __init__(
        self,
        path: Path,
        cells: Iterable[Cell],
        scenario: Mapping[str, Any],
        *,
        overwrite: bool,
        points: Sequence[Mapping[str, Any]] = (),
        option_names: OptionNames = COMMAND,
    ) -> None:
        self.path, self._cells, self._scenario, self._overwrite = path, list(cells), scenario, overwrite
        self._points = points
        self._option_names = option_names
        self._lock: int | None = None
        self._key = cache(stored_key)  # each file is read once, before the lock

    def __enter__(self) -> RunDirectory:
        # Refusals come first, so that a refused run has changed nothing; the lock comes before anything is removed.
        self._refuse_foreign_files()
        if not self._overwrite:
            self._refuse_other_results()
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
        # Names are listed before the files are written: a killed run leaves no file that looks foreign to the next.
        self._list_files(dict.fromkeys(self._own_files))
        for name in (*_FILES, *_FOLDERS) if self._overwrite else ("failed",):
            _remove(self.path / name)
        for number, scenario in enumerate((self._scenario, *self._points)):
            folder = self.path / point_folder(number)
            folder.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(scenario, sort_keys=False, allow_unicode=True, width=110)
            write_file(folder / _SCENARIO, text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path / _PARTIAL, ignore_errors=True)
        with suppress(OSError):  # a full disk: the list of what we may write stays
            self._list_files(
                {name: sha256_of(self.path / name) for name in self._own_files if (self.path / name).is_file()}
            )
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def completed_cells(self) -> list[Cell]:
        """Cells completed by an earlier run, damaged cells left out."""
        places = ((cell, self.cell(cell)) for cell in self._cells)
        found = ((cell, place, stored(place)) for cell, place in places)
        return [c for c, place, told in found if told.get("key") == c.key and not _changed(place, told)]

    def cell(self, cell: Cell) -> Path:
        """Where the results of a cell belong."""
        return self.path / cell.place

    def scratch_folder(self, cell: Cell) -> Path:
        """A fresh directory to compute a cell in."""
        return Path(tempfile.mkdtemp(dir=self.path / _PARTIAL, prefix=f"{_joined(cell)}-"))

    def accept(self, cell: Cell, scratch: Path) -> None:
        """Move a complete cell to its place, at once."""
        target = self.cell(cell)
        if target.exists():  # damaged
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch.chmod(0o755)  # mkdtemp leaves folders to their owner alone
        scratch.rename(target)  # atomic: the workplace lies in the same directory, so on the same file system

    def keep_failure(self, cell: Cell, scratch: Path, text: str) -> Path | None:
        """Keep the traceback of a failed cell only; None for a full disk."""
        shutil.rmtree(scratch, ignore_errors=True)
        path = self.path / _failure(cell)
        try:
            path.parent.mkdir(exist_ok=True)
            write_file(path, text)
        except OSError:
            return None
        return path

    @property
    def _own_files(self) -> list[str]:
        """The files this run may write, apart from the files of its cells."""
        folders = [point_folder(number) for number in range(1, len(self._points) + 1)]
        of_points = [f"{folder}/{name}" for folder in folders for name in _OF_A_POINT]
        return [*_FILES, *map(_failure, self._cells), *of_points]

    def _list_files(self, hashes: Mapping[str, str | None]) -> None:
        write_file(self.path / _WRITTEN, json.dumps(hashes, indent=1) + "\n")

    def _refuse_other_results(self) -> None:
        """Raise InvalidInput for cells outside the grid, and for cells with a different key."""
        wanted = {cell.place for cell in self._cells}
        for place in (folder.relative_to(self.path) for folder in stored_cells(self.path)):
            if place not in wanted:
                *point, label, seed = (part for part in place.parts if part != "runs")
                name = " ".join((*(["point", point[1]] if point else []), label, "seed", seed))
                raise self._other_results(f"{name} is there, which this scenario does not have")
        # A baseline that the scenario no longer asks for does no harm, and is there when it asks again.
        for cell in self._cells:
            there = self.cell(cell)
            if there.exists() and self._key(there) != cell.key:
                same = stored(there).get("settings") == cell.settings
                cause = "by another version of rm-emulator" if same else "from other settings or another workload"
                raise self._other_results(f"{cell.title} seed {cell.seed} was computed {cause}")

    def _other_results(self, why: str) -> InvalidInput:
        remedy = f"choose another {self._option_names.out}, or {self._option_names.overwrite}"
        message = f"holds the results of another scenario ({why}): {remedy}"
        return InvalidInput([Issue(str(self.path), message)])

    def _refuse_foreign_files(self) -> None:
        """Raise InvalidInput for a foreign file under a name of ours, or inside a folder of ours."""
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInput([Issue(str(self.path), f"is a file: expected a folder for {self._option_names.out}")])
        for above in Path(os.path.realpath(self.path)).parents:  # `resolve` fails on links in a circle
            if (above / _WRITTEN).is_file():  # the outer run would take the files of the inner for a stranger's
                message = f"lies inside the run directory {above}: choose another {self._option_names.out}"
                raise InvalidInput([Issue(str(self.path), message)])
        if not (self.path / _WRITTEN).is_file():
            names = [name for name in (*_FILES, *_FOLDERS) if os.path.lexists(self.path / name)]
            names += [_PARTIAL] if any((self.path / _PARTIAL).glob("*")) else []
            message = "is not a run directory, but has '{}' in it: choose another {}"
        else:
            names = sorted(self._foreign_files())
            message = "'{}' in it was not written by a run, or has changed since: move it, or choose another {}"
        if names:
            raise InvalidInput([Issue(str(self.path), message.format(names[0], self._option_names.out))])

    def _foreign_files(self) -> Iterator[str]:
        """Foreign and changed files among all files a run might replace."""
        written = read_json(self.path / _WRITTEN)

        def ours(name: str) -> bool:
            path = self.path / name
            return name in written and path.is_file() and written[name] in (None, sha256_of(path))

        for name in (*_FILES, *(f"failed/{path.name}" for path in (self.path / "failed").glob("*"))):
            if os.path.lexists(self.path / name) and not ours(name):
                yield name
        for folder in _CELLS:
            for path in (self.path / folder).rglob("*"):
                name = str(path.relative_to(self.path))
                of_a_cell = any(fnmatch(path.name, like) for like in _OF_A_CELL) and self._key(path.parent) is not None
                if not path.is_dir() and not of_a_cell and not ours(name):
                    yield name

    def _take_lock(self) -> None:
        handle = os.open(self.path / _PARTIAL, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            message = f"another run is writing there: choose another {self._option_names.out}"
            raise InvalidInput([Issue(str(self.path), message)]) from None
        self._lock = handle


def _joined(cell: Cell) -> str:
    """The cell's name as part of a file's name."""
    return f"{cell.title.replace(' ', '-')}-{cell.seed}"


def _failure(cell: Cell) -> str:
    """Where the traceback of a failed cell stands."""
    return f"failed/{_joined(cell)}.txt"


def stored_cells(path: Path) -> list[Path]:
    """The folders of the cells in a run directory, without baselines."""
    return sorted([*path.glob("runs/*/*"), *path.glob("points/*/runs/*/*")])


def stored_key(cell: Path) -> str | None:
    """The key of a complete cell, None when there is none."""
    key = stored(cell).get("key")
    return key if isinstance(key, str) else None


def damaged(cell: Path) -> str:
    """Name of a file of a complete cell that has changed since the run, or of a table that is gone; ''."""
    return _changed(cell, stored(cell))


def _changed(cell: Path, told: Mapping[str, Any]) -> str:
    """`damaged`. told: the contents of cell.json."""
    files = told.get("files", {})  # cells of older versions say nothing of their files
    for name, sha256 in files.items():
        path = cell / name
        # A log or trace may be deleted or unpacked by hand, for room or for another program; no figure needs them.
        if (path.is_file() and sha256_of(path) != sha256) or (path.suffix == ".parquet" and not path.is_file()):
            return str(name)
    return ""


def stored(cell: Path) -> dict[str, Any]:
    """The contents of a cell's cell.json, {} where there is none."""
    return read_json(cell / "cell.json")


def read_json(path: Path) -> dict[str, Any]:
    """An object of JSON, empty where there is none."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

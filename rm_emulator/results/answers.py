"""Pictures of an answer of `simulate`, kept in a run directory for the run's report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from rm_emulator.files import write_file
from rm_emulator.results.chart import Chart

_FILE: Final = "answer.json"


class _Kept(msgspec.Struct, frozen=True):
    """Charts by the names of their functions, and the cell that was asked."""

    cell: str
    """The cell's directory in the run directory."""
    sha256: str
    """Of the cell's cell.json: an answer to a cell that has been computed again is not shown."""
    charts: dict[str, Chart]


def keep(out_dir: Path, cell: Path, charts: Mapping[str, Chart]) -> None:
    """Keep the charts of an answer in place of those before. cell: the directory of the cell that was asked."""
    made = _Kept(cell.relative_to(out_dir).as_posix(), _sha256(cell), dict(charts))
    write_file(out_dir / _FILE, msgspec.json.encode(made))


def kept(out_dir: Path, name: str) -> Chart | None:
    """The chart of this name; None without an answer, or for an answer to a cell that has been computed again."""
    file = out_dir / _FILE
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_Kept)
        return found.charts.get(name) if found.sha256 == _sha256(out_dir / found.cell) else None
    except (OSError, msgspec.DecodeError):
        return None


def _sha256(cell: Path) -> str:
    return hashlib.sha256((cell / "cell.json").read_bytes()).hexdigest()

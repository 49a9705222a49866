"""Cells of a study: each measured once and kept as a file, several at a time, so that a stopped study goes on."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import typer

from rm_emulator import api
from rm_emulator.files import write_file

T = TypeVar("T", bound=msgspec.Struct)
#: Arguments of a cell's function: plain values, whose `repr` tells two cells apart.
Cell = tuple[Any, ...]


def measured(out: Path, form: type[T], measure: Callable[..., T], cells: Sequence[Cell], jobs: int = 1) -> list[T]:
    """What `measure(*cell)` returns for each cell, in the order of `cells`.

    out: folder of what is kept. measure: a function of a module, which worker processes can import. jobs: processes.
    A kept cell counts while the product's code, the module of `measure` and the cell's arguments are the same.
    """
    out.mkdir(parents=True, exist_ok=True)
    made = f"{api.code_digest()} {inspect.getsource(inspect.getmodule(measure) or measure)}"
    files = [
        out / f"{hashlib.sha256(f'{made} {measure.__name__}{cell!r}'.encode()).hexdigest()}.json" for cell in cells
    ]
    missing = [(file, cell) for file, cell in zip(files, cells, strict=True) if not file.exists()]
    for number, (file, found) in enumerate(_each(measure, missing, jobs), 1):
        write_file(file, msgspec.json.encode(found))
        typer.echo(f"{number} of {len(missing)} cells measured", err=True)
    return [msgspec.json.decode(file.read_bytes(), type=form) for file in files]


def _each(measure: Callable[..., T], missing: Sequence[tuple[Path, Cell]], jobs: int) -> Iterator[tuple[Path, T]]:
    """File and value of each missing cell, as they are ready."""
    if jobs == 1 or len(missing) <= 1:
        yield from ((file, measure(*cell)) for file, cell in missing)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        entered: dict[Future[T], Path] = {pool.submit(measure, *cell): file for file, cell in missing}
        for done in as_completed(entered):
            yield entered[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)

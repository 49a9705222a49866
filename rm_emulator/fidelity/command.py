"""`rm-emulator fidelity`: fresh real runs if wanted, the comparison, the table, the exit code."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rm_emulator.fidelity import table
from rm_emulator.fidelity.check import Progress, Simulate, check_folder
from rm_emulator.fidelity.measures import FolderFidelity, Tolerances

#: Seconds between two lines of progress.
_EVERY_S: Final = 10.0


def main(
    folders: Sequence[Path],
    *,
    hadoop: int = 0,
    seeds: int = 20,
    tolerance_pct: float = 5.0,
    as_json: bool = False,
    simulate: Simulate | None = None,
) -> int:
    """The exit code: 0 when every folder meets the bars, else 1.

    `hadoop`: number of fresh real runs made of each folder first, then the only runs to compare with.
    `tolerance_pct`: for the mean; twice as much for a job. Raises TraceError and InvalidInput.
    """
    from rm_emulator.fidelity.emulator import Emulator

    bars = Tolerances(tolerance_pct, 2 * tolerance_pct)
    with tempfile.TemporaryDirectory(prefix="rm-emulator-fidelity-") as scratch:
        emulator = Emulator(Path(scratch))
        if simulate is None:
            for folder in folders:
                emulator.prepare(folder)
        fresh = [_real(folder, hadoop) if hadoop else None for folder in folders]
        compared = _compare(folders, fresh, seeds, bars, simulate or emulator)
    if as_json:
        document = {"folders": [folder.as_data() for folder in compared]}
        sys.stdout.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
    else:
        from rich.console import Console

        table.show(compared, bars, Console(file=sys.stdout, highlight=False))
    return 0 if all(folder.holds for folder in compared) else 1


def _real(folder: Path, count: int) -> list[Path]:
    from rm_emulator.hadoop.runner import run_real

    made: list[Path] = []
    with _progress("real runs") as report:

        def passed(share: float) -> None:
            report(folder.name, int(100 * (len(made) + share)), 100 * count)

        while len(made) < count:
            made += run_real(folder, 1, progress=passed)
    return made


def _compare(
    folders: Sequence[Path], fresh: Sequence[list[Path] | None], seeds: int, bars: Tolerances, simulate: Simulate
) -> list[FolderFidelity]:
    with _progress("emulated runs") as report:
        return [
            check_folder(folder, simulate, seeds=seeds, bars=bars, files=files, progress=report)
            for folder, files in zip(folders, fresh, strict=True)
        ]


def _lines(title: str) -> Progress:
    said = dict[str, float]()

    def report(name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if name not in said or now - said[name] >= _EVERY_S or done == total:
            said[name] = now
            print(f"{title}: {name}, {100 * done // total} % done", file=sys.stderr, flush=True)  # noqa: T201 (progress)

    return report


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    """A bar per folder where standard error is a terminal, else a line at each folder's begin and every ten seconds."""
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich.console import Console
    from rich.progress import Progress as Bars_
    from rich.progress import TaskID

    bars, tasks = Bars_(console=Console(stderr=True), transient=True), dict[str, TaskID]()

    def report(name: str, done: int, total: int) -> None:
        if name not in tasks:
            tasks[name] = bars.add_task(f"{title}: {name}", total=total)
        bars.update(tasks[name], completed=done)

    with bars:
        yield report

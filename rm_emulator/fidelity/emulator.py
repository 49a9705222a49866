"""The default side of emulated runs: the same folder as a scenario, run by this emulator."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl

from rm_emulator.experiments import grid
from rm_emulator.experiments.cell import run_cell
from rm_emulator.fidelity.check import Emulated
from rm_emulator.hadoop.folder import read_folder
from rm_emulator.hadoop.scenario import SCENARIO, write_scenario
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import Loaded, load


class Emulator:
    """Runs folders with seeds. Each is converted once, in the scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._scenarios: dict[Path, Path] = {}

    def __call__(self, folder: Path, seed: int) -> Emulated:
        """An emulated run. Raises TraceError, InvalidInput for a wrong folder, RuntimeError for jobs without an end."""
        cell = grid.cells(self.prepare(folder, seed))[0]
        with tempfile.TemporaryDirectory(dir=self._scratch) as out:
            run_cell(cell, Path(out), lambda status: None)
            jobs = pl.read_parquet(Path(out) / "jobs.parquet")
            nodes = pl.read_parquet(Path(out) / "nodes.parquet")
        unfinished = jobs.filter(pl.col("finish_ms").is_null())["id"].to_list()
        if unfinished:
            raise RuntimeError(f"{folder}: with seed {seed} some jobs never end: {', '.join(unfinished[:5])}")
        times = {row["id"]: (row["submit_ms"], row["finish_ms"]) for row in jobs.iter_rows(named=True)}
        return Emulated(times, _memory(nodes))

    def prepare(self, folder: Path, seed: int = 1) -> Loaded:
        """The folder's checked scenario, before minutes are spent on runs. Raises TraceError and InvalidInput."""
        loaded = load(self._scenario(folder), seeds=str(seed))
        check(loaded)
        return loaded

    def _scenario(self, folder: Path) -> Path:
        if folder not in self._scenarios:
            target = self._scratch / f"{len(self._scenarios)}"
            write_scenario(read_folder(folder), target)
            self._scenarios[folder] = target / SCENARIO
        return self._scenarios[folder]


def _memory(nodes: pl.DataFrame) -> tuple[float, ...]:
    """MB held in the whole cluster per second; buckets are whole seconds or more."""
    rows = nodes.filter(pl.col("node").is_null() & (pl.col("resource") == "memory")).sort("start_ms")
    seconds: list[float] = []
    for start, end, held in rows.select("start_ms", "end_ms", "held").iter_rows():
        seconds += [0.0] * (start // 1000 - len(seconds))
        seconds += [float(held)] * (-(-end // 1000) - len(seconds))
    return tuple(seconds)

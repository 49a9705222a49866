"""`make grid-demo`: grids on a Dask cluster of this machine, some of whose parts are killed, beside --jobs 1.

Two grids: cells of about a second each (`--cells`), and cells of hundredths of a second (`--tiny`), for the cost of a
cell. Of each grid there are runs, each of which goes on where an earlier call left it:

one     `--jobs 1`, with which the others are compared
local   `--jobs` as many as workers: the part of the overhead that is the cores', which slow each other down
killed  on workers: at a quarter of the cells a worker is killed, at half the scheduler, at three quarters the client;
        left out for tiny cells
apart   on workers, and nobody is killed: the overhead of the cluster

Workers share no folder: each has a working directory and a TMP of its own. CPU is that of all processes: client,
scheduler, workers, and the processes that compute. It counts in all calls that worked on a run and were not killed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from benchmarks.dask_cluster import ROOT, DaskCluster
from rm_emulator.files import write_file
from rm_emulator.program import end
from rm_emulator.results.figures import MACHINE_FIGURES

POLICIES: Final = ({"kind": "fifo"}, {"kind": "fair"}, {"kind": "drf"}, {"kind": "gs", "predictor": {"kind": "slearn"}})
#: Both grids of `make grid-demo`; a tiny cell has a single job.
CELLS: Final = 400
TINY: Final = 10_000
_LOOK_S: Final = 0.1
#: Runs without a cluster.
_LOCAL: Final = ("one", "local")


def scenario(cells: int, jobs: int) -> dict[str, Any]:
    """A grid of so many cells, each with a workload of so many jobs: 700 are about a second of work."""
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "grid-demo"},
        "spec": {
            "seeds": f"1..{max(1, cells // len(POLICIES))}",
            "cluster": {"nodes": [{"count": 40, "capacity": {"cpu": 4, "memory": "16Gi"}}]},
            "workload": {"kind": "synthetic", "preset": "2sigma-like", "jobs": jobs, "load": 0.9},
            "policies": list(POLICIES),
        },
    }


class Measured(msgspec.Struct):
    """Of one run, over all calls that worked on it."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    client_mib: float = 0.0
    """Peak memory of a client."""
    cells: int = 0
    """Finished cells at the end of the last call."""
    uncounted: int = 0
    """Cells of calls that were killed, and their CPU with them."""
    complete: bool = False


class Demo:
    """The runs of one grid, in a folder."""

    def __init__(self, out: Path, cells: int, jobs: int, workers: int) -> None:
        self._out, self._workers = out, workers
        self._clients: list[subprocess.Popen[bytes]] = []
        out.mkdir(parents=True, exist_ok=True)
        self._file = out / "grid.yaml"
        self.cells = max(1, cells // len(POLICIES)) * len(POLICIES)
        write_file(self._file, yaml.safe_dump(scenario(cells, jobs), sort_keys=False))

    def run(self, name: str) -> Measured:
        """Bring a run to its end, and return what all calls measured."""
        file, found = self._out / f"{name}.json", Measured()
        if file.exists():
            found = msgspec.json.decode(file.read_bytes(), type=Measured)
        if found.complete:
            return found
        found.uncounted += self._done(name) - found.cells
        before, begun = _cpu_s(), time.monotonic()
        try:
            found.client_mib = max(found.client_mib, self._measured(name))
            found.complete = True
        finally:
            for client in self._clients:
                if client.poll() is None:
                    client.terminate()
            _reap()
            found.cpu_s += _cpu_s() - before
            found.wall_s += time.monotonic() - begun
            found.cells = self._done(name)
            write_file(file, msgspec.json.encode(found) + b"\n")
        return found

    def _measured(self, name: str) -> float:
        """Run to the end; returns the peak memory of the client in MiB."""
        if name in _LOCAL:
            return self._wait(self._client(name, "--jobs", "1" if name == "one" else str(self._workers)))
        with DaskCluster(self._out / f"{name}-cluster", self._workers) as cluster:
            client = self._client(name, "--engine", cluster.engine)
            if name == "killed":
                self._at(name, 1, client)
                say(f"worker-0 killed ({cluster.kill('worker-0')})")
                self._at(name, 2, client)
                say(f"scheduler killed ({cluster.kill('scheduler')})")
                self._at(name, 3, client)
                client.kill()
                client.wait()
                say(f"client killed ({client.pid}), and started again")
                client = self._client(name, "--engine", cluster.engine)
            return self._wait(client)

    def _client(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rm_emulator", "run", str(self._file), "--out", str(self._out / name)]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with (self._out / f"{name}.log").open("ab") as log:
            client = subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
                [*command, *options], stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path}
            )
        self._clients.append(client)
        return client

    def _wait(self, client: subprocess.Popen[bytes]) -> float:
        """The peak memory of a client that has ended well."""
        _, status, used = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
        if client.returncode:
            sys.exit(f"a run failed with code {client.returncode}: its output is in {self._out}")
        return used.ru_maxrss / 2**10

    def _at(self, name: str, quarters: int, client: subprocess.Popen[bytes]) -> None:
        """Wait until so many quarters of the cells are done."""
        while self._done(name) < self.cells * quarters / 4:
            if client.poll() is not None:
                sys.exit(f"the run ended early with code {client.returncode}: its output is in {self._out}")
            time.sleep(_LOOK_S)

    def _done(self, name: str) -> int:
        """Number of finished cells."""
        return sum(1 for _ in (self._out / name / "runs").glob("*/*"))

    def is_same(self, name: str) -> bool:
        """Whether summary.json is that of `one`, but for the figures of wall time."""
        summaries = []
        for each in ("one", name):
            found = json.loads((self._out / each / "summary.json").read_text("utf-8"))
            for run in found["runs"]:
                for figure in MACHINE_FIGURES:
                    run.pop(figure)
            summaries.append(json.dumps(found))
        return summaries[0] == summaries[1]

    def placed(self, name: str) -> int:
        """Of how many cells run.json says where they were computed."""
        return len(json.loads((self._out / name / "run.json").read_text("utf-8")).get("workers", {}))


def _cpu_s() -> float:
    """CPU of all descendants that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _adopt() -> None:
    """Inherit the children of killed processes, whose CPU would otherwise count nowhere (Linux)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _reap() -> None:
    """Wait for what was inherited: a cell's process ends by itself when its parent is gone."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def say(text: str) -> None:
    """A line of news."""
    print(text, flush=True)  # noqa: T201 (the answer)


HEAD: Final = ("run", "cells", "CPU s", "more CPU", "more a cell", "wall s", "client MiB", "summary", "places")


def row(demo: Demo, name: str, found: Measured, one: Measured) -> tuple[str, ...]:
    """A row of the table."""
    figures = (name, str(found.cells), f"{found.cpu_s:.1f}")
    ends = f"{found.wall_s:.0f}", f"{found.client_mib:.0f}"
    if name == "one":
        return (*figures, "", "", *ends, "", "")
    more = found.cpu_s - one.cpu_s
    summary = "identical" if demo.is_same(name) else "DIFFERS"
    return (
        *figures,
        f"{100 * more / one.cpu_s:+.1f} %",
        f"{1000 * more / found.cells:+.1f} ms",
        *ends,
        summary,
        "" if name in _LOCAL else str(demo.placed(name)),
    )


def table(demo: Demo, title: str, measured: dict[str, Measured]) -> None:
    """Print the table of a grid, and what its figures leave out."""
    rows = [HEAD, *(row(demo, name, found, measured["one"]) for name, found in measured.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    say(f"\n{title}")
    for cells in rows:
        say("  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))
    for name, found in measured.items():
        if found.uncounted:
            say(f"{name}: a call was killed, so the CPU of {found.uncounted} cells is not in its figure")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, compare and print. Ends with 1 where a summary differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid_demo")
    parser.add_argument("--cells", type=int, help=f"of the grid of cells of a second ({CELLS}, or none with --tiny)")
    parser.add_argument("--jobs-per-cell", type=int, default=700, help="700 are about a second")
    parser.add_argument("--tiny", type=int, help=f"of the grid of tiny cells ({TINY}, or none with --cells)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("out/grid-demo"))
    asked = parser.parse_args(arguments)
    if asked.cells is None and asked.tiny is None:
        asked.cells, asked.tiny = CELLS, TINY
    _adopt()
    done = list[tuple[Demo, str, dict[str, Measured]]]()
    for cells, jobs, names in (
        (asked.cells, asked.jobs_per_cell, ("one", "local", "killed", "apart")),
        (asked.tiny, 1, ("one", "local", "apart")),
    ):
        if cells:
            demo = Demo(asked.out.absolute() / f"{cells}x{jobs}-{asked.workers}", cells, jobs, asked.workers)
            title = f"{demo.cells} cells of {jobs} job{'s' if jobs > 1 else ''} each, {asked.workers} workers"
            done.append((demo, title, {name: demo.run(name) for name in names}))
    for each in done:
        table(*each)
    say("\nmore CPU: (client + scheduler + workers + all their children) / (the same grid with `--jobs 1`) - 1")
    same = [demo.is_same(name) for demo, _, measured in done for name in measured]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    end(main)

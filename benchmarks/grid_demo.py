"""`make grid-demo`: a grid on a Dask cluster of this machine whose parts are killed, beside the grid with --jobs 1.

Three runs, each of which goes on where an earlier call left it:

one     `--jobs 1`
killed  on workers: one of them is killed at a quarter of the cells, the scheduler at half, the client at three quarters
apart   on workers, and nobody is killed: the overhead of the cluster

Workers share no folder: each has a working directory and a TMP of its own. CPU is that of all processes; of a run that
an earlier call began, only that of the last call, which is said.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.dask_cluster import ROOT, DaskCluster
from rm_emulator.files import write_file
from rm_emulator.program import end
from rm_emulator.results.figures import MACHINE_FIGURES

POLICIES: Final = ({"kind": "fifo"}, {"kind": "fair"}, {"kind": "drf"}, {"kind": "gs", "predictor": {"kind": "slearn"}})
_LOOK_S: Final = 0.05


def scenario(cells: int, jobs: int) -> dict[str, Any]:
    """A grid of so many cells, each with a workload of so many jobs: 300 are about a second of work."""
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


class Demo:
    """The runs in a folder."""

    def __init__(self, out: Path, cells: int, jobs: int, workers: int) -> None:
        self._out, self._workers = out, workers
        self._clients: list[subprocess.Popen[bytes]] = []
        out.mkdir(parents=True, exist_ok=True)
        self._file, planned = out / "grid.yaml", scenario(cells, jobs)
        self._cells = cells // len(POLICIES) * len(POLICIES)
        write_file(self._file, yaml.safe_dump(planned, sort_keys=False))

    def run(self, name: str, *, engine: bool, kills: bool = False) -> dict[str, Any]:
        """CPU (s) of a run, and peak memory of its client (MiB)."""
        measured = self._out / f"{name}.json"
        if measured.exists():
            found: dict[str, Any] = json.loads(measured.read_text("utf-8"))
            return found
        already, before, begun = self.done(name), _cpu_s(), time.monotonic()
        try:
            if not engine:
                peak = self._wait(self._client(name, "--jobs", "1"))
            else:
                with DaskCluster(self._out / f"{name}-cluster", self._workers) as cluster:
                    peak = self._on(cluster, name, kills=kills)
        finally:
            for client in self._clients:
                if client.poll() is None:
                    client.terminate()
        _reap()
        wall_s = time.monotonic() - begun
        figures: dict[str, Any] = {
            "cpu_s": round(_cpu_s() - before, 2),
            "wall_s": round(wall_s, 1),
            "client_mib": round(peak),
        }
        figures["already"] = already
        write_file(measured, json.dumps(figures) + "\n")
        return figures

    def _on(self, cluster: DaskCluster, name: str, *, kills: bool) -> float:
        client = self._client(name, "--engine", cluster.engine)
        if kills:
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
        while self.done(name) < self._cells * quarters / 4:
            if client.poll() is not None:
                sys.exit(f"the run ended early with code {client.returncode}: its output is in {self._out}")
            time.sleep(_LOOK_S)

    def done(self, name: str) -> int:
        """Number of finished cells."""
        return sum(1 for _ in (self._out / name / "runs").glob("*/*"))

    def summary(self, name: str) -> bytes:
        """summary.json without the figures of wall time."""
        found = json.loads((self._out / name / "summary.json").read_text("utf-8"))
        for run in found["runs"]:
            for figure in MACHINE_FIGURES:
                run.pop(figure)
        return json.dumps(found).encode()

    def placed(self, name: str) -> int:
        """Of how many cells run.json says where they were computed."""
        return len(json.loads((self._out / name / "run.json").read_text("utf-8"))["workers"])


def _cpu_s() -> float:
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, compare and print. Ends with 1 where a summary differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid_demo")
    parser.add_argument("--cells", type=int, default=400)
    parser.add_argument("--jobs-per-cell", type=int, default=300, help="300 are about a second")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--no-kills", action="store_true", help="the overhead alone")
    parser.add_argument("--out", type=Path, default=Path("out/grid-demo"))
    asked = parser.parse_args(arguments)
    _adopt()
    demo = Demo(asked.out.absolute(), asked.cells, asked.jobs_per_cell, asked.workers)
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "one": lambda: demo.run("one", engine=False),
        "killed": lambda: demo.run("killed", engine=True, kills=True),
        "apart": lambda: demo.run("apart", engine=True),
    }
    found, differ = dict[str, dict[str, Any]](), list[str]()
    if asked.no_kills:
        del runs["killed"]
    for name, run in runs.items():
        found[name] = run()
        cells, cpu = demo.done(name), found[name]["cpu_s"]
        more = 100 * (cpu / found["one"]["cpu_s"] - 1)
        each = 1000 * (cpu - found["one"]["cpu_s"]) / cells
        say(
            f"{name:<7} {cells} cells, {cpu:.1f} s of CPU ({more:+.1f} %, {each:+.0f} ms a cell), "
            f"{found[name]['wall_s']:.0f} s, client {found[name]['client_mib']} MiB"
        )
        if found[name]["already"]:
            say(f"        {found[name]['already']} cells were there already: CPU is that of the others")
        if name != "one":
            alike = demo.summary(name) == demo.summary("one")
            differ += [] if alike else [name]
            say(f"        summary {'byte-identical' if alike else 'DIFFERS'}; places in run.json: {demo.placed(name)}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    end(main)

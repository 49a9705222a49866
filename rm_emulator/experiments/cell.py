"""A cell of a grid: a pure function of (scenario, label, seed), computed into a directory of its own."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from rm_emulator.engine.features.unlike import locality
from rm_emulator.engine.recording import FAULT_COLUMNS, RESTART_COLUMNS, SERVICE_COLUMNS
from rm_emulator.engine.simulation import Simulation
from rm_emulator.experiments.assembly import assemble, cluster_of, workload_of
from rm_emulator.experiments.read_only import read_only
from rm_emulator.experiments.status import Progress, Status
from rm_emulator.files import write_file
from rm_emulator.plugins import hashes, load_plugins
from rm_emulator.results.record import Recorder, log_blocks
from rm_emulator.results.replay import log_lines, logs_of
from rm_emulator.results.summary import point_folder
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.workload import Built, offered
from rm_emulator.version import __version__
from rm_emulator.workload.model import Workload
from schedulers.core.errors import NotRepeatable
from schedulers.core.log import Log
from schedulers.core.replay import IncompleteLog, LogDiffers, Replay
from schedulers.decentralised.decider import decider

#: From this many tasks on, only the hash of the log is kept unless the scenario says otherwise.
FULL_LOG_TASKS: Final = 1_000_000
#: Settings of a workload that name a file or folder.
PATHS: Final = ("path", "profiles")


@dataclass(frozen=True, eq=False)
class Cell:
    """Plain data from which a worker computes the run of a label and a seed."""

    scenario: Mapping[str, Any]
    """As resolved, with a single policy and a single seed."""
    label: str
    """Label of the policy, "" for the ideal baseline."""
    seed: int
    key: str
    """Hash of everything the result depends on."""
    settings: str
    """Hash of the same without the program itself."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """Files to import first, each with its sha256."""
    baseline: str = ""
    """Name of the baseline, "" for the run itself."""
    point: int = 0
    """Number in a sweep, 0 without a sweep."""
    replayed: bool = False
    """Whether its log is replayed at the end, and views are read-only: the first cell under a policy from a plug-in."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Where its plug-ins and its trace lie on this machine, by the paths of the machine that planned the cell."""

    @property
    def title(self) -> str:
        """Name without the seed: `fair`, `fair alone`, `ideal`; of a sweep `point 3 fair`."""
        point = f"point {self.point}" if self.point else ""
        return " ".join(part for part in (point, self.label, self.baseline) if part)

    @property
    def place(self) -> Path:
        """Where in a run directory its results belong."""
        above = Path("baselines", self.baseline) if self.baseline else Path("runs")
        return Path(point_folder(self.point)) / above / self.label / str(self.seed)


def run_cell(cell: Cell, directory: Path, progress: Progress) -> dict[str, Any]:
    """Emulate a cell other than a baseline and write its files into `directory`; returns the contents of cell.json.

    progress: hears the cell's progress now and then. After an error the contents of the directory are not to be used;
    cell.json is written last.
    """
    scenario, built = inputs_of(cell)
    tasks = built.workload.tasks
    config, entry = cluster_of(scenario, built), cell.scenario["spec"]["policies"][0]
    with ExitStack() as stack:
        more = [*columns(scenario), *(SERVICE_COLUMNS if has_services(built.workload) else ())]
        if config.faults is not None and (config.faults.tasks or config.faults.masters):
            more += FAULT_COLUMNS
        if config.faults is not None and not all(each.recovery for each in config.faults.restarts):
            more += RESTART_COLUMNS
        recorder = Recorder(config.nodes, config.resources, scratch=directory, more=more)
        stack.callback(recorder.close)
        simulation, who = assemble(
            scenario,
            entry,
            cell.seed,
            built,
            recorder,
            config=config,
            log=lambda name: _log(scenario, tasks, directory, stack, name),
            progress=lambda _: progress(_status(simulation, tasks)),
        )
        progress(_status(simulation, tasks))
        if cell.replayed:
            stack.enter_context(read_only(scheduler.view for scheduler in who.schedulers))
        begun = time.perf_counter()
        simulation.run(scenario.spec.until)
        wall_s = time.perf_counter() - begun
        progress(_status(simulation, tasks))
        sha256 = who.sha256
        recorder.write(directory)
    if cell.replayed:
        _replay(directory, entry["kind"])
    load, load_resource = offered(scenario, built)
    counters = {
        **identity(cell),
        "version": __version__,
        **_names(entry),
        "load": load,
        "load_resource": load_resource,
        "locality": locality(simulation.feature),
        "decisions": who.decided,
        **({} if who.messages is None else {"messages_per_task": round(who.messages / max(1, tasks), 3)}),
        "decision_us": _quantiles_us(simulation.decision_ns),
        "wall_s": round(wall_s, 3),
        "sim_s": simulation.end_ms / 1000,
        "tasks_per_s": round(simulation.finished_tasks / wall_s, 1),
        "peak_rss_mb": round(_peak_rss_mb(), 1),
        "log_sha256": sha256,
        **({"logs": {name: log.sha256 for name, log in who.logs.items()}} if len(who.logs) > 1 else {}),
        "plugins": dict(cell.plugins),
        "workload": _workload(built),
    }
    complete(directory, counters)
    return counters


def inputs_of(cell: Cell) -> tuple[Scenario, Built]:
    """The cell's scenario and its workload, after its plug-ins were imported."""
    load_plugins(cell.moved.get(file, file) for file in cell.plugins)
    scenario = Scenario.model_validate(with_moved(cell.scenario, cell.moved))
    return scenario, workload_of(scenario, cell.seed)


def paths_of(scenario: Mapping[str, Any], plugins: Iterable[str]) -> list[str]:
    """The files and folders that runs of a scenario, as resolved, read: its plug-ins, and its workload's."""
    workload = scenario["spec"]["workload"]
    return [*plugins, *(workload[name] for name in PATHS if workload.get(name))]


def with_moved(scenario: Mapping[str, Any], moved: Mapping[str, str]) -> dict[str, Any]:
    """The scenario with the paths of plug-ins and trace on this machine. moved: see `Cell.moved`."""
    spec = scenario["spec"]
    workload = {key: moved.get(value, value) if key in PATHS else value for key, value in spec["workload"].items()}
    plugins = [moved.get(file, file) for file in spec.get("plugins", ())]
    return {**scenario, "spec": {**spec, "workload": workload, "plugins": plugins}}


def _replay(directory: Path, policy: str) -> None:
    """Replay the cell's whole logs, if any were kept. Raises NotRepeatable for other decisions."""
    for path in logs_of(directory):
        try:
            for _ in Replay(log_lines(path), decider):
                pass
        except IncompleteLog:
            return  # of decisions alone
        except LogDiffers as difference:
            raise NotRepeatable(
                f"policy '{policy}' decides differently when its log is replayed: it may depend on the cluster as it "
                "sees it, its own settings and seed alone, not on random numbers, clocks, files or the order of a set "
                f"({difference})"
            ) from None


def complete(directory: Path, counters: dict[str, Any]) -> None:
    """Write cell.json: the counters and, so that damage is found, the sha256 of each of the cell's other files."""
    files = hashes(path for path in sorted(directory.iterdir()) if path.is_file())
    counters["files"] = {Path(path).name: sha256 for path, sha256 in files.items()}
    # Last, as only a cell with this file counts as complete.
    write_file(directory / "cell.json", json.dumps(counters, indent=1) + "\n")


def _workload(built: Built) -> dict[str, Any]:
    """The fields of `WorkloadFigures`."""
    workload = built.workload
    date = {} if workload.began is None else {"began": msgspec.to_builtins(workload.began)}
    return {"name": workload.name, "source": workload.source, "notes": list(built.notes), **date}


def _status(simulation: Simulation, tasks: int) -> Status:
    """The state of the run. tasks: of the workload, counted once by the caller, since a trace has thousands of jobs."""
    waiting_jobs, waiting_tasks = simulation.control.waiting
    return Status(
        simulation.finished_tasks,
        tasks,
        simulation.arrivals.finished_jobs,
        len(simulation.workload.jobs),
        simulation.calendar.now,
        waiting_jobs,
        waiting_tasks,
    )


def identity(cell: Cell) -> dict[str, Any]:
    """The first entries of cell.json: the cell's name, and the key of its results."""
    return {name: getattr(cell, name) for name in ("key", "settings", "label", "seed")}


def columns(scenario: Scenario) -> list[str]:
    """The optional columns of tasks.parquet in the scenario's runs."""
    cluster = scenario.spec.cluster
    saved = cluster.faults and cluster.faults.checkpoints
    copied = scenario.spec.copies or (cluster.faults and cluster.faults.speculation)
    wanted = {"arrived_ms": cluster.links, "copy": copied, "useful_ms": saved}
    return [name for name, block in wanted.items() if block is not None]


def has_services(workload: Workload) -> bool:
    """Whether any job is a service."""
    return any(source.job.kind == "service" for source in workload.jobs)


def _log(scenario: Scenario, tasks: int, directory: Path, stack: ExitStack, name: str) -> Log:
    keep = scenario.spec.log or ("full" if tasks < FULL_LOG_TASKS else "hash")
    if keep == "hash":
        return Log()
    return Log(stack.enter_context(log_blocks(directory, name)), only_decisions=keep == "decisions")


def _names(policy: Mapping[str, Any]) -> dict[str, Any]:
    predictor = policy.get("predictor")
    return {
        "policy": policy["kind"],
        "predictor": predictor["kind"] if predictor else None,
        "placement": policy["placement"]["kind"],
        "tie": policy.get("tie"),
    }


def _quantiles_us(times_ns: list[int]) -> dict[str, float | None]:
    names, parts = ("p50", "p98", "p99"), (0.5, 0.98, 0.99)
    if not times_ns:
        return dict.fromkeys(names)
    found = np.quantile(np.array(times_ns) / 1000, parts).tolist()
    return {name: round(value, 1) for name, value in zip(names, found, strict=True)}


def _peak_rss_mb() -> float:
    """Peak memory of the process so far: an upper bound for the cell when the process has run other cells before."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10

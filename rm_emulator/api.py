"""For studies in Python, beyond `rm_emulator.run`: one run in memory, workloads, intervals, results of older versions.

    from rm_emulator import api
    played = api.play(scenario, seed=3)                       # no files: frames, figures of schedulers, messages
    jobs = api.generated({"kind": "tpch", "jobs": 20}, seed=3)  # a workload by its generator's name
    api.interval([1.2, 1.1, 1.3])                             # a mean with its 95 % interval

A scenario is a dict with the contents of a file. For `play`, `workload` may also be a `Workload` built in Python, with
parts from `rm_emulator.workload.model` and `schedulers.core.model`. Times are ms on the simulated clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import msgspec
import numpy as np
import polars as pl

import rm_emulator
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.experiments import arguments, grid
from rm_emulator.experiments.api import Results
from rm_emulator.experiments.assembly import AssembledRun, assemble, workload_of
from rm_emulator.experiments.directory import stored
from rm_emulator.experiments.metadata import code_digest
from rm_emulator.experiments.resolved import at_point
from rm_emulator.files import load_yaml
from rm_emulator.issues import InvalidInput
from rm_emulator.results import statistics
from rm_emulator.results.figures import Speedup, ThinkerFigures
from rm_emulator.results.metrics import Floats
from rm_emulator.results.thinking import thinkers
from rm_emulator.scenario import examples
from rm_emulator.scenario.check import build_first, check
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.load import load as load_scenario
from rm_emulator.scenario.schema import API_VERSION, Scenario
from rm_emulator.workload import formats
from rm_emulator.workload.dags import RATE as DAG_RATE
from rm_emulator.workload.dags import literature as literature_dags
from rm_emulator.workload.deadlines import Deadlines
from rm_emulator.workload.deadlines import with_deadlines as _with_deadlines
from rm_emulator.workload.lachesis import speeds as executor_speeds
from rm_emulator.workload.model import Workload
from rm_emulator.workload.storage import is_stored as is_workload
from rm_emulator.workload.storage import load as load_workload
from rm_emulator.workload.storage import save as save_workload
from rm_emulator.workload.synthetic import PRESETS, SLOTS
from rm_emulator.workload.synthetic import generate as synthetic
from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.resources import Vector
from schedulers.core.scheduler import Scheduler

__all__ = [
    "API_VERSION",
    "DAG_RATE",
    "PRESETS",
    "SLOTS",
    "Decide",
    "Floats",
    "Played",
    "Results",
    "Speedup",
    "Watch",
    "adopt",
    "code_digest",
    "example",
    "executor_speeds",
    "generated",
    "interval",
    "is_workload",
    "literature_dags",
    "load_workload",
    "play",
    "read_trace",
    "resampled",
    "save_workload",
    "synthetic",
    "with_deadlines",
]

Decide = Callable[[Event], list[Decision]]
#: Stands between the engine and who decides: hears each fact, and returns what `decide` makes of the fact.
Watch = Callable[[Scheduler, Event, Decide], list[Decision]]
#: What a generator is told of the cluster unless it is given one.
_ONE_NODE: Final[Mapping[str, Any]] = {"nodes": [{"capacity": {"cpu": 1}}]}


class Played:
    """A finished run, in memory.

    jobs: a row per job with the columns of jobs.parquet. end_ms: end of the last job, or of all progress.
    schedulers: figures by name of each scheduler with thinking time, else empty. messages: between schedulers and
    workers, None for an architecture without messages.
    """

    def __init__(self, run: AssembledRun, kept: MemoryRecording) -> None:
        self.end_ms, self.messages = run.simulation.end_ms, run.deciders.messages
        self.jobs = pl.DataFrame([msgspec.structs.asdict(row) for row in kept.jobs], infer_schema_length=None)
        self._kept = kept

    @property
    def tasks(self) -> pl.DataFrame:
        """A row per attempt: job, stage, task, node, started_ms, ended_ms, code."""
        names = ("job", "stage", "task", "node", "started_ms", "ended_ms", "code")
        return pl.DataFrame(
            [[getattr(attempt, name) for name in names] for attempt in self._kept.tasks], names, orient="row"
        )

    @property
    def tries(self) -> pl.DataFrame:
        """A row per attempt of a scheduler with thinking time at a job, the columns of tries.parquet; else empty."""
        return pl.DataFrame([msgspec.structs.asdict(row) for row in self._kept.tries])

    @property
    def schedulers(self) -> dict[str, ThinkerFigures]:
        """Busyness, conflicts and waits of each, as `schedulers` in summary.json."""
        tries = self.tries
        return {} if tries.is_empty() else thinkers(tries, self.jobs, self.end_ms / 1000)


def play(
    scenario: Mapping[str, Any], *, label: str | None = None, seed: int | None = None, watch: Watch | None = None
) -> Played:
    """Run a single policy with a single seed in the calling process, with results in memory; no file is written.

    scenario: a dict as for `rm_emulator.run`, classes in place of names included; `workload` may be a `Workload`.
    label: of the policy, by default the first; seed: by default the scenario's first. watch: see `Watch`, for runs
    of a single scheduler.
    Raises `rm_emulator.issues.InvalidInput` with every mistake of the scenario, ValueError for an unknown label or a
    watch over several schedulers, and a `SchedulerError` of the core where jobs can never finish.
    """
    with TemporaryDirectory(prefix="rm-emulator-") as folder:
        loaded = _loaded(scenario, seed, Path(folder))
        check(loaded)
        if len(loaded.points) > 1:
            raise InvalidInput([loaded.issue(("spec", "sweep"), "a sweep is for `run`: one of its points is played")])
        whole = Scenario.model_validate(at_point(loaded))
        entries = {entry["label"]: entry for entry in at_point(loaded)["spec"]["policies"]}
        if label is not None and label not in entries:
            raise ValueError(f"no policy has the label '{label}' (labels: {', '.join(entries)})")
        chosen, kept = whole.spec.seeds[0], MemoryRecording()
        entry = entries[label] if label is not None else next(iter(entries.values()))
        run = assemble(whole, entry, chosen, workload_of(whole, chosen), kept)
    if watch is not None:
        _watched(run, watch)
    run.simulation.run(whole.spec.until)
    return Played(run, kept)


def _loaded(scenario: Mapping[str, Any], seed: int | None, folder: Path) -> Loaded:
    """The scenario as read; a `Workload` of the caller is stored first."""
    own = scenario["spec"].get("workload") if isinstance(scenario.get("spec"), Mapping) else None
    if isinstance(own, Workload):
        save_workload(own, folder / "workload")
        block = {"kind": "trace", "path": str(folder / "workload")}
        scenario = {**scenario, "spec": {**scenario["spec"], "workload": block}}
    return load_scenario(cast(dict[str, Any], arguments.plain(scenario)), seeds=None if seed is None else [seed])


def _watched(run: AssembledRun, watch: Watch) -> None:
    if len(run.deciders.schedulers) > 1:
        raise ValueError(f"{len(run.deciders.schedulers)} schedulers decide: one can be watched")
    (scheduler,), control = run.deciders.schedulers, run.simulation.control
    decide = control.handle
    control.handle = lambda event: watch(scheduler, event, decide)


# -- Workloads ------------------------------------------------------------------------------------------------------


def generated(block: Mapping[str, Any], *, seed: int, cluster: Mapping[str, Any] = _ONE_NODE) -> Workload:
    """The jobs of a seed from a scenario's block `workload`, on a cluster.

    block: such as `{"kind": "tpch", "jobs": 20}`. cluster: the block `cluster`; generators use its speeds, links and
    cores. Raises InvalidInput.
    """
    spec = {"cluster": cluster, "workload": block, "policies": [{"kind": "fifo"}], "seeds": [seed]}
    scenario = {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": "generated"}, "spec": spec}
    return build_first(load_scenario(cast(dict[str, Any], arguments.plain(scenario)))).workload


def read_trace(format: str, path: str | Path, **options: Any) -> Workload:  # noqa: A002 (as a scenario calls it)
    """The jobs of a trace. format, options: as `rm-emulator traces` lists them. Raises TraceError."""
    return formats.read(format, Path(path), options).workload


def with_deadlines(
    workload: Workload, capacity: Vector, *, part: float, factor: tuple[float, float], seed: int
) -> Workload:
    """The same jobs, a part of the jobs with a deadline: a multiple of the job's time alone on the cluster.

    capacity: of the cluster, in the core's steps. factor: lowest and highest, drawn by job. Raises InvalidParameters.
    """
    return _with_deadlines(workload, capacity, Deadlines(part=part, factor=factor), seed)


def example(name: str) -> dict[str, Any]:
    """A packaged scenario (`rm-emulator init` lists all). Raises InvalidInput for an unknown name."""
    scenario: dict[str, Any] = load_yaml(examples.files(name)[0].read_text(encoding="utf-8"))
    return scenario


# -- Intervals ------------------------------------------------------------------------------------------------------


def interval(values: Sequence[float]) -> Speedup:
    """The mean over seeds with its 95 % interval by Student's t; a single value has no interval, no value no mean.

    >>> interval([1.0, 2.0, 3.0]).value
    2.0
    """
    if len(values) < 2:
        return Speedup(value=values[0] if values else None)
    return Speedup(value=sum(values) / len(values), ci95=list(statistics.student_t(values)))


def resampled(values: Sequence[float] | Floats, statistic: Callable[[Floats], Floats]) -> Speedup:
    """A statistic with its 95 % interval over resampled values (percentile bootstrap, 1,000 draws, always the same).

    statistic: of any number of draws at once, over the last axis, such as `lambda drawn: np.median(drawn, axis=-1)`.
    """
    each = np.asarray(values, dtype=np.float64)
    pairs = statistics.Pairs(each, np.ones(len(each)), np.zeros(len(each), np.int8))
    (interval,) = statistics.bootstrap(pairs, lambda drawn, _: statistic(drawn))
    return Speedup(value=float(statistic(each)), ci95=list(interval))


# -- Results of an older version ------------------------------------------------------------------------------------


def adopt(scenario: Mapping[str, Any] | Path, out: Path, *, jobs: int | None = None) -> bool:
    """Adopt results of an older version in `out` as results of the running version; returns whether any are kept.

    The first old run is repeated: with unchanged ends of all its jobs, all old runs count as runs of the running
    version, so that `rm_emulator.run` reuses them. Raises InvalidInput.
    """
    cells = grid.cells(load_scenario(scenario if isinstance(scenario, Path) else cast(dict[str, Any], scenario)))
    known = {cell: stored(out / cell.place) for cell in cells}
    kept = [cell for cell in cells if known[cell].get("settings") == cell.settings]
    older = [cell for cell in kept if known[cell]["key"] != cell.key]
    if older and not _ends_as_before(older[0], out, jobs):
        return False
    for cell in older:
        text = json.dumps(known[cell] | {"key": cell.key}, indent=1) + "\n"
        (out / cell.place / "cell.json").write_text(text, encoding="utf-8")
    return bool(kept)


def _ends_as_before(cell: Any, out: Path, jobs: int | None) -> bool:
    with TemporaryDirectory(dir=out.parent) as folder:
        rm_emulator.run(cell.scenario, out=Path(folder) / "again", jobs=jobs)
        again = pl.read_parquet(Path(folder) / "again" / cell.place / "jobs.parquet")
    return again.equals(pl.read_parquet(out / cell.place / "jobs.parquet", glob=False))

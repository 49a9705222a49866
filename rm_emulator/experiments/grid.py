"""Policies x seeds: plans the cells, computes the missing cells, then the summary and the report.

A cell is a pure function of (scenario, label, seed), so its key (the hash of all three with the program's
version, its plug-ins and its trace) says whether a stored result is still good. Only the main process writes
into the run directory; workers fill directories of their own, moved when complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.experiments import assembly, engines, metadata, pool
from rm_emulator.experiments.cell import PATHS, Cell
from rm_emulator.experiments.directory import COMMAND, OptionNames, RunDirectory, damaged
from rm_emulator.experiments.metadata import code_digest
from rm_emulator.experiments.progress import Display
from rm_emulator.experiments.resolved import at_point, resolved
from rm_emulator.experiments.status import Status
from rm_emulator.files import write_file
from rm_emulator.plugins import hashes
from rm_emulator.results.figures import Summary
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.workload import Built, description
from rm_emulator.version import __version__
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors

#: Baselines that are the same for every policy.
WITHOUT_POLICY: Final = ("ideal",)
#: A second of work: starting another interpreter takes as long.
SMALL_TASKS: Final = 10_000


class Failure(msgspec.Struct, frozen=True):
    """A failed cell."""

    label: str
    """Label with the baseline's name, if any."""
    seed: int
    why: str
    """The cause in a sentence."""
    traceback: Path | None
    """File with the traceback, None for a full disk."""

    def __str__(self) -> str:
        where = f" (traceback in {self.traceback})" if self.traceback is not None else ""
        return f"{self.label} seed {self.seed} failed: {self.why}{where}"


class Finished(msgspec.Struct, frozen=True):
    """The result of a grid."""

    out: Path
    summary: Summary | None
    """None when a cell failed."""
    failures: tuple[Failure, ...]
    computed: int
    """Number of newly computed cells."""
    reused: int
    """Number of cells from earlier runs."""


def all_plugins(loaded: Loaded, plugins: Sequence[str]) -> tuple[str, ...]:
    """The scenario's own plug-ins and the given plug-ins."""
    return tuple(dict.fromkeys((*loaded.plugins, *plugins)))


def cells(
    loaded: Loaded, plugins: Sequence[str] = (), beside: Sequence[str] = (), *, replay: bool = False
) -> list[Cell]:
    """The cells of a scenario, seed by seed so that consecutive cells of a worker often share a workload.

    Baselines come last, so that an interrupted run has its own figures first. beside: hashes of further inputs of the
    results. replay: replay the first cell of each policy with a part from a plug-in.
    """
    digest = cache(lambda path: next(_digests([path])))  # a trace is read once, however many points it has
    files = hashes(all_plugins(loaded, plugins))
    outside = [*(digest(Path(file)) for file in files), *beside]
    runs, others = list[Cell](), list[Cell]()
    for each in loaded.points:
        data, spec, inputs = at_point(each), each.scenario.spec, [*outside, *map(digest, _inputs(each))]
        of_point = partial(_cell, data, plugins=files, outside=inputs, point=each.point.number)
        entries = data["spec"]["policies"]
        # Of a sweep the first point will do: the policy is the same at every point.
        whole, first = replay and each is loaded.points[0], spec.seeds[0]
        who = data["spec"]["cluster"]["architecture"]
        runs += [
            of_point(policy, seed, replayed=whole and seed == first and is_foreign([policy, who]))
            for seed in spec.seeds
            for policy in entries
        ]
        others += [
            of_point(policy, seed, baseline=name)
            for seed in spec.seeds
            for name in spec.baselines
            for policy in (entries[:1] if name in WITHOUT_POLICY else entries)
        ]
    return [*runs, *others]


def _cell(
    data: Mapping[str, Any],
    policy: Mapping[str, Any],
    seed: int,
    plugins: Mapping[str, str],
    outside: Sequence[str],
    baseline: str = "",
    point: int = 0,
    replayed: bool = False,
) -> Cell:
    beside = ("baseline", "baselines", "expect", "plugins", "report")  # no cell depends on these
    spec = {k: v for k, v in data["spec"].items() if k not in beside}
    scenario = {**data, "spec": {**spec, "policies": [policy], "seeds": [seed]}}
    # Neither its name nor where its trace lies changes what a scenario computes: the trace's content is in `outside`.
    workload = {k: v for k, v in spec["workload"].items() if k not in PATHS}
    essence = {**scenario["spec"], "workload": workload}
    label = policy["label"]
    if baseline in WITHOUT_POLICY:
        essence, label = {k: v for k, v in essence.items() if k != "policies"}, ""
    settings = _hash([essence, *outside, *([baseline] if baseline else [])])
    key = _hash([settings, __version__, code_digest()])
    return Cell(scenario, label, seed, key, settings, plugins, baseline, point, replayed)


def is_foreign(data: Any) -> bool:
    """Whether plain data, or a block inside, names a policy, predictor or placer from outside the program."""
    if isinstance(data, Mapping):
        name = str(data.get("kind"))
        found = [registry.entry(name).cls for registry in (policies, predictors, placers) if name in registry]
        ours = all(cls.__module__.startswith("schedulers.") for cls in found)
        return not ours or any(map(is_foreign, data.values()))
    return isinstance(data, list | tuple) and any(map(is_foreign, data))


def _hash(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _inputs(loaded: Loaded) -> Iterator[Path]:
    workload = loaded.scenario.spec.workload
    yield from (loaded.folder / path for name in PATHS if (path := getattr(workload, name, None)))


def _digests(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        digest = hashlib.sha256()
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(file.name.encode() + b"\0")
                with file.open("rb") as stream:
                    while block := stream.read(1 << 20):
                        digest.update(block)
        yield digest.hexdigest()


def run(
    loaded: Loaded,
    out: Path,
    *,
    jobs: int | None = None,
    engine: str | None = None,
    built: Built | None = None,
    plugins: Sequence[str] = (),
    overwrite: bool = False,
    display: Display | None = None,
    option_names: OptionNames = COMMAND,
    beside: Sequence[str] = (),
    replay: bool = True,
) -> Finished:
    """Compute the missing cells of a checked scenario, then summary.json and report.html.

    jobs: processes at once, by default a process per core, or the calling process alone for a grid smaller than a
    worker's start. engine: where cells are computed instead, see `engines.engine_of`. built: a seed's workload, to be
    described in workload.json. words: for messages. beside, replay: as
    of `cells`. Raises InvalidInput when `out` belongs to something else; on KeyboardInterrupt finished cells stay and
    nothing half-written does.
    """
    grid, scenario = cells(loaded, plugins, beside, replay=replay), resolved(loaded)
    points = [at_point(each) for each in loaded.points if each.point.number]
    cluster = None if engine is None else engines.engine_of(engine, jobs)
    if cluster is not None:
        cluster.check(grid)
    with RunDirectory(out, grid, scenario, points=points, overwrite=overwrite, option_names=option_names) as directory:
        # Before the cells, so that an interrupted run can be repeated as well.
        done = directory.completed_cells()
        made = metadata.RunRecord(directory.path, scenario, all_plugins(loaded, plugins), done)
        complete = set(done)
        missing = [cell for cell in grid if cell not in complete]
        work = _GridListener(directory, missing, made, display or Display())
        for cell in missing:
            if name := damaged(directory.cell(cell)):
                work.display.again(cell, name)
        described = None
        if built is not None and not points:
            described = msgspec.json.encode(description(loaded.scenario, built))
        processes = jobs or _processes(missing, built)
        # Cells in this process need not build the first seed's workload again; nobody else keeps the workload.
        if built is not None:
            assembly.keep(Scenario.model_validate(grid[0].scenario), grid[0].seed, built)
            del built
        work.display.begin(grid, done)
        try:
            (cluster or engines.Processes(processes)).run_cells(work.cells, work)
        finally:
            work.display.end()
            made.write()
            assembly.forget()
        if described is not None:
            write_file(directory.path / "workload.json", msgspec.json.format(described, indent=1).decode() + "\n")
        summary = None if work.failures else _summarise(out, scenario, loaded.points)
    return Finished(out, summary, tuple(work.failures), len(missing) - len(work.failures), len(done))


def _processes(missing: Sequence[Cell], built: Built | None) -> int:
    small = built is not None and len(missing) * built.workload.tasks <= SMALL_TASKS
    return 1 if small else pool.cores()


def _summarise(out: Path, scenario: Mapping[str, Any], points: Sequence[Loaded]) -> Summary:
    from rm_emulator.results import report, summary

    if "sweep" in scenario["spec"]:
        made = summary.build_sweep(out, scenario, ((each.point.values, at_point(each)) for each in points))
        for number in range(1, min(len(points), report.OF_POINTS) + 1):
            report.write(out / summary.point_folder(number))
    else:
        made = summary.build(out, scenario)
    report.write(out)
    return made


class _GridListener:
    """Takes in finished cells."""

    def __init__(
        self, directory: RunDirectory, missing: Sequence[Cell], made: metadata.RunRecord, display: Display
    ) -> None:
        self._directory, self._made, self.display = directory, made, display
        self.cells = [(cell, directory.scratch_folder(cell)) for cell in missing]
        self.failures: list[Failure] = []

    def progress(self, index: int, status: Status) -> None:
        self.display.progress(self.cells[index][0], status)

    def silent(self, index: int, seconds: float, where: str) -> None:
        self.display.silent(self.cells[index][0], seconds, where)

    def finished(self, index: int, worker: str = "") -> None:
        cell, workplace = self.cells[index]
        if worker:
            self._made.computed(cell, worker)
        self._directory.accept(cell, workplace)
        self.display.finished(cell)

    def failed(self, index: int, why: str, traceback: str) -> None:
        cell, workplace = self.cells[index]
        path = self._directory.keep_failure(cell, workplace, traceback)
        self.failures.append(Failure(cell.title, cell.seed, why, path))
        self.display.failed(cell)

    def note(self, text: str) -> None:
        self.display.note(text)

"""Charts of the report: the form of a chart with the numbers behind the picture, and the registry of all charts.

A chart is a function in a file of `charts/`, or in a file of a plug-in:

    @register(TIMES, order=40)
    def late(cells: Cells) -> Chart | None:
        '''A line on the contents of the picture.'''

The function's name is the chart's. `order` gives the place in the section; None: the run has nothing to show.
With `params=` the chart has settings, a struct like the settings of policies; scenarios set them in `report.charts`.
The page of a sweep has the charts of the section SWEEP alone, each point's own page has all others.
Sections have an order as well; empty sections are left out. A chart may bring a section of its own.
Colours are names of CSS variables (`$s0` to `$s7`, `$ink`, `$faint`): the page fills them in for its light or dark
theme. Nothing here draws.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.files import load_yaml
from rm_emulator.results import fairness, metrics, statistics, waits
from rm_emulator.results.figures import Summary
from rm_emulator.results.replay import logs_of
from rm_emulator.results.summary import (
    attempts,
    cell_dir,
    listed_queues,
    of_figures,
    optional_columns,
    paired,
    read_attempts,
    read_jobs,
    read_summary,
    read_table,
    references,
)
from schedulers.core.registry import NoParams, Registry

Figure = dict[str, Any]
#: The jobs of so many cells are in memory at once.
_KEPT: Final = 64
#: Columns of tasks.parquet that charts read.
TASK_COLUMNS: Final = ("job", "stage", "node", "granted_ms", "started_ms", "ended_ms", "pilot", "code")


class Section(msgspec.Struct, frozen=True):
    """A part of the page. id: of its heading; name: in the list of sections; lead: the sentence below the title.

    Text and tables of the section are in `templates/ID-above.html.jinja` and `ID-below.html.jinja`.
    """

    id: str
    order: int
    name: str
    title: str
    lead: str = ""


RESULTS: Final = Section("results", 10, "Results", "Results")
SWEEP: Final = Section(
    "sweep",
    15,
    "Sweep",
    "The points of the sweep",
    "Every policy and seed at every combination of the swept values.",
)
TIMES: Final = Section(
    "times",
    20,
    "Times",
    "When jobs finish",
    "All jobs of all seeds. Means hide who lost: look at the whole distribution, and at each job against itself.",
)
PREDICTION: Final = Section(
    "prediction",
    30,
    "Prediction",
    "How well sizes were known",
    "A policy never sees a true run time; it orders jobs by what its predictor says of them.",
)
JOBS: Final = Section(
    "jobs",
    25,
    "Jobs",
    "Who waits, and why",
    "A job waits while a task of it has no container; it idles while nothing of it runs. The first seed of each label.",
)
KINDS: Final = Section(
    "kinds", 40, "Kinds of jobs", "Kinds of jobs", "The bins of SLearn's Table 8: who gains, who pays for it."
)
SHARING: Final = Section("sharing", 50, "Queues", "Queues")
PLANNING: Final = Section(
    "planning",
    60,
    "Plans",
    "Plans",
    "Each job is planned by itself when it comes. The plan only ranks its tasks: what starts also depends on all "
    "other jobs.",
)
CLUSTER: Final = Section("cluster", 70, "Cluster", "The cluster", "The first seed of each label.")
SECTIONS: Final = (RESULTS, SWEEP, TIMES, JOBS, PREDICTION, KINDS, SHARING, PLANNING, CLUSTER)


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart of the page."""

    title: str
    alt: str
    """Contents of the picture, for readers without a picture."""
    caption: str
    """How to read the picture."""
    variants: tuple[tuple[str, Figure], ...]
    """Name and figure of each variant, figures as plain data for plotly.js."""
    head: tuple[str, ...]
    """Headings of the table of numbers behind the picture."""
    rows: tuple[tuple[str, ...], ...]
    choose: str = ""
    """Label of the selector of variants, needed for more than one."""
    tall: int = 340
    """Height in pixels."""


class Cells:
    """Data of charts: the summary of a run, and the tables of its cells, each table read at its first use.

    Raises summary.MissingCell for a missing table.
    """

    def __init__(self, out_dir: Path, summary: Summary, spec: Mapping[str, Any]) -> None:
        self.folder, self.spec = out_dir, spec
        self._logged: dict[tuple[str, int], tuple[pl.DataFrame, pl.DataFrame] | None] = {}
        self._idle: dict[tuple[str, int], pl.DataFrame] = {}
        self.summary, self.labels, self.seeds = summary, summary.labels, summary.seeds

    @classmethod
    def of(cls, out_dir: Path) -> Cells:
        """Cells of a run directory, with the resolved scenario's spec, {} when the file is absent."""
        file = out_dir / "scenario.yaml"
        scenario = load_yaml(file.read_text()) if file.is_file() else None
        return cls(out_dir, read_summary(out_dir), scenario.get("spec", {}) if isinstance(scenario, dict) else {})

    @functools.cached_property
    def jobs(self) -> Mapping[tuple[str, int], pl.DataFrame]:
        """(label, seed) -> the timed jobs. Of a run with many cells the last that were asked for are in memory."""
        return _Jobs(self.folder, self.labels, self.seeds)

    def pooled(self, label: str, column: str) -> metrics.Floats:
        """A column of a label's jobs over all seeds, nulls left out, ascending."""
        parts = [jobs[column].drop_nulls().to_numpy() for jobs in read_jobs(self._places(label), column)]
        return np.sort(np.concatenate(parts).astype(np.float64))

    def pairs(self, label: str) -> Iterator[tuple[int, statistics.Pairs]]:
        """Each seed with the jobs of a label against themselves under the baseline."""
        return paired((self.folder, self.summary.baseline), (self.folder, label), self.seeds)

    def tasks(self, label: str, seed: int | None = None) -> pl.DataFrame:
        """The attempts of a label's seed, by default the first, TASK_COLUMNS; without copies (`read_attempts`)."""
        return read_attempts(self._place(label, seed), TASK_COLUMNS)

    def scan(self, label: str, seed: int | None = None) -> metrics.Attempts:
        """As `tasks`; many attempts are a query of their file (`metrics.pieces`, `metrics.blocks`)."""
        return attempts(self._place(label, seed), TASK_COLUMNS)

    def scan_attempts(self, label: str) -> metrics.Attempts:
        """As `attempts`; many attempts are a query of their file."""
        place = self._place(label)
        return attempts(place, [*TASK_COLUMNS, *optional_columns(place)], copies=True)

    def idle(self, label: str, seed: int) -> pl.DataFrame:
        """`waits.idle` of a cell's jobs."""
        if (label, seed) not in self._idle:
            self._idle[label, seed] = waits.idle(self.jobs[label, seed], self.scan(label, seed))
        return self._idle[label, seed]

    def attempts(self, label: str) -> pl.DataFrame:
        """All attempts of a label's first seed, with the optional columns on data and copies (`OPTIONAL_COLUMNS`)."""
        place = self._place(label)
        return read_table(place, "tasks", [*TASK_COLUMNS, *optional_columns(place)])

    def nodes(self, label: str, seed: int | None = None) -> pl.DataFrame:
        """The use of the nodes in a label's seed, by default the first."""
        return read_table(self._place(label, seed), "nodes")

    def faults(self, label: str) -> pl.DataFrame | None:
        """Faults of nodes in a label's first seed: `node, kind, begin_ms, end_ms`; None without any."""
        place = self._place(label)
        return read_table(place, "faults") if (place / "faults.parquet").is_file() else None

    @functools.cached_property
    def courses(self) -> Mapping[str, fairness.QueueShares]:
        """By label the queues over time in the first seed; none for a run with a single queue."""
        if not self.summary.several_queues:
            return {}
        courses = {}
        for label in self.labels:
            nodes, jobs = self.nodes(label), self.jobs[label, self.seeds[0]]
            tasks = attempts(self._place(label), of_figures(nodes))
            courses[label] = fairness.queue_shares(jobs, tasks, nodes, listed_queues(self.spec))
        return {label: course for label, course in courses.items() if course is not None}

    def logged(self, label: str, seed: int) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """Waits (`waits.stretches`) and stages (`stages`) of a cell's jobs, None without an event log.

        Each log is read once. Raises InvalidInput for an unreadable log.
        """
        if (label, seed) not in self._logged:
            logs = logs_of(self._place(label, seed))
            self._logged[label, seed] = self._read_logs(label, seed, logs) if logs else None
        return self._logged[label, seed]

    def _read_logs(self, label: str, seed: int, logs: Sequence[Path]) -> tuple[pl.DataFrame, pl.DataFrame]:
        jobs, said = self.jobs[label, seed], waits.read(logs)
        # Which task follows which counts for edges that are no barriers alone, and costs a column.
        tasks = attempts(self._place(label, seed), [*TASK_COLUMNS, "task"]) if said.tied else self.scan(label, seed)
        names = said.stages.unique(["job", "stage"]).select("job", "stage", "name")
        opened = waits.opened(jobs, tasks, said.stages, said.tied).join(names, on=["job", "stage"])
        return waits.stretches(jobs, tasks, self.nodes(label, seed), said), opened

    @property
    def _of_first_seed(self) -> Mapping[str, tuple[pl.DataFrame, pl.DataFrame]]:
        found = {label: self.logged(label, self.seeds[0]) for label in self.labels}
        return {label: both for label, both in found.items() if both is not None}

    @property
    def waits(self) -> Mapping[str, pl.DataFrame]:
        """By label the waits of the first seed's jobs with reasons (`waits.stretches`), for labels with an event log.

        Raises InvalidInput for an unreadable log.
        """
        return {label: found for label, (found, _) in self._of_first_seed.items()}

    @property
    def stages(self) -> Mapping[str, pl.DataFrame]:
        """By label `job, stage, tasks, at, name` (`waits.opened`) of the first seed, for labels with an event log.

        Raises InvalidInput for an unreadable log.
        """
        return {label: found for label, (_, found) in self._of_first_seed.items()}

    @functools.cached_property
    def reasons(self) -> Sequence[str]:
        """Reasons of waiting under any label, longest first: a reason's place gives its colour."""
        if not self.waits:
            return ()
        length = (pl.col("to_ms") - pl.col("from_ms")).sum()
        sums = pl.concat(self.waits.values()).group_by("reason").agg(ms=length)
        return sums.sort(["ms", "reason"], descending=[True, False])["reason"].to_list()

    def date(self, ms: float) -> datetime | None:
        """The date of a time (ms) of the run, in UTC; None for jobs without dates."""
        workload = self.summary.workload
        return None if workload is None else workload.date(ms)

    @property
    def objectives(self) -> Mapping[str, str]:
        """By label the policy's setting `objective`, empty without such a setting."""
        of_policy = {policy.get("label"): policy for policy in self.spec.get("policies", ())}
        return {label: of_policy.get(label, {}).get("objective", "") for label in self.labels}

    def references(self, label: str) -> Mapping[str, pl.DataFrame]:
        """By baseline of the scenario (`alone`, `one_node`, `ideal`) a label's jobs of the first seed."""
        return references(self.spec, self.folder, label, self.seeds[0])

    @functools.cached_property
    def plans(self) -> Mapping[str, pl.DataFrame]:
        """By label the plans of the first seed, where the policy plans jobs."""
        planned = [label for label in self.labels if (self._place(label) / "plans.parquet").is_file()]
        return {label: read_table(self._place(label), "plans") for label in planned}

    def _place(self, label: str, seed: int | None = None) -> Path:
        return cell_dir(self.folder, label, self.seeds[0] if seed is None else seed)

    def _places(self, label: str) -> list[Path]:
        return [cell_dir(self.folder, label, seed) for seed in self.seeds]


class _Jobs(Mapping[tuple[str, int], pl.DataFrame]):
    """Reads the jobs of a cell when they are asked for, and keeps those of the last cells."""

    def __init__(self, out_dir: Path, labels: Sequence[str], seeds: Sequence[int]) -> None:
        self._known = {(label, seed): cell_dir(out_dir, label, seed) for label in labels for seed in seeds}
        self._read = functools.lru_cache(_KEPT)(lambda place: metrics.timed(read_table(place, "jobs")))

    def __getitem__(self, cell: tuple[str, int]) -> pl.DataFrame:
        return self._read(self._known[cell])

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


Make = Callable[..., Chart | None]


class Drawing:
    """A registered chart with its settings: the drawing function, and the place on the page."""

    id: ClassVar[str]
    """Id of the element on the page, and name in the registry."""
    make: ClassVar[Make]
    """`make(cells)`, or `make(cells, params)` for a chart with settings."""
    section: ClassVar[Section]
    order: ClassVar[int]
    """Its place in its section."""
    wide: ClassVar[bool]
    """Whether the chart takes the whole width of the page."""
    Params: ClassVar[type[msgspec.Struct]]

    def __init__(self, params: msgspec.Struct) -> None:
        self._params = params

    def draw(self, cells: Cells) -> Chart | None:
        """The chart of a run, None without anything to show. Raises as `Cells` does."""
        return self.make(cells) if self.Params is NoParams else self.make(cells, self._params)


charts: Final[Registry[Drawing]] = Registry("chart", "rm_emulator.results.charts")


def register(
    section: Section,
    order: int,
    *,
    wide: bool = False,
    source: str = "",
    params: type[msgspec.Struct] = NoParams,
) -> Callable[[Make], Make]:
    """Function decorator: show a chart in a section of the page, under the function's name.

    source: origin of the picture (paper, figure). params: type of the settings, the function's second argument.
    """

    def add(make: Make) -> Make:
        own = {"id": make.__name__, "make": staticmethod(make), "section": section, "order": order, "wide": wide}
        known = {"Params": params, "__doc__": make.__doc__, "__module__": make.__module__}
        charts.register(make.__name__, source=source, worlds=("emulator",))(
            type(make.__name__, (Drawing,), own | known)
        )
        return make

    return add


def drawings(given: Iterable[Mapping[str, Any]] = ()) -> Sequence[Drawing]:
    """All charts in the order of the page. given: settings of some, `{'kind': name, **settings}`.

    Raises UnknownName and InvalidParameters.
    """
    settings = {each["kind"]: each for each in given}
    parsed = [charts.parse(settings.pop(entry.name, {"kind": entry.name})) for entry in charts]
    for left in settings.values():
        charts.parse(left)
    made = [cls(params) for cls, params in parsed]
    return sorted(made, key=lambda each: (each.section.order, each.order, each.id))

"""Jockey's tables: deadlines met by recurring jobs and containers given to them, beside bounds; errors of C(p, a).

    python -m studies.jockey --out out/deadlines --docs docs

`make tables` runs it. Cells are kept under OUT; docs/results-deadlines.md is written from its template. Jobs, history
and stragglers are those of no trace: the paper's are not public.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.abilities import Rehearses, ability
from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.policy import ClusterView
from schedulers.core.predictor import Estimate, Predictor, SamplePlan
from schedulers.core.rehearsal import Act, Indicator, Script
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered, TieParams
from schedulers.planning.jockey.progress import INDICATORS, meter
from schedulers.planning.jockey.rehearsal import Ends, amdahl, play, rehearse
from studies.kept import measured
from studies.steady import marked, quarters, warm_up
from studies.tables import document, filled, over_seeds, table

NAME: Final = "results-deadlines"
#: The queues of jobs with and without deadline, half the cluster guaranteed to each under `capacity`.
DUE, REST = "due", "rest"
#: Both queues may have all of the cluster while the other one leaves it.
_ELASTIC: Final = {f"root.{queue}": {"user_limit_factor": 4} for queue in (DUE, REST)}
#: Policies that know no deadline, and guaranteed queues: kept as it is, shared, shared and taken back.
OTHERS: Final[Mapping[str, dict[str, Any]]] = {
    "fifo": {"kind": "fifo"},
    "fair": {"kind": "fair"},
    "capacity": {"kind": "capacity"},
    "capacity_elastic": {"kind": "capacity", "queues": _ELASTIC},
    "capacity_preempting": {"kind": "capacity", "queues": _ELASTIC, "preemption": {"enabled": True}},
}
SLOTS: Final = 50
#: Recurring jobs of a seed, the first of which do not count, and earlier runs of each.
JOBS, EARLIER = 50, 10
#: Load of the jobs with a deadline, and of the others; together below 1, so that a longer run is no worse.
_DUE_LOAD, _REST_LOAD = 0.5, 0.3
#: Jobs of these others that wait at the start, each a minute's work at their load.
_WAITING: Final = 10
#: A deadline is so many times the median of earlier runs alone on so many containers.
TIGHT, GUARANTEED = 1.4, 10
#: Variation inside a stage without stragglers.
_VARIATION: Final = 0.2
#: Part of the narrow stages.
_NARROW_PART: Final = 0.3
#: A third of the paper's times, as jobs take about a third of the paper's.
PERIOD_S, DEAD_ZONE_S = 20, 60
#: Parts of attempts that fail and that straggle, and how many times as long stragglers take.
_FAIL, _STRAGGLE, _SLOWER = 0.03, 0.05, 5


class Shape(NamedTuple):
    """Tasks of a stage, and their mean run time (ms), each from and to; of wide and of narrow stages."""

    wide: tuple[tuple[int, int], tuple[float, float]]
    narrow: tuple[tuple[int, int], tuple[float, float]]


_WIDE: Final = Shape(((12, 60), (10_000, 40_000)), ((1, 3), (30_000, 90_000)))
_NARROW: Final = Shape(((5, 30), (15_000, 60_000)), ((1, 3), (60_000, 120_000)))


class Ground(NamedTuple):
    """sizes: variation of a job's input from its earlier runs, seen by nobody beforehand. faulty: stragglers, failures.

    Earlier runs have stragglers and failures, too, and all the same input.
    """

    sizes: float
    faulty: bool
    shape: Shape = _WIDE

    @property
    def extra(self) -> float:
        """Expected time of all attempts of a task, over that of an attempt that neither straggles nor fails."""
        return (1 + _STRAGGLE * (_SLOWER - 1)) * (1 + _FAIL / 2) if self.faulty else 1.0


GROUNDS: Final[Mapping[str, Ground]] = {
    "as trained": Ground(0.0, faulty=False),
    "input sizes": Ground(0.4, faulty=False),
    "stragglers": Ground(0.0, faulty=True),
    "narrow stages": Ground(0.4, faulty=False, shape=_NARROW),
}
TRAINED, SIZES, STRAGGLERS = "as trained", "input sizes", "stragglers"
LOOP, STATIC, MEAN = "loop", "static", "amdahl_mean"
#: Jockey's settings by label.
CONTROLS: Final[Mapping[str, dict[str, Any]]] = {
    LOOP: {},
    "amdahl": {"control": "amdahl"},
    MEAN: {"control": "amdahl", "variation": 0.0},
    STATIC: {"control": "static"},
    "max": {"control": "max"},
}
ALONE, EDF = "alone", "edf"
USUAL: Final[Mapping[str, Any]] = {
    "slack": 1.2,
    "dead_zone_ms": 1000 * DEAD_ZONE_S,
    "alpha": 0.2,
    "indicator": "totalworkWithQ",
}
#: Settings of the loop that are turned, one at a time.
TURNED: Final[Mapping[str, Sequence[Any]]] = {
    "slack": (1.0, 1.2, 1.5),
    "dead_zone_ms": (0, 60_000, 120_000),
    "alpha": (0.05, 0.2, 1.0),
}
#: Deadlines that are changed when a tenth of the first time has passed: times over the usual, first and then.
CHANGES: Final[Mapping[str, tuple[float, float]]] = {"halved": (2, 1), "doubled": (1, 2), "tripled": (1, 3)}
_KEPT: Final = (1.0, 1.0)
#: Containers on which errors of C(p, a) are measured, and points of each run.
ALLOCATIONS, _POINTS = (3, 5, 10, 20), 20


class Measured(msgspec.Struct, frozen=True):
    """Of the jobs of one run after the warm-up. over: containers given over time, over the work, less 1.

    late: of late jobs the lateness over the time that they had. rest_s: mean JCT without deadlines. missed,
    rest_quarters_s: by quarter of the jobs in their order, part of the deadlines missed, and this mean JCT.
    beyond: part of the time in which allocations add up to more than the cluster. before, after: containers held on
    average before and after deadlines changed.
    """

    due: int
    met: int
    late: tuple[float, ...]
    over: float | None
    rest_s: float
    missed: tuple[float, ...]
    rest_quarters_s: tuple[float, ...]
    beyond: float = 0.0
    before: float = 0.0
    after: float = 0.0


class Error(msgspec.Struct, frozen=True):
    """Of remaining times, over the run's length. still: longest part of a run in which the indicator stood still."""

    absolute: float
    signed: float
    still: float = 0.0


class Errors(msgspec.Struct, frozen=True):
    """By indicator or law."""

    by: dict[str, Error]


# -- The ground ---------------------------------------------------------------------------------------------------


class Recurring(NamedTuple):
    """A recurring job: its DAG, the mean run times of its stages, and the task times of its earlier runs (ms)."""

    name: str
    stages: tuple[Stage, ...]
    means: tuple[float, ...]
    earlier: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def acts(self) -> tuple[Act, ...]:
        """As learned from the earlier runs."""
        return tuple(
            Act(stage.tasks, stage.above, known.task_ms, (known.spread_ms or 0.0) / known.task_ms)
            for stage, known in zip(self.stages, learned(self.stage_means), strict=True)
        )

    @property
    def stage_means(self) -> list[list[float]]:
        """Mean task time by earlier run and stage."""
        return [[fmean(stage) for stage in run] for run in self.earlier]

    @property
    def usual_ms(self) -> float:
        """Median length of the earlier runs, alone on the guaranteed containers."""
        return median(play(self.acts, run, GUARANTEED)[1][-1][0] for run in self.earlier)


def recurring(ground: Ground, seed: int) -> list[Recurring]:
    """The jobs of a seed: 4 to 10 stages, each under one or two of the three before it, three of ten narrow."""
    random = keyed.generator(seed, "jockey's jobs")
    made = []
    for number in range(JOBS):
        stages, means = [], []
        for index in range(int(random.integers(4, 11))):
            above = {int(random.integers(max(0, index - 3), index)) for _ in range(2)} if index else set()
            tasks, ms = ground.shape.narrow if index and random.random() < _NARROW_PART else ground.shape.wide
            count = int(random.integers(tasks[0], tasks[1] + 1))
            stages.append(Stage(name=f"s{index}", tasks=count, demand=(1000,), parents=tuple(sorted(above))))
            means.append(float(random.uniform(*ms)))
        usual = ground._replace(sizes=0.0)
        earlier = tuple(task_times(stages, means, usual, seed, number, run) for run in range(EARLIER))
        made.append(Recurring(f"job{number:02}", tuple(stages), tuple(means), earlier))
    return made


def task_times(
    stages: Sequence[Stage], means: Sequence[float], ground: Ground, *key: int
) -> tuple[tuple[int, ...], ...]:
    """Times of all tasks of a run (ms), failed attempts included, drawn by the key."""
    random = keyed.generator(key[0], "jockey's run", *key[1:])
    size = _size(random, ground)
    found = []
    for stage, ms in zip(stages, means, strict=True):
        times = size * ms * _lognormal(random, _VARIATION, stage.tasks)
        if ground.faulty:
            times *= np.where(random.random(stage.tasks) < _STRAGGLE, _SLOWER, 1)
            times *= 1 + np.where(random.random(stage.tasks) < _FAIL, random.random(stage.tasks), 0)
        found.append(tuple(np.maximum(1, np.rint(times)).astype(int).tolist()))
    return tuple(found)


def _size(random: np.random.Generator, ground: Ground) -> float:
    return float(_lognormal(random, ground.sizes, 1)[0])


def _lognormal(random: np.random.Generator, variation: float, count: int) -> api.Floats:
    sigma2 = math.log1p(variation**2)
    return random.lognormal(-sigma2 / 2, math.sqrt(sigma2), count)


def variation(jobs: Sequence[Recurring]) -> float:
    """Standard deviation over mean inside a stage, over all earlier runs: the root of the mean square."""
    stages = [np.array(stage) for job in jobs for run in job.earlier for stage in run if len(stage) > 1]
    return math.sqrt(fmean(float(np.var(stage, ddof=1)) / float(np.mean(stage)) ** 2 for stage in stages))


def workload(jobs: Sequence[Recurring], ground: Ground, seed: int, factor: float = 1.0) -> Workload:
    """A further run of each job, with a deadline, among others without; and the history."""
    random = keyed.generator(seed, "jockey's arrivals")
    work = ground.extra * sum(stage.tasks * ms for job in jobs for stage, ms in zip(job.stages, job.means, strict=True))
    arrivals = np.cumsum(random.exponential(work / (len(jobs) * SLOTS * _DUE_LOAD), len(jobs)))
    entries = []
    for job, at in zip(jobs, arrivals.astype(int).tolist(), strict=True):
        size = _size(random, ground)
        due = at + round(factor * TIGHT * job.usual_ms)
        visible = Job(id=job.name, name=job.name, stages=job.stages, queue=DUE, deadline=due)
        times = tuple(Drawn(size * ms, _VARIATION) for ms in job.means)
        entries.append(WorkloadJob(job=visible, submit_ms=at, runtimes=times))
    last = max(entry.job.deadline or 0 for entry in entries)
    tasks = round(SLOTS * _REST_LOAD / ground.extra)
    for number, at in enumerate([*[0] * _WAITING, *range(0, last, 60_000)]):
        stage = Stage(name="all", tasks=tasks, demand=(1000,))
        other = Job(id=f"other{number:03}", name="other", stages=(stage,), queue=REST)
        entries.append(WorkloadJob(job=other, submit_ms=at, runtimes=(Drawn(60_000, _VARIATION),)))
    past = tuple(
        PastJob(
            name=job.name,
            submitted=(run - EARLIER) * 3_600_000,
            finished=(run - EARLIER) * 3_600_000 + 1,
            stages=tuple((stage.tasks, ms) for stage, ms in zip(job.stages, means, strict=True)),
        )
        for job in jobs
        for run, means in enumerate(job.stage_means)
    )
    ordered = tuple(sorted(entries, key=lambda entry: (entry.submit_ms, entry.job.id)))
    return Workload(name=f"jobs-{seed}", jobs=ordered, history=past, resources=("cpu",))


# -- Who decides --------------------------------------------------------------------------------------------------


def learned(runs: Sequence[Sequence[float]]) -> list[Estimate]:
    """By stage the mean over earlier runs, and its standard deviation. runs: mean task time by run and stage, ms."""
    return [Estimate(fmean(stage), stdev(stage), "history") for stage in zip(*runs, strict=True)]


class Trained(Predictor):
    """Knows each stage from earlier runs of the job of the same name, as Jockey is trained (section 4.1)."""

    estimates_stay = True

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._runs: dict[str, list[list[float]]] = defaultdict(list)
        self._known: dict[str, list[Estimate]] = {}

    def prime(self, history: Sequence[PastJob]) -> None:
        """Remembers every run."""
        for past in history:
            self._runs[past.name].append([ms for _, ms in past.stages])

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Looks up the job's earlier runs."""
        runs = self._runs.get(job.name)
        self._known[job.id] = learned(runs) if runs else []
        return None

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """Mean and standard deviation over earlier runs; None for jobs never seen."""
        known = self._known[job]
        return known[stage] if known else None


class EarliestDeadline(Ordered):
    """Serves the job with the earliest deadline first, and jobs without a deadline last."""

    bundles = True
    order_is_stable = True

    Params = TieParams
    params: TieParams

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        due = job.spec.deadline
        return (math.inf if due is None else due, view.tie(job, self.params.tie))


class Watched:
    """Changes deadlines in the run, and adds up what jobs are given (containers x ms).

    changes: (when, job, new deadline).
    """

    def __init__(self, changes: Sequence[tuple[int, str, int]]) -> None:
        self._changes = sorted(changes, reverse=True)
        self.given: dict[str, list[tuple[int, int]]] = {}
        """By job its allocations, each with the time from which on it held."""

    def __call__(self, scheduler: Scheduler, event: Event, decide: api.Decide) -> list[Decision]:
        """See `api.Watch`."""
        while self._changes and self._changes[-1][0] <= event.at:
            _, name, due = self._changes.pop()
            job = scheduler.state.jobs.get(name)
            if job is not None:
                job.spec = msgspec.structs.replace(job.spec, deadline=due)
        decisions = decide(event)
        rehearses = ability(scheduler.policy, Rehearses)
        if rehearses is not None:
            for name, promise in rehearses.new_promises().items():
                self.given.setdefault(name, []).append((promise.made, promise.containers))
        return decisions


def held(steps: Sequence[tuple[int, int]], begin: int, until: int) -> int:
    """Containers x ms of an allocation between two times. steps: (since when, containers), in order."""
    ends = [at for at, _ in steps[1:]] + [until]
    return sum(n * max(0, min(to, until) - max(at, begin)) for (at, n), to in zip(steps, ends, strict=True))


# -- Cells --------------------------------------------------------------------------------------------------------


def measure(
    ground: str, label: str, turned: tuple[tuple[str, Any], ...], change: tuple[float, float], seed: int
) -> Measured:
    """Run a seed under a label of CONTROLS with settings turned, of OTHERS, or under a bound."""
    jobs = recurring(GROUNDS[ground], seed)
    work = workload(jobs, GROUNDS[ground], seed, change[0])
    known = {entry.job.id: entry.job.deadline for entry in work.jobs if entry.job.deadline is not None}
    submitted = {entry.job.id: entry.submit_ms for entry in work.jobs}
    due = {name: submitted[name] + round((at - submitted[name]) * change[1] / change[0]) for name, at in known.items()}
    when = {name: submitted[name] + (at - submitted[name]) // 10 for name, at in known.items()}
    if label == EDF:  # a deadline that even the run alone misses is given up
        finish, _ = _ends(_run(ground, ALONE, work, seed))
        hopeless = {name for name, at in due.items() if finish[name] > at}
        work = msgspec.structs.replace(work, jobs=tuple(_freed(entry, hopeless) for entry in work.jobs))
    watched = Watched([] if change == _KEPT else [(when[name], name, at) for name, at in due.items()])
    settings = {"variation": variation(jobs), **CONTROLS.get(label, {}), **dict(turned)}
    played = _run(ground, label, work, seed, settings, watched)
    finish, spent = _ends(played)
    given = watched.given
    counted = list(due)[warm_up(len(due)) :]  # in order of arrival, as the jobs of a workload are
    since, last = submitted[counted[0]], submitted[counted[-1]]
    others = [name for name, at in submitted.items() if name not in due and since <= at <= last]
    rest_s = [(finish[name] - submitted[name]) / 1000 for name in others]
    missed = [name for name in counted if finish[name] > due[name]]
    return Measured(
        due=len(counted),
        met=len(counted) - len(missed),
        late=tuple((finish[name] - due[name]) / (due[name] - submitted[name]) for name in missed),
        over=sum(held(given[name], 0, finish[name]) for name in counted) / sum(spent[name] for name in counted) - 1
        if given
        else None,
        rest_s=fmean(rest_s),
        missed=quarters([name in missed for name in counted]),
        rest_quarters_s=quarters(rest_s),
        beyond=beyond(given, finish, since),
        before=_mean_held(given, {name: (submitted[name], min(when[name], finish[name])) for name in counted}),
        after=_mean_held(given, {name: (when[name], finish[name]) for name in counted}),
    )


def _freed(entry: WorkloadJob, names: set[str]) -> WorkloadJob:
    """The job, without its deadline if it is named."""
    replace = msgspec.structs.replace
    return replace(entry, job=replace(entry.job, deadline=None)) if entry.job.id in names else entry


def _mean_held(given: Mapping[str, Sequence[tuple[int, int]]], spans: Mapping[str, tuple[int, int]]) -> float:
    """Containers held by a job on average, over all jobs' spans."""
    length = sum(until - begin for begin, until in spans.values())
    return sum(held(given[name], *span) for name, span in spans.items()) / length if given and length else 0.0


def beyond(given: Mapping[str, Sequence[tuple[int, int]]], finish: Mapping[str, int], since: int) -> float:
    """Part of the time, from `since` to the last job's end, in which all allocations together exceed the cluster."""
    changes = [
        (max(at, since), n - before)
        for name, steps in given.items()
        for (at, n), before in zip([*steps, (finish[name], 0)], [0, *(n for _, n in steps)], strict=True)
    ]
    over, total, last = 0, 0, since
    for at, more in sorted(changes):
        over += (at - last) * (total > SLOTS)
        total, last = total + more, at
    return over / (last - since) if changes else 0.0


def _run(
    ground: str,
    label: str,
    work: Workload,
    seed: int,
    settings: Mapping[str, Any] | None = None,
    watched: Watched | None = None,
) -> api.Played:
    slots = 100 * SLOTS if label == ALONE else SLOTS
    cluster: dict[str, Any] = {"nodes": [{"count": 10, "capacity": {"cpu": slots // 10}}], "profile": "events"}
    if GROUNDS[ground].faulty:
        stragglers = {"share": _STRAGGLE, "times": _SLOWER}
        cluster["faults"] = {"tasks": {"probability": _FAIL, "attempts": 20, "stragglers": stragglers}}
    policies: dict[str, dict[str, Any]] = {**OTHERS, ALONE: {"kind": "fifo"}, EDF: {"kind": EarliestDeadline}}
    jockey = {
        "kind": "jockey",
        "policy": {"kind": "fair"},
        "predictor": {"kind": Trained},
        "period_ms": 1000 * PERIOD_S,
        "utility": [[0, 1], [200_000, -1], [20_000_000, -1000]],
        **USUAL,
        **(settings or {}),
    }
    queues = [{"name": DUE, "guaranteed": "50%"}, {"name": REST, "guaranteed": "50%"}]
    policy = {"one": jockey if label in CONTROLS else policies[label]}
    return api.play(document("deadlines", [seed], policy, cluster=cluster, queues=queues, workload=work), watch=watched)


def _ends(played: api.Played) -> tuple[dict[str, int], dict[str, int]]:
    """By job its end, and the time of all its attempts, in ms."""
    took = played.tasks.group_by("job").agg((pl.col("ended_ms") - pl.col("started_ms")).sum())
    return dict(played.jobs.select("id", "finish_ms").iter_rows()), dict(took.iter_rows())


def errors(ground: str, seed: int) -> Errors:
    """Errors of remaining times over a further run of each job, alone on each of ALLOCATIONS."""
    jobs = recurring(GROUNDS[ground], seed)
    varied, found = variation(jobs), defaultdict[str, list[Error]](list)
    for number, job in enumerate(jobs):
        truth = task_times(job.stages, job.means, GROUNDS[ground], seed, number, EARLIER)
        runs = [play(job.acts, truth, containers)[1] for containers in ALLOCATIONS]
        for indicator in INDICATORS:
            for name, error in _of_job(job, runs, indicator, varied, number):
                found[name].append(error)
    return Errors(
        {
            name: Error(*(fmean(getattr(each, field) for each in many) for field in Error.__struct_fields__))
            for name, many in found.items()
        }
    )


def _of_job(
    job: Recurring, runs: Sequence[Ends], indicator: Indicator, varied: float, number: int
) -> Iterator[tuple[str, Error]]:
    """Errors over a job's run on each of ALLOCATIONS; of Amdahl's law beside one of the indicators."""
    script = Script(
        acts=job.acts, allocations=ALLOCATIONS, indicator=indicator, draws=10, variation=varied, seed=number
    )
    profiles, rehearsed = rehearse(script)
    how_far = meter(indicator, profiles)
    for column, ends in enumerate(runs):
        at, stages = np.array(ends).T
        marks = [int(at[-1]) * part // _POINTS for part in range(_POINTS)]
        done = [np.bincount(stages[at <= mark], minlength=len(profiles)).tolist() for mark in marks]
        left = [int(at[-1]) - mark for mark in marks]
        said = [rehearsed.at(how_far(each)).usual_ms[column] for each in done]
        yield indicator, _error(said, left, _still(ends, how_far, len(profiles)))
        if indicator == USUAL["indicator"]:
            for name, spread in (("amdahl", varied), ("amdahl_mean", 0.0)):
                yield name, _error([amdahl(profiles, each, ALLOCATIONS, spread)[column] for each in done], left)


def _error(said: Sequence[float], left: Sequence[float], still: float = 0.0) -> Error:
    off = [(one - other) / left[0] for one, other in zip(said, left, strict=True)]
    return Error(fmean(map(abs, off)), fmean(off), still)


def _still(ends: Ends, how_far: Any, stages: int) -> float:
    """The longest part of a run in which an indicator stood still."""
    done, last, changed, longest = [0] * stages, how_far([0] * stages), 0, 0
    for at, stage in ends:
        done[stage] += 1
        progress = how_far(done)
        if progress != last:
            longest, changed, last = max(longest, at - changed), at, progress
    return max(longest, ends[-1][0] - changed) / ends[-1][0]


# -- Tables -------------------------------------------------------------------------------------------------------

HEAD: Final = (
    "policy",
    "deadlines met, %",
    "minus loop's, points",
    "late by, % of the time",
    "containers over the work, %",
    "minus loop's, points",
    "beyond the cluster, % of the time",
    "mean JCT of the others, s",
)
#: A cell of `measure`, without the seed.
Kind = tuple[str, str, tuple[tuple[str, Any], ...], tuple[float, float]]
Found = Mapping[Kind, Sequence[Measured]]


def plain(ground: str, label: str) -> Kind:
    """The cell of a label with usual settings and deadlines that stay."""
    return ground, label, (), _KEPT


def turned(setting: str, value: Any) -> Kind:
    """The cell of the loop with a setting turned."""
    return SIZES, LOOP, () if value == USUAL[setting] else ((setting, value),), _KEPT


def labels(ground: str) -> list[str]:
    """Rows of the table of a ground."""
    return [ALONE, EDF, *(label for label in CONTROLS if label != MEAN or ground == STRAGGLERS)]


def kinds() -> list[Kind]:
    """All cells of a seed, each once."""
    made = [plain(ground, label) for ground in GROUNDS for label in labels(ground)]
    made += [plain(SIZES, label) for label in OTHERS]
    made += [turned(setting, value) for setting, values in TURNED.items() for value in values]
    made += [(TRAINED, label, (), change) for change in CHANGES.values() for label in (LOOP, STATIC)]
    return list(dict.fromkeys(made))


def row(label: str, runs: Sequence[Measured], beside: Sequence[Measured]) -> list[str]:
    """Cells of HEAD; beside: what the policy is compared with, seed by seed."""
    late = [100 * fmean(each.late) for each in runs if each.late]
    less = [100 * (one.met / one.due - other.met / other.due) for one, other in zip(runs, beside, strict=True)]
    over = [100 * each.over for each in runs if each.over is not None]
    more = [100 * ((one.over or 0) - (other.over or 0)) for one, other in zip(runs, beside, strict=True)]
    return [
        label,
        _met(runs),
        "-" if runs == beside else over_seeds(less),
        over_seeds(late) if late else "-",
        over_seeds(over) if over else "-",
        over_seeds(more) if over and runs != beside else "-",
        over_seeds([100 * each.beyond for each in runs]) if over else "-",
        marked(over_seeds([each.rest_s for each in runs]), [each.rest_quarters_s for each in runs]),
    ]


def _met(runs: Sequence[Measured]) -> str:
    """A cell of deadlines met, in %, which is in italics where more and more are missed."""
    return marked(over_seeds([100 * each.met / each.due for each in runs]), [each.missed for each in runs])


def of_grounds(found: Found) -> dict[str, str]:
    """A table for each ground."""
    return {
        ground: table(
            HEAD, [row(label, found[plain(ground, label)], found[plain(ground, LOOP)]) for label in labels(ground)]
        )
        for ground in GROUNDS
    }


def of_settings(found: Found) -> str:
    """Deadlines met and containers given, by setting."""
    usual = found[plain(SIZES, LOOP)]
    rows = [
        [setting, *row(f"{value:,}", found[turned(setting, value)], usual)]
        for setting, values in TURNED.items()
        for value in values
    ]
    return table(("setting", "value", *HEAD[1:]), rows)


def of_changes(found: Found) -> str:
    """Containers before and after a change of all deadlines."""
    rows = []
    for name, change in CHANGES.items():
        for label in (LOOP, STATIC):
            runs = found[TRAINED, label, (), change]
            met, before, after = (
                _met(runs),
                over_seeds([each.before for each in runs], 1),
                over_seeds([each.after for each in runs], 1),
            )
            ratio = over_seeds([100 * (each.after / each.before - 1) for each in runs])
            rows.append([name, label, met, before, after, ratio])
    return table(("deadlines", "policy", "met, %", "containers before", "after", "after over before, %"), rows)


def of_errors(wrong: Mapping[str, Sequence[Errors]], field: str) -> str:
    """Means over seeds of a field of `Error` in %, by indicator or law and ground."""
    rows = [
        [name, *(over_seeds([100 * getattr(each.by[name], field) for each in seeds], 1) for seeds in wrong.values())]
        for name in (*INDICATORS, *(("amdahl", MEAN) if field != "still" else ()))
    ]
    return table(("indicator", *wrong), rows)


def said(low: float, high: float) -> str:
    """A range of relative errors, in words."""
    ends = [f"{100 * error:+.0f} %" if error else "0 %" for error in dict.fromkeys((low, high))]
    return " to ".join(ends)


def main(
    out: Annotated[Path, typer.Option(help="where the cells are kept")] = Path("out/deadlines"),
    docs: Annotated[Path, typer.Option(help="the folder with results-deadlines.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="number of seeds")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Measure everything, seed by seed, and write docs/results-deadlines.md: 40 minutes on one core."""
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    numbers = range(1, seeds + 1)
    wanted = [(*kind, seed) for seed in numbers for kind in kinds()]
    known = dict(zip(wanted, measured(out, Measured, measure, wanted, jobs), strict=True))
    found = {kind: [known[*kind, seed] for seed in numbers] for kind in kinds()}
    asked = [(ground, seed) for seed in numbers for ground in GROUNDS]
    judged = dict(zip(asked, measured(out, Errors, errors, asked, jobs), strict=True))
    wrong = {ground: [judged[ground, seed] for seed in numbers] for ground in GROUNDS}
    beside = found[plain(SIZES, LOOP)]
    page = filled(
        template,
        grounds=of_grounds(found),
        errors={field: of_errors(wrong, field) for field in Error.__struct_fields__},
        settings=of_settings(found),
        changes=of_changes(found),
        others=table(HEAD, [row(label, found[plain(SIZES, label)], beside) for label in OTHERS]),
        seeds=seeds,
        jobs=JOBS,
        warm_up=warm_up(JOBS),
        earlier=EARLIER,
        slots=SLOTS,
        tight=TIGHT,
        guaranteed=GUARANTEED,
        allocations=f"{', '.join(map(str, ALLOCATIONS[:-1]))} and {ALLOCATIONS[-1]}",
        points=_POINTS,
    )
    write_file(docs / f"{NAME}.md", page)
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))

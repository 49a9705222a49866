"""The figures of a run: the fields of summary.json, with definition and unit of each figure.

No other description exists. summary.json is encoded from these structs, missing fields read as the default,
expectations take their names from here, and the report, the terminal's table and `compare` read the structs. A figure
without a meaning for a run is None. Quantiles are with linear interpolation between neighbours (NumPy's default).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

T = TypeVar("T")
#: A figure, None where it does not apply.
Maybe = float | None
#: The values of a point by path as the scenario writes it; not there without a sweep.
Swept = dict[str, Any] | UnsetType


def _figure(meaning: str, unit: str = "", *, good: int = 0, machine: bool = False) -> msgspec.Meta:
    """Meaning and unit of a figure. good: -1 lower is better, 1 higher is better; machine: depends on the machine."""
    return msgspec.Meta(description=meaning, extra={"unit": unit, "good": good, "machine": machine})


class Spread(Struct, frozen=True, kw_only=True):
    """Mean and quantiles of a series."""

    mean: Maybe = None
    p50: Maybe = None
    p90: Maybe = None
    p99: Maybe = None


Seconds = Annotated[Spread, _figure("as of all jobs", "s", good=-1)]


class ErrorSpread(Struct, frozen=True, kw_only=True):
    """Quantiles of prediction errors."""

    p50: Maybe = None
    p90: Maybe = None


class RatioQuantiles(Struct, frozen=True, kw_only=True):
    """Quantiles of the jobs' ratios."""

    p5: Maybe = None
    p10: Maybe = None
    p25: Maybe = None
    p50: Maybe = None
    p75: Maybe = None
    p90: Maybe = None
    p95: Maybe = None


class Bins(Struct, Generic[T], frozen=True, kw_only=True):
    """Table 8's bins (SLearn, NSDI'22) in its order. Wide: width >= 3 tasks; small: true work < 1000 s."""

    thin_small: T
    wide_small: T
    thin_large: T
    wide_large: T


#: Their names: bin-1 to bin-4.
BINS: Final = Bins.__struct_fields__


class Bin(Struct, frozen=True, kw_only=True):
    """Jobs of a bin."""

    jobs: int = 0
    jobs_fraction: Annotated[Maybe, _figure("of all jobs")] = None
    work_fraction: Annotated[Maybe, _figure("of the true work of all jobs")] = None
    jct_s: Seconds = Spread()


class Queue(Struct, frozen=True, kw_only=True):
    """Jobs of a queue."""

    jobs: int = 0
    jct_s: Seconds = Spread()
    wait_s: Seconds = Spread()
    share: Annotated[Maybe, _figure("dominant share (DRF, section 4.1), mean over the makespan, exact")] = None


class ServiceFigures(Struct, frozen=True, kw_only=True):
    """Services: jobs without an end of their own; no other figure of times counts services."""

    jobs: int = 0
    started: Annotated[int, _figure("of which all tasks had started")] = 0
    start_s: Annotated[Spread, _figure("submission to the start of the last of its tasks", "s", good=-1)] = Spread()
    in_time: Annotated[Maybe, _figure("of those with an objective, part that met it", good=1)] = None


class ThinkerFigures(Struct, frozen=True, kw_only=True):
    """A scheduler with a time to think (`results.thinking`)."""

    jobs: Annotated[int, _figure("of which it placed all tasks")] = 0
    attempts: Annotated[int, _figure("times that it thought about a job")] = 0
    conflicts: Annotated[int, _figure("attempts with at least one claim refused", good=-1)] = 0
    conflict_fraction: Annotated[Maybe, _figure("conflicts / jobs", good=-1)] = None
    busyness: Annotated[Maybe, _figure("time spent thinking / simulated time")] = None
    busyness_useful: Annotated[Maybe, _figure("the same without attempts that placed nothing")] = None
    wait_s: Annotated[Spread, _figure("submission to the first thought about the job", "s", good=-1)] = Spread()
    given_up: Annotated[int, _figure("jobs that it gave up", good=-1)] = 0


class Placement(Struct, frozen=True, kw_only=True):
    """Fractions of wide, sized jobs, by the priority queue of their estimate."""

    correct: Annotated[Maybe, _figure("that of their true size", good=1)] = None
    over: Annotated[Maybe, _figure("one of lower priority: the estimate is too large")] = None
    under: Annotated[Maybe, _figure("one of higher priority: the estimate is too small")] = None


class Windows(Struct, frozen=True, kw_only=True):
    """Jain's index over the windows of a run (`results.fairness`)."""

    mean: Maybe = None
    worst: Maybe = None


class QueueFairness(Struct, frozen=True, kw_only=True):
    """A queue over time (`results.fairness`); states in seconds of the run."""

    starved_s: Annotated[float, _figure("work waits below the fair share, another queue is above its own", "s")] = 0.0
    hungry_s: Annotated[float, _figure("work waits otherwise", "s")] = 0.0
    satisfied_s: Annotated[float, _figure("none waits", "s")] = 0.0
    share_mean: Annotated[float, _figure("mean dominant share held")] = 0.0
    fair_share_mean: Annotated[float, _figure("mean dominant share under ideal water-filling")] = 0.0


class Fairness(Struct, frozen=True, kw_only=True):
    """Fairness over time: Jain's index by length of the window, and each queue."""

    jain_10s: Windows = Windows()
    jain_60s: Windows = Windows()
    jain_240s: Windows = Windows()
    queues: dict[str, QueueFairness] = {}


class NewQueue(Struct, frozen=True, kw_only=True):
    """Share of an additional queue of this weight at the time of highest load."""

    weight: float = 1.0
    share: Maybe = None
    at_s: Annotated[Maybe, _figure("when that was", "s")] = None


class Locality(Struct, frozen=True, kw_only=True):
    """Fractions of the tasks with input, by place of the run: node of the input, rack of the input, elsewhere."""

    node: Maybe = None
    rack: Maybe = None
    off: Maybe = None


class DeadlineFigures(Struct, frozen=True, kw_only=True):
    """Jobs with a deadline."""

    jobs: int = 0
    met: Annotated[Maybe, _figure("ended by it", good=1)] = None
    late_s: Annotated[Spread, _figure("finish - deadline, of those that ended after it", "s", good=-1)] = Spread()


class FaultFigures(Struct, frozen=True, kw_only=True):
    """Work lost in attempts that did not succeed, where the cluster has faults (`results.faults`)."""

    failed_jobs: Annotated[int, _figure("jobs that failed with a task; in no figure of times", good=-1)] = 0
    lost_node_s: Annotated[
        Maybe, _figure("held in vain by attempts that did not succeed, in whole nodes x s", "s", good=-1)
    ] = None
    goodput: Annotated[Maybe, _figure("work that was not repeated / all that was held", good=1)] = None
    ettr: Annotated[
        Maybe, _figure("run times / from first start to end, of ended jobs of one stage, all together", good=1)
    ] = None
    wait_again_s: Annotated[Spread, _figure("from the end of a lost attempt to the next grant", "s", good=-1)] = (
        Spread()
    )


class Latency(Struct, frozen=True, kw_only=True):
    """Quantiles of the time a decision takes."""

    p50: Maybe = None
    p98: Maybe = None
    p99: Maybe = None


class Costs(Struct, frozen=True, kw_only=True):
    """Mean JCT of a queue / mean JCT of the same jobs under a baseline (`results.costs`)."""

    sharing: Annotated[Maybe, _figure("alone on the cluster", good=-1)] = None
    fragmentation: Annotated[Maybe, _figure("all nodes are one", good=-1)] = None
    unfairness: Annotated[Maybe, _figure("ideal water-filling", good=-1)] = None


class Run(Struct, frozen=True, kw_only=True):
    """A cell: a label (policy, predictor, placer) on a seed."""

    sweep: Swept = UNSET
    policy: str | None = None
    predictor: str | None = None
    label: str = ""
    seed: int = 0
    placement: str | None = None
    tie: str | None = None
    jobs: int = 0
    unfinished_jobs: Annotated[int, _figure("those that had not finished when the run ended", good=-1)] = 0
    tasks: Annotated[int, _figure("of all jobs")] = 0
    failed_tasks: Annotated[int, _figure("attempts that ended with a code other than 0", good=-1)] = 0
    jct_s: Annotated[Spread, _figure("finish - submit, of jobs that finished", "s", good=-1)] = Spread()
    wait_s: Annotated[Spread, _figure("first start of a task - submit", "s", good=-1)] = Spread()
    slowdown: Annotated[Spread, _figure("JCT / ideal JCT: longest path of true run times", good=-1)] = Spread()
    makespan_s: Annotated[Maybe, _figure("last finish - first submission", "s", good=-1)] = None
    load: Maybe = None
    """Total true work / (slots x arrival span), the largest over the resources.

    Slots: the number of average tasks (weighted by run time) in the whole cluster at a time, nodes weighted by speed;
    or the workload's own `slots`. Arrival span: last - first submission.
    """
    load_resource: str | None = None
    """The binding resource; None with the workload's own `slots`."""
    held_load: Maybe = None
    """Load x (holdings of all attempts from grant to end / holdings of successful attempts while running).

    Of load_resource, of containers where that is None; nodes weighted by speed, failed attempts included.
    """
    utilisation: Annotated[dict[str, Maybe], _figure("by resource", good=1)] = {}
    """By resource: holdings from grant to end of each attempt / (capacity of all nodes x makespan).

    Failed attempts count; an idle executor, kept for later tasks, does not.
    """
    jain: Annotated[Maybe, _figure("index of shares per weight, of queues; of users where there is one", good=1)] = None
    queue_placement_correct: Annotated[Maybe, _figure("`correct` of queue_placement", good=1)] = None
    queue_placement: Placement = Placement()
    prediction_error_pct: Annotated[ErrorSpread, _figure("|estimated - true| / true work", "%", good=-1)] = (
        ErrorSpread()
    )
    sized_jobs: Annotated[int, _figure("jobs that have an estimate")] = 0
    pilots: Annotated[int, _figure("tasks that ran as samples")] = 0
    queues: dict[str, Queue] = {}
    bins: Bins[Bin] = Bins(thin_small=Bin(), wide_small=Bin(), thin_large=Bin(), wide_large=Bin())
    fairness: Fairness = Fairness()
    new_queue: NewQueue = NewQueue()
    locality: Locality | None = None
    deadlines: DeadlineFigures | UnsetType = UNSET
    faults: FaultFigures | UnsetType = UNSET
    decisions: int | None = None
    decision_us: Annotated[Latency | None, _figure("of the scheduler's code", "us", machine=True)] = None
    wall_s: Annotated[Maybe, _figure("real time the run took", "s", machine=True)] = None
    sim_s: Annotated[Maybe, _figure("simulated time of the run", "s")] = None
    tasks_per_s: Annotated[Maybe, _figure("finished tasks / wall_s", machine=True)] = None
    peak_rss_mb: Annotated[Maybe, _figure("of the process", "MB", machine=True)] = None
    log_sha256: Annotated[str | None, _figure("of the event log: equal hashes, equal runs")] = None
    messages_per_task: Annotated[Maybe | UnsetType, _figure("between schedulers and workers that see no cluster")] = (
        UNSET
    )
    services: ServiceFigures | UnsetType = UNSET
    conflict_fraction: Annotated[Maybe | UnsetType, _figure("conflicts / jobs, over all of them", good=-1)] = UNSET
    busyness: Annotated[Maybe | UnsetType, _figure("thinking / simulated time, of the busiest", good=-1)] = UNSET
    schedulers: Annotated[dict[str, ThinkerFigures] | UnsetType, _figure("by name, where they take their time")] = UNSET
    costs: Annotated[dict[str, Costs], _figure("by queue, under the baselines that were run")] = {}


class Speedup(Struct, frozen=True, kw_only=True):
    """An average of the ratios JCT(baseline) / JCT(label), above 1 is faster, and its 95 % interval."""

    value: Annotated[Maybe, _figure("mean over the seeds", good=1)] = None
    ci95: list[float] | None = None


class Speedups(Struct, frozen=True, kw_only=True):
    """Three averages with different meanings (`results.statistics`)."""

    ratio_of_means: Speedup = Speedup()
    mean_of_ratios: Speedup = Speedup()
    p50_of_ratios: Speedup = Speedup()


class ComparedBin(Struct, frozen=True, kw_only=True):
    """Jobs of a bin, finished under both labels."""

    pairs: Annotated[int, _figure("over all seeds")] = 0
    jobs_faster: Annotated[Maybe, _figure("fraction with a ratio above 1", good=1)] = None
    speedup: Speedups = Speedups()


class LabelComparison(Struct, frozen=True, kw_only=True):
    """A label compared with the baseline, job by job."""

    sweep: Swept = UNSET
    label: str
    baseline: str
    seeds: list[int]
    interval: Annotated[str, _figure("how intervals were found")]
    speedup: Speedups
    ratio_quantiles: RatioQuantiles
    jobs_faster: Annotated[Maybe, _figure("fraction with a ratio above 1", good=1)]
    jobs_slower: Annotated[Maybe, _figure("fraction with a ratio below 1", good=-1)]
    bins: Bins[ComparedBin]


class WorkloadFigures(Struct, frozen=True, kw_only=True):
    """Where the jobs come from."""

    name: str | None = None
    source: str | None = None
    notes: list[str] = []
    began: datetime | UnsetType = UNSET
    """Date of time 0, UTC; not there for jobs without dates."""

    def date(self, ms: float) -> datetime | None:
        """The date of a time (ms) of the run."""
        return None if isinstance(self.began, UnsetType) else self.began + timedelta(milliseconds=ms)


class ExpectationOutcome(Struct, frozen=True, kw_only=True):
    """An expectation and the figures of both sides, None where a figure has no value."""

    sweep: Swept = UNSET
    text: str
    holds: bool
    left: Maybe
    right: Maybe
    why: str | UnsetType = UNSET
    """Why a side has no value although its figures have; not there in all other cases."""

    @property
    def exact(self) -> str:
        """Both sides with six digits, or the reason why a side has no value."""
        sides = ("no figure" if value is None else f"{value:.6g}" for value in (self.left, self.right))
        return self.why or " against ".join(sides)


class Summary(Struct, frozen=True, kw_only=True):
    """All figures of a run directory.

    sweep: the axes with their values; not there without a sweep.
    """

    scenario: str
    version: str | None
    workload: WorkloadFigures | None
    baseline: str
    headline: Annotated[str, _figure("the figure for which the scenario is meant, as a path in a run")] = "jct_s.mean"
    sweep: dict[str, list[Any]] | UnsetType = UNSET
    runs: list[Run]
    comparisons: list[LabelComparison]
    expect: list[ExpectationOutcome] = []

    @property
    def labels(self) -> list[str]:
        """The labels in the order of the scenario."""
        return list(dict.fromkeys(run.label for run in self.runs))

    @property
    def seeds(self) -> list[int]:
        """The seeds in the order of the scenario."""
        return list(dict.fromkeys(run.seed for run in self.runs))

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The swept settings with their values, none without a sweep."""
        return {} if isinstance(self.sweep, UnsetType) else self.sweep

    @property
    def points(self) -> list[tuple[dict[str, Any], Summary]]:
        """Each point's values and its part of the figures, in order; without a sweep ({}, everything)."""
        if not self.axes:
            return [({}, self)]
        replace, groups, values = msgspec.structs.replace, dict[bytes, dict[str, list[Any]]](), dict[bytes, Any]()
        for name in ("runs", "comparisons", "expect"):
            for each in getattr(self, name):
                key = msgspec.json.encode(each.sweep)
                values[key] = each.sweep
                group = groups.setdefault(key, {"runs": [], "comparisons": [], "expect": []})
                group[name].append(replace(each, sweep=UNSET))
        return [(values[key], replace(self, sweep=UNSET, **group)) for key, group in groups.items()]

    def of(self, label: str) -> Iterator[Run]:
        """The runs of a label."""
        return (run for run in self.runs if run.label == label)

    def mean(self, label: str, *path: str) -> float | None:
        """The mean of a figure over the runs of a label; None when some run lacks a value.

        path: names of fields of `Run`, of keys below a mapping.
        """
        values: list[Any] = [value(run, *path) for run in self.of(label)]
        return None if not values or None in values else math.fsum(values) / len(values)

    @property
    def several_queues(self) -> bool:
        """Whether some run has several queues."""
        return any(len(run.queues) > 1 for run in self.runs)


def value(run: Run, *path: str) -> Any:
    """A figure of a run, None where the run lacks it. path: as of `Summary.mean`."""
    found: Any = run
    for key in path:
        if found is not None:
            found = found.get(key) if isinstance(found, dict) else getattr(found, key)
        found = None if found is UNSET else found
    return found


def meaning(*path: str) -> tuple[str, int]:
    """Unit and good direction of a figure of `Run`: -1 lower, 1 higher. path: names of fields and keys."""
    kind, unit, good = _RUN, "", 0
    for key in path:
        kind = _below(kind, key)
        unit, good = _said(kind, "unit") or unit, _said(kind, "good") or good
    return unit, good


def bare(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """A type without annotations and without its alternative None."""
    if isinstance(kind, msgspec.inspect.Metadata):
        return bare(kind.type)
    return bare(kind.types[0]) if isinstance(kind, msgspec.inspect.UnionType) else kind


def _below(kind: msgspec.inspect.Type, key: str) -> msgspec.inspect.Type:
    kind = bare(kind)
    if isinstance(kind, msgspec.inspect.DictType):
        return kind.value_type
    assert isinstance(kind, msgspec.inspect.StructType), key
    return next(field.type for field in kind.fields if field.name == key)


def _said(kind: msgspec.inspect.Type, key: str) -> Any:
    return (kind.extra or {}).get(key) if isinstance(kind, msgspec.inspect.Metadata) else None


#: What each figure is said to be.
_RUN: Final = msgspec.inspect.type_info(Run)
#: The only figures that may differ between machines, `--jobs` and PYTHONHASHSEED.
MACHINE_FIGURES: Final = tuple(name for name in Run.__struct_fields__ if _said(_below(_RUN, name), "machine"))

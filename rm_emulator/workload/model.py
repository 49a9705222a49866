"""A workload: jobs with their arrival times and *true* run times, and the history before them.

True run times live here and in the engine's execution model only; the core sees `Job` alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from rm_emulator.workload.contents import Contents
from schedulers.core.fields import written
from schedulers.core.model import Job, PastJob
from schedulers.core.resources import Vector
from schedulers.core.written import Written

Factor = Annotated[float, written(ge=1)]


class Fixed(msgspec.Struct, frozen=True, tag="fixed", forbid_unknown_fields=True):
    """Every task of the stage takes the same time (ms at node speed 1)."""

    ms: int


class PerTask(msgspec.Struct, frozen=True, tag="per_task", forbid_unknown_fields=True):
    """A run time per task index (ms at node speed 1)."""

    ms: tuple[int, ...]


class Drawn(msgspec.Struct, frozen=True, tag="drawn", forbid_unknown_fields=True):
    """A draw per task from a distribution with mean `mean_ms` and coefficient of variation `cov`."""

    mean_ms: float
    cov: float = 0.0
    kind: str = "lognormal"  # lognormal | gamma | exponential | uniform | normal (cut at 1 ms)


class PerNode(msgspec.Struct, frozen=True, tag="per_node", forbid_unknown_fields=True):
    """Run times in ms by node, regardless of node speed: a row per task, or a row for all; a column per node."""

    nodes: tuple[str, ...]
    ms: tuple[tuple[int, ...], ...]


class Waves(msgspec.Struct, frozen=True, tag="waves", forbid_unknown_fields=True):
    """Measured Spark durations by wave and number of executors (see `workload.tpch`)."""

    profile: str
    """Key of the profile ('tpch-2g-q1')."""
    stage: int
    """Index of the stage in the profile."""
    scale: float = 1.0
    """Factor on every duration."""


RunTimes = Fixed | PerTask | PerNode | Drawn | Waves


def mean_ms(times: RunTimes) -> float | None:
    """Mean run time of a stage's tasks, ms, over nodes too; None for measured waves, which depend on executors."""
    match times:
        case Fixed():
            return times.ms
        case Drawn():
            return times.mean_ms
        case PerTask():
            return sum(times.ms) / len(times.ms)
        case PerNode():
            return sum(map(sum, times.ms)) / (len(times.ms) * len(times.nodes))
        case _:
            return None


class RunningTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task that runs when its job arrives, at time 0; elapsed_ms: how long already, on the clock of the wall."""

    stage: int
    task: int
    node: str
    elapsed_ms: int = 0


class WorkloadJob(Written, frozen=True, kw_only=True):
    """A job to come: the part visible to the scheduler, the time of arrival, and the hidden part."""

    job: Job
    """The visible part."""
    submit_ms: int
    """Arrival on the simulated clock, >= 0."""
    runtimes: tuple[RunTimes, ...]
    """True run times of each stage."""
    am: Vector = ()
    """Demand of the application master's container; () without a container of its own."""
    usage: tuple[Vector, ...] = ()
    """True use of a task of each stage, in the order of the demands; () for use equal to the asks."""
    apart: float = 1.0
    """Factor on the run times of a gang spread over several racks."""

    running: tuple[RunningTask, ...] = ()
    """Tasks that run already when the job arrives, for a run that begins with a present."""

    def uses(self, stage: int) -> Vector:
        """True use of a task of the stage."""
        return self.usage[stage] if self.usage else self.job.stages[stage].demand


class Remote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Factors on a task's run time by the place of its input: on the node, only in the rack, or elsewhere."""

    node: Factor = 1.0
    """On a node with the input, e.g. `1.0`."""
    rack: Factor = 1.0
    """In a rack with the input, e.g. `1.2`."""
    off: Factor = 1.0
    """Elsewhere, e.g. `1.5`."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in order of arrival (ties: job id), history oldest first, and their source."""

    name: str
    jobs: tuple[WorkloadJob, ...]
    history: tuple[PastJob, ...] = ()
    resources: tuple[str, ...] = ("cpu", "memory")
    """Names of the demand vectors' components."""
    source: str = ""
    remote: Remote = Remote()
    """Cost of a task's distance from its input."""
    contents: Contents | None = None
    """Facts of the trace that the jobs were read from; None for jobs from elsewhere, and where nobody knows."""
    began: datetime | None = None
    """Date of time 0 in UTC; None for jobs without dates, and for arrivals that were scaled to a load."""

    @property
    def tasks(self) -> int:
        """Number of tasks over all jobs."""
        return sum(j.job.tasks for j in self.jobs)

    @property
    def uses_waves(self) -> bool:
        """Whether any run time is a measured wave, for executors alone."""
        return any(isinstance(times, Waves) for entry in self.jobs for times in entry.runtimes)

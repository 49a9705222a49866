"""A workload: jobs with their arrival times and *true* run times, and the history before them.

True run times live here and in the engine's execution model only; the core sees `Job` alone.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from schedulers.core.fields import written
from schedulers.core.model import Job, PastJob
from schedulers.core.resources import Vector
from schedulers.core.written import Written

Factor = Annotated[float, written(ge=1)]


class Fixed(msgspec.Struct, frozen=True, tag="fixed", forbid_unknown_fields=True):
    """Every task of the stage takes the same time (ms at node speed 1)."""

    ms: int


class PerTask(msgspec.Struct, frozen=True, tag="per_task", forbid_unknown_fields=True):
    """One run time per task index (ms at node speed 1)."""

    ms: tuple[int, ...]


class Drawn(msgspec.Struct, frozen=True, tag="drawn", forbid_unknown_fields=True):
    """Each task draws from a distribution with this mean (ms) and coefficient of variation."""

    mean_ms: float
    cov: float = 0.0
    kind: str = "lognormal"  # lognormal | gamma | exponential | uniform | normal (cut at 1 ms)


class PerNode(msgspec.Struct, frozen=True, tag="per_node", forbid_unknown_fields=True):
    """Run times in ms by node, whose speed does not count: a row per task, or one for all; a column per node."""

    nodes: tuple[str, ...]
    ms: tuple[tuple[int, ...], ...]


class Waves(msgspec.Struct, frozen=True, tag="waves", forbid_unknown_fields=True):
    """Measured Spark durations by wave and number of executors (see `workload.tpch`).

    profile: key of the profile ('tpch-2g-q1'); stage: index of the stage in it.
    scale: factor on every duration.
    """

    profile: str
    stage: int
    scale: float = 1.0


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


class WorkloadJob(Written, frozen=True, kw_only=True):
    """One job to come: what the scheduler will see, when, and what it cannot see.

    submit_ms: arrival on the simulated clock, >= 0.
    runtimes: one entry per stage of `job`.
    am: demand of its application master's container; () when it has none of its own.
    usage: what a task of each stage truly uses, in the order of the demands; () when tasks use what they ask for.
    apart: how many times as long tasks of a gang take that is not in one rack.
    """

    job: Job
    submit_ms: int
    runtimes: tuple[RunTimes, ...]
    am: Vector = ()
    usage: tuple[Vector, ...] = ()
    apart: float = 1.0

    def uses(self, stage: int) -> Vector:
        """What a task of the stage truly uses."""
        return self.usage[stage] if self.usage else self.job.stages[stage].demand


class Remote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Factors on a task's run time by where its input is: on its node, only in its rack, or in neither."""

    node: Factor = 1.0
    """On a node with it, e.g. `1.0`."""
    rack: Factor = 1.0
    """In a rack with it, e.g. `1.2`."""
    off: Factor = 1.0
    """Elsewhere, e.g. `1.5`."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in order of arrival (ties: job id), history oldest first, and where it all comes from.

    resources: names of the demand vectors' components. remote: what distance to its input costs a task.
    """

    name: str
    jobs: tuple[WorkloadJob, ...]
    history: tuple[PastJob, ...] = ()
    resources: tuple[str, ...] = ("cpu", "memory")
    source: str = ""
    remote: Remote = Remote()

    @property
    def tasks(self) -> int:
        """Number of tasks over all jobs."""
        return sum(j.job.tasks for j in self.jobs)

    @property
    def uses_waves(self) -> bool:
        """Whether any run time is a measured wave, which only executors can have."""
        return any(isinstance(times, Waves) for entry in self.jobs for times in entry.runtimes)

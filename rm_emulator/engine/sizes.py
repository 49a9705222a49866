"""YARN's container sizes: the container that an application gets for an ask.

A YARN scheduler hands out multiples of an increment, never less than a minimum and never more than a
maximum (hadoop-yarn: ResourceCalculator.normalize, SchedulerUtils.normalizeRequest, release 3.3.0). A
task that asks for 1,034 MiB therefore holds 2,048 where the minimum is 1,024, and queues and nodes see 2,048.
"""

from __future__ import annotations

import msgspec

from rm_emulator.workload.model import Workload, WorkloadJob
from schedulers.core.resources import Vector, show_steps
from schedulers.yarn.vectors import normalise


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes that a scheduler hands out, as vectors in the order of the cluster's resources."""

    minimum: Vector
    """Smallest container."""
    increment: Vector
    """Step of sizes: the minimum in the capacity scheduler, a setting of its own in the fair scheduler."""
    maximum: Vector
    """Largest container."""

    def normalised(self, ask: Vector) -> Vector:
        """The container for an ask; asks beyond the maximum get the maximum."""
        return normalise(ask, self.minimum, self.increment, self.maximum)


def in_sizes(workload: Workload, sizes: Sizes) -> Workload:
    """The workload with all demands as the scheduler would hand them out, application masters included.

    Raises ValueError for a demand above the maximum: YARN refuses such a request at the allocate call.
    """
    return msgspec.structs.replace(
        workload, jobs=tuple(_job_in_sizes(job, sizes, workload.resources) for job in workload.jobs)
    )


def _job_in_sizes(job: WorkloadJob, sizes: Sizes, names: tuple[str, ...]) -> WorkloadJob:
    stages = []
    for stage in job.job.stages:
        for name, ask, maximum in zip(names, stage.demand, sizes.maximum, strict=True):
            # Never cut to the maximum in silence: the task would run in too little room.
            if ask > maximum:
                raise ValueError(
                    f"job '{job.job.id}' stage '{stage.name}' asks for {show_steps(name, ask)} {name}, "
                    f"the largest container has {show_steps(name, maximum)}"
                )
        stages.append(msgspec.structs.replace(stage, demand=sizes.normalised(stage.demand)))
    sized = msgspec.structs.replace(job.job, stages=tuple(stages))
    return msgspec.structs.replace(job, job=sized, am=sizes.normalised(job.am) if job.am else ())

"""What the fast simulator does not play; known without machine code, so that a replay needs none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from schedulers.kit.partition import executors_of

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView
    from schedulers.core.state import JobState
    from schedulers.planning.replan.seen import Seen

#: Bits of the place of an executor, and of its number, in an event of the fast simulator.
PLACE_BITS: Final = 12
NUMBER_BITS: Final = 20
PLACES_AT_MOST: Final = 1 << PLACE_BITS
NUMBERS_AT_MOST: Final = 1 << NUMBER_BITS


def obstacle(view: ClusterView, jobs: Sequence[JobState], seen: Seen) -> str:
    """Why the rest of the run cannot be played, as the end of a sentence; ''."""
    sizes = {stage.demand for job in jobs for stage in job.stages}
    executors = executors_of(view, sizes)
    if len(sizes) != 1:
        return "tasks are of several sizes"
    if len(view.containers) > executors:
        return f"{len(view.containers)} containers are more than the {executors} executors of the cluster"
    if executors > PLACES_AT_MOST:
        return f"{executors} executors are more than {PLACES_AT_MOST}"
    if executors * (len(jobs) + 1) >= NUMBERS_AT_MOST:
        return f"{len(jobs)} jobs are too many to be played"
    return next((why for job in jobs if (why := _of(job, view, seen))), "")


def _of(job: JobState, view: ClusterView, seen: Seen) -> str:
    plain = job.spec.kind == "batch" and not any(stage.gang or stage.master for stage in job.spec.stages)
    if not plain or any(stage.above != stage.parents for stage in job.spec.stages):
        return f"job '{job.id}' is a service, or has a gang, a master, or edges with data or without a barrier"
    if job.cancelled or not job.admitted or job.pilots_left:
        return f"job '{job.id}' is withdrawn, or waits for its queue or for its pilots"
    if any(view.task_ms(job.id, stage.index) is None for stage in job.stages):
        return f"job '{job.id}' has no estimate"
    return "" if seen.course(job.spec) is not None else f"run times by wave are not known of job '{job.id}'"

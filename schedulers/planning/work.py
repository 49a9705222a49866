"""How much of a job is left, weighed by what its tasks ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView
    from schedulers.core.state import JobState


def remaining_work(job: JobState, view: ClusterView) -> float | None:
    """Estimated task time (ms) x sum of the demand's fractions of the cluster, over all tasks that have not finished.

    None while a stage with tasks left has no estimate. Source: Tetris (SIGCOMM'14), section 3.3.1.
    """
    total = 0.0
    for stage in job.stages:
        left = stage.tasks - stage.finished
        if left and not job.spec.stages[stage.index].master:
            estimate = view.estimate(job.id, stage.index)
            if estimate is None:
                return None
            total += estimate.task_ms * left * sum(d / c for d, c in zip(stage.demand, view.capacity, strict=True) if c)
    return total

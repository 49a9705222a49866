"""Paths through a job's DAG of stages: how far a stage is from the output, and from the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from schedulers.core.model import Stage, topological_order

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView
    from schedulers.core.state import JobState, StageState

Length = Annotated[
    Literal["task", "work"],
    msgspec.Meta(description="length of a stage on a path: run time of a single task, or the work of all its tasks"),
]


def to_output(stages: tuple[Stage, ...], length: Callable[[int], float]) -> list[float]:
    """Per stage the length of the longest path from its start to the end of the job, itself included.

    length: what a stage adds to a path, by its index. Raises InvalidJob when the stages form a cycle.

    >>> chain = tuple(Stage(name=n, tasks=1, demand=(1,), parents=p) for n, p in [("a", ()), ("b", (0,))])
    >>> to_output(chain, lambda index: 2.0)
    [4.0, 2.0]
    """
    below = [0.0] * len(stages)  # the longest path after each stage
    total = [0.0] * len(stages)
    for index in reversed(topological_order(stages)):
        total[index] = length(index) + below[index]
        for parent in stages[index].above:
            below[parent] = max(below[parent], total[index])
    return total


def depths(stages: tuple[Stage, ...]) -> list[int]:
    """Per stage the number of stages before it on the longest way from an input (Tez: distance from the root)."""
    depth = [0] * len(stages)
    for index in topological_order(stages):
        depth[index] = max((depth[parent] + 1 for parent in stages[index].above), default=0)
    return depth


def critical_first(
    job: JobState, among: Sequence[StageState], view: ClusterView, measure: Length
) -> Iterable[StageState]:
    """Some of the job's stages, the longest estimated path to the output first; ties: lowest index."""
    left = estimated_to_output(job, view, measure)
    return sorted(among, key=lambda stage: (-left[stage.index], stage.index))


def longest_path(job: JobState, view: ClusterView) -> float:
    """The longest estimated path through the job, with a single task of each stage, ms."""
    return max(estimated_to_output(job, view, "task"))


def estimated_to_output(job: JobState, view: ClusterView, measure: Length) -> list[float]:
    """As `to_output`, ms. A stage without an estimate adds nothing to a path."""
    stages = job.spec.stages

    def length(index: int) -> float:
        estimate = view.estimate(job.id, index)
        if estimate is None:
            return 0.0
        return estimate.task_ms * (stages[index].tasks if measure == "work" else 1)

    return to_output(stages, length)


def breadth_first(job: JobState, among: Sequence[StageState]) -> Iterable[StageState]:
    """Some of the job's stages, nearest to the input first; ties: lowest index."""
    depth = depths(job.spec.stages)
    return sorted(among, key=lambda stage: (depth[stage.index], stage.index))

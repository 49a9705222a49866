"""The observation of a learned policy: the unfinished stages of all live jobs as a graph (Decima, section 5.1).

There is one block per job, so that a result computed from a job's stages alone holds until the job changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

#: Features of a stage, in order; scales as in decima-sim where the simulator has the feature.
NODE_FEATURES: Final = (
    "to_start",  # tasks that have not been started and are promised to no executor, / 200
    "work",  # these tasks x their estimated time, / 100 s
    "duration",  # the estimated time of a task, / 10 s
    "executors",  # containers on the stage, and those promised to it, / 20
    "job_executors",  # containers of the job, those on their way and promised included, / 20
    "open",  # 1: its parents are done
    "known",  # 1: there is an estimate; without one work and duration are 0
)
#: Features of a job at the moment of asking.
JOB_FEATURES: Final = (
    "executors",  # as `job_executors`
    "source",  # +2: the free executors are this job's, else -2
    "free",  # how many executors are to be given, / 20
    "cluster",  # executors of the whole cluster, / 50
    "size",  # ln(estimated work / 500 s) / 2, finished tasks included; 0 without an estimate
    "left",  # the same of the tasks that are to be started, at least of 1 s
)


#: Features of an executor class with room for a stage.
CLASS_FEATURES: Final = (
    "part",  # how large its nodes are beside the largest
    "room",  # for how many containers of the stage it has room now, / 20
)


class JobGraph(msgspec.Struct, frozen=True, eq=False):
    """One job. Rows are its n unfinished stages by index."""

    name: str
    version: int
    """Number that changes whenever nodes, heights or edges change."""
    nodes: Floats
    """[n, len(NODE_FEATURES)]."""
    stages: Ints
    """[n], index of each row's stage in the job."""
    heights: Ints
    """[n], number of edges on the longest way down to a leaf."""
    edges: Ints
    """[e, 2], rows of parent and child."""
    valid: Bools
    """[n], whether the policy may choose the row now."""
    features: Floats
    """[len(JOB_FEATURES)]."""
    least: int
    """Smallest limit that gives the job an executor."""
    rooms: Ints | None = None
    """[n, classes], number of containers of each valid stage for which a class has room now; None without classes."""
    work_ms: float | None = None
    """Estimated work of all tasks, finished tasks included; None without an estimate."""
    path_ms: float = 0.0
    """Estimated longest path of one task of each stage, finished stages included."""


class Graph(msgspec.Struct, frozen=True, eq=False):
    """All live jobs with unfinished stages, in order of submission."""

    jobs: tuple[JobGraph, ...]
    executors: int
    """Number of executors in the whole cluster."""
    classes: tuple[float, ...] = ()
    """Size of each executor class, see Classes.parts; empty if all nodes are equal or the executors exist already."""
    outlive: bool = True
    """Whether executors outlive tasks."""

    def amounts(self) -> dict[str, int]:
        """Sizes of the observation, for the comparison with those of training."""
        return amounts([len(job.nodes) for job in self.jobs], self.executors)


def amounts(stages: Sequence[int], executors: int) -> dict[str, int]:
    """As Graph.amounts, from the number of stages of each job."""
    return {"jobs": len(stages), "stages in a job": max(stages), "executors": executors}


class Action(NamedTuple):
    """Give free executors to a stage until its job has `limit`."""

    job: int
    """Index in Graph.jobs."""
    row: int
    """Index in the job's rows."""
    limit: int
    executor_class: int | None = None
    """Index in Graph.classes of a class with room for the stage; None: the smallest such class."""


def able(graph: Graph, job: int, row: int) -> tuple[int, ...]:
    """The executor classes with room for a valid row, smallest first; empty where there is no choice."""
    rooms = graph.jobs[job].rooms
    return () if rooms is None or not graph.classes else tuple(np.flatnonzero(rooms[row]).tolist())


def class_of(graph: Graph, action: Action) -> int | None:
    """The executor class of an action; None where there is no choice. Raises ValueError for a class without room."""
    there = able(graph, action.job, action.row)
    if not there:
        return None
    if action.executor_class is None:
        return there[0]
    if action.executor_class not in there:
        raise ValueError(f"executor class {action.executor_class} has no room for the stage; {there} have")
    return action.executor_class

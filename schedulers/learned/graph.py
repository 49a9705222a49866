"""What a learned policy sees when it is asked: the unfinished stages of all live jobs as a graph (Decima, section 5.1).

One block per job, so that whoever computes anything from a job's stages alone can keep it until the job changes.
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

#: What is known of a stage, in this order; scales as in decima-sim where it has the feature.
NODE_FEATURES: Final = (
    "to_start",  # tasks that have not been started and are promised to no executor, / 200
    "work",  # these tasks x their estimated time, / 100 s
    "duration",  # the estimated time of a task, / 10 s
    "executors",  # containers on the stage, and those promised to it, / 20
    "job_executors",  # containers of the job, those on their way and promised included, / 20
    "open",  # 1: its parents are done
    "known",  # 1: there is an estimate; without one work and duration are 0
)
#: What is known of a job at the moment of asking.
JOB_FEATURES: Final = (
    "executors",  # as `job_executors`
    "source",  # +2: the free executors are this job's, else -2
    "free",  # how many executors are to be given, / 20
    "cluster",  # executors of the whole cluster, / 50
    "size",  # ln(estimated work / 500 s) / 2, finished tasks included; 0 without an estimate
    "left",  # the same of the tasks that are to be started, at least of 1 s
)


#: What is known of an executor class that has room for a stage.
CLASS_FEATURES: Final = (
    "part",  # how large its nodes are beside the largest
    "room",  # for how many containers of the stage it has room now, / 20
)


class JobGraph(msgspec.Struct, frozen=True, eq=False):
    """One job. Rows are its unfinished stages by index.

    version: another one whenever nodes, heights or edges are others. nodes: [n, len(NODE_FEATURES)]. stages: [n], their
    indexes in the job. heights: [n], edges on the longest way down to a leaf. edges: [e, 2], rows of parent and child.
    valid: [n], what may be chosen now. features: [len(JOB_FEATURES)]. least: the smallest limit that gives the job an
    executor. rooms: [n, classes], for how many containers of each stage that may be chosen a class has room now; None
    without classes. work_ms, path_ms: of the whole job by estimates, finished tasks included: of all tasks, None where
    that is not known, and the longest path of one task of each stage.
    """

    name: str
    version: int
    nodes: Floats
    stages: Ints
    heights: Ints
    edges: Ints
    valid: Bools
    features: Floats
    least: int
    rooms: Ints | None = None
    work_ms: float | None = None
    path_ms: float = 0.0


class Graph(msgspec.Struct, frozen=True, eq=False):
    """All live jobs with unfinished stages, in order of submission.

    executors: how many the cluster holds. classes: how large the nodes of each executor class are, see Classes.parts;
    empty where there is none to choose: the executors are there already, or all nodes are equal. outlive: whether
    executors outlive tasks.
    """

    jobs: tuple[JobGraph, ...]
    executors: int
    classes: tuple[float, ...] = ()
    outlive: bool = True

    def amounts(self) -> dict[str, int]:
        """How much there is, of what a network may have been trained with less of."""
        return amounts([len(job.nodes) for job in self.jobs], self.executors)


def amounts(stages: Sequence[int], executors: int) -> dict[str, int]:
    """See Graph.amounts. stages: by job."""
    return {"jobs": len(stages), "stages in a job": max(stages), "executors": executors}


class Action(NamedTuple):
    """Give free executors to a stage until its job has `limit`.

    job: index in Graph.jobs; row: in its rows. executor_class: index in Graph.classes, one with room for the stage;
    None: the smallest of these.
    """

    job: int
    row: int
    limit: int
    executor_class: int | None = None


def able(graph: Graph, job: int, row: int) -> tuple[int, ...]:
    """The executor classes with room for a stage that may be chosen, smallest first; empty where there is no choice."""
    rooms = graph.jobs[job].rooms
    return () if rooms is None or not graph.classes else tuple(np.flatnonzero(rooms[row]).tolist())


def class_of(graph: Graph, action: Action) -> int | None:
    """The executor class of an action; None where there is no choice. Raises ValueError for one without room."""
    there = able(graph, action.job, action.row)
    if not there:
        return None
    if action.executor_class is None:
        return there[0]
    if action.executor_class not in there:
        raise ValueError(f"executor class {action.executor_class} has no room for the stage; {there} have")
    return action.executor_class

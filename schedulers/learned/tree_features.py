"""Features of jobs and stages for decision trees, in seconds, tasks and executors."""

from __future__ import annotations

from typing import Final

import numpy as np

from schedulers.learned.graph import Doubles, Graph, Ints, JobGraph
from schedulers.learned.orders import paths, prices

#: Of a job with stages that may be chosen. Times are estimates.
JOB_TREE_FEATURES: Final = {
    "own": "1: the free executors are the job's, else 0",
    "free": "executors to be given",
    "size": "work of the whole job, s; 500 without an estimate",
    "left": "work of its tasks to start, s, at least 1",
    "ready": "tasks to start in stages that may be chosen",
    "job_executors": "executors of the job, before these are given",
    "room": "how many more it may have under the rule priced; below 0: it has too many",
    "place": "jobs that may be chosen too and come before it under that rule",
    "turn": "the same, of those with room only",
    "jobs": "live jobs",
    "cluster": "executors of the whole cluster",
}
#: Of a stage of the chosen job.
STAGE_TREE_FEATURES: Final = {
    "tasks": "tasks of the stage to start",
    "work": "these tasks x their time, s",
    "task_time": "time of one of the stage's tasks, s",
    "executors": "executors on the stage, and those promised to it",
    "open": "1: its parents are done, else 0",
    "path": "longest path of task times from the stage to an output, s",
    "path_part": "the same as a part of the job's longest path",
    "known": "1: the time of its tasks is known, else 0",
}
#: All features, in the order of columns.
TREE_FEATURES: Final = {**JOB_TREE_FEATURES, **STAGE_TREE_FEATURES}
#: Features with the values 1 and 0.
FLAGS: Final = ("own", "open", "known")


def job_features(graph: Graph) -> tuple[Ints, Doubles]:
    """Indexes of jobs with stages to choose from, in the order of the rule `priced`, and their JOB_FACTS."""
    jobs = graph.jobs
    ordered, most = prices(graph)
    counts = np.array([len(job.valid) for job in jobs])
    begins = np.cumsum(counts) - counts
    valid = np.concatenate([job.valid for job in jobs])
    tasks = np.concatenate([job.nodes[:, 0] for job in jobs]) * valid
    able = np.array(ordered)[np.logical_or.reduceat(valid, begins)[ordered]]
    features = np.array([jobs[index].features for index in able], float)
    found = np.empty((len(able), len(JOB_TREE_FEATURES)))
    found[:, 0], found[:, 1] = features[:, 1] > 0, np.rint(20 * features[:, 2])
    found[:, 2] = 500 * np.exp(2 * features[:, 4])
    found[:, 3], found[:, 4] = 500 * np.exp(2 * features[:, 5]), np.rint(200 * np.add.reduceat(tasks, begins)[able])
    found[:, 5] = np.rint(20 * features[:, 0])
    found[:, 6] = [most[index] + 1 - jobs[index].least for index in able]
    found[:, 7] = np.arange(len(able))
    with_room = found[:, 6] > 0
    found[:, 8] = np.cumsum(with_room) - with_room
    found[:, 9], found[:, 10] = len(jobs), graph.executors
    return able, found


def stage_features(job: JobGraph) -> tuple[Ints, Doubles]:
    """Valid rows of a job, open stages first, then by the longest path, and their STAGE_FACTS."""
    nodes, path = job.nodes.astype(float), 10 * paths(job)
    found = np.empty((len(nodes), len(STAGE_TREE_FEATURES)))
    found[:, :4] = nodes[:, :4] * (200, 100, 10, 20)
    found[:, (0, 3)] = np.rint(found[:, (0, 3)])
    found[:, 4], found[:, 5], found[:, 7] = nodes[:, 5], path, nodes[:, 6]
    found[:, 6] = path / max(1e-9, path.max())
    order = np.lexsort((job.stages, -path, -nodes[:, 5]))
    order = order[job.valid[order]]
    return order, found[order]

"""Graphs drawn at random, as a learned policy might see them."""

from __future__ import annotations

import msgspec
import numpy as np

from schedulers.learned.graph import JOB_FEATURES, NODE_FEATURES, Graph, JobGraph


def drawn_job(name: str, generator: np.random.Generator, *, version: int = 0, stages: int | None = None) -> JobGraph:
    """Up to 17 stages, each but the first with one or two parents; a third is valid, and the first."""
    count = stages or int(generator.integers(1, 18))
    pairs = [
        (int(parent), child)
        for child in range(1, count)
        for parent in generator.choice(child, min(child, int(generator.integers(1, 3))), replace=False)
    ]
    heights = np.zeros(count, np.intp)
    for parent, child in sorted(pairs, reverse=True):
        heights[parent] = max(heights[parent], heights[child] + 1)
    valid = generator.random(count) < 1 / 3
    valid[0] = True
    return JobGraph(
        name=name,
        version=version,
        nodes=(nodes := generator.random((count, len(NODE_FEATURES)), np.float32)),
        stages=np.arange(count),
        heights=heights,
        edges=np.array(pairs, np.intp).reshape(-1, 2),
        valid=valid,
        features=generator.random(len(JOB_FEATURES), np.float32),
        least=int(generator.integers(1, 12)),
        work_ms=1e5 * float(nodes[:, 1].sum()),
        path_ms=1e4 * float(nodes[:, 2].sum()),
    )


def with_classes(graph: Graph, generator: np.random.Generator) -> Graph:
    """The same on four executor classes; each stage fits the largest, and by chance others."""
    jobs = []
    for job in graph.jobs:
        rooms = generator.integers(0, 3, (len(job.nodes), 4))
        rooms[:, 3] += 1
        jobs.append(msgspec.structs.replace(job, rooms=rooms * job.valid[:, None]))
    return msgspec.structs.replace(graph, jobs=tuple(jobs), classes=(0.25, 0.5, 0.75, 1.0))


def drawn_graph(jobs: int, generator: np.random.Generator) -> Graph:
    """So many jobs on 50 executors."""
    return Graph(tuple(drawn_job(f"j{index}", generator) for index in range(jobs)), 50)

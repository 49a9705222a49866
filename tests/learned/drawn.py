"""Graphs drawn at random, as a learned policy might see them."""

from __future__ import annotations

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
        nodes=generator.random((count, len(NODE_FEATURES)), np.float32),
        stages=np.arange(count),
        heights=heights,
        edges=np.array(pairs, np.intp).reshape(-1, 2),
        valid=valid,
        features=generator.random(len(JOB_FEATURES), np.float32),
        least=int(generator.integers(1, 12)),
    )


def drawn_graph(jobs: int, generator: np.random.Generator) -> Graph:
    """So many jobs on 50 executors."""
    return Graph(tuple(drawn_job(f"j{index}", generator) for index in range(jobs)), 50)

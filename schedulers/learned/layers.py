"""The stages of several jobs as one table, layer by layer from the leaves up, so that a layer is one multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from schedulers.learned.graph import Floats, Ints, JobGraph


class Layer(NamedTuple):
    """Places [low, high) of the table have one height; their edges are [first, last) of `Layers.child`."""

    low: int
    high: int
    first: int
    last: int


class Layers(NamedTuple):
    """Rows of several jobs, sorted by height into places."""

    nodes: Floats
    """[n, features], in order of the rows."""
    order: Ints
    """[n], the row at each place."""
    place: Ints
    """[n], the place of each row."""
    leaves: int
    """Number of leaves; their places come first."""
    child: Ints
    """[e], place of each edge's child; edges are sorted by their parent's place."""
    parent: Ints
    """[e], place of each edge's parent."""
    starts: Ints
    """Index in `child` of the first edge of each parent."""
    layers: tuple[Layer, ...]
    """The layers above the leaves, from the bottom."""
    ends: Ints
    """[jobs], one beyond each job's last row."""


def layers(jobs: Sequence[JobGraph]) -> Layers:
    """One table of at least one job. The entries of a job do not depend on the other jobs."""
    heights = np.concatenate([job.heights for job in jobs])
    ends = np.cumsum([len(job.heights) for job in jobs])
    begins = ends - [len(job.heights) for job in jobs]
    order = np.argsort(heights, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    edges = place[np.concatenate([job.edges + begin for job, begin in zip(jobs, begins, strict=True)])]
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    parent, child = edges[:, 0], edges[:, 1]
    starts = np.searchsorted(parent, np.arange(np.count_nonzero(heights == 0), len(heights)))
    bounds = np.searchsorted(heights[order], np.arange(1, heights.max() + 2))
    firsts = np.searchsorted(parent, bounds)
    found = tuple(
        Layer(int(low), int(high), int(first), int(last))
        for (low, high), (first, last) in zip(pairwise(bounds), pairwise(firsts), strict=True)
    )
    nodes = np.concatenate([job.nodes for job in jobs])
    return Layers(nodes, order, place, int(bounds[0]), child, parent, starts, found, ends)

"""The stages of several jobs as one table, layer by layer from the leaves up, so that a layer is one multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from schedulers.learned.graph import Floats, Ints, JobGraph


class Layer(NamedTuple):
    """Places [low, high) of the table are of one height; their edges are [first, last) of `Layers.child`."""

    low: int
    high: int
    first: int
    last: int


class Layers(NamedTuple):
    """Jobs' rows by height. A place is where a row has come to lie.

    nodes: [n, features], in order of the rows. order: [n], the row at each place. place: [n], of each row. leaves: so
    many places in front. child: [e], places, edges by their parent's place. parent: [e], places. starts: where in
    `child` the edges of each parent begin. layers: above the leaves. ends: [jobs], one beyond each job's last row.
    """

    nodes: Floats
    order: Ints
    place: Ints
    leaves: int
    child: Ints
    parent: Ints
    starts: Ints
    layers: tuple[Layer, ...]
    ends: Ints


def layers(jobs: Sequence[JobGraph]) -> Layers:
    """One table of at least one job. What it says of a job does not hang on the others."""
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

"""A graph as arrays of fixed sizes, for agents that want their observations stacked; masks say what is padding."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from schedulers.learned.graph import JOB_FEATURES, NODE_FEATURES, Graph

Observation = dict[str, NDArray[Any]]
#: Edges that there is room for, per stage.
_EDGES: Final = 2
_FAR: Final = 2**31 - 1


class Padding:
    """Arrays for so many jobs with so many unfinished stages in all.

    Of more jobs than there is room for some are left out: those with nothing to choose first, then the last that came.
    classes: how many executor classes there are to choose among; 0 for none.
    """

    def __init__(self, *, jobs: int, stages: int, classes: int = 0) -> None:
        self.jobs, self.stages, self.edges, self.classes = jobs, stages, _EDGES * stages, classes
        several = {"classes": _real(classes), "rooms": _whole(stages, classes)} if classes else {}
        self.space = spaces.Dict(
            {
                **several,
                "nodes": _real(stages, len(NODE_FEATURES)),
                "node_job": _whole(stages),
                "heights": _whole(stages),
                "edges": _whole(self.edges, 2),
                "jobs": _real(jobs, len(JOB_FEATURES)),
                "least": _whole(jobs),
                "stage_mask": spaces.MultiBinary(stages),
                "sizes": _whole(3),
            }
        )

    def shown(self, graph: Graph) -> list[int]:
        """Which jobs there is room for, by their index in the graph."""
        first = sorted(range(len(graph.jobs)), key=lambda index: not graph.jobs[index].valid.any())
        stages = edges = 0
        found: list[int] = []
        for index in first:
            job = graph.jobs[index]
            if (
                len(found) < self.jobs
                and stages + len(job.nodes) <= self.stages
                and edges + len(job.edges) <= self.edges
            ):
                found.append(index)
                stages += len(job.nodes)
                edges += len(job.edges)
        return sorted(found)

    def observe(self, graph: Graph | None) -> tuple[Observation, list[tuple[int, int]]]:
        """The arrays, and of each row that is a stage its (job, row) in the graph. None: an episode that is over."""
        found = self._empty()
        places: list[tuple[int, int]] = []
        edges = 0
        shown = [] if graph is None else self.shown(graph)
        for place, index in enumerate(shown):
            assert graph is not None
            job = graph.jobs[index]
            offset = len(places)
            rows = slice(offset, offset + len(job.nodes))
            found["nodes"][rows], found["heights"][rows] = job.nodes, job.heights
            found["node_job"][rows], found["stage_mask"][rows] = place, job.valid
            found["edges"][edges : edges + len(job.edges)] = job.edges + offset
            found["jobs"][place], found["least"][place] = job.features, job.least
            if self.classes and job.rooms is not None:
                found["classes"][:] = graph.classes
                found["rooms"][rows] = job.rooms
            places += [(index, row) for row in range(len(job.nodes))]
            edges += len(job.edges)
        found["sizes"][:] = len(places), edges, len(shown)
        return found, places

    def _empty(self) -> Observation:
        filled: Observation = {}
        for name, space in self.space.spaces.items():
            assert space.shape is not None
            padding = -1 if name in ("node_job", "heights", "edges", "least", "rooms") else 0
            filled[name] = np.full(list(space.shape), padding, dtype=space.dtype)
        return filled


def _real(*shape: int) -> spaces.Box[Any]:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def _whole(*shape: int) -> spaces.Box[Any]:
    """-1 where it is padding."""
    return spaces.Box(-1, _FAR, shape, np.int64)

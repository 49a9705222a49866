"""A graph as arrays of fixed sizes, for agents with stacked observations; masks mark the padding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rm_emulator.learn.agents import Chosen, Seen
from schedulers.learned.graph import JOB_FEATURES, NODE_FEATURES, Action, Graph, able, class_of
from schedulers.learned.routes import LEFT_FEATURES, ROUTE_FEATURES, RouteChoices

Observation = dict[str, NDArray[Any]]
#: Room for edges, per stage.
_EDGES: Final = 2
_FAR: Final = 2**31 - 1


class Padded(ABC, Generic[Seen, Chosen]):
    """Arrays with room for some jobs and for some stages in all, and the encoding of actions in these arrays.

    Without room for all jobs some are left out: first jobs without a choice, then the jobs with the latest arrivals.
    """

    action_space: spaces.Space[Any]
    """Space of actions; rows without a choice are padding, or masked."""

    def __init__(self, jobs: int, stages: int, own: Mapping[str, spaces.Space[Any]]) -> None:
        self.jobs, self.stages, self.edges = jobs, stages, _EDGES * stages
        self.space = spaces.Dict(
            {
                "node_job": _whole(stages),
                "edges": _whole(self.edges, 2),
                "stage_mask": spaces.MultiBinary(stages),
                "sizes": _whole(3),
                **own,
            }
        )

    @abstractmethod
    def observe(self, seen: Seen | None) -> tuple[Observation, list[Any]]:
        """The arrays, and the place of each stage's row in the observation. None: the episode is over."""

    @abstractmethod
    def chosen(self, seen: Seen, place: Any, action: NDArray[np.int64]) -> Chosen:
        """The choice of an action with the stage at a place."""

    @abstractmethod
    def place(self, chosen: Chosen) -> Any:
        """The place of the chosen stage."""

    @abstractmethod
    def encoded(self, seen: Seen, row: int, chosen: Chosen) -> NDArray[np.int64] | np.int64:
        """A choice as an action, with the stage in this row."""

    @abstractmethod
    def masks(self, mask: NDArray[np.int8]) -> Any:
        """Masks in the form for `action_space.sample`."""

    def shown(self, valid: Sequence[bool], stages: Sequence[int], edges: Sequence[int]) -> list[int]:
        """Indexes of the jobs with room. Of each job: whether a stage is valid, numbers of stages and edges."""
        first = sorted(range(len(valid)), key=lambda index: not valid[index])
        used = linked = 0
        found: list[int] = []
        for index in first:
            if len(found) < self.jobs and used + stages[index] <= self.stages and linked + edges[index] <= self.edges:
                found.append(index)
                used += stages[index]
                linked += edges[index]
        return sorted(found)

    def _empty(self) -> Observation:
        filled: Observation = {}
        for name, space in self.space.spaces.items():
            assert space.shape is not None
            padding = -1 if name in ("node_job", "heights", "edges", "least", "rooms") else 0
            filled[name] = np.full(list(space.shape), padding, dtype=space.dtype)
        return filled


class Padding(Padded[Graph, Action]):
    """For Decima's question: a stage, and a limit on the executors of its job.

    classes: number of executor classes to choose from; 0 for no choice.
    """

    def __init__(self, *, jobs: int, stages: int, limits: int = 1, classes: int = 0) -> None:
        self.classes, self._parts = classes, [limits, *([classes] if classes else [])]
        self.action_space = spaces.MultiDiscrete([stages, *self._parts])
        several = {"classes": _real(classes), "rooms": _whole(stages, classes)} if classes else {}
        own = {
            **several,
            "nodes": _real(stages, len(NODE_FEATURES)),
            "heights": _whole(stages),
            "jobs": _real(jobs, len(JOB_FEATURES)),
            "least": _whole(jobs),
        }
        super().__init__(jobs, stages, own)

    def observe(self, seen: Graph | None) -> tuple[Observation, list[Any]]:
        """See Padded. A place is (job, row), as in Action."""
        found = self._empty()
        places: list[tuple[int, int]] = []
        edges = 0
        graphs = () if seen is None else seen.jobs
        sizes = [len(job.nodes) for job in graphs], [len(job.edges) for job in graphs]
        shown = self.shown([bool(job.valid.any()) for job in graphs], *sizes)
        for place, index in enumerate(shown):
            job = graphs[index]
            offset = len(places)
            rows = slice(offset, offset + len(job.nodes))
            found["nodes"][rows], found["heights"][rows] = job.nodes, job.heights
            found["node_job"][rows], found["stage_mask"][rows] = place, job.valid
            found["edges"][edges : edges + len(job.edges)] = job.edges + offset
            found["jobs"][place], found["least"][place] = job.features, job.least
            if self.classes and job.rooms is not None:
                assert seen is not None
                found["classes"][:] = seen.classes
                found["rooms"][rows] = job.rooms
            places += [(index, row) for row in range(len(job.nodes))]
            edges += len(job.edges)
        found["sizes"][:] = len(places), edges, len(shown)
        return found, places

    def chosen(self, seen: Graph, place: tuple[int, int], action: NDArray[np.int64]) -> Action:
        """See Padded. A limit too small for a new executor counts as the smallest useful limit.

        A class without room for the stage counts as the smallest class with room.
        """
        limit = max(seen.jobs[place[0]].least, min(int(action[1]) + 1, seen.executors))
        there = able(seen, *place)
        return Action(*place, limit, int(action[2]) if self.classes and int(action[2]) in there else None)

    def place(self, chosen: Action) -> tuple[int, int]:
        """See Padded."""
        return chosen.job, chosen.row

    def encoded(self, seen: Graph, row: int, chosen: Action) -> NDArray[np.int64]:
        """See Padded."""
        encoded = [row, chosen.limit - 1]
        if self.classes:
            encoded.append(class_of(seen, chosen) or 0)
        return np.array(encoded, dtype=np.int64)

    def masks(self, mask: NDArray[np.int8]) -> tuple[NDArray[np.int8], ...]:
        """Masks of valid rows, of all limits, and of all executor classes."""
        return mask.copy(), *(np.ones(part, dtype=np.int8) for part in self._parts)


class OrderPadding(Padded[RouteChoices, int]):
    """For LACHESIS's question: the next stage. Assigned stages have rows too, but are not `left`."""

    def __init__(self, *, jobs: int, stages: int) -> None:
        self.action_space = spaces.Discrete(stages)
        own = {
            "nodes": _real(stages, len(ROUTE_FEATURES)),
            "left": spaces.MultiBinary(stages),
            "moves": _real(_EDGES * stages),
            "jobs": _real(jobs, len(LEFT_FEATURES)),
        }
        super().__init__(jobs, stages, own)

    def observe(self, seen: RouteChoices | None) -> tuple[Observation, list[Any]]:
        """See Padded. A place is a row of the choices."""
        found = self._empty()
        places: list[int] = []
        if seen is None:
            return found, places
        sizes = [len(route.nodes) for route in seen.routes]
        begins = np.cumsum([0, *sizes[:-1]], dtype=np.intp)
        valid = np.logical_or.reduceat(seen.valid, begins)
        shown = self.shown(valid.tolist(), sizes, [len(route.edges) for route in seen.routes])
        edges = 0
        for number, index in enumerate(shown):
            route, offset, begin = seen.routes[index], len(places), int(begins[index])
            rows, own = slice(offset, offset + sizes[index]), slice(begin, begin + sizes[index])
            found["nodes"][rows], found["node_job"][rows] = route.nodes, number
            found["left"][rows], found["stage_mask"][rows] = seen.left[own], seen.valid[own]
            links = slice(edges, edges + len(route.edges))
            found["edges"][links], found["moves"][links] = route.edges + offset, route.moves
            found["jobs"][number] = seen.features[index]
            places += range(begin, begin + sizes[index])
            edges += len(route.edges)
        found["sizes"][:] = len(places), edges, len(shown)
        return found, places

    def chosen(self, seen: RouteChoices, place: int, action: NDArray[np.int64]) -> int:
        """See Padded."""
        return place

    def place(self, chosen: int) -> int:
        """See Padded."""
        return chosen

    def encoded(self, seen: RouteChoices, row: int, chosen: int) -> np.int64:
        """See Padded."""
        return np.int64(row)

    def masks(self, mask: NDArray[np.int8]) -> NDArray[np.int8]:
        """Mask of valid rows."""
        return mask.copy()


def _real(*shape: int) -> spaces.Box[Any]:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def _whole(*shape: int) -> spaces.Box[Any]:
    """A space of whole numbers; padding is -1."""
    return spaces.Box(-1, _FAR, shape, np.int64)

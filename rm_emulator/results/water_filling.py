"""Ideal sharing: water-filling over a tree of queues, at many instants at once.

Everybody below a queue grows at the same pace in dominant share per unit of weight (DRF, NSDI'11, section 4.2), until
all demands are met, or a needed resource is used up; an unwanted share goes to the siblings first, and
only then to the siblings of the parent. A queue below its guarantee goes before its siblings, as in YARN's
FairScheduler; a queue at its `max` stops. With a single resource the result is YARN's fair shares (ComputeFairShares)
at every level of the tree. A parent counts the sum of the dominant shares below.

Shares, demands and limits here are fractions of the cluster, resource by resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from rm_emulator.results.metrics import Floats, Ints
from schedulers.core.queues import UNLIMITED, parse_limit
from schedulers.core.resources import Resources

Bools = npt.NDArray[np.bool_]

_CLOSE: Final = 1e-9
#: A limit that nobody meets; finite, so that differences are numbers.
_NEVER: Final = 1e9
#: Instants that are filled together: bounds the memory of a round.
_BATCH: Final = 8192


class SharedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of the tree; guaranteed and most: fractions of each resource, None where there is no such limit."""

    name: str
    weight: float = 1.0
    parent: str = ""
    guaranteed: tuple[float, ...] | None = None
    limit: tuple[float, ...] | None = None


class _Groups:
    """Sums over sets of leaves, all sets together. members: sets x leaves; no set is empty."""

    def __init__(self, members: Bools) -> None:
        self._leaves = np.nonzero(members)[1]
        self._starts = np.concatenate([[0], np.cumsum(members.sum(axis=1))[:-1]])

    def sums(self, values: Floats) -> Floats:
        """Of instants x leaves (x resources): instants x sets (x resources)."""
        sums: Floats = np.add.reduceat(values[:, self._leaves], self._starts, axis=1)
        return sums

    def any(self, flags: Bools) -> Bools:
        """Whether some leaf of each set has its flag: instants x sets."""
        some: Bools = np.logical_or.reduceat(flags[:, self._leaves], self._starts, axis=1)
        return some


class SharingTree:
    """Queues, and the leaves with demands in the order of `leaves`.

    A leaf missing among the queues lies below the root with weight 1.
    """

    def __init__(self, queues: Iterable[SharedQueue], leaves: Sequence[str], resources: int) -> None:
        known = {queue.name: queue for queue in queues}
        for name in leaves:
            known.setdefault(name, SharedQueue(name=name))
        self.queues, self.leaves, self.resources = known, tuple(leaves), resources
        names = list(known)
        self._index = {name: 1 + i for i, name in enumerate(names)}
        self._weight = np.array([1.0, *(known[name].weight for name in names)])
        self._least = np.array([0.0, *(max(known[name].guaranteed or (0.0,)) for name in names)])
        self._above = np.zeros((1 + len(names), len(leaves)), dtype=bool)  # which leaves lie at or below a queue
        self._above[0] = True
        for column, leaf in enumerate(leaves):
            for name in self._ancestry(leaf):
                self._above[self._index[name], column] = True
        self._families = self._make_families()
        self._populated = np.flatnonzero(self._above.any(axis=1))
        self._below = _Groups(self._above[self._populated])
        self._leaf = np.array([self._index[name] for name in leaves], dtype=np.int64)
        bounds = [(0, (1.0,) * resources)]
        bounds += [
            (self._index[name], most)
            for name in names
            if (most := known[name].limit) is not None and self._above[self._index[name]].any()
        ]
        self._bounded = self._above[[row for row, _ in bounds]]
        self._bounds = _Groups(self._bounded)
        self._bound = np.array([limit for _, limit in bounds], dtype=np.float64)

    def _ancestry(self, name: str) -> list[str]:
        """The queue and all queues above; a missing parent and a cycle end the way."""
        way: list[str] = []
        while name in self.queues and name not in way:
            way.append(name)
            name = self.queues[name].parent
        return way

    def _make_families(self) -> list[tuple[int, Ints]]:
        """Each queue with its children, of children only those with leaves; parents first."""
        below: dict[int, list[int]] = {}
        for name, row in self._index.items():
            way = self._ancestry(name)
            if self._above[row].any():
                below.setdefault(self._index[way[1]] if len(way) > 1 else 0, []).append(row)
        families, todo = [], [0]
        while todo:
            parent = todo.pop()
            children = below.pop(parent, [])
            if children:
                families.append((parent, np.array(children, dtype=np.int64)))
                todo += children
        return families

    def fill(self, demand: Floats) -> Floats:
        """Dominant share of each leaf at each instant. demand: instants x leaves x resources."""
        shares = [self._fill(demand[at : at + _BATCH]) for at in range(0, len(demand), _BATCH)]
        return np.concatenate(shares) if shares else np.zeros(demand.shape[:2])

    def _fill(self, demand: Floats) -> Floats:
        wanted: Floats = demand.max(axis=2)
        profile = np.divide(demand, wanted[:, :, None], out=np.zeros_like(demand), where=wanted[:, :, None] > 0)
        shares: Floats = wanted.copy()
        left = np.flatnonzero((self._use(wanted, profile) > self._bound * (1 + _CLOSE)).any(axis=(1, 2)))
        shares[left] = 0.0
        # Every round fills a leaf or exhausts a limit, or lets one of the growing catch up with a sibling.
        for _ in range(4 * (len(self._weight) + self._bound.size) + 8):
            if not len(left):
                break
            part, goal, kind = shares[left], wanted[left], profile[left]
            grows = self._growing(part, goal, kind)
            some = grows.any(axis=1)
            left, part, goal, kind, grows = left[some], part[some], goal[some], kind[some], grows[some]
            if not len(left):
                break
            pace, step = self._paces(part, grows)
            step = np.minimum(step, self._until_full(part, goal, kind, pace))
            part = part + pace * step[:, None]
            shares[left] = np.where(goal - part <= _CLOSE * goal, goal, part)
        return shares

    def _use(self, shares: Floats, profile: Floats) -> Floats:
        """Sum of holdings under each bound: instants x bounds x resources."""
        held = shares[:, :, None] * profile
        return self._bounds.sums(held)

    def _growing(self, shares: Floats, wanted: Floats, profile: Floats) -> Bools:
        """Leaves with unmet demand and room to grow."""
        full = self._use(shares, profile) >= self._bound - _CLOSE * np.maximum(self._bound, _CLOSE)
        grows: Bools = shares < wanted
        for at, mask in enumerate(self._bounded):
            stopped = ((profile > 0) & full[:, at][:, None, :]).any(axis=2)
            grows &= ~(stopped & mask)
        return grows

    def _paces(self, shares: Floats, grows: Bools) -> tuple[Floats, Floats]:
        """Pace of each leaf, and time at most until a leaf catches up with a waiting sibling."""
        pace = np.zeros((len(shares), len(self._weight)))
        pace[:, 0] = 1.0
        step = np.full(len(shares), np.inf)
        held = np.zeros(pace.shape)
        held[:, self._populated] = self._below.sums(shares)
        wants = np.zeros(pace.shape, dtype=bool)
        wants[:, self._populated] = self._below.any(grows)
        for parent, children in self._families:
            own, limit = self._within(held[:, children], wants[:, children], children)
            speed = pace[:, parent]
            pace[:, children] = own * speed[:, None]
            np.minimum(step, np.divide(limit, speed, out=np.full(len(step), np.inf), where=speed > 0), out=step)
        return pace[:, self._leaf] * grows, step

    def _within(self, held: Floats, wants: Bools, children: Ints) -> tuple[Floats, Floats]:
        """Siblings: the part of each in the growth of the parent, and the amount until the parts change."""
        least, weight = self._least[children], self._weight[children]
        needy = wants & (held < least * (1 - _CLOSE))
        first: Bools = np.any(needy, axis=1, keepdims=True)
        measure = np.where(first, least, weight)
        among = np.where(first, needy, wants)
        level = np.divide(held, measure, out=np.full_like(held, np.inf), where=among & (measure > 0))
        lowest = level.min(axis=1, keepdims=True)
        grows = among & (level <= lowest * (1 + _CLOSE) + 1e-15)
        growing = np.where(grows, measure, 0.0)
        total = growing.sum(axis=1)
        part = np.divide(growing, total[:, None], out=np.zeros_like(held), where=total[:, None] > 0)
        above = np.where(grows, np.inf, level).min(axis=1)
        above = np.where(first[:, 0], np.minimum(above, 1.0), above)
        with np.errstate(invalid="ignore"):
            limit = (above - lowest[:, 0]) * total
        return part, np.where(np.isfinite(limit), limit, np.inf)

    def _until_full(self, shares: Floats, wanted: Floats, profile: Floats, pace: Floats) -> Floats:
        """Time until the demand of a leaf or a bound is met."""
        nowhere = np.full_like(shares, np.inf)
        step: Floats = np.divide(wanted - shares, pace, out=nowhere, where=pace > 0).min(axis=1)
        speed, left = self._use(pace, profile), self._bound - self._use(shares, profile)
        until = np.divide(left, speed, out=np.full_like(left, np.inf), where=speed > _CLOSE**2)
        soonest: Floats = np.minimum(step, np.maximum(until, 0.0).min(axis=(1, 2)))
        return soonest

    def share_of_another(self, demand: Floats, weight: float) -> float:
        """Share of an additional queue below the root, with endless work and this weight.

        demand: leaves x resources. The newcomer asks for all resources in proportion to the cluster.
        """
        name = "new"
        while name in self.queues:
            name += "+"
        queues = [*self.queues.values(), SharedQueue(name=name, weight=weight)]
        bigger = SharingTree(queues, [*self.leaves, name], self.resources)
        asked = np.concatenate([demand, np.ones((1, self.resources))])
        return float(bigger.fill(asked[None])[0, -1])


def scenario_tree(
    queues: Iterable[Mapping[str, Any]], capacity: Mapping[str, int], leaves: Sequence[str]
) -> tuple[SharingTree, tuple[str, ...]]:
    """The tree of a scenario's queues, and its resources: all resources with capacity in the cluster.

    queues: plain data; capacity: of the whole cluster; leaves: queues with jobs.
    """
    names = tuple(name for name, amount in capacity.items() if amount)
    at = [index for index, name in enumerate(capacity) if name in names]

    def only(limit: tuple[float, ...] | None) -> tuple[float, ...] | None:
        return None if limit is None else tuple(limit[r] for r in at)

    shared = [
        msgspec.structs.replace(queue, guaranteed=only(queue.guaranteed), limit=only(queue.limit))
        for queue in shared_queues(queues, list(capacity), list(capacity.values()))
    ]
    return SharingTree(shared, leaves, len(names)), names


def shared_queues(
    queues: Iterable[Mapping[str, Any]], resources: Sequence[str], capacity: Sequence[int]
) -> list[SharedQueue]:
    """A scenario's queues as plain data, with their limits as fractions of the cluster's capacity."""
    kinds = Resources(tuple(resources))
    return [
        SharedQueue(
            name=str(queue["name"]),
            weight=float(queue.get("weight", 1.0)),
            parent=str(queue.get("parent") or ""),
            guaranteed=_fractions(queue.get("guaranteed"), kinds, capacity, 0),
            limit=_fractions(queue.get("max"), kinds, capacity, UNLIMITED),
        )
        for queue in queues
        if "name" in queue
    ]


def _fractions(value: Any, kinds: Resources, capacity: Sequence[int], unnamed: int) -> tuple[float, ...] | None:
    limit = parse_limit(value, kinds, unnamed)
    if limit is None:
        return None
    if isinstance(limit, float):
        return (limit,) * len(capacity)
    return tuple(
        _NEVER if part == UNLIMITED or not full else part / full for part, full in zip(limit, capacity, strict=True)
    )

"""The sizes that tasks come in, and which nodes have room for each.

A size is a distinct demand, with where its tasks may run and who shares the limits on it. Tasks of one size are equal
to every node, so what fits where is looked up by size, and lists of fitting nodes are kept up as nodes change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schedulers.core.places import ANYWHERE, Places
from schedulers.core.queues import Account, Group, QueueTree
from schedulers.core.resources import Vector, fits

if TYPE_CHECKING:
    from schedulers.core.live import JobState, NodeState, StageState

#: Changes of nodes remembered for the lists of fitting nodes before these are made anew.
CHANGES: Final = 100_000


class Fitting(Sequence["NodeState"]):
    """Nodes on which a demand fits now, in order of arrival; a view, valid until the next change."""

    __slots__ = ("_indexes", "_nodes")

    def __init__(self, indexes: list[int], nodes: dict[int, NodeState]) -> None:
        self._indexes, self._nodes = indexes, nodes

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def indexes(self) -> Sequence[int]:
        """The nodes' numbers, ascending."""
        return self._indexes

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self._nodes[i] for i in self._indexes[position]]
        return self._nodes[self._indexes[position]]


_NOTHING: Final = Fitting([], {})
_UNKNOWN: Final = (-1, False)


class _List(msgspec.Struct, eq=False):
    """Which nodes fit one size: their indexes, sorted, true up to `seen` of the changes of nodes."""

    fitting: list[int]
    seen: int


class Sizes:
    """All sizes by number, and the nodes that fit them.

    tree: whose limits hold. woke: is called with each size that had no launchable task, or was at a limit, and has one
    now, or is not.
    """

    def __init__(self, tree: QueueTree, woke: Callable[[int], None]) -> None:
        self._tree, self._hear_woken = tree, woke
        self.turns = 0
        """How often a size became active, or was not any more, or left a limit."""
        self.nodes: dict[int, NodeState] = {}
        """The cluster's nodes by index, in order of arrival."""
        self.demands: list[Vector] = []
        """What a task asks for, by size."""
        self.places: list[Places] = []
        """Where its tasks may run, by size."""
        self.groups: list[Group | None] = []
        """Who shares its limits, by size; None without limits."""
        self.bounds: dict[int, tuple[Account, ...]] = {}
        """The accounts that limit each size that has any; from `groups` and the tree."""
        self.waiting: list[int] = []
        """Launchable tasks of each size; from the waiting tasks of all open stages."""
        self.active: dict[int, None] = {}
        """Sizes with launchable tasks; from `waiting`."""
        self._numbers: dict[tuple[Vector, Places, Group | None], int] = {}  # from demands, places and groups
        self._at_limit: dict[int, None] = {}  # sizes that were found to be at a limit
        self._lists: dict[int, _List] = {}  # from free room and barred sizes of all nodes, for each size asked about
        self._changes: list[int] = []  # indexes of the nodes whose room has changed, oldest first
        self._answers: dict[int, tuple[int, bool]] = {}  # the last of `could_place` by node, and when that was
        self._matches: dict[int, int] = {}  # how many nodes let a size in; from their labels and taints
        self._ever: dict[int, bool] = {}  # whether a size fits some node when empty; from the nodes' room and labels
        self._most: dict[int, int] = {}  # how many tasks of a size all nodes hold when empty; from the same

    # -- which sizes there are ------------------------------------------------------------------

    def number(self, demand: Vector, places: Places, group: Group | None) -> int:
        """The size of this demand, a new one if need be."""
        size = self._numbers.get((demand, places, group))
        if size is None:
            size = self._numbers[demand, places, group] = len(self.demands)
            self.demands.append(demand)
            self.places.append(places)
            self.groups.append(group)
            if group is not None:
                self.bounds[size] = self._tree.bounds(group)
            self.waiting.append(0)
            for node in self.nodes.values():
                spec = node.spec
                if (spec.taints or places is not ANYWHERE) and places.bars(spec.id, spec.labels, spec.taints):
                    node.barred[size] = None
        return size

    def count(self, size: int, by: int) -> None:
        """So many more (or fewer) tasks of this size are launchable."""
        there = self.waiting[size] + by
        self.waiting[size] = there
        if there == 0:
            self.turns += 1
            self.active.pop(size, None)
        elif size not in self.active:
            self.active[size] = None
            self._woke(size)

    def bind(self, jobs: Iterable[JobState]) -> None:
        """The tree is another: which limits hold for which size, and who of the waiting jobs waits for it."""
        found = ((size, self._tree.bounds(group)) for size, group in enumerate(self.groups) if group is not None)
        self.bounds = {size: bounds for size, bounds in found if bounds}
        self.waiting = [0] * len(self.demands)
        for job in jobs:
            for stage in job.open_stages():
                self.waiting[stage.size] += stage.waiting
        active = [size for size in self.active if self.waiting[size]]
        self.active.clear()
        self.active |= dict.fromkeys([*active, *(size for size, count in enumerate(self.waiting) if count)])
        self.turns += 1
        for size in self.active:
            self._woke(size)

    def load(self, sizes: Iterable[tuple[Vector, Places, Group | None]], active: Iterable[int]) -> None:
        """Take these over as sizes 0, 1, and so on; `bind` then works out the rest."""
        for size, (demand, places, group) in enumerate(sizes):
            self._numbers[demand, places, group] = size
            self.demands.append(demand)
            self.places.append(places)
            self.groups.append(group)
        self.active |= dict.fromkeys(active)

    def _woke(self, size: int) -> None:
        self.turns += 1
        self._hear_woken(size)

    # -- limits ---------------------------------------------------------------------------------

    def admits(self, size: int) -> bool:
        """Whether the limits of queues and users let one more container of this size start."""
        if size not in self.bounds:
            return True
        for account in self.bounds[size]:
            if not account.takes(self.demands[size]):
                self._at_limit[size] = None  # so that whoever sleeps is woken when this changes
                return False
        return True

    def at_limit(self, job: JobState, stage: StageState) -> Account | None:
        """The account whose limit the stage's next task (all tasks of a gang) would exceed, or None."""
        bounds = self.bounds.get(stage.size)
        if bounds is None:
            return None
        count = stage.waiting if job.waits_whole(stage) else 1
        return next((account for account in bounds if not account.takes(stage.demand, count)), None)

    def kept_by(self, job: JobState, stage: StageState) -> Account | None:
        """The account to name where limits keep the stage waiting: one that could never take it before a full one."""
        bounds = self.bounds.get(stage.size, ())
        count = stage.waiting if job.waits_whole(stage) else 1
        never = next((account for account in bounds if account.most_of(stage.demand) < count), None)
        return never or self.at_limit(job, stage)

    def limits_changed(self) -> None:
        """Sizes that were at a limit and are no more: whoever sleeps must hear of it."""
        for size in list(self._at_limit):
            if self.admits(size):
                del self._at_limit[size]
                if size in self.active:
                    self._woke(size)

    # -- nodes ----------------------------------------------------------------------------------

    def bar(self, node: NodeState) -> None:
        """Note which of the known sizes the node's labels and taints keep away."""
        spec = node.spec
        bars = (places.bars(spec.id, spec.labels, spec.taints) for places in self.places)
        node.barred = {size: None for size, why in enumerate(bars) if why is not None}

    def room_changed(self, node: NodeState) -> None:
        """Something came to the node or left it, or the node itself came or is gone."""
        node.version += 1
        self._changes.append(node.index)
        if len(self._changes) > CHANGES:
            self._changes.clear()
            self._lists.clear()

    def cluster_changed(self) -> None:
        """A node came, left, or is of another kind now."""
        self._ever.clear()
        self._most.clear()
        self._matches.clear()
        self._answers.clear()

    # -- room -----------------------------------------------------------------------------------

    def could_place(self, node: NodeState) -> bool:
        """Whether any launchable task fits this node now."""
        if not self.active or node.draining:
            return False
        asked = node.version + self.turns  # both only grow: with the same sum nothing has changed
        known, answer = self._answers.get(node.index, _UNKNOWN)
        if known == asked:
            return answer
        free, demands, barred, bounds = node.free, self.demands, node.barred, self.bounds
        for size in self.active:
            if fits(demands[size], free) and size not in barred and (size not in bounds or self.admits(size)):
                answer = True
                break
        else:
            answer = False
        # A limit may stop a size at any time, without a word: with limits a yes is not remembered.
        self._answers[node.index] = (asked, answer) if not (answer and bounds) else _UNKNOWN
        return answer

    def has_room(self) -> bool:
        """Whether any launchable task fits any node now."""
        return any(self.fitting(size) for size in self.active)

    def with_room(self) -> list[NodeState]:
        """The nodes that any launchable task fits now, in order of arrival."""
        found: set[int] = set()
        for size in self.active:
            found.update(self.fitting(size).indexes)
            if len(found) == len(self.nodes):
                break
        return [self.nodes[index] for index in sorted(found)]

    def has_room_for_all(self, stage: StageState, nodes: Iterable[NodeState] | None = None) -> bool:
        """Whether all waiting tasks of the stage could start now, on these nodes or on any.

        They are equal, so it is enough to count.
        """
        left = stage.waiting
        for node in self.fitting(stage.size) if nodes is None else nodes:
            left -= node.room_for(stage)
            if left <= 0:
                return True
        return False

    def fits_ever(self, size: int) -> bool:
        """Whether a task of this size would fit some node if the node were empty."""
        there = self._ever.get(size)
        if there is None:
            demand = self.demands[size]
            there = any(size not in n.barred and fits(demand, n.spec.room) for n in self.nodes.values())
            self._ever[size] = there
        return there

    def can_start(self, job: JobState, stage: StageState) -> bool:
        """Whether the nodes would hold the stage's next task (all tasks of a gang) if nothing else ran there."""
        if not self.fits_ever(stage.size):
            return False
        return not job.waits_whole(stage) or self.most(stage.size) >= stage.waiting

    def most(self, size: int) -> int:
        """How many tasks of this size the nodes that let them in would hold at once if nothing else ran there."""
        count = self._most.get(size)
        if count is None:
            asked = [(r, wanted) for r, wanted in enumerate(self.demands[size]) if wanted]
            there = (node.spec.room for node in self.nodes.values() if size not in node.barred)
            count = self._most[size] = sum(max(0, min(room[r] // wanted for r, wanted in asked)) for room in there)
        return count

    def matches(self, size: int) -> int:
        """How many nodes let a task of this size in by their labels and taints, whatever room they have."""
        count = self._matches.get(size)
        if count is None:
            count = self._matches[size] = sum(1 for node in self.nodes.values() if size not in node.barred)
        return count

    def fitting(self, size: int) -> Fitting:
        """Nodes that fit this size now, in order of arrival; none when it is at a limit."""
        if size in self.bounds and not self.admits(size):
            return _NOTHING
        there = self._lists.get(size)
        changes = len(self._changes)
        if there is None or changes - there.seen > len(self.nodes):
            there = self._lists[size] = _List(self._look_around(size), changes)
        elif there.seen < changes:
            self._catch_up(there, size)
        return Fitting(there.fitting, self.nodes)

    def _look_around(self, size: int) -> list[int]:
        """Ask every node."""
        return [node.index for node in self.nodes.values() if self._fits(node, size)]

    def _fits(self, node: NodeState, size: int) -> bool:
        return not node.draining and size not in node.barred and fits(self.demands[size], node.free)

    def _catch_up(self, there: _List, size: int) -> None:
        fitting = there.fitting
        for index in set(self._changes[there.seen :]):
            node = self.nodes.get(index)
            at = bisect_left(fitting, index)
            listed = at < len(fitting) and fitting[at] == index
            if (node is not None and self._fits(node, size)) != listed:
                if listed:
                    del fitting[at]
                else:
                    fitting.insert(at, index)
        there.seen = len(self._changes)

    def validate(self) -> None:
        """Make every list and every answer anew; raises AssertionError with the size or the node of what is wrong."""
        for size in list(self._lists):
            there = self._look_around(size) if self.admits(size) else []
            assert [n.index for n in self.fitting(size)] == there, f"nodes that fit {self.demands[size]}"
        for node in self.nodes.values():
            some = any(self._fits(node, size) and self.admits(size) for size in self.active)
            assert self.could_place(node) == some, f"whether anything that waits fits node {node.id}"

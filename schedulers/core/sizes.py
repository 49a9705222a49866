"""The sizes of tasks, and the nodes with room for each.

A size is a distinct demand, together with the places and the shared limits of its tasks. Tasks of a size are equal to
every node, so room is looked up by size, and lists of fitting nodes are kept up as nodes change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schedulers.core.places import ANYWHERE, Places
from schedulers.core.queues import Account, Group, QueueTree
from schedulers.core.resources import Vector
from schedulers.core.vectors import fits

if TYPE_CHECKING:
    from schedulers.core.live import JobState, NodeState, StageState

#: Nodes with more room that a refused size is compared with, at most; with more, lists of fitting nodes are quicker.
RISEN: Final = 256
#: Changes of nodes remembered for the lists of fitting nodes before all lists are made anew.
CHANGES: Final = 100_000


class Fitting(Sequence["NodeState"]):
    """Nodes with room for a demand now, in order of arrival; a view, valid until the next change."""

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


class _FitCounts(msgspec.Struct, eq=False):
    """How many tasks of a size fit each node, and all together, true up to `seen` of the changes of nodes."""

    by_node: dict[int, int]
    total: int
    seen: int

    def catch_up(self, stage: StageState, changes: list[int], nodes: dict[int, NodeState]) -> None:
        """Count anew on the nodes changed since, for a stage of the size."""
        for index in set(changes[self.seen :]):
            node = nodes.get(index)
            count = 0 if node is None else node.fit_count(stage)
            self.total += count - self.by_node.get(index, 0)
            self.by_node[index] = count
        self.seen = len(changes)


class _FittingList(msgspec.Struct, eq=False):
    """Sorted indexes of the nodes with room for a size, true up to `seen` of the changes of nodes."""

    fitting: list[int]
    seen: int
    counts: _FitCounts | None = None
    """Kept once a gang of the size has found too little room."""


@dataclass(slots=True, eq=False)
class Sizes:
    """All sizes by number, and the nodes with room for each.

    tree: queues with the limits. woke: called with each size that has launchable tasks after a time without, or has
    left a limit.
    """

    _tree: QueueTree
    _on_wake: Callable[[int], None]
    activity_version: int = 0
    """How often a size became active, or was not any more, or left a limit."""
    nodes: dict[int, NodeState] = field(default_factory=dict)
    """The cluster's nodes by index, in order of arrival."""
    demands: list[Vector] = field(default_factory=list)
    """Demand of a task, by size."""
    places: list[Places] = field(default_factory=list)
    """Where its tasks may run, by size."""
    groups: list[Group | None] = field(default_factory=list)
    """Group with the same limits, by size; None without limits."""
    bounds: dict[int, tuple[Account, ...]] = field(default_factory=dict)
    """The accounts limiting each size with a limit; from `groups` and the tree."""
    waiting: list[int] = field(default_factory=list)
    """Launchable tasks of each size; from the waiting tasks of all open stages."""
    active: dict[int, None] = field(default_factory=dict)
    """Sizes with launchable tasks; from `waiting`."""
    # From demands, places and groups.
    _numbers: dict[tuple[Vector, Places, Group | None], int] = field(default_factory=dict)
    # Sizes found at a limit.
    _at_limit: dict[int, None] = field(default_factory=dict)
    # From free room and barred sizes of all nodes, for each size asked about.
    _lists: dict[int, _FittingList] = field(default_factory=dict)
    # A node that had room, for some sizes.
    _has_room: dict[int, int] = field(default_factory=dict)
    # Indexes of nodes with changed room, oldest first.
    _changes: list[int] = field(default_factory=list)
    # Sizes that fitted no node when last asked about.
    _refused: set[int] = field(default_factory=set)
    # Nodes with more room since then: whether a refused size fits them is not known.
    _risen: dict[int, NodeState] = field(default_factory=dict)
    # Whether such nodes are followed. Without, as where single nodes are offered, more room ends all refusals.
    _follows_risen: bool = False
    # At most the least of each resource that any refused size asks for, where such nodes are followed.
    _least: list[int] = field(default_factory=list)
    # The most of each resource free on any of these nodes, and the version of the nodes' room that it is of.
    _most: list[int] = field(default_factory=list)
    _most_at: int = -1
    _room_version: int = 0
    # The demands of sizes for anywhere that were refused since some node last got more room; of a larger and a smaller
    # demand only the smaller.
    _refused_demands: list[Vector] = field(default_factory=list)
    # By node the last answer of `could_place`, and its version.
    _could_place: dict[int, tuple[int, bool]] = field(default_factory=dict)
    # How many nodes let a size in; from their labels and taints.
    _matching_nodes: dict[int, int] = field(default_factory=dict)
    # Whether a size fits some node when empty; from the nodes' room and labels.
    _fits_ever: dict[int, bool] = field(default_factory=dict)
    # How many tasks of a size all nodes hold when empty; from the same.
    _most_at_once: dict[int, int] = field(default_factory=dict)

    # -- the sizes ------------------------------------------------------------------------------

    def number(self, demand: Vector, places: Places, group: Group | None) -> int:
        """The number of a size, a new number if need be."""
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
                # By identity, because nearly all sizes may run anywhere and nearly all nodes have no taint.
                if (spec.taints or places is not ANYWHERE) and places.bars(spec.id, spec.labels, spec.taints):
                    node.barred[size] = None
        return size

    def count(self, size: int, by: int) -> None:
        """Count `by` more (or fewer) launchable tasks of a size."""
        there = self.waiting[size] + by
        self.waiting[size] = there
        if there == 0:
            self.activity_version += 1
            self.active.pop(size, None)
        elif size not in self.active:
            self.active[size] = None
            self._wake(size)

    def bind(self, jobs: Iterable[JobState]) -> None:
        """Take in a changed tree: bind sizes to limits anew, and count waiting tasks by size anew."""
        found = ((size, self._tree.bounds(group)) for size, group in enumerate(self.groups) if group is not None)
        self.bounds = {size: bounds for size, bounds in found if bounds}
        self.waiting = [0] * len(self.demands)
        for job in jobs:
            for stage in job.open_stages():
                self.waiting[stage.size] += stage.waiting
        active = [size for size in self.active if self.waiting[size]]
        self.active.clear()
        self.active |= dict.fromkeys([*active, *(size for size, count in enumerate(self.waiting) if count)])
        self.activity_version += 1
        for size in self.active:
            self._wake(size)

    def load(self, sizes: Iterable[tuple[Vector, Places, Group | None]], active: Iterable[int]) -> None:
        """Take over sizes as numbers 0, 1, and so on; `bind` then works out the rest."""
        for size, (demand, places, group) in enumerate(sizes):
            self._numbers[demand, places, group] = size
            self.demands.append(demand)
            self.places.append(places)
            self.groups.append(group)
        self.active |= dict.fromkeys(active)

    def _wake(self, size: int) -> None:
        self.activity_version += 1
        self._on_wake(size)

    # -- limits ---------------------------------------------------------------------------------

    def admits(self, size: int) -> bool:
        """Whether the limits of queues and users let another container of the size start."""
        if size not in self.bounds:
            return True
        for account in self.bounds[size]:
            if not account.takes(self.demands[size]):
                self._at_limit[size] = None  # so that sleeping readers are woken when the limit is left
                return False
        return True

    def blocking_account(self, job: JobState, stage: StageState) -> Account | None:
        """The account with a limit in the way of the stage's next task (all tasks of a gang), or None."""
        bounds = self.bounds.get(stage.size)
        if bounds is None:
            return None
        count = stage.waiting if job.is_waiting_gang(stage) else 1
        return next((account for account in bounds if not account.takes(stage.demand, count)), None)

    def limiting_account(self, job: JobState, stage: StageState) -> Account | None:
        """The account to name for a stage kept waiting by limits: forever too small accounts before full ones."""
        bounds = self.bounds.get(stage.size, ())
        count = stage.waiting if job.is_waiting_gang(stage) else 1
        never = next((account for account in bounds if account.most_of(stage.demand) < count), None)
        return never or self.blocking_account(job, stage)

    def limits_changed(self) -> None:
        """Wake sizes no longer at a limit."""
        for size in list(self._at_limit):
            if self.admits(size):
                del self._at_limit[size]
                if size in self.active:
                    self._wake(size)

    # -- nodes ----------------------------------------------------------------------------------

    def find_barred(self, node: NodeState) -> None:
        """Note the known sizes kept away by the node's labels and taints."""
        spec = node.spec
        bars = (places.bars(spec.id, spec.labels, spec.taints) for places in self.places)
        node.barred = {size: None for size, why in enumerate(bars) if why is not None}

    def room_changed(self, node: NodeState, *, less: bool = False) -> None:
        """Note a change of a node: something came to the node or left it, or the node itself came or is gone.

        less: the node only has less room than before.
        """
        if not less:
            self._refused_demands.clear()
            if self._follows_risen and len(self._risen) < RISEN:
                self._risen[node.index] = node
            elif self._refused:
                self._refused, self._risen, self._follows_risen = set(), {}, False
        node.version += 1
        self._room_version += 1
        self._changes.append(node.index)
        # Bounded memory: after so many changes a list is sooner made anew than caught up.
        if len(self._changes) > CHANGES:
            self._changes.clear()
            self._lists.clear()

    def cluster_changed(self) -> None:
        """A node came, left, or is of another kind now."""
        self._fits_ever.clear()
        self._most_at_once.clear()
        self._matching_nodes.clear()
        self._could_place.clear()

    # -- room -----------------------------------------------------------------------------------

    def could_place(self, node: NodeState) -> bool:
        """Whether any launchable task fits the node now."""
        # Asked at every beat, so the two cheap ways out come first.
        if not self.active or node.draining:
            return False
        asked = node.version + self.activity_version  # both only grow: with the same sum nothing has changed
        known, answer = self._could_place.get(node.index, _UNKNOWN)
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
        self._could_place[node.index] = (asked, answer) if not (answer and bounds) else _UNKNOWN
        return answer

    def has_room(self) -> bool:
        """Whether any launchable task fits any node now."""
        if not self._risen and self.active.keys() <= self._refused:
            return False
        if any(map(self.fits_some_node, self.active)):
            return True
        if self._follows_risen:
            self._settle()
        return False

    def _settle(self) -> None:
        """Note that no launchable size has room on any node; a size at a limit may have not been asked about."""
        self._refused, self._risen, self._follows_risen = self.active.keys() - self.bounds.keys(), {}, True
        self._least = [min(wanted) for wanted in zip(*[self.demands[size] for size in self.active], strict=True)]
        self._most_at = -1

    def perhaps_with_room(self, sizes: Collection[int]) -> set[int]:
        """The launchable ones of these sizes that are not known to fit no node now; a set of the caller's own.

        sizes: all launchable sizes, without some that have no room.
        """
        active, refused, demands, most = self.active, self._refused, self.demands, self._most_on_risen()
        found = {s for s in sizes if s in active and (s not in refused or (most and fits(demands[s], most)))}
        if not found:
            self._settle()
        return found

    def with_room(self) -> list[NodeState]:
        """Nodes with room for any launchable task now, in order of arrival."""
        # A set of indexes, because most sizes fit the same nodes.
        found: set[int] = set()
        for size in self.active:
            found.update(self.fitting(size).indexes)
            if len(found) == len(self.nodes):
                break
        return [self.nodes[index] for index in sorted(found)]

    def has_room_for_all(self, stage: StageState, nodes: Iterable[NodeState] | None = None) -> bool:
        """Whether all waiting tasks of the stage could start now, on the given nodes or on any.

        The tasks are equal, so counting is enough.
        """
        if nodes is not None:
            return _hold(nodes, stage, {})
        if not (fitting := self.fitting(stage.size)):
            return False
        there = self._lists[stage.size]
        # A gang that waits is asked about whenever a task ends, so after a refusal only changed nodes are counted anew.
        if there.counts is not None:
            there.counts.catch_up(stage, self._changes, self.nodes)
            return there.counts.total >= stage.waiting
        counts: dict[int, int] = {}
        if _hold(fitting, stage, counts):
            return True
        there.counts = _FitCounts(counts, sum(counts.values()), len(self._changes))
        return False

    def fits_ever(self, size: int) -> bool:
        """Whether a task of the size would fit some node when empty."""
        there = self._fits_ever.get(size)
        if there is None:
            demand = self.demands[size]
            there = any(size not in n.barred and fits(demand, n.spec.room) for n in self.nodes.values())
            self._fits_ever[size] = there
        return there

    def can_start(self, job: JobState, stage: StageState) -> bool:
        """Whether the nodes would hold the stage's next task (all tasks of a gang) if nothing else ran there."""
        if not self.fits_ever(stage.size):
            return False
        return not job.is_waiting_gang(stage) or self.most_at_once(stage.size) >= stage.waiting

    def most_at_once(self, size: int) -> int:
        """Number of tasks of the size that fit all open nodes at once when empty."""
        count = self._most_at_once.get(size)
        if count is None:
            asked = [(r, wanted) for r, wanted in enumerate(self.demands[size]) if wanted]
            there = (node.spec.room for node in self.nodes.values() if size not in node.barred)
            count = self._most_at_once[size] = sum(
                max(0, min(room[r] // wanted for r, wanted in asked)) for room in there
            )
        return count

    def count_matching_nodes(self, size: int) -> int:
        """Number of nodes open to the size by labels and taints, whatever their room."""
        count = self._matching_nodes.get(size)
        if count is None:
            count = self._matching_nodes[size] = sum(1 for node in self.nodes.values() if size not in node.barred)
        return count

    def fitting(self, size: int) -> Fitting:
        """Nodes with room for the size now, in order of arrival; none for a size at a limit."""
        if size in self.bounds and not self.admits(size):
            return _NOTHING
        # Fast path: on a full cluster hundreds of sizes would each ask all changed nodes in vain.
        if not self._rises(size) if size in self._refused else self._is_larger_than_refused(size):
            return _NOTHING
        there = self._lists.get(size)
        changes = len(self._changes)
        # With more changes than nodes, asking every node is cheaper than catching up.
        if there is None or changes - there.seen > len(self.nodes):
            there = self._lists[size] = _FittingList(self._ask_every_node(size), changes)
        elif there.seen < changes:
            self._catch_up(there, size)
        if not there.fitting:
            self._refuse(size)
        else:
            self._refused.discard(size)
        return Fitting(there.fitting, self.nodes)

    def fits_some_node(self, size: int) -> bool:
        """Whether any node has room for the size now, and the size is not at a limit."""
        if size in self._refused:
            return self._rises(size) and self.admits(size)
        # Fast path: one node known to have room answers, and no list is caught up.
        node = self.nodes.get(self._has_room.get(size, -1))
        if node is not None and self._fits(node, size) and self.admits(size):
            return True
        found = self.fitting(size)
        if found:
            # The last node in order of arrival: first fit takes the last node of all.
            self._has_room[size] = found.indexes[-1]
        return bool(found)

    def _most_on_risen(self) -> list[int]:
        """The most of each resource that is free on any node with more room since the refusals; empty without such."""
        if self._most_at != self._room_version:
            self._most_at = self._room_version
            # Nodes that are full again, or gone, would be asked in vain about each size.
            least, nodes = self._least, self.nodes
            self._risen = {i: node for i, node in self._risen.items() if i in nodes and fits(least, node.free)}
            self._most = [max(free) for free in zip(*[node.free for node in self._risen.values()], strict=True)]
        return self._most

    def _rises(self, size: int) -> bool:
        """Whether a node with more room since the refusals takes a refused size."""
        # Fast path: no such node has as much of each resource, which rules out most sizes with a single comparison.
        most = self._most_on_risen()
        return bool(most) and fits(self.demands[size], most) and any(self._fits(n, size) for n in self._risen.values())

    def _is_larger_than_refused(self, size: int) -> bool:
        """Whether a smaller size was refused, and so this size is."""
        demand = self.demands[size]
        for refused in self._refused_demands:
            if fits(refused, demand) and self.places[size] is ANYWHERE:
                self._refused.add(size)
                return True
        return False

    def _refuse(self, size: int) -> None:
        """Note that the size fits no node."""
        self._refused.add(size)
        if self._follows_risen:
            # Also for a size of which nothing waits now: who looks ahead asks about such sizes, too.
            self._least = [*map(min, self._least or self.demands[size], self.demands[size])]
        if self.places[size] is ANYWHERE:
            demand = self.demands[size]
            self._refused_demands[:] = [*(other for other in self._refused_demands if not fits(demand, other)), demand]

    def _ask_every_node(self, size: int) -> list[int]:
        """Ask every node."""
        return [node.index for node in self.nodes.values() if self._fits(node, size)]

    def _fits(self, node: NodeState, size: int) -> bool:
        return not node.draining and size not in node.barred and fits(self.demands[size], node.free)

    def _catch_up(self, there: _FittingList, size: int) -> None:
        fitting = there.fitting
        # Each changed node once: a beat may start dozens of tasks on the same node.
        for index in set(self._changes[there.seen :]):
            node = self.nodes.get(index)
            # Sorted, so that lists have the order of arrival, on which first fit and replays depend.
            at = bisect_left(fitting, index)
            listed = at < len(fitting) and fitting[at] == index
            if (node is not None and self._fits(node, size)) != listed:
                if listed:
                    del fitting[at]
                else:
                    fitting.insert(at, index)
        there.seen = len(self._changes)

    def validate(self) -> None:
        """Make every list and every answer anew; raises AssertionError with the size or node of a mistake."""
        for size in list(self._lists):
            there = self._ask_every_node(size) if self.admits(size) else []
            assert self.fits_some_node(size) == bool(there), f"whether a node fits {self.demands[size]}"
            assert [n.index for n in self.fitting(size)] == there, f"nodes that fit {self.demands[size]}"
            assert self.fits_some_node(size) == bool(there), f"whether a node fits {self.demands[size]}"
        for node in self.nodes.values():
            some = any(self._fits(node, size) and self.admits(size) for size in self.active)
            assert self.could_place(node) == some, f"whether anything that waits fits node {node.id}"


def _hold(nodes: Iterable[NodeState], stage: StageState, counts: dict[int, int]) -> bool:
    """Whether these nodes hold all waiting tasks of a stage; `counts` gets how many each node asked holds."""
    left = stage.waiting
    for node in nodes:
        count = counts[node.index] = node.fit_count(stage)
        left -= count
        if left <= 0:
            return True
    return False

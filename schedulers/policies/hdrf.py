"""Hierarchical DRF: shares along a tree of queues (Bhattacharya et al., SoCC'13).

Every queue of the tree has a vector of shares. A leaf's vector is the leaf's use. An inner queue's is the sum over its
children, after each unblocked child was scaled down to the lowest share per unit of weight among them (section 3.4,
"rescaling to the minimum node"), and blocked children were left unscaled; used-up resources count for nobody ("ignoring
blocked nodes"). The next task goes down from the root, at each queue to the child with the lowest share per unit of
weight. A leaf is blocked when none of its waiting tasks fits anywhere.

Tasks are whole here, so a resource can be used up for a large task and not for a small task. A leaf blocked for want of
such a resource adds no more of the resource to its parent than the lowest of its unblocked siblings, as if scaled with
them: else a sibling with little need of the resource would pay for the leaf, and starve. A blocked leaf does not count
for the lowest share, so a leaf with tasks that hardly ever fit does not pull its parent to the front.

Vectors are sums over children in segment trees, so a task costs O(depth x log children). The values depend on the set
of used-up resources; each set has values of its own, brought up to date when needed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from schedulers.core.abilities import MindsQueues
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestions, TieSetting, policies
from schedulers.core.reasons import Reason
from schedulers.core.state import JobState
from schedulers.kit.parties import DIGITS, Inside, Parties, Party, fill, over_share, place_in_party

Variant = Literal["full", "naive", "rescale_only", "ignore_only"]
Shares = tuple[float, ...]
#: Resources of which less is left, over all nodes, than a task asks for.
Lack = frozenset[int]
#: Sizes that a leaf waits for.
Wants = frozenset[int]
#: Number of sets of used-up resources with kept values.
_KEPT: Final = 8
_ROOT: Final = 0


class Alike(msgspec.Struct, eq=False):
    """Leaves waiting for tasks of the same sizes."""

    leaves: dict[int, None]
    blocked: bool
    """Whether none of the sizes fits anywhere."""
    lacks: Lack
    """Missing resources of a blocked leaf."""


class Member(msgspec.Struct, eq=False):
    """A queue in the tree.

    slot: its number among its siblings. leaf: whether jobs are in the queue. wants: sizes of the jobs' waiting tasks.
    """

    name: str
    weight: float
    parent: int
    slot: int
    leaf: bool
    children: list[int] = []
    shares: Shares = ()
    wants: Wants = frozenset()


class Cell(msgspec.Struct, frozen=True, gc=False):
    """The contribution of some siblings to their parent."""

    low: float
    """Lowest share per unit of weight of the scaled siblings."""
    fixed: Shares
    """Sum of the unscaled siblings' vectors."""
    scaled: Shares
    """Sum of the scaled siblings' vectors, each divided by its share per unit of weight."""

    def joined(self) -> Shares:
        """The parent's vector: every scaled child counts as much as the lowest (section 3.4)."""
        if self.low in (0.0, math.inf):
            return self.fixed
        return tuple(f + self.low * s for f, s in zip(self.fixed, self.scaled, strict=True))


class Capped(msgspec.Struct, frozen=True, gc=False):
    """A blocked child: its share per unit of weight, its vector, and the resources added only in part."""

    low: float
    shares: Shares
    lacks: Lack


_UNCAPPED: Final = Capped(0.0, (), frozenset())


def cell(shares: Shares, share: float, weight: float, *, blocked: bool, variant: Variant) -> Cell:
    """The contribution of a child. share: its dominant share over the counting resources."""
    nothing = (0.0,) * len(shares)
    idle = blocked and not any(shares)
    if variant in ("naive", "ignore_only") or idle or (blocked and variant == "full"):
        return Cell(math.inf, shares, nothing)
    low = share / weight
    return Cell(low, nothing, tuple(part / low for part in shares) if low else nothing)


def plus(left: Cell, right: Cell) -> Cell:
    """Two groups of siblings together."""
    return Cell(
        min(left.low, right.low),
        tuple(map(float.__add__, left.fixed, right.fixed)),
        tuple(map(float.__add__, left.scaled, right.scaled)),
    )


def dominant(shares: Shares, counting: Iterable[int]) -> float:
    """The largest share of a counting resource."""
    return max((shares[r] for r in counting), default=0.0)


class _Values:
    """Shares and orders of all members while the same resources count.

    dirty: leaves with other use, or with other waiting sizes. turned: sets of sizes with a change between fitting and
    not fitting.
    """

    def __init__(
        self,
        members: Sequence[Member],
        alike: Mapping[Wants, Alike],
        counting: tuple[int, ...],
        variant: Variant,
        resources: int,
    ) -> None:
        self._members, self._alike, self._variant = members, alike, variant
        self._counting = counting if variant in ("full", "ignore_only") else tuple(range(resources))
        self._none = Cell(math.inf, (0.0,) * resources, (0.0,) * resources)
        self.keys: list[tuple[float, int] | None] = [None] * len(members)  # None: blocked
        self.orders: list[list[tuple[float, int]]] = [[] for _ in members]  # keys of children not blocked
        self._partly = frozenset(self._counting) if variant == "full" else frozenset()  # lacked by some tasks only
        self._lifted: dict[int, tuple[Shares, bool, Lack]] = {}  # the last values carried up, by leaf
        self._known: dict[Wants, tuple[bool, Lack]] = {}  # the last values carried up, by waiting sizes
        self._capped: list[dict[int, Capped]] = [{} for _ in members]  # by slot of the child
        self._cells = [[self._none] * (2 * _power(len(m.children))) if m.children else [] for m in members]
        self.dirty: dict[int, None] = {number: None for number, member in enumerate(members) if member.leaf}
        self.turned: dict[Wants, None] = dict.fromkeys(alike)

    def bring_up_to_date(self) -> None:
        """Carry changes of leaves up to the root; many leaves are blocked and free again before anybody looks."""
        for wants in self.turned:
            alike = self._alike.get(wants)
            if alike is not None and self._known.get(wants) != (alike.blocked, alike.lacks):
                self._known[wants] = (alike.blocked, alike.lacks)
                self.dirty.update(alike.leaves)
        self.turned.clear()
        for number in self.dirty:
            member = self._members[number]
            alike = self._alike[member.wants]
            now = (member.shares, alike.blocked, alike.lacks)
            if self._lifted.get(number) != now:
                self._lifted[number] = now
                self._lift(number, *now)
        self.dirty.clear()

    def forget(self, wants: Wants) -> None:
        """Forget sizes without waiting leaves."""
        self._known.pop(wants, None)

    def _lift(self, number: int, shares: Shares, blocked: bool, lacks: Lack) -> None:
        while number != _ROOT:
            member = self._members[number]
            share = dominant(shares, self._counting)
            moved = self._put(member.parent, number, None if blocked else round(share / member.weight, DIGITS))
            lacks = lacks & self._partly if blocked else _UNCAPPED.lacks
            capped = Capped(share / member.weight, shares, lacks) if lacks else _UNCAPPED
            moved |= self._cap(member.parent, member.slot, capped)
            rest = tuple(0.0 if r in lacks else part for r, part in enumerate(shares)) if lacks else shares
            added = cell(rest, share, member.weight, blocked=blocked, variant=self._variant)
            if not self._add(member.parent, member.slot, added) and not moved:
                return
            number = member.parent
            shares, blocked = self._joined(number), not self.orders[number]
            lacks = frozenset().union(*(c.lacks for c in self._capped[number].values())) if blocked else _UNCAPPED.lacks

    def _cap(self, parent: int, slot: int, capped: Capped) -> bool:
        """Keep a blocked child's capped resources; returns whether they have changed."""
        capped_children = self._capped[parent]
        if capped_children.get(slot, _UNCAPPED) == capped:
            return False
        if capped.lacks:
            capped_children[slot] = capped
        else:
            del capped_children[slot]
        return True

    def _joined(self, parent: int) -> Shares:
        """A parent's vector: the sum of its children's, scaled, unscaled, or capped."""
        total = self._cells[parent][1]
        shares = total.joined()
        for capped in self._capped[parent].values():
            part = min(1.0, total.low / capped.low) if capped.low else 1.0
            added = (share * part if r in capped.lacks else 0.0 for r, share in enumerate(capped.shares))
            shares = tuple(map(float.__add__, shares, added))
        return shares

    def _put(self, parent: int, number: int, share: float | None) -> bool:
        """Keep the child's place in its parent's order; returns whether the place has changed."""
        old = self.keys[number]
        new = None if share is None else (share, self._members[number].slot)
        if old == new:
            return False
        order = self.orders[parent]
        if old is not None:
            del order[bisect_left(order, old)]
        if new is not None:
            insort(order, new)
        self.keys[number] = new
        return True

    def _add(self, parent: int, slot: int, added: Cell) -> bool:
        """Set a child's cell and the sums over all children; returns whether the cell has changed."""
        cells = self._cells[parent]
        at = len(cells) // 2 + slot
        if cells[at] == added:
            return False
        cells[at] = added
        while at > 1:
            at //= 2
            cells[at] = plus(cells[2 * at], cells[2 * at + 1])
        return True

    def leaves(self, number: int = _ROOT) -> Iterator[int]:
        """Unblocked leaves, in the order of service."""
        member = self._members[number]
        if member.leaf:
            yield number
            return
        for _, slot in self.orders[number]:
            yield from self.leaves(member.children[slot])


def _lack(size: int, view: ClusterView, spare: Sequence[int]) -> Lack | None:
    """Missing resources of tasks of a size, with so much to spare; None when a task fits.

    Nothing where nodes are the reason, not a resource.

    A task too large for every node lacks nothing either: its leaf's use would never be counted again.
    """
    if view.fits_somewhere(size) or view.is_size_due(size):
        return None
    if not view.fits_ever(size):
        return frozenset()
    wanted = zip(view.demand(size), spare, strict=True)
    return frozenset(r for r, (amount, left) in enumerate(wanted) if amount > left)


def _power(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


@policies.register("hdrf", source="H-DRF (SoCC'13), sections 3.4 and 4: the dynamic algorithm, with weights")
class HierarchicalDrf(Policy, MindsQueues):
    """Shares along the tree of queues: each queue gets its part of its parent's share, whatever its siblings want.

    From the root down, the policy serves the child with the lowest share of its parent's resources. The policy needs a
    tree of queues with weights, and no estimates.

    A resource in full use counts for nobody, by the paper's rules. Shares may therefore move as jobs come and go,
    where a child of a queue has filled a resource that another child does without. Every queue keeps at least its part
    by the weights. Where all jobs ask for some of every resource, shares stay as they were.

    The variants leave a half of the algorithm out, for contrast: `naive` adds vectors up (and starves leaves with
    complementary demands, section 3.3), `rescale_only` and `ignore_only` have a single idea each (section 3.4).
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        variant: Annotated[
            Variant,
            msgspec.Meta(
                description="version of the algorithm: the whole (full), plain sums (naive), or a single idea of its "
                "two, for contrast"
            ),
        ] = "full"
        inside: Inside = "fair"
        tie: TieSetting = "submit"

    params: Params

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See MindsQueues.uses_of_queues."""
        return ("weight",)

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._counted_with: tuple[Any, ...] = ()
        self._parties: Parties | None = None
        self._members: list[Member] = []
        self._leaf_of: dict[str, int] = {}
        self._values: dict[tuple[int, ...], _Values] = {}
        self._lacks: dict[int, Lack | None] = {}  # by size; None: it fits somewhere
        self._alike: dict[Wants, Alike] = {}

    # -- the loop -------------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Go down to the leaf with the lowest shares on its way and a fitting task, until no task fits."""
        return fill(view, offer, self._parties_in_order)

    def _parties_in_order(self, view: ClusterView) -> Iterator[Party]:
        parties, values = self._refresh(view)
        for number in values.leaves():
            yield parties.by_name[self._members[number].name]

    # -- shares ---------------------------------------------------------------------------------

    def _refresh(self, view: ClusterView) -> tuple[Parties, _Values]:
        """Parties and values of the present state: use of leaves, blocked leaves, counting resources."""
        parties = self._parties
        if parties is None or self._counted_with != (*view.capacity, view.tree.version):
            parties = self._begin(view)
        else:
            for party in parties.refresh(view):
                if party.name not in self._leaf_of:
                    parties = self._begin(view)
                    break
                self._update_leaf(party, view)
        self._look_for_room(view)
        return parties, self._valued(self._counting(view), len(view.capacity))

    def _begin(self, view: ClusterView) -> Parties:
        self._counted_with = (*view.capacity, view.tree.version)
        key = place_in_party(self.params.inside, self.params.tie)
        parties = self._parties = Parties(lambda job: job.spec.queue, key, len(view.capacity))
        parties.count_all(view)
        self._values, self._lacks, self._alike = {}, {}, {}
        self._grow(view, parties)
        for party in parties.by_name.values():
            self._update_leaf(party, view)
        return parties

    def _grow(self, view: ClusterView, parties: Parties) -> None:
        """The tree with its leaves: queues without children, and, below inner queues, their own jobs."""
        below = view.tree.below()
        self._members, self._leaf_of = [Member("", 1.0, _ROOT, 0, leaf=False)], {}
        self._grow_below("", _ROOT, below, view)
        for name in parties.by_name:
            if name not in self._leaf_of:
                number = next((n for n, m in enumerate(self._members) if m.name == name and not m.leaf), _ROOT)
                self._add_member(name, 1.0, number, leaf=True)
        for member in self._members:
            member.shares = (0.0,) * len(view.capacity)

    def _grow_below(self, name: str, number: int, below: dict[str, list[str]], view: ClusterView) -> None:
        for child in below.get(name, ()):
            leaf = child not in below
            made = self._add_member(child, view.queues[child].weight, number, leaf=leaf)
            if not leaf:
                self._grow_below(child, made, below, view)

    def _add_member(self, name: str, weight: float, parent: int, *, leaf: bool) -> int:
        number, siblings = len(self._members), self._members[parent].children
        self._members.append(Member(name, weight, parent, len(siblings), leaf))
        siblings.append(number)
        if leaf:
            self._leaf_of[name] = number
            self._join(number, frozenset())
        return number

    def _update_leaf(self, party: Party, view: ClusterView) -> None:
        """Take in a change of a leaf's use, or of its waiting sizes."""
        number = self._leaf_of[party.name]
        self._members[number].shares = tuple(
            used / whole if whole else 0.0 for used, whole in zip(party.used, view.capacity, strict=True)
        )
        for size in party.sizes:
            if size not in self._lacks:
                self._lacks[size] = _lack(size, view, view.spare())
        self._join(number, frozenset(party.sizes))
        for values in self._values.values():
            values.dirty[number] = None

    def _join(self, number: int, wants: Wants) -> None:
        """Put a leaf with the leaves waiting for the same sizes."""
        member = self._members[number]
        if wants != member.wants and (left := self._alike.get(member.wants)) is not None:
            left.leaves.pop(number, None)
            if not left.leaves:
                del self._alike[member.wants]
                for values in self._values.values():
                    values.forget(member.wants)
        member.wants = wants
        alike = self._alike.get(wants)
        if alike is None:
            alike = self._alike[wants] = Alike({}, *self._blocked(wants))
            self._mark_changed(wants)
        alike.leaves[number] = None

    def _blocked(self, wants: Wants) -> tuple[bool, Lack]:
        """Whether none of a leaf's sizes fits, and the missing resources."""
        lacks = [lack for size in wants if (lack := self._lacks[size]) is not None]
        return (True, frozenset().union(*lacks)) if len(lacks) == len(wants) else (False, frozenset())

    def _mark_changed(self, wants: Wants) -> None:
        for values in self._values.values():
            values.turned[wants] = None

    def _look_for_room(self, view: ClusterView) -> None:
        """Look for sizes with a change between fitting and not fitting, and for leaves blocked thereby."""
        spare = view.spare()
        now = {size: _lack(size, view, spare) for size in view.active_sizes}
        turned = [size for size, lack in now.items() if size not in self._lacks or lack != self._lacks[size]]
        if not turned:
            return
        self._lacks |= now
        for wants, alike in self._alike.items():
            if not wants.isdisjoint(turned):
                alike.blocked, alike.lacks = self._blocked(wants)
                self._mark_changed(wants)

    def _counting(self, view: ClusterView) -> tuple[int, ...]:
        """Resources not used up: there is room left for the smallest waiting task."""
        spare = view.spare()
        least: list[int] = [0] * len(spare)
        for size in view.active_sizes:
            for r, wanted in enumerate(view.demand(size)):
                if wanted and (not least[r] or wanted < least[r]):
                    least[r] = wanted
        return tuple(r for r, left in enumerate(spare) if left >= max(1, least[r]))

    def _valued(self, counting: tuple[int, ...], resources: int) -> _Values:
        values = self._values.get(counting)
        if values is None:
            if len(self._values) >= _KEPT:
                del self._values[next(iter(self._values))]
            variant = self.params.variant
            values = self._values[counting] = _Values(self._members, self._alike, counting, variant, resources)
        values.bring_up_to_date()
        return values

    # -- telling --------------------------------------------------------------------------------

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """On the way from the root to the job's queue, the first queue behind a sibling."""
        _, values = self._refresh(view)
        for number in reversed(self._path_to_root(self._leaf_of[job.spec.queue])):
            member = self._members[number]
            order, key = values.orders[member.parent], values.keys[number]
            if key is None:
                return None  # blocked: the core tells of missing room
            if order[0] != key:
                first = self._members[self._members[member.parent].children[order[0][1]]]
                names = self._counted_names(view)
                return over_share("queue", (member.name, key[0], names), (first.name, order[0][0], names))
        return None

    def _path_to_root(self, number: int) -> list[int]:
        way = []
        while number != _ROOT:
            way.append(number)
            number = self._members[number].parent
        return way

    def _counted_names(self, view: ClusterView) -> str:
        counting = self._counting(view) if self.params.variant in ("full", "ignore_only") else range(len(view.capacity))
        return " or ".join(view.resources[r] for r in counting) or "anything"

    def load(self, data: Any, view: ClusterView) -> None:
        """Everything follows from the state."""
        self._begin(view)

"""What DRF and H-DRF promise, on random users and trees; the incremental policies against slow and obvious ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.known_answers.shares import User, drf, max_min
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, JobSubmitted, NodeAdded, QueueChanged, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Queue, Stage
from schedulers.core.scheduler import Scheduler

NAMES = ("cpu", "memory")
MANY = 100_000
FULL = {"kind": "hdrf"}


@dataclasses.dataclass
class Leaf:
    """A queue with one endless job."""

    demand: tuple[int, ...]
    tasks: int = MANY


@dataclasses.dataclass
class Inner:
    """A queue with queues below it, each with its weight."""

    children: list[tuple[int, Any]]


Tree = Leaf | Inner
DEMANDS = st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any)
WEIGHTS = st.sampled_from((1, 1, 2, 3))


def trees(leaf: st.SearchStrategy[Leaf]) -> st.SearchStrategy[Any]:
    """Queues below queues, the root among them."""
    return st.recursive(
        leaf,
        lambda below: st.builds(Inner, st.lists(st.tuples(WEIGHTS, below), min_size=1, max_size=3)),
        max_leaves=7,
    ).filter(lambda tree: isinstance(tree, Inner))


TREES = trees(st.builds(Leaf, DEMANDS))
EVERYTHING = trees(st.builds(Leaf, st.tuples(st.integers(1, 3), st.integers(1, 3))))
ONE_RESOURCE = trees(st.builds(Leaf, st.just((1, 0)), st.sampled_from((5, 20, 60, MANY))))


def leaves(tree: Tree, name: str = "") -> dict[str, Leaf]:
    if isinstance(tree, Leaf):
        return {name: tree}
    found: dict[str, Leaf] = {}
    for number, (_, child) in enumerate(tree.children):
        found |= leaves(child, f"{name}.{number}" if name else f"q{number}")
    return found


def queues(tree: Inner, name: str = "") -> list[Queue]:
    found = []
    for number, (weight, child) in enumerate(tree.children):
        mine = f"{name}.{number}" if name else f"q{number}"
        found.append(Queue(name=mine, weight=float(weight), parent=name))
        if isinstance(child, Inner):
            found += queues(child, mine)
    return found


class World:
    """One machine, the tree's queues, one job for each leaf."""

    def __init__(self, tree: Tree, capacity: tuple[int, ...], policy: dict[str, Any] = FULL) -> None:
        self.tree, self.capacity, self.at = tree, capacity, 1
        self.scheduler = Scheduler(SchedulerConfig(resources=NAMES, policy=policy, offers="cycle"))
        self.scheduler.handle(NodeAdded(0, Node(id="n", capacity=capacity)))
        for queue in queues(tree):
            self.scheduler.handle(QueueChanged(0, queue))
        for name, leaf in leaves(tree).items():
            stage = Stage(name="s", tasks=leaf.tasks, demand=leaf.demand)
            self.scheduler.handle(JobSubmitted(0, Job(id=name, stages=(stage,), queue=name)))

    def fill(self) -> list[str]:
        self.at += 1
        return [d.job for d in self.scheduler.handle(Tick(self.at)) if isinstance(d, Place)]

    def finish(self, pick: int) -> None:
        there = list(self.scheduler.state.containers)
        self.at += 1
        self.scheduler.handle(ContainerEnded(self.at, there[pick % len(there)], 0, 1))

    def tasks(self) -> dict[str, int]:
        jobs = self.scheduler.state.jobs
        return {name: jobs[name].running if name in jobs else 0 for name in leaves(self.tree)}


class Oracle:
    """H-DRF as the paper writes it: everything worked out anew, for every task (SoCC'13, section 3.4)."""

    def __init__(self, world: World, variant: str) -> None:
        self.world, self.variant = world, variant
        self.held = {name: [0, 0] for name in leaves(world.tree)}
        self.started = dict.fromkeys(self.held, 0)
        self.free = list(world.capacity)

    def pick(self) -> str | None:
        able = {
            name
            for name, leaf in leaves(self.world.tree).items()
            if self.started[name] < leaf.tasks and all(d <= f for d, f in zip(leaf.demand, self.free, strict=True))
        }
        if not able:
            return None
        waiting = [leaf.demand for name, leaf in leaves(self.world.tree).items() if self.started[name] < leaf.tasks]
        counting = []
        for r, free in enumerate(self.free):
            least = min((d[r] for d in waiting if d[r]), default=1)
            if free >= least or self.variant in ("naive", "rescale_only"):
                counting.append(r)
        return self._descend(self.world.tree, "", able, counting)

    def give(self, name: str, sign: int = 1) -> None:
        for r, amount in enumerate(leaves(self.world.tree)[name].demand):
            self.held[name][r] += sign * amount
            self.free[r] -= sign * amount
        self.started[name] += max(sign, 0)

    def _descend(self, tree: Tree, name: str, able: set[str], counting: list[int]) -> str:
        if isinstance(tree, Leaf):
            return name
        best = None
        for number, (weight, child) in enumerate(tree.children):
            mine = f"{name}.{number}" if name else f"q{number}"
            if set(leaves(child, mine)) & able:
                share = self._share(self._vector(child, mine, able, counting), counting)
                key = (round(share / weight, 12), number)
                best = min(best, (key, mine, child)) if best else (key, mine, child)
        assert best is not None
        return self._descend(best[2], best[1], able, counting)

    @staticmethod
    def _share(vector: list[float], counting: list[int]) -> float:
        return max((vector[r] for r in counting), default=0.0)

    def _lacks(self, name: str, leaf: Leaf) -> list[int]:
        """The resources for want of which a leaf's tasks wait, unless no empty machine would take one either."""
        never = any(d > c for d, c in zip(leaf.demand, self.world.capacity, strict=True))
        if self.variant != "full" or never or self.started[name] >= leaf.tasks:
            return []
        return [r for r, (d, f) in enumerate(zip(leaf.demand, self.free, strict=True)) if d > f]

    def _vector(self, tree: Tree, name: str, able: set[str], counting: list[int]) -> list[float]:
        if isinstance(tree, Leaf):
            return [h / c for h, c in zip(self.held[name], self.world.capacity, strict=True)]
        below = []
        for number, (weight, child) in enumerate(tree.children):
            mine = f"{name}.{number}" if name else f"q{number}"
            vector = self._vector(child, mine, able, counting)
            inside = leaves(child, mine)
            blocked = not set(inside) & able
            lacks = (
                {r for leaf in inside for r in self._lacks(leaf, inside[leaf]) if r in counting} if blocked else set()
            )
            below.append((weight, vector, self._share(vector, counting), blocked, lacks))
        scaled = [
            (w, v, s)
            for w, v, s, blocked, _ in below
            if self.variant in ("full", "rescale_only") and not (blocked and (self.variant == "full" or not any(v)))
        ]
        total = [0.0, 0.0]
        lowest = min((s / w for w, _, s in scaled), default=0.0)
        for w, v, s in scaled:
            total = [t + (p * lowest * w / s if s else 0.0) for t, p in zip(total, v, strict=True)]
        for w, v, s, _, lacks in below:
            if (w, v, s) not in scaled:
                part = min(1.0, lowest * w / s) if s and scaled else 1.0
                total = [t + p * (part if r in lacks else 1.0) for r, (t, p) in enumerate(zip(total, v, strict=True))]
        return total


@pytest.mark.parametrize("variant", ["full", "naive", "rescale_only", "ignore_only"])
@given(
    tree=TREES,
    capacity=st.tuples(st.integers(4, 25), st.integers(4, 25)),
    churn=st.lists(st.integers(0, 99), max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_the_incremental_algorithm_picks_as_the_obvious_one(
    variant: str, tree: Inner, capacity: tuple[int, int], churn: list[int]
) -> None:
    world = World(tree, capacity, {"kind": "hdrf", "variant": variant})
    oracle = Oracle(world, variant)
    for pick in [None, *churn]:
        there = list(world.scheduler.state.containers.values())
        if pick is not None and there:
            oracle.give(there[pick % len(there)].job, -1)
            world.finish(pick)
        expected = []
        while (name := oracle.pick()) is not None:
            oracle.give(name)
            expected.append(name)
        assert world.fill() == expected


def check_parts(world: World) -> None:
    """The hierarchical share guarantee (SoCC'13, section 2.2) under unlimited demand, but for the last tasks."""
    tasks, room = world.tasks(), world.capacity[0]
    held = {name: tasks[name] * max(leaf.demand) / room for name, leaf in leaves(world.tree).items()}

    def guaranteed(below: Tree, name: str, part: float) -> None:
        if isinstance(below, Leaf):
            assert held[name] >= part - 3 * len(held) / room, f"{name} holds {held[name]}, is owed {part}: {tasks}"
            return
        total = sum(weight for weight, _ in below.children)
        for number, (weight, child) in enumerate(below.children):
            guaranteed(child, f"{name}.{number}" if name else f"q{number}", part * weight / total)

    guaranteed(world.tree, "", 1.0)


@given(tree=TREES, size=st.integers(30, 60))
@settings(max_examples=40, deadline=None)
def test_every_queue_gets_at_least_its_share_of_its_parents(tree: Inner, size: int) -> None:
    world = World(tree, (size * 10, size * 10))
    world.fill()
    check_parts(world)


CHURN = st.lists(st.integers(0, 10_000), min_size=20, max_size=60)


@given(tree=TREES, churn=CHURN)
@settings(max_examples=40, deadline=None)
def test_no_churn_takes_what_a_queue_is_owed(tree: Inner, churn: list[int]) -> None:
    world = World(tree, (240, 240))
    world.fill()
    for pick in churn:
        world.finish(pick)
        world.fill()
    check_parts(world)


@given(tree=EVERYTHING, churn=CHURN)
@settings(max_examples=40, deadline=None)
def test_after_any_churn_shares_are_what_they_were(tree: Inner, churn: list[int]) -> None:
    """Dynamic = static (SoCC'13, Theorem 1), but for whole tasks, where everybody asks for some of everything."""
    world = World(tree, (240, 240))
    world.fill()
    before = world.tasks()
    for pick in churn:
        world.finish(pick)
        world.fill()
    after = world.tasks()
    for name, leaf in leaves(tree).items():
        moved = abs(after[name] - before[name]) * max(leaf.demand) / 240
        assert moved <= 12 / 240, f"{name}: {before} became {after}"


def test_churn_moves_shares_where_a_used_up_resource_no_longer_counts() -> None:
    """As the paper's rules have it: filled from nothing, q1 counts by its memory; full of memory, by its CPU alone."""
    tree = Inner([(1, Leaf((1, 0))), (1, Inner([(1, Leaf((1, 0))), (1, Leaf((0, 1))), (1, Leaf((0, 1)))]))])
    world = World(tree, (240, 240))
    world.fill()
    assert world.tasks() == {"q0": 160, "q1.0": 80, "q1.1": 120, "q1.2": 120}
    for _ in range(300):
        world.finish(0)
        world.fill()
    assert world.tasks() == {"q0": 120, "q1.0": 120, "q1.1": 120, "q1.2": 120}


USERS = st.lists(DEMANDS, min_size=1, max_size=5)


def flat(demands: list[tuple[int, int]], weights: list[int]) -> Inner:
    return Inner([(w, Leaf(d)) for d, w in zip(demands, weights, strict=True)])


@given(USERS, st.lists(WEIGHTS, min_size=5, max_size=5), st.tuples(st.integers(4, 60), st.integers(4, 60)))
@settings(max_examples=60, deadline=None)
def test_a_flat_tree_is_drf(demands: list[tuple[int, int]], weights: list[int], capacity: tuple[int, int]) -> None:
    tree = flat(demands, weights[: len(demands)])
    assert World(tree, capacity).fill() == World(tree, capacity, {"kind": "drf"}).fill()


@given(tree=TREES, factor=st.sampled_from((2, 4)))
@settings(max_examples=40, deadline=None)
def test_doubling_weights_below_a_queue_changes_nobodys_share(tree: Inner, factor: int) -> None:
    def doubled(below: Tree) -> Tree:
        if isinstance(below, Leaf):
            return below
        return Inner([(weight * factor, doubled(child)) for weight, child in below.children])

    changed = Inner([(weight, doubled(child)) for weight, child in tree.children])
    assert World(tree, (90, 90)).fill() == World(changed, (90, 90)).fill()


@given(tree=TREES, demand=DEMANDS)
@settings(max_examples=30, deadline=None)
def test_scaling_everything_changes_nothing(tree: Inner, demand: tuple[int, int]) -> None:
    def scaled(below: Tree) -> Tree:
        if isinstance(below, Leaf):
            return Leaf((below.demand[0] * 7, below.demand[1] * 7))
        return Inner([(weight, scaled(child)) for weight, child in below.children])

    assert World(tree, (40, 60)).fill() == World(scaled(tree), (280, 420)).fill()


def most_of(tree: Tree) -> int:
    """Tasks in all below a queue."""
    return tree.tasks if isinstance(tree, Leaf) else sum(most_of(child) for _, child in tree.children)


def water(tree: Tree, name: str, room: float) -> dict[str, float]:
    """Weighted max-min down the tree: each queue's part of its parent's, no more than is wanted below it."""
    if isinstance(tree, Leaf):
        return {name: room}
    weights = [float(weight) for weight, _ in tree.children]
    wanted = [float(most_of(child)) for _, child in tree.children]
    parts = max_min(room, weights, [0.0] * len(weights), wanted)
    found: dict[str, float] = {}
    for number, ((_, child), part) in enumerate(zip(tree.children, parts, strict=True)):
        found |= water(child, f"{name}.{number}" if name else f"q{number}", part)
    return found


@given(tree=ONE_RESOURCE, size=st.integers(50, 300))
@settings(max_examples=60)
def test_of_one_resource_queues_get_weighted_max_min_parts(tree: Inner, size: int) -> None:
    world = World(tree, (size, size))
    world.fill()
    exact = water(tree, "", size)
    for name, got in world.tasks().items():
        assert got == pytest.approx(exact[name], abs=len(exact)), f"{world.tasks()} instead of {exact}"


def told(tree: Tree, lies: dict[str, tuple[int, int]], name: str = "") -> Tree:
    """The tree with other demands of some leaves."""
    if isinstance(tree, Leaf):
        return Leaf(lies.get(name, tree.demand))
    children = enumerate(tree.children)
    return Inner([(w, told(child, lies, f"{name}.{n}" if name else f"q{n}")) for n, (w, child) in children])


@pytest.mark.slow
@given(
    tree=TREES,
    liars=st.lists(st.integers(0, 6), min_size=1, max_size=2),
    more=st.lists(DEMANDS, min_size=2, max_size=2),
)
@settings(max_examples=60)
@pytest.mark.drawn(of=2)
def test_in_a_tree_no_group_gains_by_asking_for_more_than_it_needs(
    tree: Inner, liars: list[int], more: list[tuple[int, int]]
) -> None:
    """Group strategy-proofness (SoCC'13, section 2.2), but for whole tasks: not all of those who lie gain."""
    true = {name: leaf.demand for name, leaf in leaves(tree).items()}
    names = sorted({sorted(true)[pick % len(true)] for pick in liars})
    lies = {n: (true[n][0] + m[0], true[n][1] + m[1]) for n, m in zip(names, more, strict=False)}
    honest, lying = World(tree, (480, 480)), World(told(tree, lies), (480, 480))
    honest.fill()
    lying.fill()
    gains = []
    for name in names:
        usable = lying.tasks()[name] * min(a / t for a, t in zip(lies[name], true[name], strict=True) if t)
        gains.append((usable - honest.tasks()[name]) * max(true[name]) / 480)
    assert min(gains) <= 12 / 480, f"{lies} instead of {true} brings {gains}"


@given(tree=TREES, demand=DEMANDS, weights=st.lists(WEIGHTS, min_size=7, max_size=7))
@settings(max_examples=40)
@pytest.mark.drawn(of=2)
def test_how_a_queue_shares_inside_changes_nothing_outside(
    tree: Inner, demand: tuple[int, int], weights: list[int]
) -> None:
    """Recursive scheduling (SoCC'13, 2.2): weights below the first queue, whose leaves are alike, for others."""

    def alike(below: Tree, found: list[int] | None) -> Tree:
        if isinstance(below, Leaf):
            return Leaf(demand)
        return Inner([(found.pop() if found else weight, alike(child, found)) for weight, child in below.children])

    (first, below), rest = tree.children[0], tree.children[1:]
    worlds = [World(Inner([(first, alike(below, found)), *rest]), (480, 480)) for found in (None, [*weights])]
    for world in worlds:
        world.fill()
    before, after = (world.tasks() for world in worlds)
    for name, leaf in leaves(Inner([(first, Leaf(demand)), *rest])).items():
        if name != "q0":
            assert abs(after[name] - before[name]) * max(leaf.demand) <= 12, f"{name}: {before} became {after}"


# -- DRF (NSDI'11) --------------------------------------------------------------------------------


def fractions(demands: Sequence[Sequence[float]], weights: Sequence[int] | None = None) -> list[float]:
    weights = weights or [1] * len(demands)
    return drf((90, 120), [User(demand=tuple(d), weight=float(w)) for d, w in zip(demands, weights, strict=True)])


@given(USERS, st.lists(WEIGHTS, min_size=5, max_size=5))
@settings(max_examples=40, deadline=None)
@pytest.mark.drawn(of=2)
def test_whole_tasks_come_close_to_fractions(demands: list[tuple[int, int]], weights: list[int]) -> None:
    weights = weights[: len(demands)]
    world = World(flat(demands, weights), (1800, 2400), {"kind": "drf"})
    world.fill()
    exact = fractions([tuple(map(float, d)) for d in demands], weights)
    for got, wanted in zip(world.tasks().values(), exact, strict=True):
        assert got / 20 == pytest.approx(wanted, abs=0.2)


@given(USERS, st.tuples(st.integers(20, 60), st.integers(20, 60)))
def test_while_all_find_room_no_two_are_further_apart_than_a_task(
    demands: list[tuple[int, int]], capacity: tuple[int, int]
) -> None:
    """Section 4.2 in whole tasks: the gap between two users' dominant shares is one task's at most."""
    picks = World(flat(demands, [1] * len(demands)), capacity, {"kind": "drf"}).fill()
    one = [max(d / c for d, c in zip(demand, capacity, strict=True)) for demand in demands]
    free, held = list(capacity), [0] * len(demands)
    for pick in picks:
        shares = [count * each for count, each in zip(held, one, strict=True)]
        if any(wanted > left for demand in demands for wanted, left in zip(demand, free, strict=True)):
            return
        assert max(shares) - min(shares) <= max(one) + 1e-9
        who = int(pick.removeprefix("q"))
        held[who] += 1
        free = [left - wanted for left, wanted in zip(free, demands[who], strict=True)]


@given(USERS)
def test_nobody_does_better_with_an_equal_part(demands: list[tuple[int, int]]) -> None:
    """Sharing incentive (section 3): every user has at least 1/n of its dominant resource."""
    for tasks, demand in zip(fractions(demands), demands, strict=True):
        assert max(tasks * demand[0] / 90, tasks * demand[1] / 120) >= 1 / len(demands) - 1e-9


@given(USERS, st.lists(WEIGHTS, min_size=5, max_size=5), st.integers(0, 4), st.sampled_from((0.5, 2.0, 3.0)))
def test_larger_tasks_of_one_user_are_fewer_and_change_no_share(
    demands: list[tuple[int, int]], weights: list[int], who: int, factor: float
) -> None:
    who, weights = who % len(demands), weights[: len(demands)]
    scaled = [tuple(factor * part if user == who else part for part in d) for user, d in enumerate(demands)]
    before, after = fractions(demands, weights), fractions(scaled, weights)
    after[who] *= factor
    assert after == pytest.approx(before)


@given(st.lists(st.tuples(st.integers(1, 4), WEIGHTS), min_size=1, max_size=5), st.booleans())
def test_of_one_bottleneck_everybody_has_a_part_by_weight(users: list[tuple[int, int]], alone: bool) -> None:
    """Single-resource and bottleneck fairness (section 3): max-min on the resource that all have most of."""
    demands = [(float(size), 0.0 if alone else size / 2) for size, _ in users]
    tasks = fractions(demands, [weight for _, weight in users])
    total = sum(weight for _, weight in users)
    for count, (size, weight) in zip(tasks, users, strict=True):
        assert count * size == pytest.approx(90 * weight / total)


@given(USERS)
def test_every_user_has_a_saturated_resource(demands: list[tuple[int, int]]) -> None:
    """Lemma 8, and with it Pareto efficiency."""
    tasks = fractions(demands)
    used = [sum(t * d[r] for t, d in zip(tasks, demands, strict=True)) for r in range(2)]
    full = [u >= c * (1 - 1e-9) for u, c in zip(used, (90, 120), strict=True)]
    assert all(any(d and f for d, f in zip(demand, full, strict=True)) for demand in demands)


@given(USERS, st.integers(0, 4), st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_asking_for_more_than_one_needs_never_helps(
    demands: list[tuple[int, int]], who: int, more: tuple[int, int]
) -> None:
    """Strategy-proofness (section 4): tasks that can really run, with what a lie brings."""
    who %= len(demands)
    true = demands[who]
    lie = (true[0] + more[0], true[1] + more[1])
    told = [*demands[:who], lie, *demands[who + 1 :]]
    brought = fractions(told)[who]
    usable = min(brought * a / t for a, t in zip(lie, true, strict=True) if t)
    assert usable <= fractions(demands)[who] + 1e-6


@given(USERS)
def test_nobody_envies_another(demands: list[tuple[int, int]]) -> None:
    tasks = fractions(demands)
    for mine, demand in zip(tasks, demands, strict=True):
        for theirs, other in zip(tasks, demands, strict=True):
            with_theirs = min(theirs * o / d for o, d in zip(other, demand, strict=True) if d)
            assert with_theirs <= mine + 1e-6


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=5))
def test_when_one_leaves_nobody_loses(demands: list[tuple[int, int]]) -> None:
    """Population monotonicity (section 6.1.2), which needs everybody to ask for some of everything."""
    before, after = fractions(demands), fractions(demands[1:])
    assert all(late >= early - 1e-6 for early, late in zip(before[1:], after, strict=True))

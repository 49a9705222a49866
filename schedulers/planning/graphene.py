"""Graphene's offline part (Grandl et al., OSDI 2016, section 4): a compact schedule for one DAG, the hard stuff first.

Troublesome tasks, long ones and those of stages that are hard to pack, are placed first into an empty resource-time
space; the rest is then placed around them in the orders that cannot end in a dead end. Many sets of troublesome
tasks are tried, and the most compact schedule is kept. Where the paper is silent, a comment says what was chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from schedulers.core.model import Stage
from schedulers.core.resources import Vector
from schedulers.planning import lists
from schedulers.planning.bounds import bound_of_part, bounds
from schedulers.planning.dag import Dag
from schedulers.planning.schedule import Block, Plan, Schedule
from schedulers.planning.space import OutOfBudget, Space, Work

#: Stretches of machines' time that a search may look at: some seconds of one core.
BUDGET: Final = 5_000_000
#: "If T is very large, placing it first is unlikely to help" (section 4.4): from this part of the tasks on.
LARGEST_SHARE: Final = 0.8
FALLBACK: Final = "cp"

#: Sets in the order of their placing, with the directions that cannot violate a dependency (figure 7).
ORDERS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "SPC": (("S", "both"), ("P", "backward"), ("C", "forward")),
    "SCP": (("S", "both"), ("C", "forward"), ("P", "backward")),
    "CSP": (("C", "forward"), ("S", "backward"), ("P", "backward")),
    "PSC": (("P", "backward"), ("S", "forward"), ("C", "forward")),
}


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of troublesome stages T with its ancestors P, its descendants C and the rest S, and its thresholds."""

    T: frozenset[int]
    S: frozenset[int]
    P: frozenset[int]
    C: frozenset[int]
    long: Fraction | None = None
    frag: Fraction | None = None


def build_schedule(
    stages: tuple[Stage, ...],
    runtimes_ms: Sequence[float | None],
    capacity: Vector,
    machines: int,
    *,
    budget: int = BUDGET,
) -> Plan:
    """BuildSchedule: the most compact schedule found for a DAG on so many machines of this capacity.

    runtimes_ms: one estimate per stage. budget: stretches of machines' time to look at in all; totally ordered parts
    get it by their tasks. A part whose search ends before its first schedule is planned by critical path (`cp`).
    Raises InvalidJob and InvalidPlan as `Dag` does.
    """
    dag = Dag(stages, runtimes_ms, capacity, machines)
    found: list[_Found] = []
    left, tasks_left = budget, dag.tasks_of(range(len(dag)))
    for part in dag.parts():
        tasks = dag.tasks_of(part)
        found.append(_best(dag, part, Work(left * tasks // tasks_left)))
        left, tasks_left = left - found[-1].work, tasks_left - tasks
    return Plan(
        planner="graphene",
        schedule=Schedule.of_blocks(_concatenated(dag, found), dag.runtimes),
        bounds=bounds(dag),
        troublesome=tuple(sorted(s for part in found for s in part.split.T)),
        thresholds=tuple((_plain(part.split.long), _plain(part.split.frag)) for part in found),
        work=sum(part.work for part in found),
        ended=next(why for why in ("budget", "all", "bound", "bypass") if any(part.ended == why for part in found)),
        fallback=FALLBACK if any(part.fell_back for part in found) else "",
    )


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The best schedule of a part; see Plan."""

    blocks: list[Block]
    split: Split
    work: int
    ended: str
    fell_back: bool = False


def _best(dag: Dag, part: list[int], work: Work) -> _Found:
    """The most compact schedule of one totally ordered part."""
    bound, best, split, ended = bound_of_part(dag, part), None, _plain_split(part), "all"
    try:
        for candidate in candidates(dag, part, work):
            space = most_compact(dag, candidate, work, None if best is None else best.span)
            if space is not None:
                best, split = space, candidate
            if best is not None and best.span == bound:
                # Simple jobs bypass the search (section 4.4): a chain, and whatever fits all at once, ends here.
                ended = "bypass" if not split.T else "bound"
                break
    except OutOfBudget:
        ended = "budget"
    if best is None:
        return _Found(blocks=lists.blocks_by_path(dag, part), split=split, work=work.done, ended=ended, fell_back=True)
    return _Found(blocks=best.blocks, split=split, work=work.done, ended=ended)


def most_compact(dag: Dag, split: Split, work: Work, limit: int | None = None) -> Space | None:
    """The body of BuildSchedule's loop: T into an empty space, then TrySubsetOrders.

    limit: a span in ms that is of no use. What comes out below it does not depend on it, so splits can be tried in
    any order, or side by side.
    """
    space = _both(Space(dag, work), split.T, limit)
    return None if space is None else try_subset_orders(space, split, limit)


def try_subset_orders(space: Space, split: Split, limit: int | None = None) -> Space | None:
    """TrySubsetOrders: the most compact of the four orders in which S, P and C can follow T."""
    best = None
    tried: dict[tuple[tuple[str, str], ...], Space | None] = {(): space}
    for order in ORDERS.values():
        # Without empty sets some orders are the same, and two begin alike: nothing is placed twice.
        steps = tuple((name, direction) for name, direction in order if getattr(split, name))
        if steps in tried and steps:
            continue
        for done in range(len(steps)):
            before, (name, direction) = tried[steps[:done]], steps[done]
            if steps[: done + 1] not in tried:
                place = {"both": _both, "forward": Space.forward, "backward": Space.backward}[direction]
                tried[steps[: done + 1]] = before and place(before, getattr(split, name), limit)
        found = tried[steps]
        if found is not None and (best is None or found.span < best.span):
            best, limit = found, found.span
    return best


def _both(space: Space, stages: Collection[int], limit: int | None) -> Space | None:
    """PlaceTasks: the more compact of the two directions, forward where they are the same."""
    if not stages:
        return space
    forward = space.forward(stages, limit)
    backward = space.backward(stages, limit if forward is None else forward.span)
    return forward if backward is None else backward


def candidates(dag: Dag, part: list[int], work: Work) -> Iterator[Split]:
    """CandidateTroublesomeTasks, without those that are seen already or too large.

    First comes no troublesome task at all, so that there is a schedule for every part. Thresholds are scores that
    there are ("discriminative"), or none; coarse choices come first, so that a budget is spent on unlike ones.
    """
    yield _plain_split(part)
    long, frag = long_scores(dag, part), frag_scores(dag, part)
    seen: set[frozenset[int]] = {frozenset()}
    for least, most in _thresholds(sorted(set(long.values()), reverse=True), sorted(set(frag.values()))):
        work.spend(len(part))
        chosen = frozenset(
            s for s in part if (least is not None and long[s] >= least) or (most is not None and frag[s] <= most)
        )
        if chosen in seen:
            continue
        seen.add(chosen)
        work.spend(2 * len(part))
        split = split_of(dag, part, chosen, long=least, frag=most)
        if dag.tasks_of(split.T) <= LARGEST_SHARE * dag.tasks_of(part) and (split.T == chosen or split.T not in seen):
            seen.add(split.T)
            yield split


def long_scores(dag: Dag, part: Sequence[int]) -> dict[int, Fraction]:
    """LongScore of each stage of a part: its run time by the longest."""
    longest = max(dag.runtimes[s] for s in part)
    return {s: Fraction(dag.runtimes[s], longest) for s in part}


def frag_scores(dag: Dag, part: Sequence[int]) -> dict[int, Fraction]:
    """FragScore of each stage of a part: its TWork by the time that a greedy packer takes for it alone.

    Greedy packing of like tasks on like machines is waves, so it is `alone_ms`.
    """
    return {s: dag.work_ms([s]) / dag.alone_ms(s) for s in part}


def split_of(
    dag: Dag, part: list[int], chosen: Collection[int], *, long: Fraction | None = None, frag: Fraction | None = None
) -> Split:
    """T = the chosen stages and all on paths between two of them; P, C = all ancestors and descendants; S = the rest.

    part: parents first.
    """
    below = _reached(part, dag.parents, chosen)
    above = _reached(reversed(part), dag.children, chosen)
    trouble = frozenset(chosen) | (above & below)
    ancestors, descendants = frozenset(above - trouble), frozenset(below - trouble)
    assert not ancestors & descendants
    rest = frozenset(part) - trouble - ancestors - descendants
    return Split(T=trouble, S=rest, P=ancestors, C=descendants, long=long, frag=frag)


def _reached(
    order: Collection[int] | Iterator[int], before: Sequence[Sequence[int]], chosen: Collection[int]
) -> set[int]:
    """Stages of an order with a chosen one somewhere before them."""
    start, reached = frozenset(chosen), set[int]()
    for s in order:
        if any(b in reached or b in start for b in before[s]):
            reached.add(s)
    return reached


def _thresholds(long: list[Fraction], frag: list[Fraction]) -> Iterator[tuple[Fraction | None, Fraction | None]]:
    """All pairs of thresholds, but for none and none: evenly spread ones first, then twice as many, and so on."""
    tried: set[tuple[Fraction | None, Fraction | None]] = {(None, None)}
    pieces = 1
    while True:
        for least in _spread(long, pieces):
            for most in _spread(frag, pieces):
                if (least, most) not in tried:
                    tried.add((least, most))
                    yield least, most
        if pieces >= max(len(long), len(frag)):
            return
        pieces *= 2


def _spread(values: list[Fraction], pieces: int) -> list[Fraction | None]:
    """None and at most `pieces` of these values, evenly spaced by rank, the first always among them."""
    if pieces >= len(values):
        return [None, *values]
    return [None, *(values[len(values) * i // pieces] for i in range(pieces))]


def _plain_split(part: list[int]) -> Split:
    return Split(T=frozenset(), S=frozenset(part), P=frozenset(), C=frozenset())


def _plain(threshold: Fraction | None) -> float | None:
    return None if threshold is None else float(threshold)


def _concatenated(dag: Dag, parts: list[_Found]) -> Iterator[Block]:
    """The parts' blocks one after another: any schedule of the DAG has all of one part before the next."""
    at = 0
    for part in parts:
        first = min(block.start for block in part.blocks)
        for block in part.blocks:
            yield msgspec.structs.replace(block, start=block.start - first + at)
        at += max(block.start + dag.runtimes[block.stage] for block in part.blocks) - first

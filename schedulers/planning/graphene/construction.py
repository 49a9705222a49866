"""Graphene's offline part (Grandl et al., OSDI 2016, section 4): a compact schedule for one DAG, the hard stuff first.

Troublesome tasks, long or of stages that are hard to pack, are placed first into an empty resource-time space; the rest
is then placed around them in orders without a dead end. Many sets of troublesome tasks are tried, and the most compact
schedule is kept.

A stage's LongScore is its run time over the longest run time; its FragScore is its work over the time that the stage
takes alone. Stages beyond thresholds, with all stages on paths between them, are troublesome (T). After T come its
ancestors P (only backward), its descendants C (only forward) and the rest S. Choices where the paper is silent:

- Stages, not tasks. Tasks of a stage are alike, so scores, sets and ready tests are per stage, and tasks are placed as
  many at once as fit, on all machines with the same history. Tests compare the result with placing tasks singly.
- Ready means: the parents inside the set being placed are placed. With "all parents", as printed, S before P would
  never be ready.
- Thresholds are the existing scores or none: evenly spread values first, then twice as many, until all pairs are tried.
  A set is tried only once, and never with more than 0.8 of the tasks. The first candidate has no troublesome stage:
  everything forward, or everything backward.
- Compact is the span plus the longest path of unplaced stages before and behind; once everything is placed, the plain
  span. Hopeless placements end early in this way.
- Never behind a list schedule: each totally ordered part begins with the shortest schedule of `cp`, `bfs` and, up to a
  million tasks x stages, `tetris` and `coffman_graham`. A chain, or a part whose list schedule equals the lower bound,
  needs no search: simple jobs bypass the search.
- The budget counts stretches of machine time, never seconds. At its end the best plan so far stands, or a list's.
- A clock is a safety net only: `stop` is asked before each candidate and can end the search. The core has no clock, so
  no policy's decision depends on a clock; the result tables give a DAG a minute and say if the minute was too short.
- The bound sums, over totally ordered parts, the larger of TWork and the longest path of times that stages take alone
  in full waves. The bound is proved (`bounds.py`) and replaces NewLB, whose formula the paper omits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from schedulers.core.model import Stage
from schedulers.core.resources import Vector
from schedulers.planning.dags import lists
from schedulers.planning.dags.bounds import bound, bound_of_part
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.schedule import Batch, Plan, Schedule
from schedulers.planning.graphene.space import OutOfBudget, SearchEffort, Space

#: Stretches of machines' time that a search may look at: some seconds of one core.
BUDGET: Final = 2_000_000
#: "If T is very large, placing it first is unlikely to help" (section 4.4): from this part of the tasks on.
LARGEST_SHARE: Final = 0.8
#: Planner of parts without any other plan.
FALLBACK: Final = "cp"

#: Sets in the order of their placing, with the directions that cannot violate a dependency (figure 7).
ORDERS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "SPC": (("S", "both"), ("P", "backward"), ("C", "forward")),
    "SCP": (("S", "both"), ("C", "forward"), ("P", "backward")),
    "CSP": (("C", "forward"), ("S", "backward"), ("P", "backward")),
    "PSC": (("P", "backward"), ("S", "forward"), ("C", "forward")),
}


#: Whether a search should end now.
Stop = Callable[[], bool]


class Stopped(Exception):
    """A search was told to stop."""


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of troublesome stages T with its ancestors P, its descendants C and the rest S, and its thresholds."""

    S: frozenset[int]
    T: frozenset[int] = frozenset()
    P: frozenset[int] = frozenset()
    C: frozenset[int] = frozenset()
    long: Fraction | None = None
    frag: Fraction | None = None


def build_schedule(
    stages: tuple[Stage, ...],
    runtimes_ms: Sequence[float | None],
    capacity: Vector,
    machines: int,
    *,
    budget: int = BUDGET,
    never_behind_lists: bool = True,
    stop: Stop | None = None,
) -> Plan:
    """BuildSchedule: the most compact schedule found for a DAG on so many machines of equal capacity.

    runtimes_ms: an estimate per stage, ms. budget: stretches of machines' time to look at in all, divided between
    totally ordered parts by their tasks. never_behind_lists: each part begins with the shortest of the cheap list
    schedules (`lists.cheap`), and the search is for shorter schedules; the paper has nothing to begin with. Without
    lists only a part without a first schedule by the end of its budget is planned by `cp`. stop: asked before each
    candidate, ends the search: a safety net for callers with a clock.
    Raises InvalidJob and InvalidPlan as `Dag` does.
    """
    dag = Dag(stages, runtimes_ms, capacity, machines)
    parts: list[_PlannedPart] = []
    left, tasks_left = budget, dag.tasks_of(range(len(dag)))
    for part in dag.parts():
        tasks = dag.tasks_of(part)
        parts.append(_best(dag, part, SearchEffort(left * tasks // tasks_left), never_behind_lists, stop))
        left, tasks_left = left - parts[-1].work, tasks_left - tasks
    return Plan(
        planner="graphene",
        schedule=Schedule.of_blocks(_concatenated(dag, parts), dag.runtimes),
        bound=bound(dag),
        troublesome=tuple(sorted(s for part in parts if part.split for s in part.split.T)),
        thresholds=tuple(_thresholds_of(part.split) for part in parts),
        work=sum(part.work for part in parts),
        ended=next(
            why for why in ("stop", "budget", "all", "bound", "bypass") if any(part.ended == why for part in parts)
        ),
        fallback=", ".join(sorted({part.fallback for part in parts if part.split is None})),
    )


class _PlannedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The best schedule of a part. split: None for the schedule by `fallback`. For other fields see Plan."""

    blocks: list[Batch]
    split: Split | None
    fallback: str
    work: int
    ended: str


def _best(dag: Dag, part: list[int], work: SearchEffort, never_behind_lists: bool, stop: Stop | None) -> _PlannedPart:
    """The most compact schedule of a totally ordered part."""
    bound, ended = bound_of_part(dag, part), "all"
    best, split, span, fallback = list[Batch](), None, None, FALLBACK
    for name, blocks in lists.cheap(dag, part) if never_behind_lists else ():
        if span is None or _span(dag, blocks) < span:
            best, span, fallback = blocks, _span(dag, blocks), name
        if span == bound:
            # Simple jobs bypass the search (section 4.4): chains, and all that a simple rule does best.
            return _PlannedPart(blocks=best, split=None, fallback=fallback, work=0, ended="bypass")
    try:
        for candidate, tried in _shorter(dag, part, work, span, stop):
            best, split = tried.blocks, candidate
            if tried.span == bound:
                ended = "bound"
                break
    except Stopped:
        ended = "stop"
    except OutOfBudget:
        ended = "budget"
    best = best or lists.blocks_by_path(dag, part)
    # The step beyond the budget was not taken to its end; later parts do not pay for the step.
    done = min(work.done, work.allowed)
    return _PlannedPart(blocks=best, split=split, fallback=fallback, work=done, ended=ended)


def _shorter(
    dag: Dag, part: list[int], work: SearchEffort, span: int | None, stop: Stop | None
) -> Iterator[tuple[Split, Space]]:
    """The search: candidates with schedules shorter than `span` ms and than all before, each with its space."""
    empty, splits = Space(dag, part, work), candidates(dag, part, work)
    while True:
        if stop is not None and stop():
            raise Stopped
        split = next(splits, None)
        if split is None:
            return
        space = most_compact(empty, split, span)
        if space is not None:
            span = space.span
            yield split, space


def _span(dag: Dag, blocks: list[Batch]) -> int:
    ends = max(block.start + dag.runtimes[block.stage] for block in blocks)
    return ends - min(block.start for block in blocks)


def most_compact(empty: Space, split: Split, limit: int | None = None) -> Space | None:
    """The body of BuildSchedule's loop: T into an empty space, then TrySubsetOrders.

    limit: least span in ms without use. A space of a shorter span does not depend on the limit.
    """
    space = _both(empty, split.T, limit)
    return None if space is None else try_subset_orders(space, split, limit)


def try_subset_orders(space: Space, split: Split, limit: int | None = None) -> Space | None:
    """TrySubsetOrders: the most compact of the four orders of S, P and C behind T."""
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
                tried[steps[: done + 1]] = before and _PLACE[direction](before, getattr(split, name), limit)
        placed = tried[steps]
        if placed is not None and (best is None or placed.span < best.span):
            best, limit = placed, placed.span
    return best


def _both(space: Space, stages: Collection[int], limit: int | None) -> Space | None:
    """PlaceTasks: the more compact of the two directions, forward where both are the same."""
    if not stages:
        return space
    forward = space.forward(stages, limit)
    backward = space.backward(stages, limit if forward is None else forward.span)
    return forward if backward is None else backward


_PLACE: Final[dict[str, Callable[[Space, Collection[int], int | None], Space | None]]] = {
    "both": _both,
    "forward": Space.forward,
    "backward": Space.backward,
}


def candidates(dag: Dag, part: list[int], work: SearchEffort) -> Iterator[Split]:
    """CandidateTroublesomeTasks, without repeated sets and too large sets.

    First comes no troublesome task at all, so every part has a candidate. Thresholds are existing scores
    ("discriminative"), or none; coarse choices come first, so the budget is spent on unlike choices.
    """
    yield Split(S=frozenset(part))
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
        again = len(split.T) > len(chosen) and split.T in seen
        seen.add(split.T)
        if not again and dag.tasks_of(split.T) <= LARGEST_SHARE * dag.tasks_of(part):
            yield split


def long_scores(dag: Dag, part: Sequence[int]) -> dict[int, Fraction]:
    """LongScore of each stage of a part: its run time by the longest."""
    longest = max(dag.runtimes[s] for s in part)
    return {s: Fraction(dag.runtimes[s], longest) for s in part}


def frag_scores(dag: Dag, part: Sequence[int]) -> dict[int, Fraction]:
    """FragScore of each stage of a part: its TWork by the time of a greedy packer for the stage alone.

    Greedy packing of like tasks on like machines is waves, so the packer's time is `alone_ms`.
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
    """Stages of an order behind some chosen stage."""
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
    """None and at most `pieces` of the values, evenly spaced by rank, the first always among them."""
    if pieces >= len(values):
        return [None, *values]
    return [None, *(values[len(values) * i // pieces] for i in range(pieces))]


def _thresholds_of(split: Split | None) -> tuple[float | None, float | None]:
    long, frag = (split.long, split.frag) if split else (None, None)
    return None if long is None else float(long), None if frag is None else float(frag)


def _concatenated(dag: Dag, parts: list[_PlannedPart]) -> Iterator[Batch]:
    """The parts' blocks in sequence: any schedule of the DAG has all of a part before the next part."""
    at = 0
    for part in parts:
        first = min(block.start for block in part.blocks)
        for block in part.blocks:
            yield msgspec.structs.replace(block, start=block.start - first + at)
        at += _span(dag, part.blocks)

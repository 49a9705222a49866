"""The shortest makespan of a tiny DAG by exhaustive search: what bounds and planners are held against in tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from schedulers.core.errors import InvalidPlan
from schedulers.core.model import Stage
from schedulers.core.resources import Vector
from schedulers.core.vectors import fits
from schedulers.planning.dags.bounds import bound
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.lists import PLANNERS

MOST_TASKS: Final = 14

#: Tasks that run on one machine: (what is left of the run time, stage), sorted.
_Running = tuple[tuple[int, int], ...]
#: Tasks not started per stage, and what runs on each machine; machines sorted, as they are alike.
_State = tuple[tuple[int, ...], tuple[_Running, ...]]


def shortest_makespan(
    stages: tuple[Stage, ...], runtimes_ms: Sequence[float | None], capacity: Vector, machines: int
) -> int:
    """The optimum in ms. Some optimal schedule starts tasks only at 0 and when others end, so only those are looked at.

    Raises InvalidPlan for more than MOST_TASKS tasks, and errors as `Dag` does.
    """
    dag = Dag(stages, runtimes_ms, capacity, machines)
    if dag.tasks_of(range(len(dag))) > MOST_TASKS:
        raise InvalidPlan(f"{dag.tasks_of(range(len(dag)))} tasks are too many to try all (at most {MOST_TASKS})")
    best = min(planner(stages, runtimes_ms, capacity, machines).makespan for planner in PLANNERS.values())
    least = bound(dag)
    return best if best == least else _Search(dag, best).run(least)


class _Search:
    """Depth first through what can be started at each instant. Reached states are kept with their earliest times."""

    def __init__(self, dag: Dag, best: int) -> None:
        self._dag, self._best = dag, best
        self._ways = dag.ways_out()
        self._reached: dict[_State, int] = {}

    def run(self, least: int) -> int:
        """The optimum; `least` is a bound at which the search may stop."""
        start: _State = (tuple(stage.tasks for stage in self._dag.stages), ((),) * self._dag.machines)
        todo = [(0, start)]
        while todo and self._best > least:
            at, state = todo.pop()
            todo += [(then, after) for then, after in self._next(at, state) if self._may_help(then, after)]
        return self._best

    def _may_help(self, at: int, state: _State) -> bool:
        waiting, machines = state
        if at >= self._reached.get(state, self._best) or at + self._least_left(state) >= self._best:
            return False
        self._reached[state] = at
        if not any(waiting):
            self._best = at + max((left for running in machines for left, _ in running), default=0)
            return False
        return True

    def _least_left(self, state: _State) -> int:
        """How long the rest takes at least: paths, and work by resource."""
        waiting, machines = state
        dag = self._dag
        rest = [(s, dag.runtimes[s] * tasks) for s, tasks in enumerate(waiting) if tasks]
        rest += [(s, left) for running in machines for left, s in running]
        paths = [self._ways[s] for s, tasks in enumerate(waiting) if tasks]
        paths += [left + self._ways[s] - dag.runtimes[s] for running in machines for left, s in running]
        work = [
            -(-sum(ms * dag.stages[s].demand[r] for s, ms in rest) // (whole * dag.machines))
            for r, whole in enumerate(dag.capacity)
            if whole
        ]
        return max([*paths, *work], default=0)

    def _next(self, at: int, state: _State) -> Iterator[tuple[int, _State]]:
        """Time going on to the next end, then, to be tried first, one more task of a ready stage on one machine."""
        waiting, machines = state
        soonest = min((left for running in machines for left, _ in running), default=0)
        if soonest:
            later = [tuple((left - soonest, s) for left, s in running if left > soonest) for running in machines]
            yield at + soonest, (waiting, tuple(sorted(later)))
        active = {s for running in machines for _, s in running}
        for s, tasks in enumerate(waiting):
            if tasks and not any(waiting[p] or p in active for p in self._dag.parents[s]):
                fewer = (*waiting[:s], tasks - 1, *waiting[s + 1 :])
                for number, running in enumerate(machines):
                    if running not in machines[:number] and self._fits(s, running):
                        more = tuple(sorted((*running, (self._dag.runtimes[s], s))))
                        others = (*machines[:number], *machines[number + 1 :])
                        yield at, (fewer, tuple(sorted((more, *others))))

    def _fits(self, stage: int, running: _Running) -> bool:
        stages = self._dag.stages
        asked = [sum(amounts) for amounts in zip(stages[stage].demand, *(stages[s].demand for _, s in running))]  # noqa: B905
        return fits(asked, self._dag.capacity)

"""What the choice of a node does to the tasks below: the expected end of a task's grandchild.

Source: Bittencourt, Sakellariou, Madeira, "DAG Scheduling Using a Lookahead Variant of the Heterogeneous Earliest
Finish Time Algorithm", PDP 2010, which compares all nodes by all children. Here few nodes are compared, by a single
child and grandchild, and a parent may be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from schedulers.core.live import JobState, StageState
    from schedulers.kit.assigned import Choice
    from schedulers.kit.forecast import Floats, Forecast

#: Number of generations below a task.
_DEPTH: Final = 2
#: Runs that are assumed, by stage: node and end.
Assumed: TypeAlias = Mapping[int, list[tuple[str, float]]]


class Lookahead:
    """The way down from the only task of a stage: the child with the most data, and the child's.

    The way ends at a stage with several tasks, or with a parent of several tasks. Parents without a node do not count:
    a task below is expected to end as if their data were there.
    """

    def __init__(self, job: JobState, stage: StageState, forecast: Forecast, copies: int) -> None:
        self._job, self._stage, self._forecast, self._copies = job, stage, forecast, copies
        self._below = list(self._way_down())

    def _way_down(self) -> Iterator[StageState]:
        job, stage = self._job, self._stage
        for _ in range(_DEPTH):
            data = {
                child: edge.data
                for child in job.children[stage.index]
                for edge in job.spec.stages[child].edges
                if edge.parent == stage.index
            }
            if not data:
                return
            stage = job.stages[max(data, key=lambda child: (data[child], -child))]
            if any(job.stages[index].tasks > 1 for index in (stage.index, *job.spec.stages[stage.index].above)):
                return
            yield stage

    def columns(self) -> list[int]:
        """Nodes with a run of a parent of the task, or of another parent of the tasks below; none if none is below."""
        job, columns = self._job, self._forecast.column
        stages = [self._stage, *self._below] if self._below else []
        parents = {parent for stage in stages for parent in job.spec.stages[stage.index].above}
        runs = [run for parent in parents for run in self._forecast.runs(job, parent, 0)]
        return sorted({columns[node] for node, _ in runs if node in columns})

    def end(self, choice: Choice) -> float:
        """Expected end of the last task of the way down (ms), if the task goes where the choice says."""
        assumed = {self._stage.index: [(choice.node, choice.end)]}
        if choice.parent is not None:
            assumed[choice.parent[0]] = [(choice.node, choice.copy_end)]
        taken, end = {self._forecast.column[choice.node]: choice.end}, choice.end
        for stage in self._below:
            end, column = self._soonest(stage, assumed, taken)
            assumed[stage.index], taken[column] = [(self._forecast.nodes[column].id, end)], end
        return end

    def _soonest(self, stage: StageState, assumed: Assumed, taken: Mapping[int, float]) -> tuple[float, int]:
        """End and node of a task below by DEFT's rule. taken: times until which assumed runs keep their nodes."""
        job, forecast = self._job, self._forecast
        times = forecast.times(job, stage)
        arrivals: dict[int, Floats] = {}
        for edge in job.spec.stages[stage.index].edges:
            runs = forecast.runs(job, edge.parent, 0) + assumed.get(edge.parent, [])
            if runs:
                arrivals[edge.parent] = forecast.arrive_from(runs, job, stage, edge)
        ends = np.maximum(self._free(stage, taken), np.maximum.reduce(list(arrivals.values()))) + times
        best = float(ends.min()), int(ends.argmin())
        for parent in arrivals if self._copies > 1 else ():
            others = [arrival for other, arrival in arrivals.items() if other != parent]
            there = np.maximum.reduce(others) if others else np.zeros(len(times))
            if float((there + times).min()) < best[0]:
                ends = np.maximum(self._copied(parent, assumed, taken), there) + times
                best = min(best, (float(ends.min()), int(ends.argmin())))
        return best

    def _copied(self, parent: int, assumed: Assumed, taken: Mapping[int, float]) -> Floats:
        """[nodes]: end of a further run of a parent; inf where the parent runs, or everywhere if no copy is made."""
        job, forecast, stage = self._job, self._forecast, self._job.stages[parent]
        runs = forecast.runs(job, parent, 0) + assumed.get(parent, [])
        if len(runs) >= self._copies or stage in self._below:
            return np.full(len(forecast.nodes), np.inf)
        inputs: Floats = forecast.inputs(job, stage).all
        ends: Floats = np.maximum(self._free(stage, taken), inputs) + forecast.times(job, stage)
        ends[[forecast.column[node] for node, _ in runs if node in forecast.column]] = np.inf
        return ends

    def _free(self, stage: StageState, taken: Mapping[int, float]) -> Floats:
        free: Floats = self._forecast.free(stage).copy()
        for column, until in taken.items():
            free[column] = max(free[column], until)
        return free

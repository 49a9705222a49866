"""DEFT: the node with the first end of a task, with at most one of its parents copied there (LACHESIS)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from schedulers.core.placer import placers
from schedulers.kit.assigned import Assigner, Choice

if TYPE_CHECKING:
    from schedulers.core.live import JobState, StageState
    from schedulers.kit.forecast import Floats, Forecast


@placers.register("deft", source="LACHESIS (arXiv 2103.06980), equations 9 to 11")
class Deft(Assigner):
    """Assigns each task, in the policy's order, to the node with its first end; the task waits in the node's queue.

    By estimates, speeds and transfers; with copies on, with at most one copy of a parent made there first, if the task
    ends sooner thereby. Ties: no copy, the lowest parent, the node that joined first.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        ahead: Annotated[
            bool,
            msgspec.Meta(
                description="a task is assigned as soon as its parents are; false: only once these have finished"
            ),
        ] = True

    params: Params
    copies = True

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.assigns_early = params.ahead

    def choose(self, job: JobState, stage: StageState, forecast: Forecast, copies: int) -> Choice | None:
        """See Assigner.choose. Equation 11; equations 2 and 10 with the node's queue and the copy's own time."""
        free, times, inputs = forecast.free(stage), forecast.times(job, stage), forecast.inputs(job, stage)
        starts = np.maximum(free, inputs.all)
        ends = starts + times
        column = int(ends.argmin())
        if not np.isfinite(ends[column]):
            return None
        best = Choice(forecast.nodes[column].id, float(starts[column]), float(ends[column]))
        if copies < 2 or not inputs.rows:
            return best
        _, others = inputs.last
        least = np.maximum(free, others) + times  # if the copy took no time
        if least.min() >= best.end:
            return best
        return self._with_copy(job, stage, forecast, copies, np.flatnonzero(least < best.end).tolist(), best)

    @staticmethod
    def _with_copy(
        job: JobState, stage: StageState, forecast: Forecast, copies: int, columns: list[int], best: Choice
    ) -> Choice:
        """Equation 10 on the given nodes. Only the parent with the last data is worth a copy."""
        inputs, free, times = forecast.inputs(job, stage), forecast.free(stage), forecast.times(job, stage)
        rows, others = inputs.last
        copied = {row: _copied(job, *inputs.parent(row), forecast, copies) for row in set(rows[columns].tolist())}
        found = []
        for column in columns:
            row = int(rows[column])
            end = max(float(copied[row][column]), float(others[column]), float(free[column])) + float(times[column])
            if end < best.end:
                found.append((end, row, column))
        if not found:
            return best
        end, row, column = min(found)
        parent, task = inputs.parent(row)
        copy_end = float(copied[row][column])
        copy_start = copy_end - float(forecast.times(job, job.stages[parent])[column])
        start = end - float(times[column])
        return Choice(forecast.nodes[column].id, start, end, (parent, task), copy_start, copy_end)


def _copied(job: JobState, parent: int, task: int, forecast: Forecast, copies: int) -> Floats:
    """[nodes]: end of a further run of a parent's task there; inf: there is a run, or there are enough."""
    stage, runs = job.stages[parent], forecast.runs(job, parent, task)
    if len(runs) >= copies:
        return np.full(len(forecast.nodes), np.inf)
    ends: Floats = np.maximum(forecast.free(stage), forecast.inputs(job, stage).all) + forecast.times(job, stage)
    ends[[forecast.column[node] for node, _ in runs if node in forecast.column]] = np.inf
    return ends

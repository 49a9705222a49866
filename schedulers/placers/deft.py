"""DEFT: the node with the first end of a task, with at most one of its parents copied there (LACHESIS)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from schedulers.core.placer import placers
from schedulers.kit.assigned import Assigner, Choice
from schedulers.kit.lookahead import Lookahead

if TYPE_CHECKING:
    from schedulers.core.live import JobState, StageState
    from schedulers.kit.forecast import Floats, Forecast


@placers.register("deft", source="LACHESIS (arXiv 2103.06980), equations 9 to 11")
class Deft(Assigner):
    """Assigns each task, in the policy's order, to the node with its first end; the task waits in the node's queue.

    On different machines a task may end sooner by waiting for a fast node than by starting on a slow node. The end is
    computed from estimates, node speeds or times by node, and transfers over links (LACHESIS, equations 9 to 11). A
    waiting job says: "assigned to node n3, 2 before it, expected to start at 12.3 s".

    **Order.** The order is the policy's: `fifo`, `sjf`, `srpt`, `hrrn`, `rank_up`, `rank_down`, `cp`, `bfs`, `sjf_cp`,
    `lachesis`. Policies whose order depends on the tasks already started (`fair`, `drf`, `gs`, ...) are refused. So
    are clusters with executors and `reserve_after`: a line keeps its place by itself.

    **Time of assignment.** With `ahead: true` a task is assigned as soon as all its parents are assigned, so a job is
    laid out whole when it comes, behind all earlier work. With `ahead: false` a task is assigned once its parents have
    finished, and a later job may pass an earlier job between its stages. The paper allows both readings; for a single
    job known in advance the first reading is its plan. In cycles (`events`, `kubernetes`) all jobs of an instant are
    laid out together; where nodes beat, each job as the scheduler hears of it.

    **Room.** Earlier tasks of a line keep their room. Where a node takes several tasks at once, a task may start
    beside earlier tasks that wait for their parents, if by estimates the earlier tasks still find room at their start.
    A task is put where there is room from then on; idle stretches between other tasks are not filled.

    **Wrong estimates.** A task whose expected start has passed moves to a node without a line, once its end there is
    sooner. A task that runs longer than expected is expected to take as much again as it is over. Lines are made anew
    for a failed task and the tasks below it, for a lost node, for a job with a changed estimated size, and for all
    jobs when a node comes, changes or drains. A task without an estimate counts as a minute at speed 1.

    **Waiting.** With `wait` a task may leave idle nodes alone: it also tries the nodes of its parents, and of the other
    parents of its child and grandchild, and waits for such a node if the grandchild (the child, without a grandchild)
    is then expected to end sooner by more than `wait` times the task's delay. A task is never put off: each task joins
    a queue at once, and its delay is at most the gain divided by `wait`. Stages of several tasks, and their parents,
    go by DEFT. Source: lookahead for HEFT (Bittencourt, Sakellariou, Madeira, PDP 2010).

    **Copies.** With `copies: {max: 2}` in the scenario, a node may first run a parent of its task once more, if the
    task then ends sooner than on any other node and by any transfer. Ties: no copy, the lowest parent, the node that
    joined first. A copy is left out if by then the data would be there sooner. In its own line a copy may start before
    the original task, which then becomes the copy.

    A gang starts when the turns of all its tasks have come, on any nodes with room.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        ahead: Annotated[
            bool,
            msgspec.Meta(
                description="time of assignment: true: as soon as all parents are assigned, false: once all parents "
                "have finished"
            ),
        ] = True
        wait: Annotated[
            Annotated[float, msgspec.Meta(gt=0)] | None,
            msgspec.Meta(
                description="price of a later end: a task waits for a node near its relatives if the tasks below then "
                "end sooner by more than so many times the delay; docs/results-waiting.md measures 0.25; none: never",
            ),
        ] = None

    params: Params
    copies = True

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.assigns_early = params.ahead

    def choose(self, job: JobState, stage: StageState, forecast: Forecast, copies: int) -> Choice | None:
        """See Assigner.choose. Equation 11; equations 2 and 10 with the node's queue and the copy's own time."""
        first = self._soonest(job, stage, forecast, copies)
        if first is None or self.params.wait is None:
            return first
        below = Lookahead(job, stage, forecast, copies)
        best, least = first, below.end(first)
        for column in below.columns():
            other = self._soonest(job, stage, forecast, copies, column)
            if other is not None:
                end = below.end(other) + self.params.wait * (other.end - first.end)
                best, least = (other, end) if end < least else (best, least)
        return best

    def _soonest(
        self, job: JobState, stage: StageState, forecast: Forecast, copies: int, only: int | None = None
    ) -> Choice | None:
        """The choice with the first end. only: the single node allowed; None: all are."""
        free, times, inputs = forecast.free(stage), forecast.times(job, stage), forecast.inputs(job, stage)
        if only is not None:
            times = np.where(np.arange(len(times)) == only, times, np.inf)
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

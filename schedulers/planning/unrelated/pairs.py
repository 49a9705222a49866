"""The loop of planners with a joint choice of a ready task and its machine (DLS, ETF)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedulers.planning.unrelated.instance import Floats
from schedulers.planning.unrelated.timelines import Timelines

#: From ready tasks, ascending, and when each could start on each machine: how good each pair is, and tasks if equal.
Worth = Callable[[list[int], Floats], tuple[Floats, Floats | None]]


def ready_pairs(timelines: Timelines, worth: Worth) -> None:
    """Place all tasks, always the best pair next; ties go to the better task, the lowest task, the lowest machine."""
    instance = timelines.instance
    missing = [len(parents) for parents in instance.parents]
    ready = {task: timelines.ready(task) for task, parents in enumerate(missing) if not parents}
    while ready:
        tasks = sorted(ready)
        starts = np.maximum(np.array([ready[task] for task in tasks]), timelines.free)
        values, second = worth(tasks, starts)
        best = values.max(axis=1)
        tied = np.flatnonzero(best == best.max())
        row = int(tied[0] if second is None else tied[second[tied].argmax()])
        machine = int(values[row].argmax())
        task = tasks[row]
        timelines.place(task, machine, float(starts[row, machine]))
        del ready[task]
        for child, _ in instance.children[task]:
            missing[child] -= 1
            if not missing[child]:
                ready[child] = timelines.ready(child)

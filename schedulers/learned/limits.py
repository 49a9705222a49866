"""How many executors a job may be said to have: few values to choose from, near each other where it matters."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: Each costs a pass of the network; beyond the last they go on by half. Just below a level at which Spark's run times
#: were measured (`LEVELS` of rm_emulator.workload.waves) most tasks take what they take at the level below it.
STEPS: Final = (1, 2, 3, 4, 5, 9, 18, 38, 50)


@lru_cache(maxsize=4096)
def candidates(least: int, executors: int) -> tuple[int, ...]:
    """Limits to choose from, ascending: the least that gives the job an executor, the steps above it, and all.

    least, executors: as in JobGraph and Graph. Empty where `least` is more than all.
    """
    if least > executors:
        return ()
    steps = list(STEPS)
    while steps[-1] < executors:
        steps.append(steps[-1] * 3 // 2)
    return (*sorted({least, executors, *(step for step in steps if least < step < executors)}),)

"""Limits on the executors of a job: few values to choose from, near each other where small differences matter."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: Each step costs a pass of the network; beyond the last step they grow by half. Just below a level at which Spark's
#: run times were measured (`LEVELS` of rm_emulator.workload.waves) most tasks take as long as at the next lower level.
_STEPS: Final = (1, 2, 3, 4, 5, 9, 18, 38, 50)


@lru_cache(maxsize=4096)
def candidates(least: int, executors: int) -> tuple[int, ...]:
    """Limits to choose from, ascending: the least limit that gives the job an executor, the steps above, and all.

    least, executors: as in JobGraph and Graph. Empty where `least` is more than all.
    """
    if least > executors:
        return ()
    steps = list(_STEPS)
    while steps[-1] < executors:
        steps.append(steps[-1] * 3 // 2)
    return (*sorted({least, executors, *(step for step in steps if least < step < executors)}),)

"""Lower bounds on the makespan of a DAG (Graphene, OSDI 2016, sections 2 and 5.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedulers.planning.dags.dag import Dag


def bound(dag: Dag) -> int:
    """The lower bound on the makespan in ms: the sum of the bounds of totally ordered parts.

    The bound stands where the paper has NewLB without giving a formula: the bound uses the same facts (the tasks of a
    stage share parents, run time and demand) and is proved below, but is not claimed to be the same.
    """
    return sum(bound_of_part(dag, part) for part in dag.parts())


def bound_of_part(dag: Dag, part: Sequence[int]) -> int:
    """The larger of TWork, rounded up as schedules end at whole ms, and the longest path of `alone_ms` through a part.

    Nothing of a stage starts before all of its parents' tasks have ended, so the times of stages with all
    machines to themselves add up along a path; `alone_ms` is never below the run time, so its path is the longer.
    """
    ends, alone = dict[int, int](), {s: dag.alone_ms(s) for s in part}
    for s in part:
        ends[s] = alone[s] + max((ends[p] for p in dag.parents[s] if p in alone), default=0)
    return max(math.ceil(dag.work_ms(part)), *ends.values())

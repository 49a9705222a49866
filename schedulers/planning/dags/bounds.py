"""What no schedule of a DAG can be shorter than (Graphene, OSDI 2016, sections 2 and 5.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from schedulers.planning.dags.dag import Dag


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Lower bounds on the makespan in ms.

    cp_length: the longest path of run times. work: TWork rounded up, as schedules end at whole ms.
    best: the sum over totally ordered parts of the largest of cp_length, work and the longest path of `alone_ms`.
    `best` stands where the paper has NewLB, whose formula is not in the paper: it uses the same facts (the tasks of a
    stage share parents, run time and demand) and is proved below, but is not claimed to be the same.
    """

    cp_length: int
    work: int
    best: int


def bounds(dag: Dag) -> Bounds:
    """All bounds of a DAG on its machines."""
    everything = range(len(dag))
    return Bounds(
        cp_length=_longest_path(dag, everything, dag.runtimes),
        work=math.ceil(dag.work_ms(everything)),
        best=sum(bound_of_part(dag, part) for part in dag.parts()),
    )


def bound_of_part(dag: Dag, part: Sequence[int]) -> int:
    """The largest of three bounds on a part in ms.

    Nothing of a stage starts before all of its parents' tasks have ended, so times that stages take with all
    machines to themselves add up along a path; `alone_ms` is never below the run time, so this path is the longer.
    """
    alone = {s: dag.alone_ms(s) for s in part}
    return max(math.ceil(dag.work_ms(part)), _longest_path(dag, part, alone))


def _longest_path(dag: Dag, stages: Sequence[int], length: Sequence[int] | dict[int, int]) -> int:
    members, ends = set(stages), dict[int, int]()
    for s in dag.order if len(members) == len(dag) else stages:
        ends[s] = length[s] + max((ends[p] for p in dag.parents[s] if p in members), default=0)
    return max(ends.values())

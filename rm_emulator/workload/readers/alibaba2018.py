"""Alibaba cluster-trace-v2018, table `batch_task`: 8 days of about 4,000 machines, with DAGs in the names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import polars as pl

from rm_emulator.workload.batch_task import (
    NO_INSTANCES,
    BatchParams,
    ParentsOf,
    assemble,
    finished,
    is_batch_task,
    tabulate,
)
from rm_emulator.workload.formats import Column, TableTrace, Trace, register

_NAME: Final = re.compile(r"[A-Za-z]+([0-9]{1,9})(?:_(.*))?")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_ABSENT: Final = "parents left out, not among their job's finished stages"
_SOURCE: Final = "Alibaba cluster-trace-v2018, batch_task"
T = TypeVar("T", Trace, TableTrace)
_CYCLIC: Final = "jobs taken to have no order, their names form a cycle"


@register("alibaba2018", source="alibaba/clusterdata, cluster-trace-v2018, schema.txt, batch_task")
class Alibaba2018:
    """Alibaba's production DAG jobs of 2018: stages with parents, instances and demands.

    The name of a stage holds its parents: letters, the stage's own number, the numbers of the parents. `M1` waits for
    nothing, `R2_1` for stage 1, `J3_1_2` for stages 1 and 2. The letters carry no order; parts other than numbers
    (`_Stg4`) are ignored; stages with other names (`task_...`, `MergeTask`) wait for nothing. Parents that are not
    among the job's finished stages are left out, and a job whose names form a cycle loses its order; both are counted.
    The other rules are those of `alibaba2017`. The full table has some rows with `nan`: `skip_bad_rows` leaves them
    out.
    """

    columns = (
        Column("task_name", "letters, own number, parents' numbers: J3_1_2; a stage here", True, "text", "stage"),
        Column("instance_num", "tasks of the stage", True, "whole", "tasks"),
        Column("job_name", "the job", True, "text", "job"),
        Column("task_type", "not read", required=True),
        Column("status", "only Terminated ones are read", required=True),
        Column("start_time", "s", True, "whole", "start"),
        Column("end_time", "s", True, "whole", "end"),
        Column("plan_cpu", "100 = 1 core", True, "number", "cpu"),
        Column("plan_mem", "percent of a machine's memory", True, "number", "mem_fraction"),
    )
    contents = NO_INSTANCES
    Params = BatchParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Nine columns with a status among them."""
        return is_batch_task(head, columns=9, status=4)

    @staticmethod
    def read(path: Path, options: BatchParams) -> Trace:
        """A stage waits for all tasks of its parents; parents absent from the job's finished stages are left out."""
        return _built(path, options, assemble)

    @staticmethod
    def table(path: Path, options: BatchParams) -> TableTrace:
        """The tables of `read`."""
        return _built(path, options, partial(tabulate, contents=Alibaba2018.contents))


def _built(path: Path, options: BatchParams, build: Callable[..., T]) -> T:
    """A trace by `assemble` or `tabulate`, with a note on parents that are not among the finished stages."""
    unresolved: Counter[str] = Counter()
    trace: T = build(
        *_finished(path, options),
        options,
        parents_of=_counting(unresolved),
        file=path,
        name="alibaba2018",
        source=_SOURCE,
    )
    return msgspec.structs.replace(trace, notes=(*trace.notes, *_told(unresolved)))


def _finished(path: Path, options: BatchParams) -> tuple[pl.DataFrame, list[str]]:
    frame, notes = finished(path, Alibaba2018.columns, options)
    return frame.with_columns(mem_fraction=frame["mem_fraction"] / 100), notes


def _counting(unresolved: Counter[str]) -> ParentsOf:
    return lambda names: _parents(names, unresolved)


def _told(unresolved: Counter[str]) -> list[str]:
    return [f"{what}: {unresolved[what]:,}" for what in (_ABSENT, _CYCLIC) if unresolved[what]]


@lru_cache(10_000)
def _numbers(name: str) -> tuple[int | None, list[int]]:
    """A stage's own number and its parents' numbers, by the stage's name.

    Names recur from job to job, so the cache saves most of the parsing; a bound keeps unique names (`task_...`) from
    filling the memory.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None, []
    return int(match[1]), sorted({int(part) for part in (match[2] or "").split("_") if _NUMBER.fullmatch(part)})


def _parents(names: list[str], unresolved: Counter[str]) -> list[tuple[int, ...]]:
    """Indexes of each stage's parents; stages of equal numbers all count. Counts unresolved numbers and cycles."""
    by_number: dict[int | None, list[int]] = {}
    for index, name in enumerate(names):
        by_number.setdefault(_numbers(name)[0], []).append(index)
    resolved = []
    for name in names:
        wanted = _numbers(name)[1]
        unresolved[_ABSENT] += sum(number not in by_number for number in wanted)
        resolved.append(tuple(sorted(i for number in wanted for i in by_number.get(number, ()))))
    try:
        if any(resolved):  # most jobs have no order, so the search for a cycle is saved
            TopologicalSorter(dict(enumerate(resolved))).prepare()
    except CycleError:
        unresolved[_CYCLIC] += 1
        return [()] * len(names)
    return resolved

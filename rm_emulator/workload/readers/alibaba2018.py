"""Alibaba cluster-trace-v2018, table `batch_task`: 8 days of about 4,000 machines, with DAGs in the names.

A stage's name holds the DAG: letters, the stage's own number, then its parents' numbers. `M1` is stage 1,
`R2_1` is stage 2 after stage 1, `J3_1_2` stage 3 after both; the letters carry no order. Parts that are not
numbers (`_Stg4`) are ignored; other names (`task_...`, `MergeTask`) are stages that wait for nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from rm_emulator.workload.batch_task import BatchParams, assemble, finished, is_batch_task
from rm_emulator.workload.formats import Column, Trace, register
from rm_emulator.workload.tables import Field
from schedulers.core.errors import InvalidJob
from schedulers.core.model import Stage, topological_order

_FIELDS: Final = (
    Field("task_name", "letters, own number, parents' numbers: J3_1_2; a stage here", "text", "stage"),
    Field("instance_num", "tasks of the stage", "whole", "tasks"),
    Field("job_name", "the job", "text", "job"),
    Field("task_type", "not read"),
    Field("status", "only Terminated ones are read"),
    Field("start_time", "s", "whole", "start"),
    Field("end_time", "s", "whole", "end"),
    Field("plan_cpu", "100 = 1 core", "number", "cpu"),
    Field("plan_mem", "percent of a machine's memory", "number", "mem_pct"),
)
_OWN: Final = r"^[A-Za-z]+(\d{1,9})(?:_|$)"


@register("alibaba2018", source="alibaba/clusterdata, cluster-trace-v2018, schema.txt, batch_task")
class Alibaba2018:
    """Alibaba's production DAG jobs of 2018: stages with parents, instances and demands."""

    columns = tuple(Column(field.name, field.meaning, required=True) for field in _FIELDS)
    Params = BatchParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Nine columns with a status among them."""
        return is_batch_task(head, columns=len(_FIELDS), status=4)

    @staticmethod
    def read(path: Path, options: BatchParams) -> Trace:
        """A stage waits for all tasks of its parents; parents that are not among the job's stages are left out."""
        frame, notes = finished(path, _FIELDS, options)
        frame = frame.with_columns(
            mem_fraction=pl.col("mem_pct") / 100,
            own=pl.col("stage").str.extract(_OWN).cast(pl.Int64),
            parents=pl.col("stage").str.split("_").list.slice(1).list.eval(_number(pl.element())),
        )
        dag = _DagNames()
        source = "Alibaba cluster-trace-v2018, batch_task"
        trace = assemble(frame, notes, options, name="alibaba2018", source=source, file=path, parents_of=dag.parents)
        return Trace(workload=trace.workload, notes=(*trace.notes, *dag.notes()))


def _number(part: pl.Expr) -> pl.Expr:
    return part.filter(part.str.contains(r"^\d{1,9}$")).cast(pl.Int64)


class _DagNames:
    """Resolves the numbers in stage names and counts what does not resolve."""

    def __init__(self) -> None:
        self.absent = 0
        self.cyclic = 0

    def parents(self, stages: list[tuple[int | None, list[int] | None]]) -> list[tuple[int, ...]]:
        """Indexes of each stage's parents; of several stages with one number, all count."""
        by_number: dict[int, list[int]] = {}
        for index, (own, _) in enumerate(stages):
            if own is not None:
                by_number.setdefault(own, []).append(index)
        resolved = []
        for own, numbers in stages:
            wanted = sorted(set(numbers or ())) if own is not None else []
            self.absent += sum(number not in by_number for number in wanted)
            resolved.append(tuple(sorted(i for number in wanted for i in by_number.get(number, ()))))
        return resolved if _acyclic(resolved) else self._flat(len(stages))

    def _flat(self, stages: int) -> list[tuple[int, ...]]:
        self.cyclic += 1
        return [()] * stages

    def notes(self) -> list[str]:
        """What did not resolve."""
        sentences = []
        if self.absent:
            sentences.append(f"parents left out, not among their job's finished stages: {self.absent:,}")
        if self.cyclic:
            sentences.append(f"jobs taken to have no order, their names form a cycle: {self.cyclic:,}")
        return sentences


def _acyclic(parents: list[tuple[int, ...]]) -> bool:
    try:
        topological_order(
            tuple(Stage(name=str(i), tasks=1, demand=(1,), parents=above) for i, above in enumerate(parents))
        )
    except InvalidJob:
        return False
    return True

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
from rm_emulator.workload.tables import BadRows, Field, fixed_table
from schedulers.core.errors import InvalidJob
from schedulers.core.model import Stage, topological_order

_FIELDS: Final = (
    Field("task_name"),
    Field("instance_num", "whole"),
    Field("job_name"),
    Field("task_type"),
    Field("status"),
    Field("start_time", "whole"),
    Field("end_time", "whole"),
    Field("plan_cpu", "number"),
    Field("plan_mem", "number"),
)
_OURS: Final = {
    "task_name": "stage",
    "instance_num": "tasks",
    "job_name": "job",
    "start_time": "start",
    "end_time": "end",
    "plan_cpu": "cpu",
    "plan_mem": "mem_pct",
}
_OWN: Final = r"^[A-Za-z]+(\d{1,9})(?:_|$)"
_PARENTS: Final = r"_(\d{1,9})(?:_|$)"


@register("alibaba2018", source="alibaba/clusterdata, cluster-trace-v2018, schema.txt, batch_task")
class Alibaba2018:
    """Alibaba's production DAG jobs of 2018: stages with parents, instances and demands."""

    columns = (
        Column("task_name", "letters, own number, parents' numbers: J3_1_2; a stage here", required=True),
        Column("instance_num", "tasks of the stage", required=True),
        Column("job_name", "the job", required=True),
        Column("task_type", "not read", required=True),
        Column("status", "only Terminated ones are read", required=True),
        Column("start_time", "s", required=True),
        Column("end_time", "s", required=True),
        Column("plan_cpu", "100 = 1 core", required=True),
        Column("plan_mem", "percent of a machine's memory", required=True),
    )

    class Params(BatchParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Nine columns with a status among them."""
        return is_batch_task(head, columns=len(_FIELDS), status=4)

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """A stage waits for all tasks of its parents; parents that are not among the job's stages are left out."""
        bad = BadRows(skip=options.skip_bad_rows)
        table = fixed_table(path, _FIELDS, bad).rename(_OURS)
        unknown = pl.any_horizontal(
            pl.col("stage", "tasks", "job", "start", "end", "cpu", "mem_pct").is_null(), pl.col("tasks") < 1
        )
        rows = finished(table, unknown=unknown)
        rows.notes += bad.notes()
        rows.frame = rows.frame.with_columns(
            millicores=pl.col("cpu") * 10,
            mem_fraction=pl.col("mem_pct") / 100,
            own=pl.col("stage").str.extract(_OWN).cast(pl.Int64),
            parents=pl.col("stage").str.split("_").list.slice(1).list.eval(_number(pl.element())),
        )
        dag = _DagNames()
        trace = assemble(
            rows,
            options,
            name="alibaba2018",
            source="Alibaba cluster-trace-v2018, batch_task",
            file=path,
            parents_of=dag.parents,
        )
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
        found = []
        if self.absent:
            found.append(f"parents left out, not among their job's finished stages: {self.absent:,}")
        if self.cyclic:
            found.append(f"jobs taken to have no order, their names form a cycle: {self.cyclic:,}")
        return found


def _acyclic(parents: list[tuple[int, ...]]) -> bool:
    try:
        topological_order(
            tuple(Stage(name=str(i), tasks=1, demand=(1,), parents=above) for i, above in enumerate(parents))
        )
    except InvalidJob:
        return False
    return True

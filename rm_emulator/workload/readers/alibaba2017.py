"""Alibaba cluster-trace-v2017, table `batch_task`: 12 hours of about 1,300 machines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from rm_emulator.workload.batch_task import BatchParams, assemble, finished, is_batch_task
from rm_emulator.workload.formats import Column, Trace, register
from rm_emulator.workload.tables import BadRows, Field, fixed_table

_FIELDS: Final = (
    Field("task_create_time", "whole"),
    Field("task_end_time", "whole"),
    Field("job_id"),
    Field("task_id"),
    Field("number_of_instances", "whole"),
    Field("status"),
    Field("number_of_cpus_requested_per_instance", "number"),
    Field("normalized_memory_requested_per_instance", "number"),
)
_OURS: Final = {
    "task_create_time": "start",
    "task_end_time": "end",
    "job_id": "job",
    "task_id": "stage",
    "number_of_instances": "tasks",
    "number_of_cpus_requested_per_instance": "cpu",
    "normalized_memory_requested_per_instance": "mem_fraction",
}


@register("alibaba2017", source="alibaba/clusterdata, cluster-trace-v2017, batch_task")
class Alibaba2017:
    """Alibaba's production batch jobs of 2017: stages without an order among them, with instances and demands."""

    columns = (
        Column("task_create_time", "s since the trace began", required=True),
        Column("task_end_time", "s", required=True),
        Column("job_id", "number of the job", required=True),
        Column("task_id", "number of the task, a stage here", required=True),
        Column("number_of_instances", "tasks of the stage", required=True),
        Column("status", "only Terminated ones are read", required=True),
        Column("number_of_cpus_requested_per_instance", "100 = 1 core", required=True),
        Column("normalized_memory_requested_per_instance", "fraction of a machine's memory", required=True),
    )

    class Params(BatchParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Eight columns with a status among them."""
        return is_batch_task(head, columns=len(_FIELDS), status=5)

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """All stages of a job may start at once: the table does not say which waits for which."""
        bad = BadRows(skip=options.skip_bad_rows)
        table = fixed_table(path, _FIELDS, bad).rename(_OURS)
        unknown = pl.any_horizontal(
            pl.col("start", "end", "job", "stage", "tasks", "cpu", "mem_fraction").is_null(), pl.col("tasks") < 1
        )
        rows = finished(table, unknown=unknown)
        rows.notes += bad.notes()
        rows.frame = rows.frame.with_columns(
            millicores=pl.col("cpu") * 10,
            own=pl.lit(None, dtype=pl.Int64),
            parents=pl.lit(None, dtype=pl.List(pl.Int64)),
        )
        return assemble(rows, options, name="alibaba2017", source="Alibaba cluster-trace-v2017, batch_task", file=path)

"""Alibaba cluster-trace-v2017, table `batch_task`: 12 hours of about 1,300 machines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rm_emulator.workload.batch_task import NO_INSTANCES, BatchParams, assemble, finished, is_batch_task, tabulate
from rm_emulator.workload.formats import Column, TableTrace, Trace, register

_SOURCE: Final = "Alibaba cluster-trace-v2017, batch_task"


@register("alibaba2017", source="alibaba/clusterdata, cluster-trace-v2017, batch_task")
class Alibaba2017:
    """Alibaba's production batch jobs of 2017: stages without an order among them, with instances and demands.

    A task of the trace is a stage here, an instance a task. Stages with a status other than `Terminated`, and stages
    without demands, are left out and counted. A stage within one second is taken to last half a second. Memory is a
    fraction of a machine's, whose size is not published: `machine_memory` gives it.
    """

    columns = (
        Column("task_create_time", "s since the trace began", True, "whole", "start"),
        Column("task_end_time", "s", True, "whole", "end"),
        Column("job_id", "number of the job", True, "text", "job"),
        Column("task_id", "number of the task, a stage here", True, "text", "stage"),
        Column("number_of_instances", "tasks of the stage", True, "whole", "tasks"),
        Column("status", "only Terminated ones are read", required=True),
        Column("number_of_cpus_requested_per_instance", "100 = 1 core", True, "number", "cpu"),
        Column(
            "normalized_memory_requested_per_instance", "fraction of a machine's memory", True, "number", "mem_fraction"
        ),
    )
    contents = NO_INSTANCES.without("dag")
    Params = BatchParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Eight columns with a status among them."""
        return is_batch_task(head, columns=8, status=5)

    @staticmethod
    def read(path: Path, options: BatchParams) -> Trace:
        """All stages of a job may start at once, because the table holds no order of the stages."""
        frame, notes = finished(path, Alibaba2017.columns, options)
        return assemble(frame, notes, options, name="alibaba2017", source=_SOURCE, file=path)

    @staticmethod
    def table(path: Path, options: BatchParams) -> TableTrace:
        """The tables of `read`."""
        frame, notes = finished(path, Alibaba2017.columns, options)
        contents = Alibaba2017.contents
        return tabulate(frame, notes, options, name="alibaba2017", source=_SOURCE, file=path, contents=contents)

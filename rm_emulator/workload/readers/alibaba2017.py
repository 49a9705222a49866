"""Alibaba cluster-trace-v2017, table `batch_task`: 12 hours of about 1,300 machines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rm_emulator.workload.batch_task import BatchParams, assemble, finished, is_batch_task
from rm_emulator.workload.formats import Column, Trace, register
from rm_emulator.workload.tables import Field

_FIELDS: Final = (
    Field("task_create_time", "s since the trace began", "whole", "start"),
    Field("task_end_time", "s", "whole", "end"),
    Field("job_id", "number of the job", "text", "job"),
    Field("task_id", "number of the task, a stage here", "text", "stage"),
    Field("number_of_instances", "tasks of the stage", "whole", "tasks"),
    Field("status", "only Terminated ones are read"),
    Field("number_of_cpus_requested_per_instance", "100 = 1 core", "number", "cpu"),
    Field("normalized_memory_requested_per_instance", "fraction of a machine's memory", "number", "mem_fraction"),
)


@register("alibaba2017", source="alibaba/clusterdata, cluster-trace-v2017, batch_task")
class Alibaba2017:
    """Alibaba's production batch jobs of 2017: stages without an order among them, with instances and demands."""

    columns = tuple(Column(field.name, field.meaning, required=True) for field in _FIELDS)
    Params = BatchParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Eight columns with a status among them."""
        return is_batch_task(head, columns=len(_FIELDS), status=5)

    @staticmethod
    def read(path: Path, options: BatchParams) -> Trace:
        """All stages of a job may start at once: the table does not say which waits for which."""
        frame, notes = finished(path, _FIELDS, options)
        source = "Alibaba cluster-trace-v2017, batch_task"
        return assemble(frame, notes, options, name="alibaba2017", source=source, file=path)

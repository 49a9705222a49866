"""OpenB, the pods of a production GPU cluster of Alibaba's (cluster-trace-gpu-v2023), one row per pod.

Source: alibaba/clusterdata, cluster-trace-gpu-v2023/README.md; Weng et al., "Beware of Fragmentation", ATC 2023.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.model import Fixed, WorkloadJob
from rm_emulator.workload.records import Cell, Log, LogParams, entry, number, single, table, to_ms, whole
from rm_emulator.workload.tables import BadRow
from schedulers.core.model import Job
from schedulers.core.resources import Resources

_FAILED: Final = "Failed"


@register("openb", source="alibaba/clusterdata, cluster-trace-gpu-v2023, openb_pod_list_*.csv")
class OpenB:
    """Pods of Alibaba's GPU cluster of 2023, with shares of GPUs.

    A pod is a job of one task, from its scheduling to its deletion, whatever its phase; `only_completed` leaves out
    failed pods. Pods that were never scheduled are left out. The resource `gpu` counts in thousandths of a GPU. Types
    of GPUs are not read.
    """

    columns = (
        Column("name", "the pod: a job of one task", required=True),
        Column("cpu_milli", "milli-cores", required=True),
        Column("memory_mib", "MiB", required=True),
        Column("num_gpu", "GPUs", required=True),
        Column("gpu_milli", "thousandths of a GPU, for pods with one GPU", required=True),
        Column("gpu_spec", "allowed GPU types; not read"),
        Column("qos", "quality of service: the queue"),
        Column("pod_phase", "Succeeded, Running, Pending, Failed", required=True),
        Column("creation_time", "s", required=True),
        Column("deletion_time", "s", required=True),
        Column("scheduled_time", "s; empty for pods that were never scheduled", required=True),
    )
    contents = Contents.lacking("recurrence", "gangs", "user", "dag", "dates")
    Params = LogParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Its header line."""
        return b"gpu_milli" in head.partition(b"\n")[0] and b"pod_phase" in head.partition(b"\n")[0]

    @staticmethod
    def read(path: Path, options: LogParams) -> Trace:
        """A job per pod; the pod runs from its scheduling to its deletion."""
        log = Log(path, options)
        rows = table(path, [column.name for column in OpenB.columns if column.required], log.bad)
        return log.trace(
            log.each(rows, lambda cell: _job(cell, options, log)),
            source="Alibaba cluster-trace-gpu-v2023",
            assumed=(
                "a pod is taken to run from being scheduled to being deleted, whatever its phase",
                "the trace names no users and no recurring jobs",
            ),
            resources=Resources(("cpu", "memory", "gpu")),
        )


def _job(cell: Cell, options: LogParams, log: Log) -> WorkloadJob | None:
    """The job of a pod; None, and counted, for a pod left out. Raises BadRow."""
    name, phase = cell("name"), cell("pod_phase")
    log.once("pod", name, "name")
    if not name:
        raise BadRow("empty (each row names its pod)", "name")
    cpu, memory, gpus = (whole(cell(c), c) for c in ("cpu_milli", "memory_mib", "num_gpu"))
    share = whole(cell("gpu_milli") or "1000", "gpu_milli", high=1000)
    created, deleted = number(cell("creation_time"), "creation_time"), number(cell("deletion_time"), "deletion_time")
    if not cell("scheduled_time"):
        log.count(f"pods left out, never scheduled (phase {phase or 'empty'})")
        return None
    scheduled = number(cell("scheduled_time"), "scheduled_time")
    if deleted < scheduled or scheduled < created:
        raise BadRow(f"created at {created:g}, scheduled at {scheduled:g}, deleted at {deleted:g}", "scheduled_time")
    if options.only_completed and phase == _FAILED:
        log.count("pods left out, failed")
        return None
    if cell("gpu_spec"):
        log.count("pods whose GPU type is not taken over")
    gpu = gpus * (share if gpus == 1 else 1000)
    wanted = (cpu, memory, gpu) if cpu or memory or gpu else (1000, 0, 0)
    job = Job(id=name, stages=single("pod", 1, wanted), queue=cell("qos") or "default")
    return entry(job, created * 1000, (Fixed(to_ms(deleted - scheduled)),))

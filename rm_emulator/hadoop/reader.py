"""Hadoop SLS: jobs.json, the input of YARN's own scheduler load simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from rm_emulator.hadoop.sls import read_sls
from rm_emulator.hadoop.workload import workload
from rm_emulator.workload.formats import Column, Contents, Trace, register


@register("hadoop", source="apache/hadoop, hadoop-tools/hadoop-sls 3.3.5, trace type SLS")
class Hadoop:
    """Jobs of Hadoop's scheduler load simulator; with `convert`, a scenario with its queues and settings.

    `convert hadoop FOLDER OUT` makes a scenario with the folder's nodes, queues and scheduler; a file of jobs alone, or
    `format: hadoop` in a scenario, is an ordinary workload. The settings below are for a file of jobs alone.
    """

    columns = (
        Column("job.start.ms", "submission, ms since the run began", required=True),
        Column("job.queue.name", "queue: its path, or the last part of it", required=True),
        Column("job.tasks", "tasks of the job, each with the keys below", required=True),
        Column("job.id", "name of the job"),
        Column("job.user", "user (default: default)"),
        Column("job.count", "number of equal jobs"),
        Column("am.memory-mb", "MB of the application master; am.vcores likewise"),
        Column("container.duration.ms", "run time of a task, or container.start.ms and container.end.ms"),
        Column("container.type", "map or reduce; reduces wait for all maps"),
        Column("container.host", "preferred node of the task, /rack/node"),
        Column("container.memory-mb", "MB of the container; container.vcores likewise"),
        Column("count", "number of equal tasks"),
    )

    contents = Contents.lacking(
        "gangs", "gpu", "dates", recurrence="A job's id is its name, so earlier runs of a job are not recognised."
    )

    class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader: preferred nodes; sizes of containers without their own (SLS's sls-runner.xml)."""

        container_mb: Annotated[int, msgspec.Meta(description="memory of a task's container, MB", ge=1)] = 1024
        container_vcores: Annotated[int, msgspec.Meta(description="number of vcores of a task's container", ge=1)] = 1
        am_mb: Annotated[int, msgspec.Meta(description="memory of an application master, MB", ge=1)] = 1024
        am_vcores: Annotated[int, msgspec.Meta(description="number of vcores of an application master", ge=1)] = 1
        hosts: Annotated[
            bool, msgspec.Meta(description="whether tasks prefer the nodes in `container.host`, which must exist")
        ] = True

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A folder with jobs.json, or JSON with the keys of a job."""
        return (path / "jobs.json").is_file() if path.is_dir() else b'"job.start.ms"' in head or b'"job.tasks"' in head

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """A file of jobs, or a folder with jobs.json."""
        file = path / "jobs.json" if path.is_dir() else path
        run = read_sls(file)
        jobs, notes = workload(
            run,
            name=file.parent.resolve().name if path.is_dir() else file.stem,
            container=(options.container_mb, options.container_vcores),
            am=(options.am_mb, options.am_vcores),
            hosts=options.hosts,
        )
        return Trace(workload=jobs, notes=(*run.notes, *notes))

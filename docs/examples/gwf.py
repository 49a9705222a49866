"""The Grid Workload Format of the Grid Workloads Archive: a trace reader from outside the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from rm_emulator.workload.formats import Column, Issues, Trace, register
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from rm_emulator.workload.tables import decoded, read_bytes
from schedulers.core.model import Job, Stage

_FIELDS = 29
_NUMBERS = 11  # of these the first; users, programs and queues have names


@register("gwf", source="Iosup et al., The Grid Workloads Archive (FGCS 2008): the Grid Workload Format")
class Gwf:
    """Jobs of grids: each is a gang of processors for one run time."""

    columns = (
        Column("1: job number", "makes the job's id", required=True),
        Column("2: submit time", "s since the log began", required=True),
        Column("4: run time", "s; jobs that never ran (-1 or 0) are left out", required=True),
        Column("5: allocated processors", "tasks of the job, one core each", required=True),
        Column("7: used memory", "KB per processor; -1: not known, and nothing is asked for"),
        Column("12: user", "the user; -1: not known"),
        Column("14: executable", "recurring name: jobs of one executable are runs of the same job"),
        Column("15: queue", "the queue; -1: default"),
    )

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings of the reader."""

        limit: Annotated[
            Annotated[int, msgspec.Meta(ge=1)] | None, msgspec.Meta(description="read so many jobs at most")
        ] = None

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """Raises TraceError with every line that cannot be read."""
        issues, never_ran = Issues(str(path)), 0
        jobs: list[WorkloadJob] = []
        for number, line in enumerate(decoded(path, read_bytes(path)).splitlines(), start=1):
            fields = line.partition("#")[0].split()
            if not fields or len(jobs) == options.limit:
                continue
            try:
                row = [float(field) for field in fields[:_NUMBERS]]
            except ValueError as error:
                issues.add(str(error), line=number)
                continue
            if len(fields) != _FIELDS:
                issues.add(f"{len(fields)} fields, not {_FIELDS}", line=number)
            elif row[3] <= 0 or row[4] <= 0:
                never_ran += 1
            else:
                jobs.append(_job(row, *("" if name == "-1" else name for name in fields[_NUMBERS:15])))
        if not jobs:
            issues.add("no jobs in it")
        issues.check()
        jobs.sort(key=lambda entry: (entry.submit_ms, entry.job.id))
        notes = (f"{never_ran:,} jobs that never ran are left out",) if never_ran else ()
        return Trace(workload=Workload(name=path.stem, jobs=tuple(jobs), source="GWF"), notes=notes)


def _job(row: list[float], user: str, group: str, program: str, queue: str) -> WorkloadJob:
    """Demands are whole numbers: millicores, and memory in MiB."""
    memory = -(-int(row[6]) // 1024) if row[6] > 0 else 0
    stage = Stage(name="run", tasks=int(row[4]), demand=(1000, memory), gang=row[4] > 1)
    job = Job(
        id=f"j{int(row[0])}",
        stages=(stage,),
        name=program,
        user=user,
        queue=queue or "default",
    )
    return WorkloadJob(job=job, submit_ms=max(0, round(1000 * row[1])), runtimes=(Fixed(round(1000 * row[3])),))

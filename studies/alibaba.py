"""Alibaba's batch jobs of 2017 as a ground for predictors: real widths, stages and mean run times; the rest is drawn.

The trace has one time per stage and no names. So the spread of run times inside a stage is drawn, and history knows a
job by its demand and its hour alone. A task takes one slot of the study's cluster, whatever it asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator import api
from rm_emulator.workload.model import Drawn, WorkloadJob
from rm_emulator.workload.work import mean_task_ms

TRACE: Final = "alibaba-2017-batch_task.csv.gz"
#: Variation inside a stage, between those of SLearn's three traces (its Table 4).
COV: Final = 0.5
#: The study's slot, in millicores and MiB.
_SLOT: Final = (1000, 4096)
BLOCK: Final[dict[str, Any]] = {
    "kind": "trace",
    "path": "alibaba-2017-jobs",
    "extract": {"jobs": 1250, "drop_wider_than": 150},
    "slots": 150,
}


def prepare(out: Path, data: Path) -> bool:
    """Write the jobs into a folder of `out`, once; False without the trace."""
    path = out / BLOCK["path"]
    if not path.exists():
        if not (data / TRACE).exists():
            return False
        workload = api.read_trace("alibaba2017", data / TRACE)
        jobs = tuple(_drawn(entry) for entry in workload.jobs)
        source = f"{workload.source}; spread inside stages drawn"
        api.save_workload(msgspec.structs.replace(workload, jobs=jobs, source=source), path)
    return True


def _drawn(entry: WorkloadJob) -> WorkloadJob:
    replace = msgspec.structs.replace
    # Memory stays as far as it fits, because jobs of the same program ask for the same amount.
    stages = tuple(replace(stage, demand=(_SLOT[0], min(_SLOT[1], stage.demand[1]))) for stage in entry.job.stages)
    times = tuple(Drawn(mean_ms=mean_task_ms(entry, index) or 1.0, cov=COV) for index in range(len(stages)))
    return replace(entry, job=replace(entry.job, stages=stages), runtimes=times)

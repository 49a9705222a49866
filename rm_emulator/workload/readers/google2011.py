"""Google's cluster trace of 2011 (clusterdata-2011-2): 29 days of a cell of 12,500 machines, one row per event.

Source: Reiss, Wilkes, Hellerstein, "Google cluster-usage traces: format + schema" (v2.1, 2014), tables task events and
job events.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.tables import BadRow, csv_rows
from rm_emulator.workload.task_events import EventParams, Names, TaskEvents, parts

_KINDS: Final = dict(
    enumerate(("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST", "UPDATE_PENDING", "UPDATE_RUNNING"))
)
_JOB_COLUMNS: Final = 8


@register("google2011", source="google/cluster-data, clusterdata-2011-2, format + schema v2.1")
class Google2011:
    """Google's cell of 2011, from its task events; names from its job events where they are beside them.

    A task runs from its last schedule event to the end of that attempt; evicted attempts are counted, not repeated.
    Tasks submitted before the trace, and tasks without an attempt that began and ended inside it, are left out; failed
    and killed tasks are read unless `only_completed`. Tasks of a job with equal requests are a stage. Requests are
    fractions of the largest machine, whose size the settings `machine_cpu` and `machine_memory` give. Priorities and
    constraints are not read.
    """

    columns = (
        Column("time", "µs; 0 before the trace, 2^63 - 1 after it", required=True),
        Column("missing info", "1 to 3 where the row was made up", required=True),
        Column("job ID", "the job", required=True),
        Column("task index", "the task, from 0", required=True),
        Column("machine ID", "not read", required=True),
        Column(
            "event type", "0 submit, 1 schedule, 2 evict, 3 fail, 4 finish, 5 kill, 6 lost, 7, 8 update", required=True
        ),
        Column("user", "user", required=True),
        Column("scheduling class", "not read", required=True),
        Column("priority", "not read", required=True),
        Column("CPU request", "fraction of the largest machine", required=True),
        Column("memory request", "fraction of the largest machine", required=True),
        Column("disk space request", "not read", required=True),
        Column("different machines restriction", "not read", required=True),
    )
    contents = Contents.lacking("gangs", "gpu", "queue", "dag", "dates")
    Params = EventParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A folder with task_events, or 13 columns with numbers for time, job, task and type."""
        if path.is_dir():
            return any(path.glob("task_events*"))
        cells = head.partition(b"\n")[0].split(b",")
        return len(cells) == len(Google2011.columns) and all(cells[place].isdigit() for place in (0, 2, 3, 5))

    @staticmethod
    def read(path: Path, options: EventParams) -> Trace:
        """A file of task events, or a folder with task_events (and job_events, for names) in files or folders."""
        events = TaskEvents(path, options, {str(number): name for number, name in _KINDS.items()})
        for file in parts(path, "task_events"):
            events.each(csv_rows(file), lambda cells: _add(cells, events), file)
        assumed = () if path.is_dir() else ("the logical names of jobs are in job_events, which was not given",)
        names = _names(path)
        trace = events.jobs(names, source="Google clusterdata-2011-2", assumed=assumed)
        return trace if names else trace.lacking(Google2011.contents, "recurrence")


def _add(cells: list[str], events: TaskEvents) -> None:
    if len(cells) != len(Google2011.columns):
        raise BadRow(f"{len(cells)} columns, but task events have {len(Google2011.columns)}")
    time, missing, job, index, _, kind, user, _, _, cpu, memory, *_ = cells
    if missing:
        events.count("events that were made up for missing ones")
    events.add(time=time, kind=kind, job=job, index=index, cpu=cpu, memory=memory or "0", user=user)


def _names(path: Path) -> dict[str, Names]:
    """Users and logical names by job, where there is a table of them. Rows of another width are passed over."""
    if not path.is_dir() or not any(path.glob("job_events*")):
        return {}
    names = {}
    for file in parts(path, "job_events"):
        for _, cells in csv_rows(file):
            if len(cells) == _JOB_COLUMNS:
                names[cells[2]] = Names(name=cells[7], user=cells[4])
    return names

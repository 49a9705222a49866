"""Standard Workload Format: the logs of the Parallel Workloads Archive, a line per job, 18 numbers each.

Source: D. Feitelson, "The Standard Workload Format" (version 2.2), www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.model import Fixed, WorkloadJob
from rm_emulator.workload.records import MAX_TASKS, Log, LogParams, entry, number, single, to_ms, whole
from rm_emulator.workload.tables import MAX_ROWS, BadRow, lines, one
from schedulers.core.model import Job

_COLUMNS: Final = (
    Column("job number", "a counter from 1", required=True),
    Column("submit time", "s since the log began", required=True),
    Column("wait time", "s; not read", required=True),
    Column("run time", "s", required=True),
    Column("allocated processors", "number of allocated processors: one task of one core each", required=True),
    Column("average cpu time", "not read", required=True),
    Column("used memory", "KB per processor; read if no memory is requested", required=True),
    Column("requested processors", "number; read if none are allocated", required=True),
    Column("requested time", "s; hint of the submitter", required=True),
    Column("requested memory", "KB per processor", required=True),
    Column("status", "1 completed, 0 failed, 5 cancelled, 2 to 4 parts of a job, -1 unknown", required=True),
    Column("user", "number", required=True),
    Column("group", "number; not read", required=True),
    Column("executable", "number of the program: jobs of one program recur", required=True),
    Column("queue", "number", required=True),
    Column("partition", "number; not read", required=True),
    Column("preceding job", "not read", required=True),
    Column("think time", "not read", required=True),
)
_NAMES: Final = tuple(column.name for column in _COLUMNS)
#: Facts of a log with the header UnixStartTime.
_DATED: Final = Contents.lacking("gpu", "dag", task_times="All tasks of a job take the job's run time.")
_START: Final = re.compile(r";\s*UnixStartTime\s*:\s*(\d{1,12})\s*")
_COMPLETED: Final = 1
_PARTS: Final = (2, 3, 4)
_UNKNOWN: Final = -1


@register("swf", source="Parallel Workloads Archive, Standard Workload Format 2.2")
class Swf:
    """Rigid parallel jobs of supercomputers, in the Parallel Workloads Archive's format.

    A job is a gang of as many one-core tasks as the job was allocated processors; without that number, as many as it
    requested. Memory is per processor: the requested memory, else the used memory, else none. The hint is the requested
    time. Users, queues and programs are numbers; the program is both `name` and `app`. Jobs without run time or
    processors, and the lines of parts of a job (status 2 to 4), are left out and counted. Failed and cancelled jobs
    are read unless `only_completed`. Waits, preceding jobs and think times are not read. The header `UnixStartTime`
    gives the arrivals their dates.
    """

    columns = _COLUMNS
    contents = _DATED.without("dates")

    class Params(LogParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

        gang: Annotated[
            bool, msgspec.Meta(description="whether the tasks of a job (one per processor) start together")
        ] = True

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """Comments with ';', then lines of 18 numbers."""
        rows = [line for line in head.decode("latin-1").splitlines()[:-1] if line.strip() and line[0] != ";"]
        return head[:1] == b";" and all(len(row.split()) == len(_NAMES) for row in rows[:3])

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """A job per line, of as many tasks as processors."""
        log = Log(path, options)
        jobs = log.each(_rows(path), lambda cells: _job(cells, options, log))
        assumed = [
            "a job is as many tasks of one core as it has processors"
            + (", which start together (gang)" if options.gang else ", which may start one by one"),
            "the time that a job waited, and the job that it came after, are not taken over",
        ]
        trace = log.trace(jobs, source="Parallel Workloads Archive, SWF", assumed=assumed, epoch_ms=_start_ms(path))
        return trace if trace.workload.began is None else trace.lacking(_DATED)


def _start_ms(path: Path) -> int | None:
    """The time 0 of the log in ms since 1970, from the comments before the first job; None without the header."""
    comments = itertools.takewhile(lambda text: not text.strip() or text.lstrip().startswith(";"), lines(path))
    found = next(filter(None, map(_START.fullmatch, comments)), None)
    return None if found is None else 1000 * int(found[1])


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each line, without comments and empty lines."""
    for line, text in enumerate(lines(path), start=1):
        if line > MAX_ROWS:
            raise one(path, f"more than {MAX_ROWS:,} lines (the most that is read: take a part of it)", line=line)
        cells = text.split()
        if cells and not cells[0].startswith(";"):
            yield line, cells


def _job(cells: list[str], options: Swf.Params, log: Log) -> WorkloadJob | None:
    """The job of a line; None, and counted, for a line left out. Raises BadRow."""
    if len(cells) != len(_NAMES):
        raise BadRow(f"{len(cells)} number{'s' if len(cells) != 1 else ''}, but a job has {len(_NAMES)}")
    row = dict(zip(_NAMES, cells, strict=True))
    ident, status = whole(row["job number"], "job number"), whole(row["status"], "status", low=-1)
    submit = number(row["submit time"], "submit time")
    run = number(row["run time"], "run time", low=_UNKNOWN)
    processors = _either(row, "allocated processors", "requested processors")
    if processors > MAX_TASKS:
        raise BadRow(f"{processors:,} processors (at most {MAX_TASKS:,})", "allocated processors")
    if status in _PARTS:
        log.count("lines left out, parts of a job that has a line of its own")
    elif run < 0 or processors < 1:
        log.count("jobs left out, no run time or no processors")
    elif options.only_completed and status not in (_COMPLETED, _UNKNOWN):
        log.count("jobs left out, failed or cancelled")
    else:
        if run == 0:
            log.count("jobs of less than a second, taken to last half of one")
        kib = _either(row, "requested memory", "used memory")
        if kib < 1:
            log.count("jobs that say no memory, taken to need none")
        requested = number(row["requested time"], "requested time", low=_UNKNOWN)
        stages = single(
            "run",
            processors,
            (1000, -(-max(0, kib) // 1024)),
            hint_ms=to_ms(requested) if requested > 0 else None,
            gang=options.gang,
        )
        app = _named("app", row["executable"], "executable")
        job = Job(
            id=str(ident),
            stages=stages,
            name=app,
            app=app,
            user=_named("user", row["user"], "user"),
            queue=_named("queue", row["queue"], "queue") or "default",
        )
        log.once("job", job.id, "job number")
        return entry(job, submit * 1000, (Fixed(to_ms(run)),))
    return None


def _either(row: dict[str, str], first: str, second: str) -> int:
    """The first column's number if above 0, else the second's; -1 means unknown."""
    amount = whole(row[first], first, low=_UNKNOWN)
    return amount if amount > 0 else whole(row[second], second, low=_UNKNOWN)


def _named(what: str, text: str, column: str) -> str:
    value = whole(text, column, low=_UNKNOWN)
    return "" if value < 0 else f"{what}-{value}"

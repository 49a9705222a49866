"""From events of tasks (submitted, scheduled, evicted, finished ...) to jobs: the common part of both Google readers.

Times are microseconds from 600 s before the trace begins; 0 is before the trace, 2^63 - 1 after the trace. Requests are
fractions of the largest machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from rm_emulator.workload.formats import Trace
from rm_emulator.workload.model import RunTimes, WorkloadJob
from rm_emulator.workload.records import (
    MAX_MS,
    Log,
    LogParams,
    entry,
    machine_steps,
    number,
    part_of,
    runtimes,
    to_ms,
    whole,
)
from rm_emulator.workload.tables import MAX_ROWS, BadRow, one
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Vector

BEFORE: Final = 0
AFTER: Final = 2**63 - 1
ENDS: Final = ("FAIL", "FINISH", "KILL", "LOST")
#: (time, kind, request) of one task; request: (cpu, memory) as fractions, None where the event names none.
_Event = tuple[int, str, tuple[float, float] | None]


class EventParams(LogParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of both readers."""

    machine_cpu: Annotated[
        str, msgspec.Meta(description="cores of the largest machine; requests in the trace are fractions of it")
    ] = "64"
    machine_memory: Annotated[
        str, msgspec.Meta(description="memory of the largest machine; requests in the trace are fractions of it")
    ] = "256Gi"


class Names(msgspec.Struct, frozen=True):
    """Names from the table of jobs. name: the recurring name of a job."""

    name: str = ""
    user: str = ""


class _Ran(msgspec.Struct, frozen=True):
    """A task that ran: time of submission and run time in µs, request as fractions (cpu, memory) of a machine."""

    submit: int
    run: int
    request: tuple[float, float]


def parts(path: Path, table: str) -> list[Path]:
    """The files of a table: `path` itself, or in a folder the files called after the table, or all in its own folder.

    Raises TraceError for a folder without the table.
    """
    if not path.is_dir():
        return [path]
    inside = path / table if (path / table).is_dir() else path
    files = [p for p in inside.iterdir() if p.is_file() and (inside != path or p.name.startswith(table))]
    files = sorted(files or path.glob("part-*"))
    if not files:
        raise one(path, f"there is no {table} in it (files {table}*, or a folder of that name)")
    return files


class TaskEvents(Log):
    """The events of all tasks, in any order, and the jobs of these tasks."""

    def __init__(self, path: Path, options: EventParams, kinds: Mapping[str, str]) -> None:
        super().__init__(path, options)
        self._options, self._kinds = options, kinds
        self._jobs: dict[str, dict[int, list[_Event]]] = {}
        self._users: dict[str, str] = {}
        self._events = 0

    def add(self, *, time: str, kind: str, job: str, index: str, cpu: str, memory: str, user: str = "") -> None:
        """Takes an event in. Raises BadRow, and TraceError above MAX_ROWS events."""
        self._events += 1
        if self._events > MAX_ROWS:
            raise one(self.path, f"more than {MAX_ROWS:,} events (the most that is read: take some of the files)")
        if kind not in self._kinds:
            known = ", ".join(f"{key} {name}" for key, name in self._kinds.items() if key.isdecimal())
            raise BadRow(f"'{kind}' is not a type of event ({known})", "event type")
        if not job:
            raise BadRow("empty (each event names its job)", "job")
        request = (number(cpu, "cpu request", high=1e6), number(memory, "memory request", high=1e6)) if cpu else None
        event = (int(whole(time, "time", high=float(AFTER))), self._kinds[kind], request)
        self._jobs.setdefault(job, {}).setdefault(whole(index, "task index", high=1e12), []).append(event)
        if user:
            self._users[job] = user

    def jobs(self, names: Mapping[str, Names], *, source: str, assumed: Iterable[str]) -> Trace:
        """The jobs of the events. Raises TraceError as `trace` does."""
        sizes = machine_steps(self._options, "cpu", "memory")
        made = (self._job(job, names, sizes) for job in self._jobs)
        machine = f"{self._options.machine_cpu} cores and {self._options.machine_memory}"
        said = (
            f"requests are fractions of the largest machine, taken to have {machine}",
            "a task runs from its last schedule event to the end of that attempt; evicted attempts are not repeated",
            "tasks of a job may all start at once",
            *assumed,
        )
        return self.trace([job for job in made if job is not None], source=source, assumed=said)

    def _job(self, job: str, names: Mapping[str, Names], sizes: tuple[int, ...]) -> WorkloadJob | None:
        """The job of some tasks; None where no task ran inside the trace. Tasks of equal requests are a stage."""
        stages: dict[Vector, list[_Ran]] = {}
        for index in sorted(self._jobs[job]):
            ran = self._ran(self._jobs[job][index])
            if ran is not None:
                demand = tuple(map(part_of, ran.request, sizes))
                stages.setdefault(demand, []).append(ran)
        if not stages:
            return None
        known = names.get(job, Names())
        made = [
            Stage(name=f"tasks-{number}" if number else "tasks", tasks=len(tasks), demand=demand)
            for number, (demand, tasks) in enumerate(stages.items())
        ]
        times: list[RunTimes] = [runtimes([to_ms(ran.run / 1e6) for ran in tasks]) for tasks in stages.values()]
        submit = min(ran.submit for tasks in stages.values() for ran in tasks)
        user = known.user or self._users.get(job, "")
        return entry(Job(id=job, stages=tuple(made), name=known.name, user=user), submit / 1000, times)

    def _ran(self, events: list[_Event]) -> _Ran | None:
        """The last finished attempt of a task; None, and counted, for a task without a finished attempt."""
        events.sort(key=lambda event: event[0])
        submit = started = ran = None
        how, request = "", None
        for time, kind, asked in events:
            request = asked or request
            if kind == "SUBMIT" and submit is None:
                submit = time
            elif kind == "SCHEDULE":
                started = time
            elif kind == "EVICT":
                self.count("attempts that were evicted, left out", started is not None)
                started = None
            elif kind in ENDS and time < AFTER:
                if started is not None:
                    ran, how = time - started if started > BEFORE else None, kind
                started = None
        if submit is None or submit == BEFORE:
            self.count("tasks left out, submitted before the trace began")
        elif ran is None:
            self.count("tasks left out, no attempt began and ended inside the trace")
        elif request is None:
            self.count("tasks left out, they request nothing")
        elif self._options.only_completed and how != "FINISH":
            self.count(f"tasks left out, {how}")
        elif ran / 1000 > MAX_MS:
            self.count("tasks left out, longer than any trace")
        else:
            return _Ran(submit, ran, request)
        return None

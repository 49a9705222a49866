"""YARN's list of applications, as its ResourceManager's REST interface gives it: JSON, `apps.app[]`.

Source: apache/hadoop, ResourceManagerRest.md (3.3.6), Cluster Applications API.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import msgspec

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.model import Fixed, WorkloadJob
from rm_emulator.workload.records import MAX_MS, MAX_TASKS, Log, LogParams, entry, item, items, single
from rm_emulator.workload.tables import BadRow
from schedulers.core.model import Job

_Time = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]
_Sum = Annotated[int, msgspec.Meta(le=MAX_MS)]


class _App(msgspec.Struct):
    """The fields of an application; times in ms since 1970, 0 for unknown."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    startedTime: _Time  # noqa: N815  # fields are called as in YARN
    finishedTime: _Time = 0  # noqa: N815
    launchTime: _Time = 0  # noqa: N815
    state: str = ""
    finalStatus: str = ""  # noqa: N815
    user: str = ""
    name: str = ""
    queue: str = "default"
    applicationType: str = ""  # noqa: N815
    memorySeconds: _Sum = 0  # noqa: N815
    vcoreSeconds: _Sum = 0  # noqa: N815


@register("yarn_apps", source="apache/hadoop, ResourceManagerRest, Cluster Applications API")
class YarnApps:
    """Applications of a YARN cluster, from its REST interface; their containers are guessed from their sums.

    An application is as many tasks of one vcore as its `vcoreSeconds` need from `launchTime` (or `startedTime`) to
    `finishedTime`; memory follows from its `memorySeconds`. The application master is among the tasks. The work is
    therefore exact, its shape is not. With `task_seconds` the containers are shorter and more. Applications that run
    or held nothing are left out; failed and killed ones are read unless `only_completed`. Places in messages are
    numbers of applications.
    """

    columns = (
        Column("id", "application_..., the job", required=True),
        Column("startedTime", "time of submission, ms since 1970", required=True),
        Column("launchTime", "start of the application master, ms since 1970; startedTime if missing"),
        Column("finishedTime", "end, ms since 1970; 0 for running applications", required=True),
        Column("vcoreSeconds", "held vcores times seconds", required=True),
        Column("memorySeconds", "held MB times seconds", required=True),
        Column("state", "FINISHED, FAILED, KILLED, RUNNING, ..."),
        Column("finalStatus", "SUCCEEDED, FAILED, KILLED, UNDEFINED"),
        Column("user", "user"),
        Column("name", "recurring name"),
        Column("queue", "queue, as YARN names it"),
        Column("applicationType", "program: MAPREDUCE, SPARK, TEZ, ..."),
    )

    contents = Contents.lacking(
        "gangs",
        "gpu",
        "dag",
        task_times="All containers of an application take its time from launch to end, or `task_seconds`.",
        cpu="A container has one vcore: the list has sums over an application only.",
    )

    class Params(LogParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

        task_seconds: Annotated[
            Annotated[float, msgspec.Meta(gt=0)] | None,
            msgspec.Meta(description="run time of a container, s; null: the run time of its application"),
        ] = None

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """The list's two keys."""
        start = head.lstrip()[:60].replace(b" ", b"").replace(b"\n", b"")
        return start.startswith((b'{"apps":{"app"', b'{"apps":null'))

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """A job per application, of a single stage of containers with a vcore each."""
        log = Log(path, options)
        apps = enumerate(items(path, "apps", "app"), start=1)
        jobs = log.each(apps, lambda raw: _job(item(raw, _App), options, log))
        length = "its application" if options.task_seconds is None else f"{options.task_seconds:g} s"
        assumed = (
            "the list holds no containers: an application is as many tasks of one vcore as its vcoreSeconds need, with "
            f"memory by its memorySeconds, each as long as {length}; its master is among them",
            "places in the file are numbers of applications, not lines",
        )
        return log.trace(jobs, source="YARN, list of applications", assumed=assumed, epoch_ms=0)


def _job(app: _App, options: YarnApps.Params, log: Log) -> WorkloadJob | None:
    """The job of an application; None, and counted, for an application left out. Raises BadRow."""
    log.once("application", app.id, "id")
    start = app.launchTime or app.startedTime
    if not app.finishedTime:
        log.count(f"applications left out, not over when the list was made ({app.state or 'no state'})")
    elif app.finishedTime < start:
        raise BadRow(f"{app.id} ends at {app.finishedTime}, before it starts at {start}", "finishedTime")
    elif options.only_completed and app.finalStatus != "SUCCEEDED":
        log.count(f"applications left out, {app.finalStatus or 'no final status'}")
    elif app.vcoreSeconds <= 0:
        log.count("applications left out, they held nothing (vcoreSeconds is 0)")
    else:
        work_ms = app.vcoreSeconds * 1000
        span_ms = options.task_seconds * 1000 if options.task_seconds else max(1, app.finishedTime - start)
        tasks = max(1, math.ceil(work_ms / span_ms))
        if tasks > MAX_TASKS:
            raise BadRow(f"{app.id} would have {tasks:,} tasks (at most {MAX_TASKS:,})", "vcoreSeconds")
        mb = math.ceil(max(0, app.memorySeconds) / app.vcoreSeconds)
        job = Job(
            id=app.id,
            stages=single("containers", tasks, (1000, mb)),
            name=app.name,
            user=app.user,
            app=app.applicationType,
            queue=app.queue or "default",
        )
        return entry(job, app.startedTime, (Fixed(max(1, round(work_ms / tasks))),))
    return None

"""SLS jobs as a workload: a stage of maps, then a stage of reduces, with the nodes asked for by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rm_emulator.hadoop.sls import Size, SlsJob, SlsRun, SlsTask, size
from rm_emulator.workload.model import Fixed, PerTask, RunTimes, Workload, WorkloadJob
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Vector

SOURCE = "Hadoop 3.3.5 SLS, MRAMSimulator"


def workload(
    run: SlsRun,
    *,
    name: str,
    container: Size,
    am: Size,
    queues: Sequence[str] = (),
    hosts: bool = True,
) -> tuple[Workload, tuple[str, ...]]:
    """The jobs in order of submission, and sentences on differences between SLS and the file.

    `container`, `am`: (MB, vcores) of tasks and application masters without their own.
    `queues`: queue for each job; by default the queue in the file. `hosts`: whether tasks prefer the file's nodes.
    """
    named = list(zip(run.jobs, queues or [job.queue for job in run.jobs], strict=True))
    # Jobs of one instant keep the order of the file: SLS gives ids by time of submission, and lets ties race.
    ordered = sorted(enumerate(named), key=lambda entry: (entry[1][0].start_ms, entry[0]))
    entries = tuple(_entry(job, queue, container, am, hosts=hosts) for _, (job, queue) in ordered)
    notes = tuple(_notes(run, container))
    return Workload(name=name, jobs=entries, source=SOURCE), notes


def _entry(job: SlsJob, queue: str, container: Size, am: Size, *, hosts: bool) -> WorkloadJob:
    groups = [(type_, tasks) for type_ in ("map", "reduce") if (tasks := job.of_type(type_))]
    stages = [
        Stage(
            name=type_,
            tasks=len(tasks),
            demand=_demand(tasks[0], container),
            parents=(0,) if number else (),
            hosts=_hosts(tasks) if hosts else (),
        )
        for number, (type_, tasks) in enumerate(groups)
    ]
    return WorkloadJob(
        job=Job(id=job.id, stages=tuple(stages), name=job.id, user=job.user, app="mapreduce", queue=queue),
        submit_ms=job.start_ms,
        runtimes=tuple(_times(tasks) for _, tasks in groups),
        am=_vector(size(job.am_memory_mb, job.am_vcores, am)),
    )


def _demand(task: SlsTask, container: Size) -> Vector:
    return _vector(size(task.memory_mb, task.vcores, container))


def _vector(size: Size) -> Vector:
    """In the order of `Workload.resources`: milli-CPU, MiB."""
    mb, vcores = size
    return vcores * 1000, mb


def _times(tasks: Sequence[SlsTask]) -> RunTimes:
    times = tuple(task.duration_ms for task in tasks)
    return Fixed(times[0]) if len(set(times)) == 1 else PerTask(times)


def _hosts(tasks: Sequence[SlsTask]) -> tuple[tuple[str, ...], ...]:
    hosts = tuple((task.host,) if task.host else () for task in tasks)
    if not any(hosts):
        return ()
    return hosts[:1] if len(set(hosts)) == 1 else hosts


def _notes(run: SlsRun, container: Size) -> Iterator[str]:
    for type_, priority in (("map", 20), ("reduce", 10)):
        groups = [(job, tasks) for job in run.jobs if (tasks := job.of_type(type_))]
        mixed = sum(len({_demand(task, container) for task in tasks}) > 1 for _, tasks in groups)
        if mixed:
            yield f"{mixed} jobs have {type_}s of several sizes: like SLS, all are asked for in the size of the first"
        other = sum(task.priority != priority for _, tasks in groups for task in tasks)
        if other:
            yield f"{other} {type_}s have a container.priority other than {priority}: SLS asks for all with {priority}"

"""Jobs written out in a scenario: their cross-references checked, then turned into a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rm_emulator.issues import did_you_mean
from rm_emulator.scenario.cluster import run_times
from rm_emulator.scenario.schema.structs import into
from rm_emulator.scenario.schema.values import Distribution, TimesByNode
from rm_emulator.scenario.schema.workload import (
    InlineJob,
    InlinePastJob,
    InlineStage,
    JobsWorkload,
    ParentEdge,
)
from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, RunningTask, Workload, WorkloadJob
from schedulers.core.errors import InvalidJob, nearest
from schedulers.core.model import Edge, Job, PastJob, Stage, tie_mistake, topological_order
from schedulers.core.resources import Resources

#: A mistake: path below the workload block, message, hint.
Mistake = tuple[tuple[str | int, ...], str, str]


def mistakes(block: JobsWorkload) -> Iterator[Mistake]:
    """Mistakes beyond the form: no jobs, repeated ids, unknown parents, cycles, lists of the wrong length."""
    if not block.jobs:
        yield ("jobs",), "the workload is empty: expected at least one job", ""
    seen: dict[str, int] = {}
    for index, job in enumerate(block.jobs):
        if job.id is not None and job.id in seen:
            yield ("jobs", index, "id"), f"id '{job.id}' is given twice, first in jobs[{seen[job.id]}]", ""
        if job.id is not None:
            seen.setdefault(job.id, index)
        yield from _job_mistakes(("jobs", index), job)


def _job_mistakes(at: tuple[str | int, ...], job: InlineJob) -> Iterator[Mistake]:
    names = [stage.name for stage in job.stages]
    sound = True
    for index, stage in enumerate(job.stages):
        here = (*at, "stages", index)
        if names.index(stage.name) < index:
            yield (*here, "name"), f"two stages of this job are called '{stage.name}'", ""
            sound = False
        above = [_name(parent) for parent in stage.parents]
        for k, parent in enumerate(above):
            if parent not in names:
                message = f"no stage '{parent}' in this job (stages: {', '.join(names)})"
                yield (*here, "parents", k), message, did_you_mean(nearest(parent, names))
                sound = False
            elif above.index(parent) < k and not all(isinstance(each, str) for each in stage.parents):
                yield (*here, "parents", k), f"a second edge to stage '{parent}' (expected one at most)", ""
                sound = False
        if stage.duration is None and job.service is None:
            yield (*here, "duration"), "is missing: only what a service runs has none", ""
        elif stage.duration is not None and job.service is not None:
            yield (*here, "duration"), "a service runs until the run ends: leave the duration of its stages out", ""
        yield from _duration_mistakes(here, stage)
        if stage.running and (stage.parents or len(stage.running) > stage.tasks or job.service is not None):
            wanted = f"expected at most {stage.tasks}, in a stage without parents, of a job that is no service"
            yield (*here, "running"), f"{len(stage.running)} running tasks ({wanted})", ""
    if sound:
        stages = tuple(_stage(stage, names, Resources(stage.demand)) for stage in job.stages)
        yield from _edge_mistakes(at, job, stages)
        try:
            topological_order(stages)
        except InvalidJob as error:
            yield (*at, "stages"), str(error), ""


def _edge_mistakes(at: tuple[str | int, ...], job: InlineJob, stages: tuple[Stage, ...]) -> Iterator[Mistake]:
    tasks = {index: stage.tasks for index, stage in enumerate(stages)}
    for index, (written, stage) in enumerate(zip(job.stages, stages, strict=True)):
        for k, (parent, edge) in enumerate(zip(written.parents, stage.edges, strict=True)):
            here = (*at, "stages", index, "parents", k)
            if isinstance(parent, ParentEdge) and parent.share is not None and parent.kind != "barrier":
                yield (*here, "kind"), f"'{parent.kind}' does not go with a share (expected one of the two)", ""
            elif why := tie_mistake(stage, edge, tasks):
                yield here, f"stage '{stage.name}' has an edge to '{_name(parent)}' {why}", ""


def _duration_mistakes(here: tuple[str | int, ...], stage: InlineStage) -> Iterator[Mistake]:
    times: dict[tuple[str, ...], int | list[int] | Distribution | TimesByNode | None] = {("duration",): stage.duration}
    if isinstance(stage.duration, TimesByNode):
        times = {("duration", "by_node", node): each for node, each in stage.duration.by_node.items()}
    for at, each in times.items():
        if isinstance(each, list) and len(each) != stage.tasks:
            wanted = f"{stage.tasks} task{'s' if stage.tasks > 1 else ''}"
            yield (*here, *at), f"{len(each)} durations for {wanted} (expected one per task)", ""


def _name(parent: str | ParentEdge) -> str:
    return parent if isinstance(parent, str) else parent.stage


def _edge(parent: str | ParentEdge, names: Sequence[str]) -> int | Edge:
    """An edge in the core's form; the index alone for a barrier without data."""
    index = names.index(_name(parent))
    if isinstance(parent, str):
        return index
    kind = parent.kind if parent.share is None else "share"
    edge = Edge(parent=index, kind=kind, share=parent.share or 0.0, data=parent.data)
    return index if edge == Edge(parent=index) else edge


def workload(block: JobsWorkload, name: str, resources: Resources) -> Workload:
    """The jobs by arrival, then id; a job without id is called by its name, numbered if the name is shared."""
    ids = _ids(block.jobs)
    jobs = [_job(job, ids[index], resources) for index, job in enumerate(block.jobs)]
    return Workload(
        name=name,
        jobs=tuple(sorted(jobs, key=lambda j: (j.submit_ms, j.job.id))),
        history=tuple(sorted((_past(job) for job in block.history), key=lambda past: past.submitted)),
        resources=resources.names,
        source="written out in the scenario",
    )


def _ids(jobs: Sequence[InlineJob]) -> list[str]:
    taken = {job.id for job in jobs if job.id is not None}
    names = [job.name for job in jobs if job.id is None]
    counts: dict[str, int] = {}
    ids = []
    for job in jobs:
        if job.id is not None:
            ids.append(job.id)
            continue
        free = job.name if names.count(job.name) == 1 and job.name not in taken else None
        while free is None or free in taken:
            counts[job.name] = counts.get(job.name, 0) + 1
            free = f"{job.name}-{counts[job.name]}"
        taken.add(free)
        ids.append(free)
    return ids


def _job(job: InlineJob, job_id: str, resources: Resources) -> WorkloadJob:
    names = [stage.name for stage in job.stages]
    return WorkloadJob(
        job=into(
            Job,
            job,
            id=job_id,
            stages=tuple(_stage(stage, names, resources) for stage in job.stages),
            deadline=None if job.deadline is None else job.submit + job.deadline,
        ),
        submit_ms=job.submit,
        runtimes=tuple(_run_times(stage) for stage in job.stages),
        apart=job.apart,
        running=tuple(
            RunningTask(index, task, each.node, each.elapsed)
            for index, stage in enumerate(job.stages)
            for task, each in enumerate(stage.running)
        ),
    )


def _stage(stage: InlineStage, names: Sequence[str], resources: Resources) -> Stage:
    return into(
        Stage,
        stage,
        demand=resources.demand(stage.demand),
        parents=tuple(_edge(parent, names) for parent in stage.parents),
        hosts=_hosts(stage),
        master=False,
    )


def _hosts(stage: InlineStage) -> tuple[tuple[str, ...], ...]:
    if all(isinstance(host, str) for host in stage.hosts):
        return (tuple(str(host) for host in stage.hosts),) if stage.hosts else ()
    return tuple(tuple(hosts) for hosts in stage.hosts)


def _run_times(stage: InlineStage) -> Fixed | PerTask | PerNode | Drawn:
    if isinstance(stage.duration, TimesByNode):
        return _by_node(stage.duration.by_node)
    if isinstance(stage.duration, list):
        return PerTask(tuple(stage.duration))
    return Fixed(0) if stage.duration is None else run_times(stage.duration)


def _by_node(times: Mapping[str, int | list[int]]) -> PerNode:
    """A single row for all tasks, or a row per task where any node lists run times by task."""
    rows = next((len(each) for each in times.values() if isinstance(each, list)), 1)
    columns = [each if isinstance(each, list) else [each] * rows for each in times.values()]
    return PerNode(tuple(times), tuple(zip(*columns, strict=True)))


def _past(job: InlinePastJob) -> PastJob:
    took = job.took if job.took is not None else sum(stage.duration for stage in job.stages)
    return PastJob(
        name=job.name,
        submitted=-job.ago - took,
        finished=-job.ago,
        stages=tuple((stage.tasks, float(stage.duration)) for stage in job.stages),
        user=job.user,
        app=job.app,
    )

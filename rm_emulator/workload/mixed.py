"""Services and batch jobs: two streams of arrivals, as in the example cell of Omega's public simulator.

Source: google/cluster-scheduler-simulator, its exponential workload generators and its example settings: batch jobs
every 10 s with 100 tasks of 100 s, services every 20 s with 10 tasks, 1 cpu and 2 GB for a task, on 10,000 machines of
4 cpu and 16 GB. The numbers are made up there, to look like a mix, and are no measurement of Google's cells.

Times between arrivals, numbers of tasks and run times are exponential; the tasks of a job take equally long, as
there. Unlike there a service does not end, so `service_interarrival_s` should be chosen with the length of the run in
mind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, Service, Stage
from schedulers.core.resources import Resources

#: Of all jobs together; a million jobs are drawn in some ten seconds.
MAX_JOBS: Final = 1_000_000
MAX_TASKS: Final = 100_000_000


class MixedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mix of services and batch jobs. Defaults: the example cell of Omega's simulator, for an hour."""

    span_s: Annotated[float, Meta(gt=0, description="time during which jobs arrive, s")] = 3600.0
    batch_interarrival_s: Annotated[float, Meta(gt=0, description="mean time between batch jobs, s")] = 10.0
    batch_tasks: Annotated[float, Meta(ge=1, description="mean number of tasks of a batch job")] = 100.0
    batch_task_s: Annotated[float, Meta(gt=0, description="mean run time of the tasks of batch jobs, s")] = 100.0
    service_interarrival_s: Annotated[float, Meta(gt=0, description="mean time between services, s")] = 20.0
    service_tasks: Annotated[float, Meta(ge=1, description="mean number of tasks of a service")] = 10.0
    start_within_s: Annotated[
        float, Meta(gt=0, description="objective for the start of a service, s after its submission")
    ] = 60.0
    preemptible: Annotated[bool, Meta(description="whether preemption may take containers from services")] = False
    scale: Annotated[float, Meta(gt=0, description="factor on the number of arrivals of batch jobs and services")] = 1.0
    users: Annotated[int, Meta(ge=1, description="number of users of batch jobs")] = 20
    demand: Annotated[
        dict[str, Any], Meta(description="resources of one task, as quantities", examples=[{"cpu": 1}])
    ] = msgspec.field(default_factory=lambda: {"cpu": 1, "memory": "2Gi"})


def generate(settings: MixedSettings, *, seed: int) -> Workload:
    """The jobs of both streams in order of arrival: batch jobs in queue `batch`, services in queue `service`."""
    _refuse_too_many(settings)
    resources = Resources().extended(settings.demand)
    demand = resources.demand(settings.demand)
    service = Service(start_within_ms=round(1000 * settings.start_within_s), preemptible=settings.preemptible)
    jobs = []
    for number, (at, tasks, quantile) in enumerate(_stream(settings, "batch", seed)):
        stage = Stage(name="tasks", tasks=tasks, demand=demand)
        name, user = f"batch-{number % (7 * settings.users)}", f"user-{number % settings.users}"
        job = Job(id=f"batch-{number:06d}", stages=(stage,), name=name, user=user, queue="batch")
        runtime = max(1, round(-1000 * settings.batch_task_s * math.log(quantile)))
        jobs.append(WorkloadJob(job=job, submit_ms=at, runtimes=(Fixed(runtime),)))
    for number, (at, tasks, _) in enumerate(_stream(settings, "service", seed)):
        stage = Stage(name="replicas", tasks=tasks, demand=demand)
        job = Job(
            id=f"service-{number:06d}",
            stages=(stage,),
            name=f"service-{number}",
            user="sre",
            queue="service",
            service=service,
        )
        jobs.append(WorkloadJob(job=job, submit_ms=at, runtimes=(Fixed(0),)))
    return Workload(
        name="mixed",
        jobs=tuple(sorted(jobs, key=lambda each: (each.submit_ms, each.job.id))),
        resources=resources.names,
        source="drawn, after the example cell of Omega's simulator",
    )


def _refuse_too_many(settings: MixedSettings) -> None:
    """Raise InvalidParameters for more jobs or tasks, on average, than can be drawn in reasonable time."""
    batch = settings.span_s / settings.batch_interarrival_s * settings.scale
    services = settings.span_s / settings.service_interarrival_s * settings.scale
    for made, most, what in (
        (batch + services, MAX_JOBS, "jobs"),
        (batch * settings.batch_tasks + services * settings.service_tasks, MAX_TASKS, "tasks"),
    ):
        if made > most:
            raise InvalidParameters(
                f"span_s {settings.span_s:g} makes about {made:.3g} {what} (at most {most:,}): "
                "take a shorter span_s, a smaller scale, or longer times between arrivals"
            )


def _stream(settings: MixedSettings, kind: str, seed: int) -> Iterator[tuple[int, int, float]]:
    """Arrival (ms), number of tasks, and a quantile for the run time of each job of a kind."""
    gap_s: float = getattr(settings, f"{kind}_interarrival_s") / settings.scale
    mean: float = getattr(settings, f"{kind}_tasks")
    generator = keyed.generator(seed, f"mixed {kind}")
    at = 0.0
    while True:
        gap, size, quantile = (max(float(draw), 2**-53) for draw in generator.random(3))
        at -= gap_s * math.log(gap)
        if at >= settings.span_s:
            return
        yield round(1000 * at), max(1, round(-mean * math.log(size))), quantile

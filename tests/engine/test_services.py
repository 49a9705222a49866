"""Services: jobs that run as long as the run."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.engine.assemble import NO_SERVICES, timing
from rm_emulator.engine.config import EngineConfig, Executors
from rm_emulator.engine.control import Stalled
from rm_emulator.engine.profile import profiles
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import MemoryRecording
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Queue, Service, Stage
from schedulers.core.scheduler import Scheduler

PROFILES = pytest.mark.parametrize("profile", [name for name in profiles.names if name != "sls"])


def batch(name: str, tasks: int = 1, at: int = 0, ms: int = 10_000, **fields: Any) -> WorkloadJob:
    stages = (Stage(name="s", tasks=tasks, demand=(1000, 1024)),)
    return WorkloadJob(job=Job(id=name, stages=stages, **fields), submit_ms=at, runtimes=(Fixed(ms),))


def service(name: str, tasks: int = 1, at: int = 0, within: int | None = None, **fields: Any) -> WorkloadJob:
    preemptible = fields.pop("preemptible", True)
    return batch(name, tasks, at, 0, service=Service(start_within_ms=within, preemptible=preemptible), **fields)


def run(
    *jobs: WorkloadJob,
    cores: int = 4,
    profile: str = "events",
    until: int | None = None,
    policy: dict[str, Any] | None = None,
    predictor: dict[str, Any] | None = None,
    queues: tuple[Queue, ...] = (),
) -> tuple[Simulation, MemoryRecording]:
    config = EngineConfig(
        nodes=(Node(id="n", capacity=(1000 * cores, 1024 * cores)),),
        resources=("cpu", "memory"),
        profile=profile,
        queues=queues,
    )
    settings = SchedulerConfig(
        resources=("cpu", "memory"),
        policy=policy or {"kind": "fifo"},
        predictor=predictor,
        offers=timing(config).offers,
    )
    kept = MemoryRecording()
    workload = Workload(name="w", jobs=jobs, resources=("cpu", "memory"))
    simulation = Simulation(config, workload, Scheduler(settings), kept, oracle=predictor == {"kind": "oracle"})
    simulation.run(until)
    return simulation, kept


@PROFILES
def test_a_service_ends_with_the_last_batch_job(profile: str) -> None:
    simulation, kept = run(service("web", 2), batch("etl", at=5000), profile=profile)
    rows = {row.id: row for row in kept.jobs}
    assert (rows["web"].service, rows["web"].finish_ms) == (True, None)
    assert simulation.end_ms == rows["etl"].finish_ms
    assert [task.ended_ms for task in kept.tasks if task.job == "web"] == [simulation.end_ms] * 2


def test_until_ends_a_run_of_services_alone() -> None:
    simulation, kept = run(service("web"), until=60_000)
    assert simulation.end_ms == 60_000
    assert kept.jobs[0].work_ms == 60_000


def test_a_batch_job_that_until_cuts_off_is_unfinished() -> None:
    _, kept = run(batch("etl"), until=5000)
    assert [row.finish_ms for row in kept.jobs] == [None]


def test_all_started_is_when_the_last_of_its_tasks_starts() -> None:
    _, kept = run(batch("etl", 3), service("web", 2, at=1000, within=100), batch("late", at=20_000))
    row = next(row for row in kept.jobs if row.id == "web")
    assert (row.first_start_ms, row.all_started_ms, row.start_within_ms) == (1000, 10_000, 100)


def test_a_service_that_never_gets_all_its_room_keeps_no_run_from_ending() -> None:
    _, kept = run(batch("etl"), service("web", 9, at=1))
    assert {row.id: row.all_started_ms for row in kept.jobs} == {"etl": None, "web": None}


@PROFILES
def test_batch_jobs_that_services_leave_no_room_stall_the_run(profile: str) -> None:
    with pytest.raises(Stalled, match="the first is 'etl'"):
        run(service("web", 4), batch("etl", at=100), profile=profile)


@pytest.mark.parametrize("predictor", ["slearn", "three_sigma", "oracle", "point_estimate"])
def test_no_predictor_samples_or_sizes_a_service(predictor: str) -> None:
    _, kept = run(
        service("web", 3), batch("etl", at=100), policy={"kind": "gs"}, predictor={"kind": predictor}, cores=9
    )
    row = next(row for row in kept.jobs if row.id == "web")
    assert (row.pilots, row.size_ms, row.all_started_ms) == (0, None, 0)


def test_services_do_not_go_with_executors() -> None:
    config = EngineConfig(
        nodes=(Node(id="n", capacity=(4000, 4096)),),
        resources=("cpu", "memory"),
        profile="events",
        executors=Executors(),
    )
    settings = SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="cycle", executors=True)
    with pytest.raises(ValueError, match=NO_SERVICES):
        Simulation(config, Workload(name="w", jobs=(service("web"),), resources=("cpu", "memory")), Scheduler(settings))

"""Workers beyond those a job asks for, on a small cell."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from rm_emulator import api
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.model import Job, Stage
from studies import mapreduce
from studies.omega import Cell
from studies.tables import document

CELL = Cell(machines=100, warm_s=60.0, counted_s=3600.0, held=0.2)


@cache
def run(more: str) -> mapreduce.Ran:
    return mapreduce.measure(more, CELL, 1)


def most_at_once(more: str, tasks: int, workers: int, cores: int) -> int:
    """Most tasks of a single job that run at once on an empty cluster."""
    job = Job(id="one", stages=(Stage(name="map", tasks=tasks, demand=(1000,)),), app=str(workers))
    jobs = Workload(name="one", jobs=(WorkloadJob(job=job, submit_ms=0, runtimes=(Fixed(1000),)),), resources=("cpu",))
    cluster = {"nodes": [{"count": cores, "capacity": {"cpu": 1}}], "profile": "events"}
    policy = {"kind": "workers", "more": more}
    mapreduce.register()
    ran = api.play(document("one", [1], {"one": policy}, cluster=cluster, workload=jobs))
    return max(ran.tasks.group_by("started_ms").agg(pl.len())["len"].to_list(), default=0)


@pytest.mark.parametrize(("more", "expected"), [("none", 3), ("any", 20), ("relative", 12), ("cap", 18)], ids=str)
def test_a_job_with_the_cell_to_itself_has_as_many_workers_as_its_policy_gives(more: str, expected: int) -> None:
    assert most_at_once(more, tasks=20, workers=3, cores=30) == expected


def test_a_full_cell_leaves_the_asked_workers_under_a_cap() -> None:
    assert most_at_once("cap", tasks=20, workers=8, cores=10) == 8


def test_the_same_jobs_meet_every_policy() -> None:
    assert run("none").jct_s.keys() <= run("any").jct_s.keys()


def test_idle_resources_make_jobs_faster() -> None:
    assert max(mapreduce.speedups(run("none"), run("any"))) > 2

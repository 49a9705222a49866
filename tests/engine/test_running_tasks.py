"""Tasks that run when a run begins: how long they still take, and where they may not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import rm_emulator
from rm_emulator.engine.assemble import settled
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.execution import Execution, ListedTimes
from rm_emulator.workload.model import Drawn, Fixed, RunningTask, RunTimes, Workload, WorkloadJob
from schedulers.core.model import Job, Node, Stage

pytestmark = pytest.mark.usefixtures("no_report")

CONFIG = EngineConfig(nodes=(Node(id="n1", capacity=(4,)),), resources=("cpu",), profile="events")


def source(times: RunTimes, *running: RunningTask, tasks: int = 200) -> WorkloadJob:
    job = Job(id="j", stages=(Stage(name="s", tasks=tasks, demand=(1,)),))
    return WorkloadJob(job=job, submit_ms=0, runtimes=(times,), running=running)


def rest(times: RunTimes, elapsed_ms: int, tasks: int = 200) -> list[int]:
    running = tuple(RunningTask(0, task, "n1", elapsed_ms) for task in range(tasks))
    (found,) = Execution(CONFIG, 1).stage_times(source(times, *running, tasks=tasks))
    assert isinstance(found, ListedTimes)
    return list(found.first)


def test_a_task_of_known_run_time_runs_for_the_rest() -> None:
    assert set(rest(Fixed(ms=100), 40)) == {60}


def test_a_task_beyond_its_known_run_time_ends_at_once() -> None:
    assert set(rest(Fixed(ms=100), 400)) == {1}


def test_a_drawn_run_time_is_longer_than_the_task_has_run() -> None:
    """An exponential run time has no memory: the rest has the mean of the whole."""
    found = rest(Drawn(mean_ms=10_000, cov=1.0, kind="exponential"), 15_000, tasks=2000)
    assert min(found) >= 1
    assert sum(found) / len(found) == pytest.approx(10_000, rel=0.1)


@pytest.mark.parametrize(
    ("running", "submit_ms", "message"),
    [(RunningTask(0, 0, "n9"), 0, "node 'n9', which is not there"), (RunningTask(0, 0, "n1"), 5, "an arrival at 0")],
)
def test_running_tasks_that_cannot_be_are_refused(running: RunningTask, submit_ms: int, message: str) -> None:
    job = source(Fixed(ms=10), running)
    job = WorkloadJob(job=job.job, submit_ms=submit_ms, runtimes=job.runtimes, running=job.running)
    with pytest.raises(ValueError, match=message):
        settled(CONFIG, Workload(name="w", jobs=(job,), resources=("cpu",)))


@pytest.mark.parametrize("profile", ["events", "kubernetes", "yarn"])
def test_tasks_stay_where_they_run_and_others_take_the_room_that_is_left(profile: str, tmp_path: Path) -> None:
    """Four nodes of two cores: four tasks run, so the four that start at once find one core each on n3 and n4."""

    def job(name: str, tasks: int, seconds: int, *running: tuple[str, int]) -> dict[str, Any]:
        stage = {"name": "s", "tasks": tasks, "demand": {"cpu": 1}, "duration": f"{seconds}s"}
        stage["running"] = [{"node": node, "elapsed": f"{elapsed}s"} for node, elapsed in running]
        return {"name": name, "id": name, "stages": [stage]}

    jobs = [job("a", 5, 100, ("n4", 40), ("n3", 20)), job("b", 4, 50, ("n2", 10), ("n2", 10))]
    spec = {
        "cluster": {"profile": profile, "nodes": [{"count": 4, "name": "n", "capacity": {"cpu": 2}}]},
        "policies": [{"kind": "fifo"}],
        "workload": {"kind": "jobs", "jobs": jobs},
    }
    path = tmp_path / "present.yaml"
    document = {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "present"}}
    path.write_text(yaml.safe_dump(document | {"spec": spec}))
    tasks = rm_emulator.run(path, out=tmp_path / "out", jobs=1).tasks.sort("job", "task")
    first = tasks.filter(pl.col("task") < 2)
    assert first["node"].to_list() == ["n4", "n3", "n2", "n2"]
    assert first["started_ms"].to_list() == [0] * 4
    # A kubelet sees an end in whole seconds.
    assert first["ended_ms"].to_list() == pytest.approx([60_000, 80_000, 40_000, 40_000], abs=1000)
    at_once = tasks.filter((pl.col("task") >= 2) & (pl.col("started_ms") < 5000))
    assert sorted(at_once["node"].to_list()) == ["n1", "n1", "n3", "n4"]

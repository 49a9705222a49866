"""Tasks that run when a run begins: how long they still take, and where they may not be."""

from __future__ import annotations

import pytest

from rm_emulator.engine.assemble import settled
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.execution import Execution, ListedTimes
from rm_emulator.workload.model import Drawn, Fixed, RunningTask, RunTimes, Workload, WorkloadJob
from schedulers.core.model import Job, Node, Stage

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

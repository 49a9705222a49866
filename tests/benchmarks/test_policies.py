"""The jobs that several policies serve on a control plane, and how their runs are compared."""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec
import numpy as np
import pytest

from benchmarks.kubernetes.policies import POLICIES, Score, dagjob, delays, emulated, table, workload
from rm_emulator.workload.model import Fixed
from schedulers.core.resources import Resources
from schedulers.learned import model_store
from schedulers.objects.dagjob import DagJob, core_job
from schedulers.objects.names import RUN_SECONDS


def test_jobs_and_their_tasks_take_as_long_on_average_as_those_on_which_the_network_was_trained() -> None:
    ranges = model_store.weights_of("containers", "decima").ranges
    runs = defaultdict(list)
    for past in workload(1000, 20).history:
        runs[past.name].append([(tasks * ms / 1000, ms / 1000) for tasks, ms in past.stages])
    for stages in (np.mean(each, axis=0) for each in runs.values()):
        assert ranges["size"][0] <= stages[:, 0].sum() <= ranges["size"][1]
        assert stages[:, 1].max() <= ranges["task_time"][1]


def test_a_job_has_the_stages_of_its_past_runs() -> None:
    drawn = workload(1000, 20)
    tasks = {past.name: [count for count, _ in past.stages] for past in drawn.history}
    for each in drawn.jobs:
        assert [stage.tasks for stage in each.job.stages] == tasks[each.job.name]


def test_the_dagjob_tells_run_times_to_kubelets_alone() -> None:
    (job,) = workload(1000, 1).jobs
    seconds = [times.ms // 1000 for times in job.runtimes if isinstance(times, Fixed)]
    body = dagjob(job.job, seconds, "space")
    made = core_job(msgspec.convert(body, DagJob), Resources(("cpu", "memory", "pods")))
    assert all(stage.hint_ms is None for stage in made.stages)
    assert (made.name, made.user) == (job.job.name, job.job.user)
    assert [(s.name, s.tasks, s.above) for s in made.stages] == [(s.name, s.tasks, s.above) for s in job.job.stages]
    told = [stage["template"]["metadata"]["annotations"][RUN_SECONDS] for stage in body["spec"]["stages"]]
    assert told == [str(each) for each in seconds]


def test_a_job_alone_takes_its_longest_path_in_the_emulator() -> None:
    """But for parts of a second in each stage, as kubelets have it."""
    jobs = workload(1000, 1)
    paths: list[float] = []
    for stage, times in zip(jobs.jobs[0].job.stages, jobs.jobs[0].runtimes, strict=True):
        assert isinstance(times, Fixed)
        paths.append(times.ms / 1000 + max((paths[parent] for parent in stage.above), default=0.0))
    (jct,) = emulated(POLICIES["decima"], jobs, 1000)
    assert jct == pytest.approx(max(paths), abs=len(paths))


def test_differences_are_paired_by_job_and_shown_beside_the_emulators() -> None:
    """+1, +3 s: mean 2, half of the interval 12.706 x 1.414 / 1.414."""
    rule, network = Score([10, 20], 20, [4, 6], [1, 1], None), Score([11, 23], 23, [5, 5], [2, 2], 0.5)
    shown = table({"rule": [rule], "network": [network]}, {"rule": [[9, 19]], "network": [[9, 19]]})
    cells = [re.split("  +", line) for line in shown.splitlines()[1:]]
    assert cells == [
        ["rule", "15.0", "20", "5.0", "1.0, 1.0", "14.0", "-6.7"],
        ["network", "17.0", "+2.0 [-10.7, +14.7]", "+13.3", "0 of 2", "23", "5.0", "2.0, 2.0", "50", "14.0", "-17.6",
         "+0.0 [+0.0, +0.0]"],
    ]  # fmt: skip


def test_the_emulator_is_told_how_long_pods_took_to_start() -> None:
    """20 ms more for each pod before, after 200 ms."""
    pods = [(among, 200 + 20 * (among + 1)) for among in range(8)]
    assert delays([Score([1], 1, [1], [1], None, pods)]) == {"start": "200ms", "release_rate": 50.0}
    slow = [*pods, (7, 3000)]
    assert delays([Score([1], 1, [1], [1], None, slow)])["release_rate"] == 50.0


def test_pods_that_start_later_end_later_in_the_emulator() -> None:
    jobs = workload(1000, 1)
    usual, late = (emulated(POLICIES["decima"], jobs, 1000, told)[0] for told in ({}, {"start": "1s"}))
    assert late > usual

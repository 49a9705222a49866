"""A run that is paused and goes on ends as if it had never been paused; and in other ways it ends as it was told to."""

from __future__ import annotations

import copy
import gc
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from rm_emulator.engine.branch import Ints, branch, obstacle, task_ends
from rm_emulator.engine.containers import Master
from rm_emulator.engine.execution import ListedTimes, StageTimes
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.experiments.assembly import assemble, cluster_of
from rm_emulator.experiments.cell import inputs_of
from rm_emulator.experiments.grid import cells
from rm_emulator.forecasts.plays import Play, PlayFailed, play, plays
from rm_emulator.scenario.load import load
from tests.examples import examples
from tests.same.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
#: Moments of each policy of each scenario, by night.
MOMENTS = 4


def simulations(name: str, nodes: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """By label, a function that makes the run of seed 1 of a scenario anew, with its recording.

    nodes: in place of the scenario's own.
    """
    scenario = copy.deepcopy(SCENARIOS[name])
    if nodes is not None:
        scenario["spec"]["cluster"]["nodes"] = list(nodes)
    return runs_of(scenario)


def runs_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """By label, a function that makes the run of seed 1 of a scenario anew, with its recording."""
    loaded = load(scenario, seeds="1")
    made = {}
    for cell in cells(loaded, []):
        if cell.baseline:
            continue

        def make(cell: Any = cell) -> tuple[Simulation, MemoryRecording]:
            scenario, built = inputs_of(cell)
            record = MemoryRecording()
            entry = cell.scenario["spec"]["policies"][0]
            run = assemble(scenario, entry, cell.seed, built, record, config=cluster_of(scenario, built))
            run.simulation.begin(scenario.spec.until)
            return run.simulation, record

        made[cell.label] = make
    return made


def ends(record: MemoryRecording) -> dict[str, tuple[int | None, int | None]]:
    return {row.id: (row.first_start_ms, row.finish_ms) for row in record.jobs}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name == "overbooked")) for name in sorted(SCENARIOS)]
)
@pytest.mark.drawn(of=8)
def test_a_run_that_was_paused_at_a_random_moment_ends_every_job_as_before(name: str) -> None:
    draw = random.Random(name)
    for label, make in simulations(name).items():
        whole, record = make()
        whole.go_on()
        before = ends(record)
        for _ in range(examples(MOMENTS)):
            paused, again = make()
            at = draw.randrange(1, max(2, whole.end_ms))
            paused.calendar.advance(at)
            if not obstacle(paused):
                branch(paused, None, paused.workload.jobs[paused.arrivals.count :])
            paused.go_on()
            assert ends(again) == before, (label, at)


class Longer:
    """Every task that has not ended takes so much longer than it would have, in steps of so many ms."""

    def __init__(self, simulation: Simulation, factor: int, step: int = 1) -> None:
        self._simulation, self._factor, self._step = simulation, factor, step

    def stage_times(self, job: Master) -> list[StageTimes]:
        known = [times for times in job.times if isinstance(times, ListedTimes)]
        assert len(known) == len(job.times)
        step = self._step
        return [ListedTimes([-(-ms * self._factor // step) * step for ms in times.first]) for times in known]

    def running_ms(self, containers: Ints) -> Ints | None:
        found = [self._simulation.containers[number] for number in containers.tolist()]
        return np.array([c.master.times[c.stage].ms(c.task, 1, "fresh", c.attempt) for c in found], dtype=np.int64)


@pytest.mark.slow
def test_on_kubernetes_running_pods_end_as_before_under_the_same_run_times() -> None:
    """The whole seconds of a pod count from the pod's start, whenever its end is entered anew."""
    draw = random.Random(0)
    for label, make in list(simulations("kubernetes").items())[:3]:
        whole, record = make()
        whole.go_on()
        before = ends(record)
        for _ in range(examples(MOMENTS)):
            paused, again = make()
            at = draw.randrange(1, whole.end_ms)
            paused.calendar.advance(at)
            branch(paused, Longer(paused, 1), paused.workload.jobs[paused.arrivals.count :])
            paused.go_on()
            assert ends(again) == before, (label, at)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["events", "kubernetes", "sls", "yarn", "yarn-masters"])
@pytest.mark.drawn(of=8)
def test_ends_of_all_tasks_are_the_same_whether_entered_one_by_one_or_when_they_are_near(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rm_emulator.engine.branch._BLOCK", 3)
    draw = random.Random(name)
    # Nodes of two speeds, and of one: then no run time depends on its container.
    nodes = None, [{"count": 10, "capacity": {"cpu": 4, "memory": "16Gi"}}]
    for label, make in simulations(name, nodes[name == "sls"]).items():
        at, factor = draw.randrange(1000, 60_000), draw.choice((1, 2, 5))
        tasks = []
        for ends_of in (task_ends, lambda _: None):
            simulation, record = make()
            simulation.calendar.advance(at)
            ends = ends_of(simulation)
            assert (ends is None) == (ends_of is not task_ends)
            # Many tasks that started together end together.
            longer = Longer(simulation, factor, 10_000)
            branch(simulation, longer, simulation.workload.jobs[simulation.arrivals.count :], ends)
            simulation.carry_on()
            simulation.calendar.run(simulation.until)
            tasks.append([msgspec.to_builtins(each) for each in record.tasks])
        assert tasks[0] == tasks[1], (label, at, factor)
        assert tasks[0]


def paused(at_ms: int = 20_000) -> Simulation:
    simulation, _ = simulations("events")["fifo"]()
    simulation.calendar.advance(at_ms)
    return simulation


def test_running_tasks_take_the_new_run_time_from_their_own_start() -> None:
    simulation = paused()
    running = [c for c in simulation.containers.values() if c.started_ms is not None]
    assert running
    before = {c.container: (c.started_ms, c.runtime) for c in running}
    branch(simulation, Longer(simulation, 3), ())
    for container in running:
        started, runtime = before[container.container]
        assert container.started_ms == started
        assert abs(container.runtime - 3 * runtime) <= 3  # whole ms at the speed of the node


def test_without_arrivals_no_other_job_comes() -> None:
    simulation = paused()
    live = set(simulation.jobs)
    courses = play(simulation, Play(None))
    assert set(courses) == live
    assert all(course.finish_ms is not None for course in courses.values())


def test_a_play_leaves_the_paused_run_as_it_was() -> None:
    simulation = paused()
    rest = tuple(simulation.workload.jobs[simulation.arrivals.count :])
    twice = [lambda: Play(None, rest)] * 3
    first, *others = plays(simulation, twice)
    assert others == [first] * 2
    assert simulation.calendar.now == 20_000


@pytest.mark.parametrize("before", [True, False])
def test_plays_leave_frozen_only_if_something_was(before: bool) -> None:
    gc.freeze() if before else gc.unfreeze()
    try:
        list(plays(paused(), [lambda: Play(None)]))
        assert (gc.get_freeze_count() > 0) is before
    finally:
        gc.freeze()  # as all tests find it


def test_a_play_ends_with_the_last_watched_job() -> None:
    simulation = paused()
    job = next(iter(simulation.jobs))
    (whole,) = plays(simulation, [lambda: Play(None)])
    (short,) = plays(simulation, [lambda: Play(None, (), (job,))])
    assert short[job] == whole[job]
    assert all(course.finish_ms is None or course.finish_ms <= whole[job].finish_ms for course in short.values())


def test_an_error_in_a_play_is_told_with_its_message() -> None:
    def broken() -> Play:
        raise ValueError("the policy failed at job-7")

    with pytest.raises(PlayFailed, match="play 2 of 2: ValueError: the policy failed at job-7"):
        list(plays(paused(), [lambda: Play(None), broken]))


@pytest.mark.drawn(of=4)
def test_plays_end_with_the_process_that_asked_though_that_is_killed() -> None:
    asks = "import time; from tests.forecasts.test_branch import *; list(plays(paused(), [lambda: time.sleep(99)]))"
    asking = subprocess.Popen([sys.executable, "-c", asks], cwd=ROOT)
    children = Path(f"/proc/{asking.pid}/task/{asking.pid}/children")
    until(children.read_text)
    (play,) = children.read_text().split()
    asking.kill()
    asking.wait()
    until(lambda: not Path(f"/proc/{play}").exists())


def until(holds: Callable[[], object]) -> None:
    for _ in range(300):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it never held")

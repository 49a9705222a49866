"""A run goes on from a moment in another way than it would have: with other run times, and other jobs to come.

What has happened by the moment stays: containers, heartbeats, launches, transfers and messages on their way. Nothing is
drawn here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from rm_emulator.engine.calendar import END, FIRST
from rm_emulator.engine.config import Thinking
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.execution import StageTimes
from rm_emulator.engine.features.checkpoints import Checkpoints
from rm_emulator.engine.features.disorder import DisorderFeature
from rm_emulator.engine.features.failing_masters import FailingMasters
from rm_emulator.engine.features.failing_tasks import FailingTasks
from rm_emulator.engine.features.node_faults import NodeFaults
from rm_emulator.engine.features.overbooking import Overbooking
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import PerNode, WorkloadJob
from schedulers.decentralised.settings import Probing

Ints = npt.NDArray[np.int64]
#: Ends that are entered at once.
_BLOCK: Final = 128


class Future(Protocol):
    """Run times from the moment on."""

    def stage_times(self, job: Master) -> list[StageTimes]:
        """Run times of all tasks of a live job, by stage: of a running task longer than it has run so far."""

    def running_ms(self, containers: Ints) -> Ints | None:
        """The same run times of the tasks in these containers (numbers, ascending); None: `stage_times` alone knows."""


class TaskEnds:
    """Ends of running tasks on the calendar of a paused run, found once for many branches.

    A branch then draws up all ends as one array, and enters an end only when its time is near.
    """

    def __init__(self, engine: Simulation) -> None:
        self._engine = engine
        self._rest, found = engine.calendar.split(lambda callback, value: is_task_end(engine, callback, value))
        self._containers: list[Container] = sorted(found, key=lambda container: container.container)
        self.numbers: Ints = np.array([each.container for each in self._containers], dtype=np.int64)
        """The containers, ascending."""
        self._started: Ints = np.array([each.started_ms for each in self._containers], dtype=np.int64)

    def move(self, run_times: Ints) -> None:
        """Let the tasks take so long, each longer than so far. run_times: ms, in the order of `numbers`."""
        engine = self._engine
        engine.calendar.begin_anew(entry for entry in self._rest if not engine.arrivals.is_arrival(entry[3]))
        for stretch in engine.stretches:
            pairs = zip(self._containers, run_times.tolist(), strict=True)
            run_times = np.array([stretch(*pair) for pair in pairs], dtype=np.int64)
        self._ms = np.maximum(run_times, engine.calendar.now - self._started + 1)
        self._at = self._started + self._ms
        self._order = np.argsort(self._at, kind="stable")
        self._enter(0)

    def _enter(self, first: int) -> None:
        """Enter the next ends, and the call for those after, which comes before all else of its instant."""
        engine, block = self._engine, self._order[first : first + _BLOCK]
        for place, at, ms in zip(block.tolist(), self._at[block].tolist(), self._ms[block].tolist(), strict=True):
            container = self._containers[place]
            container.runtime = ms
            engine.enter_end(at, END, container.container, engine.over, container)
        if first + _BLOCK < len(self._order):
            engine.calendar.at(int(self._at[self._order[first + _BLOCK]]), FIRST, 0, self._enter, first + _BLOCK)


def task_ends(engine: Simulation) -> TaskEnds | None:
    """The ends of running tasks; None where ends are not the calendar's, may be failures, or are looked at before."""
    return TaskEnds(engine) if engine.enters_ends and engine.config.faults is None else None


def is_task_end(engine: Simulation, callback: Any, value: Any) -> bool:
    """Whether an entry of the calendar is the end of a running task."""
    # Preempted, or an application master: the end is not a task's.
    return (
        isinstance(value, Container)
        and callback == engine.over
        and engine.containers.get(value.container) is value
        and value.stage != value.master.master_stage
    )


def obstacle(engine: Simulation) -> str:
    """Why the run cannot be continued with other run times, as the end of a sentence; '' where it can."""
    architecture = engine.config.architecture
    if isinstance(architecture, Probing | Thinking):
        return "several schedulers decide, or a scheduler takes time to think"
    if engine.feature(Overbooking) is not None:
        return "tasks of a node slow each other down (overbooking)"
    if engine.feature(DisorderFeature) is not None:
        return "facts come in disorder"
    if (faults := engine.config.faults) is not None:
        there = {
            "the resource manager restarts": bool(faults.restarts),
            "masters ask for copies": faults.speculation is not None,
            "masters may be lost": engine.feature(FailingMasters) is not None,
        }
        if reason := next((what for what, is_so in there.items() if is_so), ""):
            return reason
    if any(isinstance(times, PerNode) for source in engine.workload.jobs for times in source.runtimes):
        return "run times are given by node"
    return ""


def branch(
    engine: Simulation,
    future: Future | None,
    arrivals: Sequence[WorkloadJob],
    ends: TaskEnds | None = None,
    draw: int | None = None,
) -> None:
    """Let the run go on with these run times, and with these jobs in place of all jobs to come.

    future: None leaves run times as they are. arrivals: in order of submission, none before the present moment.
    ends: of the run at this moment, for speed alone. draw: number of a draw of all faults to come; None leaves the
    faults as they are. The run is paused after `Calendar.advance`.
    """
    if draw is not None:
        for feature in (engine.feature(NodeFaults), engine.feature(FailingTasks)):
            if feature is not None:
                feature.redraw(draw)
    if future is not None:
        for job in engine.jobs.values():
            if not job.is_service:
                job.times = future.stage_times(job)
    run_times = None if future is None or ends is None else future.running_ms(ends.numbers)
    if ends is not None and run_times is not None:
        ends.move(run_times)
    elif engine.config.faults is not None and (future is not None or draw is not None):
        _enter_anew(engine)
    else:
        _exchange(engine, drawn=future is not None)
    engine.arrivals.replace(arrivals)


def _exchange(engine: Simulation, *, drawn: bool) -> None:
    """Enter each end of a running task anew, by the run times of the jobs if these are drawn; drop all arrivals."""

    def when(at: int, callback: Any, value: Any) -> int | None:
        if engine.arrivals.is_arrival(callback):
            return None
        if not drawn or not is_task_end(engine, callback, value):
            return at
        assert value.started_ms is not None
        engine.set_run_time(value)
        value.runtime = max(value.runtime, engine.calendar.now - value.started_ms + 1)
        return int(value.started_ms + value.runtime)

    engine.calendar.exchange(when)


def _enter_anew(engine: Simulation) -> None:
    """Let running attempts end or fail by the run times of the jobs and the draws of faults; drop all arrivals."""
    failing, saving = engine.feature(FailingTasks), engine.feature(Checkpoints)
    found: list[Container] = []

    def when(at: int, callback: Any, value: Any) -> int | None:
        if engine.arrivals.is_arrival(callback):
            return None
        end = engine.over if failing is not None and failing.is_end(callback) else callback
        if not is_task_end(engine, end, value) or value.has_ended:
            return at
        found.append(value)
        return None

    engine.calendar.exchange(when)
    for container in found:
        if saving is not None and saving.saves(container):
            continue
        started = container.started_ms
        assert started is not None
        engine.set_run_time(container)
        container.runtime = max(container.runtime, engine.calendar.now - started + 1)
        engine.enter_end(started + container.runtime, END, container.container, engine.over, container)
    if saving is not None:
        saving.retime()

"""Plays of a paused run, each in a process of its own that begins with the run's memory.

A process is forked for each play: the paused run is never copied as data, and is left untouched for the next play.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Final

import msgspec

from rm_emulator.engine.branch import Future, TaskEnds, branch, task_ends
from rm_emulator.engine.recording import Attempt, JobRow, Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.program import end_with_parent
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.errors import UserError

#: Plays at once; more would only wait for a core.
CORES: Final = os.cpu_count() or 1


class JobCourse(msgspec.Struct, frozen=True, array_like=True):
    """A job in a play; times in ms on the clock of the run, None for a job that did not get so far."""

    start_ms: int | None
    finish_ms: int | None
    nodes: tuple[str, ...] = ()
    """Nodes that its tasks ran on, for jobs whose nodes were asked for."""


Courses = dict[str, JobCourse]


class PlayFailed(UserError, RuntimeError):
    """A play ended with an error; the message has the error."""


class PlayKilled(PlayFailed):
    """The process of a play was killed, as the kernel does when memory runs out."""


class CourseRecording(Recording):
    """Keeps the course of each job, and calls `stop` when all watched jobs are over.

    watched: None for all jobs. nodes_of: jobs whose nodes are kept.
    """

    def __init__(self, watched: Sequence[str] | None, nodes_of: Sequence[str]) -> None:
        self.courses: Courses = {}
        self.stop: Callable[[], None] = lambda: None
        self._left = None if watched is None else set(watched)
        self._nodes: dict[str, dict[str, None]] = {job: {} for job in nodes_of}

    def task(self, attempt: Attempt) -> None:
        """Note the node of a task."""
        if (nodes := self._nodes.get(attempt.job)) is not None:
            nodes[attempt.node] = None

    def job(self, row: JobRow) -> None:
        """Note the course of a job."""
        nodes = tuple(self._nodes.get(row.id, ()))
        self.courses[row.id] = JobCourse(row.first_start_ms, row.finish_ms, nodes)
        if self._left is not None and (row.finish_ms is not None or row.failed_ms is not None):
            self._left.discard(row.id)
            if not self._left:
                self.stop()


class Play(msgspec.Struct, frozen=True):
    """Run times (None: unchanged) and jobs to come of a play, and the jobs that the play watches."""

    future: Future | None
    arrivals: tuple[WorkloadJob, ...] = ()
    watched: tuple[str, ...] | None = None
    """Jobs whose end is the end of the play; None: the play ends with the last job."""
    nodes_of: tuple[str, ...] = ()
    """Jobs whose nodes are wanted."""
    faults: int | None = None
    """Number of a draw of the faults to come; None: faults are unchanged."""
    takeover: Callable[[Simulation, Recording], Simulation] | None = None
    """Makes the run that goes on under another scheduler; None: the scheduler stays."""


def play(simulation: Simulation, what: Play, ends: TaskEnds | None = None) -> Courses:
    """Play a paused run to its end, in this process; the run cannot be played again. ends: of the run, for speed."""
    record = CourseRecording(what.watched, what.nodes_of)
    # Who takes a run over looks at the run time of each container.
    branch(simulation, what.future, what.arrivals, ends if what.takeover is None else None, what.faults)
    if what.takeover is None:
        simulation.listen(record)
    else:
        simulation = what.takeover(simulation, record)
    record.stop = simulation.calendar.stop
    # Facts after a branch: what waits may start now.
    simulation.carry_on()
    simulation.calendar.run(simulation.until)
    for job in simulation.jobs.values():
        record.courses[job.name] = JobCourse(job.first_start_ms, None)
    return record.courses


def plays(simulation: Simulation, whats: Sequence[Callable[[], Play]], at_once: int = CORES) -> Iterator[Courses]:
    """The courses of each play, in order. at_once: number of processes. Raises PlayFailed and PlayKilled.

    The plays are made in the forked processes, so that a draw's memory is gone with its process.
    """
    context = multiprocessing.get_context("fork")
    ends = task_ends(simulation)
    frozen = gc.get_freeze_count()
    gc.freeze()  # a collection while the children run would touch, and so copy, all pages of the run
    waiting = list(enumerate(whats))[::-1]
    running: dict[Connection, int] = {}
    done: dict[int, Courses] = {}
    processes = []
    upcoming = 0
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                number, what = waiting.pop()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_played, args=(simulation, what, ends, theirs), daemon=True)
                process.start()
                processes.append(process)
                theirs.close()
                running[ours] = number
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                number = running.pop(ready)
                done[number] = _received(ready, f"play {number + 1} of {len(whats)}")
            while upcoming in done:
                yield done.pop(upcoming)
                upcoming += 1
    finally:
        for process in processes:
            process.kill()
            process.join()
        if not frozen:  # else objects of who froze them would be looked at again by all collections to come
            gc.unfreeze()


def _received(ours: Connection, name: str) -> Courses:
    try:
        data = ours.recv_bytes()
    except EOFError:
        raise PlayKilled(f"{name}: its process was killed") from None
    finally:
        ours.close()
    if data[:1] == b"!":
        raise PlayFailed(f"{name}: {data[1:].decode()}")
    return msgspec.msgpack.decode(data[1:], type=Courses)


def _played(simulation: Simulation, what: Callable[[], Play], ends: TaskEnds | None, theirs: Connection) -> None:
    """In the child."""
    end_with_parent()
    gc.disable()
    try:
        courses = play(simulation, what(), ends)
    except Exception as error:
        theirs.send_bytes(f"!{type(error).__name__}: {error}".encode())
    else:
        theirs.send_bytes(b"." + msgspec.msgpack.encode(courses))
    theirs.close()
    # Without the parent's exit handlers and buffered output.
    os._exit(0)

"""What lives in a cluster: jobs with their stages, nodes, and the containers that hold nodes for jobs.

Only the state changes these, on facts and decisions. Tasks that have not started are counts, not objects.
Stages, jobs and nodes are made rarely and changed with every task: classes with slots, of which CPython writes an
attribute four times as fast as of a msgspec struct. Containers are made with every task: a struct, made twice as fast.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappush

import msgspec

from schedulers.core.errors import InvalidTransition
from schedulers.core.model import Job, Node
from schedulers.core.predictor import SamplePlan
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector

GRANTED, RUNNING, IDLE, MOVING = 0, 1, 2, 3


@dataclass(slots=True, eq=False)
class Counts:
    """What only grows; one for all rooms of a state."""

    version: int = 0
    """Changes of any kind."""
    next_container: int = 1
    """Above every container there was."""
    next_job: int = 0
    """Jobs so far."""
    next_node: int = 0
    """Nodes so far."""


@dataclass(slots=True, eq=False)
class StageState:
    """One stage of a live job. Tasks below `next` (and those in `taken`) were launched at least once."""

    index: int
    demand: Vector
    size: int
    """Number of its size in `ClusterState.sizes`; from demand, places and the limits of its queue and user."""
    tasks: int
    waiting: int
    """Tasks that are not launched, pilots and those that came back included; tasks - finished - running."""
    parents_left: int
    """Parents with unfinished tasks; from `finished` of the job's other stages."""
    asked: bool
    """Whether the shell has asked for it, at submission or with JobChanged."""
    next: int = 0
    """The lowest task that was never launched, is no pilot, and is not in `taken`."""
    running: int = 0
    """Tasks granted or running; from the containers."""
    finished: int = 0
    """Tasks that succeeded."""
    taken: dict[int, None] = field(default_factory=dict)
    """Tasks from `next` on that are not to be launched as next ones: launched out of turn, or pilots."""
    pilots: list[int] = field(default_factory=list)
    """Waiting pilots, sorted."""
    returned: list[int] = field(default_factory=list)
    """Tasks, not pilots, that must run again; a heap."""
    attempts: dict[int, int] = field(default_factory=dict)
    """How often a task was begun in vain; only tasks of which that is so."""
    done_ms: float = 0.0
    """Run time of its finished tasks, at node speed 1."""
    outputs: dict[int, list[tuple[str, int]]] | None = None
    """Where and when (ms) its finished tasks made their output; None: nobody takes any, or there are no links."""

    @property
    def is_open(self) -> bool:
        """Whether its tasks may start: parents done, and asked for."""
        return self.parents_left == 0 and self.asked

    @property
    def others(self) -> int:
        """Waiting tasks that are not pilots."""
        return self.waiting - len(self.pilots)

    def is_waiting(self, task: int) -> bool:
        """Whether this very task has not started, or must start again."""
        if task in self.pilots or task in self.returned:
            return True
        return self.next <= task < self.tasks and task not in self.taken

    def first_task(self, pilots: bool | None = None) -> tuple[int, int]:
        """The task that would start next: (index, attempt). pilots: only those, none of those, or first those."""
        if self.pilots and pilots is not False:
            index = self.pilots[0]
        elif self.returned:
            index = self.returned[0]
        else:
            index = self.next
            while index in self.taken:
                index += 1
        return index, self.attempts.get(index, 0)

    def take_out(self, task: int, job: str) -> bool:
        """Take a task of this job out of the waiting ones; returns whether it is a pilot. Raises InvalidTransition."""
        if task in self.pilots:
            self.pilots.remove(task)
            return True
        if task in self.returned:
            self.returned.remove(task)
            heapify(self.returned)
        elif task == self.next:
            self.next += 1
            self.skip_taken()
        elif task > self.next and task not in self.taken and task < self.tasks:
            self.taken[task] = None
        else:
            raise InvalidTransition(f"task {job}/{self.index}/{task} is not waiting")
        return False

    def made(self, task: int, node: str, at: int) -> None:
        """The output of a task, which somebody takes, is on a node."""
        assert self.outputs is not None
        self.outputs.setdefault(task, []).append((node, at))

    def put_back(self, task: int, attempt: int, *, pilot: bool) -> None:
        """A task waits again, to be begun as this attempt."""
        self.attempts[task] = attempt
        if pilot:
            insort(self.pilots, task)
        else:
            heappush(self.returned, task)
        self.waiting += 1

    def set_apart(self, task: int) -> None:
        """Make the task a pilot, before anything of the stage has started; `skip_taken` after all of them."""
        self.taken[task] = None
        insort(self.pilots, task)

    def skip_taken(self) -> None:
        """Let `next` be the lowest task again that may be the next one."""
        while self.next in self.taken:
            del self.taken[self.next]
            self.next += 1


@dataclass(slots=True, eq=False)
class JobState:
    """A live job."""

    spec: Job
    seq: int
    """Its number in order of submission."""
    submitted: int
    """When, in ms."""
    stages: list[StageState]
    left: int
    """Tasks not yet finished; from the stages."""
    used: list[int]
    """Resources held now; from its containers."""
    children: list[list[int]]
    """The stages below each stage; from the parents in `spec`."""
    open: list[int] = field(default_factory=list)
    """Stages that have launchable tasks, lowest index first; from the stages, `cancelled` and `admitted`."""
    waiting: int = 0
    """Launchable tasks; from the stages in `open`."""
    running: int = 0
    """Tasks granted or running; from its containers."""
    executors: int = 0
    """Its containers."""
    done_ms: int = 0
    """Run time of its finished tasks."""
    started: int = 0
    """Its containers that run a task."""
    started_sum: int = 0
    """Sum of their start times, so that attained service at any instant is O(1)."""
    plan: SamplePlan | None = None
    """What the predictor said on submission."""
    pilots_left: int = 0
    """Pilots that have not finished; from `plan` and what has finished."""
    size_ms: float | None = None
    """Estimated total work, None while there is no estimate."""
    size_source: str = ""
    """Where that is from."""
    hold: Reason | None = None
    """Why it waits, as said last; None when nothing of it waited then."""
    cancelled: bool = False
    admitted: bool = True
    """False while its queue is full of jobs, or was removed: none of its stages is open."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.id

    def attained_ms(self, now: int) -> int:
        """Run time given so far to all its tasks, running ones included."""
        return self.done_ms + self.started * now - self.started_sum

    def open_stages(self) -> Iterator[StageState]:
        """Stages with launchable tasks, lowest index first."""
        return map(self.stages.__getitem__, tuple(self.open))

    def waits_whole(self, stage: StageState) -> bool:
        """Whether the stage is a gang of which nothing has started: all its tasks start together or none."""
        return stage.waiting == stage.tasks and self.spec.stages[stage.index].gang


class ContainerState(msgspec.Struct, eq=False):
    """A hold on a node."""

    id: int
    node: str
    job: str
    stage: int
    task: int
    attempt: int
    pilot: bool
    size: int
    """Number of its size in `ClusterState.sizes`: what it holds; from the stage that it was made for."""
    granted: int
    """When it was decided on, or handed to this job."""
    started: int = -1
    """When its task began to run; -1: not yet."""
    status: int = GRANTED
    """GRANTED (decided, not heard running), RUNNING, IDLE (an executor between tasks), or MOVING (an executor on its
    way to a job that has no task for it yet: stage and task are -1)."""
    copy: bool = False
    """Whether another container is the task that it runs, or that task is done: see `copies`."""

    def over(self, runtime_ms: int, now: int) -> int:
        """When its task ended, which took so long, and was heard to end now."""
        return now if self.started < 0 else min(now, self.started + runtime_ms)

    @property
    def story(self) -> str:
        """What is known of it, for messages."""
        status = ("granted", "running", "idle", "moving")[self.status]
        return (
            f"container {self.id} of job {self.job} (stage {self.stage}, task {self.task}, "
            f"attempt {self.attempt}), granted at {self.granted} ms on {self.node}, {status}"
        )


@dataclass(slots=True, eq=False)
class NodeState:
    """A node: what is free, who is on it."""

    spec: Node
    index: int
    """Its number in order of arrival."""
    free: list[int]
    """What is left of its room, slack included; from `spec`, its containers and what others hold."""
    containers: dict[int, None] = field(default_factory=dict)
    """Its containers by number, in order of arrival; from the state's containers."""
    foreign: dict[str, Vector] = field(default_factory=dict)
    """What others hold, by the name that it was observed under."""
    version: int = 0
    """Counts changes of its room."""
    draining: bool = False
    """It takes no new containers."""
    barred: dict[int, None] = field(default_factory=dict)
    """Sizes whose tasks its labels or taints keep away; from `spec` and the places of all sizes."""

    @property
    def id(self) -> str:
        """The node's id."""
        return self.spec.id

    def fits(self, stage: StageState) -> bool:
        """Whether a task of this stage could start here now."""
        if self.draining or stage.size in self.barred:
            return False
        for wanted, there in zip(stage.demand, self.free):  # noqa: B905, SIM110 (`resources.fits`, without its call)
            if wanted > there:
                return False
        return True

    def room_for(self, stage: StageState) -> int:
        """How many tasks of this stage could start here now."""
        if self.draining or stage.size in self.barred:
            return 0
        return max(0, min([free // wanted for wanted, free in zip(stage.demand, self.free, strict=True) if wanted]))

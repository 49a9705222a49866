"""Live objects of a cluster: jobs with their stages, nodes, and the containers holding nodes for jobs.

Only the state changes them, on facts and decisions. Unstarted tasks are counts, not objects. Stages, jobs and nodes are
made rarely and changed with every task, so their classes have slots: CPython writes such an attribute four times as
fast as an attribute of a msgspec struct. Containers are made with every task, so they are structs, made twice as fast.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import msgspec

from schedulers.core.errors import InvalidTransition
from schedulers.core.model import Job, Node
from schedulers.core.old_names import warn_of_old_name
from schedulers.core.predictor import SamplePlan
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector

GRANTED, RUNNING, IDLE, MOVING = 0, 1, 2, 3


@dataclass(slots=True, eq=False)
class Counts:
    """Growing numbers, shared by all rooms of a state."""

    version: int = 0
    """Changes of any kind."""
    next_container: int = 1
    """Above every container there was."""
    next_job: int = 0
    """Jobs so far."""
    next_node: int = 0
    """Nodes so far."""


class Asks:
    """Asks for copies, which a memory keeps apart from the stage: stages of most runs have none."""

    __slots__ = ("copies",)

    copies: dict[int, tuple[str, ...]]
    """Tasks under way of which one more container is asked for, each with the nodes on which it must not be."""

    def ask_nothing(self) -> None:
        """Start with no task that asks for a copy. A dataclass whose base has `__init__` would not compile (mypyc)."""
        self.copies = {}


@dataclass(slots=True, eq=False)
class StageState(Asks):
    """A stage of a live job. Tasks below `next` (and those in `taken`) were launched at least once."""

    index: int
    demand: Vector
    size: int
    """Number of its size in `ClusterState.sizes`; from demand, places and the limits of its queue and user."""
    tasks: int
    waiting: int
    """Unlaunched tasks, pilots and returned tasks included; tasks - finished - running, less the tasks whose turn comes
    with a task of a parent (see `ties`), and one more for each of `copies`.
    """
    parents_left: int
    """Parents that keep the whole stage closed; from the job's other stages."""
    asked: bool
    """Whether the shell has asked for the stage, at submission or with JobChanged."""
    next: int = 0
    """The lowest never launched task that is no pilot and not in `taken`."""
    running: int = 0
    """Tasks granted or running; from the containers."""
    finished: int = 0
    """Number of succeeded tasks."""
    taken: dict[int, None] = field(default_factory=dict)
    """Tasks from `next` on to be skipped by `next`: launched out of turn, or pilots."""
    pilots: list[int] = field(default_factory=list)
    """Waiting pilots, sorted."""
    returned: list[int] = field(default_factory=list)
    """Tasks, not pilots, to be run again, or let in one by one; a heap."""
    attempts: dict[int, int] = field(default_factory=dict)
    """Number of failed attempts of each task with such attempts."""
    done_ms: float = 0.0
    """Run time of its finished tasks, at node speed 1."""
    outputs: dict[int, list[tuple[str, int]]] | None = None
    """Where and when (ms) its finished tasks made their output; None: nobody takes any, or there are no links."""

    def __post_init__(self) -> None:
        self.ask_nothing()

    @property
    def is_open(self) -> bool:
        """Whether its tasks may start: parents done, and asked for."""
        return self.parents_left == 0 and self.asked

    @property
    def kept_back(self) -> int:
        """Number of tasks whose turn comes with a task of a parent (see `ties`)."""
        return self.tasks - self.finished - self.running - self.waiting + len(self.copies)

    @property
    def waiting_non_pilots(self) -> int:
        """Number of waiting tasks besides pilots."""
        return self.waiting - len(self.pilots)

    @property
    def others(self) -> int:
        """The old name of `waiting_non_pilots`."""
        warn_of_old_name("StageState.others", "waiting_non_pilots")
        return self.waiting_non_pilots

    def is_waiting(self, task: int) -> bool:
        """Whether the task has not started, or must start again."""
        if task in self.pilots or task in self.returned:
            return True
        return self.next <= task < self.tasks and task not in self.taken

    def first_task(self, pilots: bool | None = None) -> tuple[int, int]:
        """The next task to start: (index, attempt). pilots: True only pilots, False none, None pilots first."""
        # Pilots first, because held tasks wait for them; then returned tasks, which keep their children waiting.
        if self.pilots and pilots is not False:
            index = self.pilots[0]
        elif self.returned:
            index = self.returned[0]
        else:
            index = self.next
            while index in self.taken:
                index += 1
            if index == self.tasks and self.copies:
                index = next(iter(self.copies))
        return index, self.attempts.get(index, 0)

    def take_out(self, task: int, job: str) -> bool:
        """Take a waiting task of the job out; returns whether the task is a pilot. Raises InvalidTransition."""
        if task in self.pilots:
            self.pilots.remove(task)
            return True
        if self.returned and task == self.returned[0]:
            heappop(self.returned)
        elif task in self.returned:
            self.returned.remove(task)
            # Removal from the middle breaks the heap; a chosen task among the returned ones is rare.
            heapify(self.returned)
        elif task == self.next:
            self.next += 1
            # `taken` must not keep tasks below `next`, or it would grow with the stage.
            self.skip_taken()
        elif task > self.next and task not in self.taken and task < self.tasks:
            self.taken[task] = None
        elif task in self.copies:
            del self.copies[task]
        else:
            raise InvalidTransition(f"task {job}/{self.index}/{task} is not waiting")
        return False

    def add_output(self, task: int, node: str, at: int) -> None:
        """Note the output of a task, needed by a child, on a node."""
        assert self.outputs is not None
        self.outputs.setdefault(task, []).append((node, at))

    def put_back(self, task: int, attempt: int, *, pilot: bool) -> None:
        """Let a task wait again, to be begun as the given attempt."""
        # The attempt is part of a task's identity: a late end of an earlier attempt must not count.
        self.attempts[task] = attempt
        if pilot:
            insort(self.pilots, task)
        else:
            heappush(self.returned, task)
        self.waiting += 1

    def let_in(self, task: int) -> None:
        """Put a task among the waiting tasks for the first time; the stage is behind one-to-one edges."""
        heappush(self.returned, task)
        self.waiting += 1

    def make_pilot(self, task: int) -> None:
        """Make the task a pilot, before anything of the stage has started; `skip_taken` after all of them."""
        self.taken[task] = None
        insort(self.pilots, task)

    def skip_taken(self) -> None:
        """Move `next` to the lowest task not in `taken`."""
        # Amortised O(1): each task is entered in `taken` and left behind at most once.
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
    """Stages with launchable tasks, lowest index first; from the stages, `cancelled` and `admitted`."""
    waiting: int = 0
    """Launchable tasks; from the stages in `open`."""
    running: int = 0
    """Tasks granted or running; from its containers."""
    executors: int = 0
    """Its containers."""
    done_ms: int = 0
    """Run time of its finished tasks."""
    started: int = 0
    """Number of its containers with a running task."""
    started_sum: int = 0
    """Sum of their start times, so that attained service at any instant is O(1)."""
    plan: SamplePlan | None = None
    """The predictor's answer at submission."""
    pilots_left: int = 0
    """Number of unfinished pilots; from `plan` and the finished tasks."""
    size_ms: float | None = None
    """Estimated total work, None while there is no estimate."""
    size_source: str = ""
    """Source of the estimate."""
    hold: Reason | None = None
    """The reason last told for waiting; None when no task of the job waited then."""
    cancelled: bool = False
    """Whether the job was withdrawn: no task starts any more."""
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
        # A copy of `open`: stages close while a policy walks through them.
        return map(self.stages.__getitem__, tuple(self.open))

    def is_waiting_gang(self, stage: StageState) -> bool:
        """Whether the stage is a gang without a started task: all its tasks start together or none."""
        return stage.waiting == stage.tasks and self.spec.stages[stage.index].gang

    def waits_whole(self, stage: StageState) -> bool:
        """The old name of `is_waiting_gang`."""
        warn_of_old_name("JobState.waits_whole", "is_waiting_gang")
        return self.is_waiting_gang(stage)


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
    """Number of its size in `ClusterState.sizes`: the room held; from the stage at its making."""
    granted: int
    """Time of the decision, or of the hand-over to the present job, ms."""
    started: int = -1
    """When its task began to run; -1: not yet."""
    status: int = GRANTED
    """GRANTED (decided, not heard running), RUNNING, IDLE (an executor between tasks), or MOVING (an executor
    travelling to a job without a task for it yet: stage and task are -1).
    """
    copy: bool = False
    """Whether the task is done, or stands with another container: see `copies`."""

    def ended_at(self, runtime_ms: int, now: int) -> int:
        """Time at which its task ended, ms, for a run time heard of now."""
        # Clocks of nodes differ, and an end never lies after the moment of hearing of it.
        return now if self.started < 0 else min(now, self.started + runtime_ms)

    @property
    def description(self) -> str:
        """A description of the container, for messages."""
        status = ("granted", "running", "idle", "moving")[self.status]
        return (
            f"container {self.id} of job {self.job} (stage {self.stage}, task {self.task}, "
            f"attempt {self.attempt}), granted at {self.granted} ms on {self.node}, {status}"
        )


@dataclass(slots=True, eq=False)
class NodeState:
    """A node: its free room, and its containers."""

    spec: Node
    index: int
    """Its number in order of arrival."""
    free: list[int]
    """Free part of its room, slack included; from `spec`, its containers and foreign use."""
    containers: dict[int, None] = field(default_factory=dict)
    """Its containers by number, in order of arrival; from the state's containers."""
    foreign: dict[str, Vector] = field(default_factory=dict)
    """Foreign use, by the name under which the use was observed."""
    version: int = 0
    """Counts changes of its room."""
    draining: bool = False
    """Whether the node refuses new containers."""
    barred: dict[int, None] = field(default_factory=dict)
    """Sizes kept away by its labels or taints; from `spec` and the places of all sizes."""

    @property
    def id(self) -> str:
        """The node's id."""
        return self.spec.id

    def fits(self, stage: StageState) -> bool:
        """Whether a task of the stage could start here now."""
        if self.draining or stage.size in self.barred:
            return False
        for wanted, there in zip(stage.demand, self.free):  # noqa: B905, SIM110 (`vectors.fits`, without its call)
            if wanted > there:
                return False
        return True

    def fit_count(self, stage: StageState) -> int:
        """Number of tasks of the stage able to start here now."""
        if self.draining or stage.size in self.barred:
            return 0
        # A list, not a generator: `min` of a short list is faster. Never below 0, because foreign use may exceed the
        # room.
        return max(0, min([free // wanted for wanted, free in zip(stage.demand, self.free, strict=True) if wanted]))

    def room_for(self, stage: StageState) -> int:
        """The old name of `fit_count`."""
        warn_of_old_name("NodeState.room_for", "fit_count")
        return self.fit_count(stage)

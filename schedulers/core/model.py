"""What there is to schedule: jobs as DAGs of stages, nodes, queues. Frozen facts, no behaviour, no run times."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Final, Literal

import msgspec

from schedulers.core.errors import InvalidJob, InvalidTransition
from schedulers.core.places import ANYWHERE, Places, Taint
from schedulers.core.resources import Vector
from schedulers.core.written import Written


class Edge(Written, frozen=True, kw_only=True):
    """What ties a stage to one of its parents.

    parent: index of the parent stage inside the job. kind: 'barrier', nothing of the stage starts before all of the
    parent is done. data: bytes that the whole parent hands to the whole stage; each of its tasks hands each task of the
    stage an equal part.
    """

    parent: int
    kind: Literal["barrier"] = "barrier"
    data: int = 0


class Stage(Written, frozen=True, kw_only=True):
    """N tasks with one resource demand that may start when all parent stages are done.

    parents: an edge to each parent stage, or its index alone; `edges` and `above` are what one reads.
    hint_ms: what the submitter says a task will take, or None; a claim, not a fact.
    places: nodes that its tasks may use. gang: its tasks start all together or not at all.
    hosts: per task the nodes that hold its input, a wish and no demand; one entry stands for all tasks, () for none.
    master: its one task is the job's application master, which nobody samples and which ends with the job.
    """

    name: str
    tasks: int
    demand: Vector
    parents: tuple[int | Edge, ...] = ()
    hint_ms: int | None = None
    places: Places = ANYWHERE
    gang: bool = False
    hosts: tuple[tuple[str, ...], ...] = ()
    master: bool = False

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges to its parents, in the order of `parents`."""
        return tuple(parent if isinstance(parent, Edge) else Edge(parent=parent) for parent in self.parents)

    @property
    def above(self) -> tuple[int, ...]:
        """Indexes of its parents, in the order of `parents`."""
        return tuple(parent.parent if isinstance(parent, Edge) else parent for parent in self.parents)

    @property
    def takes_data(self) -> bool:
        """Whether a parent hands it any."""
        return any(isinstance(parent, Edge) and parent.data for parent in self.parents)

    def hosts_of(self, task: int) -> tuple[str, ...]:
        """Nodes that hold the input of one task."""
        if not self.hosts:
            return ()
        return self.hosts[task] if len(self.hosts) > 1 else self.hosts[0]


class Service(Written, frozen=True, kw_only=True):
    """What a job is that serves until it is ended from outside.

    start_within_ms: its objective, from its submission to the moment when all its tasks run; None: it has none.
    preemptible: whether its containers may be stopped so that others get what is theirs.
    """

    start_within_ms: int | None = None
    preemptible: bool = True


class Wish(Written, frozen=True, kw_only=True):
    """One way in which a job would like its tasks to run: no demand, as `Stage.places` is.

    device: on nodes of this kind. rack: in this rack. same_rack: all tasks of a stage in one rack, whichever.
    spread: no two tasks of a stage on one node. worth: against other ways. slowdown: run times there over the estimate.
    """

    device: str = ""
    rack: str = ""
    same_rack: bool = False
    spread: bool = False
    worth: float = 1.0
    slowdown: float = 1.0


class Wishes(Written, frozen=True, kw_only=True):
    """How a job would like to run; policies that know nothing of wishes pass them by.

    prefer: ways that will do, others do not while one of these can ever be had; (): anywhere. value: what the job is
    worth against others. budget_ms: ways by which all its tasks together would take longer are left out.
    """

    prefer: tuple[Wish, ...] = ()
    value: float = 1.0
    budget_ms: int | None = None


class Job(Written, frozen=True, kw_only=True):
    """A DAG of stages with what a predictor may know about it at submission.

    name: the recurring name (the same script run again); app: the program; both feed history.
    weight: its share against other jobs of its queue. service: of a job that does not end by itself; None: batch.
    deadline: by when it should be done, in ms on the scheduler's clock. wishes: how it would like to run, and what
    that is worth to it.
    """

    id: str
    stages: tuple[Stage, ...]
    name: str = ""
    user: str = ""
    app: str = ""
    queue: str = "default"
    weight: float = 1.0
    service: Service | None = None
    deadline: int | None = None
    wishes: Wishes | None = None

    @property
    def kind(self) -> Literal["batch", "service"]:
        """What kind of job it is."""
        return "batch" if self.service is None else "service"

    @property
    def tasks(self) -> int:
        """Number of tasks over all stages."""
        return sum(stage.tasks for stage in self.stages)

    @property
    def width(self) -> int:
        """Tasks of the widest stage: how many slots the job can use at once, at least."""
        return max(stage.tasks for stage in self.stages)


class Node(Written, frozen=True, kw_only=True):
    """A machine: capacity vector, relative speed (2.0 runs a task in half its time), rack and kind.

    labels and taints say which stages may use it (`Stage.places`). slack: how much more than its capacity containers
    may ask for together, () for nothing; for resources that only slow down when too many share them (network, disk).
    slots: so many tasks run there at once; 0 where nobody counts them.
    """

    id: str
    capacity: Vector
    speed: float = 1.0
    rack: str = ""
    kind: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    slack: Vector = ()
    slots: int = 0

    @property
    def room(self) -> Vector:
        """What containers may ask for together: the capacity, and the slack where there is any."""
        return tuple(map(sum, zip(self.capacity, self.slack, strict=True))) if self.slack else self.capacity


class Links(Written, frozen=True, kw_only=True):
    """How fast data goes from one node to another, in bytes per second; on one node it takes no time.

    pairs: from one node to another. in_rack: between nodes of one rack. rate: between any others; None: no time.
    What is named first here holds.
    """

    rate: int | None = None
    in_rack: int | None = None
    pairs: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)

    def between(self, one: str, other: str, *, in_rack: bool) -> int | None:
        """The rate from one node to another, None for no time. in_rack: whether one rack holds both."""
        if one == other:
            return None
        named = self.pairs.get(one)
        if named is not None and other in named:
            return named[other]
        return self.in_rack if in_rack and self.in_rack is not None else self.rate


class Copies(Written, frozen=True, kw_only=True):
    """A task may have several containers, of which the first that ends with success is the task.

    max: so many at once, those counted that have made its output before. others: those that still run when the first
    ends go on ('run', and make its output as well), or are ended ('end').
    """

    max: int = 2
    others: Literal["run", "end"] = "run"


class Decentralised(Written, frozen=True, kw_only=True):
    """Schedulers that know nothing of the cluster, and workers with queues (Sparrow, SOSP 2013).

    schedulers: how many; each job goes to the next one. method: how one finds workers for tasks. probe_ratio: probes or
    reservations per task, at least 1; constrained_probe_ratio: the same of a task that runs only where its input is,
    which those with input do with `constraints`. cancellation: reservations are taken back once a stage's last task is
    handed out. worker_order: who is next at a worker; 'priority' goes by the order in which queues were declared.
    """

    schedulers: int = 1
    method: Literal["random", "per_task", "batch", "late_binding"] = "late_binding"
    probe_ratio: float = 2.0
    constraints: bool = False
    constrained_probe_ratio: float = 2.0
    cancellation: bool = True
    worker_order: Literal["fifo", "user_round_robin", "priority"] = "fifo"


#: A resource vector (-1: no limit on that resource), a share of the cluster from 0 to 1, or None: no limit.
Limit = Vector | float | None


class PerUser(Written, frozen=True, kw_only=True):
    """Limits of each user inside a queue: what they hold, and how many jobs of theirs are let in at once."""

    limit: Limit = None
    max_running: int | None = None


class Queue(Written, frozen=True, kw_only=True):
    """A node of the weighted queue tree; jobs sit in leaves.

    guaranteed: what it can count on; a fact for policies that preempt. max: what its containers may hold at most.
    max_running: how many of its jobs are let in at once; the others wait in order of submission.
    preemptible: whether its containers may be stopped so that others get what is theirs.
    """

    name: str
    weight: float = 1.0
    parent: str = ""
    guaranteed: Limit = None
    max: Limit = None
    per_user: PerUser | None = None
    max_running: int | None = None
    preemptible: bool = True


class PastJob(Written, frozen=True, kw_only=True):
    """One finished job as history remembers it; times in ms on the scheduler's clock (negative: before it began).

    stages: per stage its number of tasks and their mean run time in ms, normalised to node speed 1.
    """

    name: str
    submitted: int
    finished: int
    stages: tuple[tuple[int, float], ...]
    user: str = ""
    app: str = ""
    demand: Vector = ()


def topological_order(stages: tuple[Stage, ...]) -> list[int]:
    """Stage indexes, parents first, lowest index first among equals. Raises InvalidJob on a cycle or a bad index."""
    children: list[list[int]] = [[] for _ in stages]
    missing = [0] * len(stages)
    for index, stage in enumerate(stages):
        for parent in stage.above:
            if not 0 <= parent < len(stages):
                raise InvalidJob(f"stage '{stage.name}' names parent {parent}, but there are {len(stages)} stages")
            children[parent].append(index)
            missing[index] += 1
    ready = [i for i, n in enumerate(missing) if n == 0]
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for child in children[index]:
            missing[child] -= 1
            if missing[child] == 0:
                heappush(ready, child)
    if len(order) < len(stages):
        stuck = ", ".join(stages[i].name for i, n in enumerate(missing) if n > 0)
        raise InvalidJob(f"the stages form a cycle: {stuck}")
    return order


def check_job(job: Job, resources: int) -> None:
    """Raise InvalidJob unless `job` is a DAG of non-empty stages with demands of `resources` components.

    Its weight must be above 0: shares are divided by it.
    """
    if not job.stages:
        raise InvalidJob(f"job '{job.id}' has no stages")
    if not (job.weight > 0 and math.isfinite(job.weight)):
        raise InvalidJob(f"job '{job.id}' has weight {job.weight} (a finite number above 0)")
    if job.wishes is not None:
        _check_wishes(job.id, job.wishes)
    for stage in job.stages:
        if stage.tasks < 1:
            raise InvalidJob(f"job '{job.id}' stage '{stage.name}' has {stage.tasks} tasks (at least 1)")
        if len(stage.demand) != resources or min(stage.demand) < 0 or max(stage.demand) <= 0:
            raise InvalidJob(
                f"job '{job.id}' stage '{stage.name}' demands {stage.demand} "
                f"({resources} components, none below 0, at least one above)"
            )
        if len(stage.hosts) not in (0, 1, stage.tasks):
            raise InvalidJob(
                f"job '{job.id}' stage '{stage.name}' has {stage.tasks} tasks, but hosts for {len(stage.hosts)}"
            )
        _check_edges(job, stage)
    topological_order(job.stages)


def _check_wishes(job: str, wishes: Wishes) -> None:
    """Raise InvalidJob for a value, worth or slowdown that makes no sense."""
    told = [("value", wishes.value, 0.0)]
    for wish in wishes.prefer:
        told += [("worth", wish.worth, 0.0), ("slowdown", wish.slowdown, _LEAST_SLOWDOWN)]
    for what, number, least in told:
        if not (number >= least and math.isfinite(number)):
            raise InvalidJob(f"job '{job}' wishes with {what} {number} (a finite number from {least:g} on)")
    if wishes.budget_ms is not None and wishes.budget_ms <= 0:
        raise InvalidJob(f"job '{job}' has a budget of {wishes.budget_ms} ms (above 0)")


#: Nothing makes a task more than so many times as fast as was estimated.
_LEAST_SLOWDOWN: Final = 0.001


def _check_edges(job: Job, stage: Stage) -> None:
    written = [parent for parent in stage.parents if isinstance(parent, Edge)]
    for edge in written:
        if stage.above.count(edge.parent) > 1:
            raise InvalidJob(f"job '{job.id}' stage '{stage.name}' has two edges to parent {edge.parent} (at most one)")
        if edge.data < 0:
            raise InvalidJob(
                f"job '{job.id}' stage '{stage.name}' takes {edge.data} bytes from parent {edge.parent} (0 or more)"
            )


def check_links(links: Links) -> None:
    """Raise InvalidTransition for a rate that is not above 0."""
    pairs = [(f"from '{a}' to '{b}'", rate) for a, rates in links.pairs.items() for b, rate in rates.items()]
    for what, rate in (("between nodes", links.rate), ("inside racks", links.in_rack), *pairs):
        if rate is not None and rate <= 0:
            raise InvalidTransition(f"links {what} have a rate of {rate} bytes per second (above 0)")

"""What there is to schedule: jobs as DAGs of stages, nodes, queues. Frozen facts, no behaviour, no run times."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Annotated, Final, Literal

import msgspec

from schedulers.core.errors import InvalidJob, InvalidTransition
from schedulers.core.fields import Count, Duration, Interval, Name, Positive, Rate, written
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
    """N equal tasks, of one resource demand, that may start when all parent stages are done.

    parents: an edge to each parent stage, or its index alone; `edges` and `above` are what one reads.
    hosts: per task the nodes that hold its input, a wish and no demand; one entry stands for all tasks, () for none.
    master: its one task is the job's application master, which nobody samples and which ends with the job.
    """

    name: Name
    """Its name inside the job, e.g. `map`."""
    tasks: Count
    """How many tasks, e.g. `20`."""
    demand: Vector
    parents: tuple[int | Edge, ...] = ()
    hint_ms: Duration | None = None
    """What its owner says that a task takes, a claim and no fact, e.g. `30s`."""
    places: Places = ANYWHERE
    """Nodes that its tasks may use; all that have no taint when left out, e.g. `{tolerations: [{key: gpu, operator:
    Exists}]}`.
    """
    gang: bool = False
    """Its tasks start all together or not at all, e.g. `true`."""
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
    """What makes a job a service: it serves until it is ended from outside, or until the run ends."""

    start_within_ms: Interval | None = None
    """Its objective: from its submission until all its tasks have started, e.g. `30s`."""
    preemptible: bool = True
    """Whether its containers may be stopped so that others get what is theirs, e.g. `false`."""


class Wish(Written, frozen=True, kw_only=True):
    """One way in which a job would like its tasks to run: no demand, as `places` of a stage is."""

    device: str = ""
    """On nodes of this kind, e.g. `gpu`."""
    rack: str = ""
    """On nodes of this rack, e.g. `r1`."""
    same_rack: bool = False
    """All tasks of a stage in one rack, whichever it is, e.g. `true`."""
    spread: bool = False
    """No two tasks of a stage on one node, e.g. `true`."""
    worth: Annotated[float, written(ge=0, le=1e6)] = 1.0
    """What it is worth against the other ways, e.g. `8`."""
    slowdown: Annotated[float, written(ge=1e-3, le=1e3)] = 1.0
    """How long tasks take there, as a multiple of the estimate, e.g. `1.5`."""


class Wishes(Written, frozen=True, kw_only=True):
    """How a job would like to run; policies that do not plan for wishes pass them by."""

    prefer: tuple[Wish, ...] = ()
    """Ways that will do. No other is taken while one of these can ever be had, e.g. `[{device: gpu, worth: 8},
    {worth: 3}]`.
    """
    value: Annotated[float, written(gt=0, le=1e6)] = 1.0
    """What the whole job is worth against others, e.g. `5`."""
    budget_ms: Interval | None = None
    """Ways are left out in which all its tasks together would take longer, by estimates, e.g. `20m`."""


class Job(Written, frozen=True, kw_only=True):
    """A DAG of stages with what a predictor may know about it at submission.

    deadline: by when it should be done, in ms on the scheduler's clock.
    """

    id: str
    stages: tuple[Stage, ...]
    name: Name = ""
    """Its recurring name, the same when the script runs again, by which predictors find its history, e.g. `etl`."""
    user: str = ""
    """Whose it is, e.g. `alice`."""
    app: str = ""
    """The program that it runs, for predictors, e.g. `spark-etl`."""
    queue: str = "default"
    """The leaf queue that it sits in, e.g. `prod`."""
    weight: Positive = 1.0
    """Its part of what jobs of its queue share, e.g. `2`."""
    service: Service | None = None
    """It is a service, not a batch job: it does not end by itself, e.g. `{start_within: 30s, preemptible: false}`."""
    deadline: int | None = None
    wishes: Wishes | None = None
    """How it would like to run, and what that is worth, e.g. `{prefer: [{device: gpu, worth: 8}, {worth: 3}]}`."""

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


#: Speeds of nodes beyond these are a mistake: run times are whole milliseconds that a log can hold.
SLOWEST: Final = 1e-3
FASTEST: Final = 1e3


class Node(Written, frozen=True, kw_only=True):
    """A machine.

    slack: how much more than its capacity containers may ask for together, () for nothing; for resources that only
    slow down when too many share them (network, disk). slots: so many tasks run there at once; 0 where nobody counts.
    """

    id: str
    capacity: Vector
    speed: Annotated[float, written(ge=SLOWEST, le=FASTEST)] = 1.0
    """2.0 runs a task in half its time, e.g. `1.5`."""
    rack: str = ""
    """The rack that it stands in, e.g. `r1`."""
    kind: str = ""
    """Name of the kind of machine, e.g. `m5.large`."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels that stages may ask for (`places` of a stage), e.g. `{disk: ssd}`."""
    taints: tuple[Taint, ...] = ()
    """Keep stages away that do not tolerate them, e.g. `[{key: gpu}]`."""
    slack: Vector = ()
    slots: int = 0

    @property
    def room(self) -> Vector:
        """What containers may ask for together: the capacity, and the slack where there is any."""
        return tuple(map(sum, zip(self.capacity, self.slack, strict=True))) if self.slack else self.capacity


class Links(Written, frozen=True, kw_only=True):
    """How fast data that edges carry goes from node to node; on one node it takes no time."""

    rate: Rate | None = None
    """Bytes per second between nodes of which nothing else is said; no time when left out, e.g. `1Gi`."""
    in_rack: Rate | None = None
    """Between nodes of one rack, e.g. `10Gi`."""
    pairs: Annotated[dict[str, dict[str, Rate]], written(key="between")] = msgspec.field(default_factory=dict)
    """From one node to another, one way, before all else, e.g. `{n1: {n2: 100Mi}}`."""

    def between(self, one: str, other: str, *, in_rack: bool) -> int | None:
        """The rate from one node to another, None for no time. in_rack: whether one rack holds both."""
        if one == other:
            return None
        named = self.pairs.get(one)
        if named is not None and other in named:
            return named[other]
        return self.in_rack if in_rack and self.in_rack is not None else self.rate


class Copies(Written, frozen=True, kw_only=True):
    """Policies that do so may run a task in several containers; the first that ends with success is the task."""

    max: Annotated[int, written(ge=2, le=1000)] = 2
    """So many containers of one task, those counted that have ended well, e.g. `3`."""
    others: Literal["run", "end"] = "run"
    """Those that still run when the first ends go on, and their output counts as well, or are ended, e.g. `end`."""


#: A resource vector (-1: no limit on that resource), a share of the cluster from 0 to 1, or None: no limit.
Limit = Vector | float | None


class PerUser(Written, frozen=True, kw_only=True):
    """Limits of each user inside a queue."""

    limit: Limit = None
    """What their tasks hold at most, e.g. `25%`."""
    max_running: Count | None = None
    """So many of their jobs run at once, e.g. `2`."""


class Queue(Written, frozen=True, kw_only=True):
    """A queue of the weighted tree; jobs sit in leaves."""

    name: Name
    """Its name, e.g. `prod`."""
    weight: Positive = 1.0
    """Its part of what its siblings share, e.g. `3`."""
    parent: str = ""
    """The queue above it; the root when left out, e.g. `company`."""
    guaranteed: Limit = None
    """What it can count on, for policies that preempt, e.g. `40%`."""
    max: Limit = None
    """What its tasks hold at most; a resource that is not named is not limited, e.g. `{cpu: 100}`."""
    per_user: PerUser | None = None
    """Limits of each user inside it, e.g. `{limit: 25%}`."""
    max_running: Count | None = None
    """So many of its jobs run at once, the others wait in order of submission, e.g. `10`."""
    preemptible: bool = True
    """Whether its containers may be stopped so that others get what is theirs, e.g. `false`."""


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

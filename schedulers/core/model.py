"""Things to schedule: jobs as DAGs of stages, nodes, queues. Frozen facts, no behaviour, no run times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Annotated, Final, Literal

import msgspec

from schedulers.core.errors import InvalidJob, InvalidTransition
from schedulers.core.fields import Count, Duration, Interval, Name, Rate, Weight, written
from schedulers.core.places import ANYWHERE, Places, Taint
from schedulers.core.resources import Vector
from schedulers.core.written import Written


class Edge(Written, frozen=True, kw_only=True):
    """The tie between a stage and a parent.

    Kind 'barrier': no task of the stage starts before the whole parent is done. 'one_to_one' (Tez: ONE_TO_ONE; Dryad:
    pointwise composition): task i starts once task i of the parent is done. 'share' (MapReduce's slow start): tasks get
    containers once a share of the parent's tasks is done and all others have begun, and run once the parent is done.
    """

    parent: int
    kind: Literal["barrier", "one_to_one", "share"] = "barrier"
    # With kind 'share' the share of the parent's tasks, above 0 and below 1; 0 with any other kind.
    share: float = 0.0
    # Bytes handed by the whole parent to the whole stage: every pair of tasks moves an equal part.
    data: int = 0

    def least(self, tasks: int) -> int:
        """How many of the parent's tasks must be done, with kind 'share'."""
        # Rounded up as by MapReduce, but not for the last digit of a product such as 0.07 * 100.
        return max(1, math.ceil(self.share * tasks - _LAST_DIGIT))


#: Far below a task, far above the errors of products of numbers.
_LAST_DIGIT: Final = 1e-6


class Stage(Written, frozen=True, kw_only=True):
    """N equal tasks, of the same resource demand, able to start when all parent stages are done."""

    name: Name
    """Its name inside the job, e.g. `map`."""
    tasks: Count
    """How many tasks, e.g. `20`."""
    demand: Vector
    # An index stands for an edge without data, so that logs of plain DAGs stay short; `edges` and `above` read both.
    parents: tuple[int | Edge, ...] = ()
    hint_ms: Duration | None = None
    """The owner's claim about the run time of a task, e.g. `30s`."""
    places: Places = ANYWHERE
    """Nodes open to its tasks; all nodes without taints when left out, e.g. `{tolerations: [{key: gpu, operator:
    Exists}]}`.
    """
    gang: bool = False
    """Its tasks start all together or not at all, e.g. `true`."""
    # Per task the nodes with its input, a wish and no demand; a single entry stands for all tasks, () for none.
    hosts: tuple[tuple[str, ...], ...] = ()
    # Its only task is the job's application master: never sampled, and over with the job.
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
    def ties(self) -> tuple[Edge, ...]:
        """The edges to its parents that are no barriers; mostly none."""
        return tuple(parent for parent in self.parents if isinstance(parent, Edge) and parent.kind != "barrier")

    @property
    def takes_data(self) -> bool:
        """Whether a parent hands data to the stage."""
        return any(isinstance(parent, Edge) and parent.data for parent in self.parents)

    def hosts_of(self, task: int) -> tuple[str, ...]:
        """Nodes with the input of a task."""
        if not self.hosts:
            return ()
        return self.hosts[task] if len(self.hosts) > 1 else self.hosts[0]


class Service(Written, frozen=True, kw_only=True):
    """Settings of a service: a job serving until its end from outside, or until the end of the run."""

    start_within_ms: Interval | None = None
    """Its objective: from its submission until all its tasks have started, e.g. `30s`."""
    preemptible: bool = True
    """Whether its containers may be stopped to give others their due, e.g. `false`."""


class Wish(Written, frozen=True, kw_only=True):
    """A way in which a job would like its tasks to run: no demand, unlike `places` of a stage."""

    device: str = ""
    """On nodes of the given kind, e.g. `gpu`."""
    rack: str = ""
    """On nodes of the given rack, e.g. `r1`."""
    same_rack: bool = False
    """All tasks of a stage in the same rack, no matter which, e.g. `true`."""
    spread: bool = False
    """Every task of a stage on a node of its own, e.g. `true`."""
    worth: Annotated[float, written(ge=0, le=1e6)] = 1.0
    """Its worth against the other ways, e.g. `8`."""
    slowdown: Annotated[float, written(ge=1e-3, le=1e3)] = 1.0
    """How long tasks take there, as a multiple of the estimate, e.g. `1.5`."""


class Wishes(Written, frozen=True, kw_only=True):
    """Ways in which a job would like to run; policies without plans for wishes ignore them."""

    prefer: tuple[Wish, ...] = ()
    """Acceptable ways. No other way is taken while any of them can ever be had, e.g. `[{device: gpu, worth: 8}, {worth:
    3}]`.
    """
    value: Annotated[float, written(gt=0, le=1e6)] = 1.0
    """Worth of the whole job against other jobs, e.g. `5`."""
    budget_ms: Interval | None = None
    """Ways are left out in which all its tasks together would take longer, by estimates, e.g. `20m`."""


class Job(Written, frozen=True, kw_only=True):
    """A DAG of stages, with everything a predictor may know at submission."""

    id: str
    stages: tuple[Stage, ...]
    name: Name = ""
    """Its recurring name, the same when the script runs again, by which predictors find its history, e.g. `etl`."""
    user: str = ""
    """Its owner, e.g. `alice`."""
    app: str = ""
    """The program run by the job, for predictors, e.g. `spark-etl`."""
    queue: str = "default"
    """Its leaf queue, e.g. `prod`."""
    weight: Weight = 1.0
    """Its part among the jobs of its queue, e.g. `2`."""
    service: Service | None = None
    """Makes the job a service, without an end of its own, e.g. `{start_within: 30s, preemptible: false}`."""
    # The time by which the job should be done, in ms on the scheduler's clock.
    deadline: int | None = None
    wishes: Wishes | None = None
    """Its wishes for ways to run, and their worth, e.g. `{prefer: [{device: gpu, worth: 8}, {worth: 3}]}`."""

    @property
    def kind(self) -> Literal["batch", "service"]:
        """The kind of the job."""
        return "batch" if self.service is None else "service"

    @property
    def tasks(self) -> int:
        """Number of tasks over all stages."""
        return sum(stage.tasks for stage in self.stages)

    @property
    def width(self) -> int:
        """Tasks of the widest stage: how many slots the job can use at once, at least."""
        return max(stage.tasks for stage in self.stages)


#: Bounds of node speeds; beyond them, run times would not be whole milliseconds of a size fit for a log.
SLOWEST: Final = 1e-3
FASTEST: Final = 1e3


class Node(Written, frozen=True, kw_only=True):
    """A machine."""

    id: str
    capacity: Vector
    speed: Annotated[float, written(ge=SLOWEST, le=FASTEST)] = 1.0
    """2.0 runs a task in half its time, e.g. `1.5`."""
    rack: str = ""
    """The rack of the node, e.g. `r1`."""
    kind: str = ""
    """Name of the kind of machine, e.g. `m5.large`."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels for stages to ask for (`places` of a stage), e.g. `{disk: ssd}`."""
    taints: tuple[Taint, ...] = ()
    """Keep away stages without a matching toleration, e.g. `[{key: gpu}]`."""
    # Amount beyond the capacity that containers may ask for together, () for nothing: for resources that only slow down
    # when too many share them (network, disk).
    slack: Vector = ()
    # Number of tasks able to run at once; 0: unlimited.
    slots: int = 0

    @property
    def room(self) -> Vector:
        """Resources for containers to ask for together: the capacity, and the slack where there is any."""
        return tuple(map(sum, zip(self.capacity, self.slack, strict=True))) if self.slack else self.capacity


class Links(Written, frozen=True, kw_only=True):
    """Rates of edge data between nodes; inside a node data takes no time."""

    rate: Rate | None = None
    """Bytes per second between nodes without a rate of their own; no time when left out, e.g. `1Gi`."""
    in_rack: Rate | None = None
    """Bytes per second between nodes of the same rack, e.g. `10Gi`."""
    pairs: Annotated[dict[str, dict[str, Rate]], written(key="between")] = msgspec.field(default_factory=dict)
    """From a node to another node, in this direction only, before all other rates, e.g. `{n1: {n2: 100Mi}}`."""

    def between(self, one: str, other: str, *, in_rack: bool) -> int | None:
        """The rate between two nodes in bytes per second, None for no time. in_rack: whether both share a rack."""
        if one == other:
            return None
        named = self.pairs.get(one)
        if named is not None and other in named:
            return named[other]
        return self.in_rack if in_rack and self.in_rack is not None else self.rate


class CopyRules(Written, frozen=True, kw_only=True):
    """Limits for policies with copies: a task in several containers, of which the first to succeed counts."""

    max: Annotated[int, written(ge=2, le=1000)] = 2
    """Largest number of containers of a task, successfully ended containers included, e.g. `3`."""
    others: Literal["run", "end"] = "run"
    """Copies still running at the first success go on, and their output counts as well, or are ended, e.g. `end`."""


#: A resource vector (-1: no limit on that resource), a share of the cluster from 0 to 1, or None: no limit.
Limit = Vector | float | None


class PerUser(Written, frozen=True, kw_only=True):
    """Limits of each user inside a queue."""

    limit: Limit = None
    """Resources held by their tasks at most, e.g. `25%`."""
    max_running: Count | None = None
    """So many of their jobs run at once, e.g. `2`."""


class Queue(Written, frozen=True, kw_only=True):
    """A queue of the weighted tree; jobs sit in leaves."""

    name: Name
    """Its name, e.g. `prod`."""
    weight: Weight = 1.0
    """Its part among its siblings, e.g. `3`."""
    parent: str = ""
    """The queue above; the root when left out, e.g. `company`."""
    guaranteed: Limit = None
    """Its guaranteed resources, for policies that preempt, e.g. `40%`."""
    max: Limit = None
    """Resources held by its tasks at most; unnamed resources are not limited, e.g. `{cpu: 100}`."""
    per_user: PerUser | None = None
    """Limits of each user inside the queue, e.g. `{limit: 25%}`."""
    max_running: Count | None = None
    """So many of its jobs run at once, the others wait in order of submission, e.g. `10`."""
    preemptible: bool = True
    """Whether its containers may be stopped to give others their due, e.g. `false`."""


class PastJob(Written, frozen=True, kw_only=True):
    """A finished job in history's memory; times in ms on the scheduler's clock (negative: before its start)."""

    name: str
    submitted: int
    finished: int
    # Per stage the number of tasks and their mean run time in ms, normalised to node speed 1.
    stages: tuple[tuple[int, float], ...]
    user: str = ""
    app: str = ""
    demand: Vector = ()
    queue: str = ""
    """Where the job was submitted; empty: not known."""


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
    # Already a heap, because the indexes ascend: the lowest ready index comes first, so the order is unique.
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

    The weight must be above 0: shares are divided by the weight.
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
    """Raise InvalidJob for a senseless value, worth or slowdown."""
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
        if why := tie_mistake(stage, edge, {index: other.tasks for index, other in enumerate(job.stages)}):
            raise InvalidJob(f"job '{job.id}' stage '{stage.name}' has an edge to parent {edge.parent} {why}")


def tie_mistake(stage: Stage, edge: Edge, tasks: Mapping[int, int]) -> str:
    """Why an edge of the stage makes no sense, as the end of a sentence about the edge; '' where the edge does.

    tasks: of all stages of the job, by index.
    """
    above = tasks.get(edge.parent, stage.tasks)  # an unknown parent is reported elsewhere
    plain = edge.kind == "barrier"
    rules = (
        (
            edge.kind == "one_to_one" and above != stage.tasks,
            f"of kind one_to_one, but has {stage.tasks} tasks and the parent {above} (as many are needed)",
        ),
        (edge.kind == "share" and not 0 < edge.share < 1, f"with share {edge.share:g} (above 0 and below 1)"),
        (edge.kind != "share" and edge.share, f"of kind {edge.kind} with a share (kind share alone has one)"),
        (not plain and stage.gang, f"of kind {edge.kind}, but is a gang (which starts at once, behind barriers)"),
        (not plain and stage.takes_data, f"of kind {edge.kind}, but takes data (handed on along barriers alone)"),
    )
    return next((why for broken, why in rules if broken), "")


def check_links(links: Links) -> None:
    """Raise InvalidTransition for a rate of 0 or below."""
    pairs = [(f"from '{a}' to '{b}'", rate) for a, rates in links.pairs.items() for b, rate in rates.items()]
    for what, rate in (("between nodes", links.rate), ("inside racks", links.in_rack), *pairs):
        if rate is not None and rate <= 0:
            raise InvalidTransition(f"links {what} have a rate of {rate} bytes per second (above 0)")

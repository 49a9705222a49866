"""A cluster as the engine needs the description: fully resolved, integers only, no defaults left open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core.fields import NAME, Count, Duration, Interval, Name, Probability, written
from schedulers.core.model import Job, Links, Node, Queue
from schedulers.decentralised.settings import Probing


class Disorder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seeded disorder of facts and decisions, to find races hidden by determinism."""

    permute: bool = True
    """Facts of the same millisecond come in a random order, e.g. `false`."""
    delay: Probability = 0.0
    """Probability of a late hearing of a heartbeat or an end, e.g. `0.1`."""
    delay_ms: Annotated[int, written("interval", key="delay_time")] = 1000
    """Longest delay, e.g. `2s`."""
    duplicate: Probability = 0.0
    """Probability of a second hearing of a heartbeat or an end, e.g. `0.1`."""
    late: Probability = 0.0
    """Probability of a late effect of a decision, e.g. `0.1`."""
    late_ms: Annotated[int, written("interval", key="late_time")] = 1000
    """Longest delay, e.g. `2s`."""


class Executors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Containers kept by a job between tasks, as in Spark (Decima, section 6.2; hongzimao/decima-sim)."""

    moving_ms: Annotated[int, written("duration", key="moving_delay")] = 2000
    """Cost of taking up an executor, new or from another job, e.g. `2s`."""
    warmup_ms: Duration = 1000
    """Added to a first-wave duration when no fresh duration was measured, e.g. `1s`."""
    inverted_levels: bool = True
    """Choose between two measured levels of parallelism as Decima's released code does (spark_env/node.py), with the
    interpolation inverted; false: interpolate, e.g. `false`.
    """


#: A node is dead, unheard though its tasks go on, found broken by itself, taken out of use, or slow.
FaultKind = Literal["death", "silent", "unhealthy", "drain", "slow"]
#: Factor of a run time or a rate.
Times = Annotated[float, written(ge=1, le=1000)]


class NodeFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A fault of a node."""

    at_ms: Duration
    """When, e.g. `10m`."""
    node: str
    kind: FaultKind = "death"
    """death: tasks end without a word; silent: tasks go on, unheard; unhealthy: known at once; drain: no further tasks,
    and after `drain_limit` none at all; slow: tasks that start there take longer, and nobody is told, e.g. `silent`.
    """
    lasts_ms: Annotated[int, written("interval", key="for")] | None = None
    """Time until the node is back; for good when left out, e.g. `2h`."""
    times: Times = 1.0
    """Of kind slow: factor of the run times of tasks that start on the node meanwhile, e.g. `3`."""


class Worse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some that are worse than the others."""

    share: Probability
    """Part of all, e.g. `0.03`."""
    times: Times
    """Factor of the others' rate or run time, e.g. `10`."""


class NodeFaultRates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults of nodes at random, drawn by node and number: exponential times between a repair and the next fault."""

    per_1000_node_days: Annotated[float, written(gt=0, le=1e8)]
    """Mean over all nodes, lemons included, e.g. `4`."""
    repair: Fixed | Drawn
    kind: FaultKind = "death"
    """Kind of each fault, as in `schedule`, e.g. `unhealthy`."""
    times: Times = 1.0
    """Of kind slow: factor of run times, e.g. `3`."""
    lemons: Worse | None = None
    """Nodes that fail more often than the others; the mean stays, e.g. `{share: 0.03, times: 10}`."""


class TaskFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults of attempts at random, drawn by job, stage, task and attempt; tasks of services have none."""

    per_hour: Annotated[float, written(ge=0, le=1e8)] = 0.0
    """Failures per hour of running, e.g. `0.01`."""
    probability: Probability = 0.0
    """Part of the attempts that fail, each somewhere in its run time, e.g. `0.05`."""
    attempts: Count = 4
    """Failures of a task with which its job fails; attempts lost with a node, or preempted, do not count, e.g. `2`."""
    backoff_ms: Duration = 0
    """Time for which a stage asks for nothing after a failure; twice as long for each further failure of the task, and
    6 minutes at most, e.g. `10s`.
    """
    hangs: Probability = 0.0
    """Part of the attempts that hang, each somewhere in its run time, e.g. `0.01`."""
    watchdog_ms: Interval = 600_000
    """From there on until a hanging attempt is ended, which is a failure (`mapreduce.task.timeout`), e.g. `5m`."""
    blacklist: Count | None = None
    """Failures on a node after which a job refuses the node, unless that makes 33 % of the nodes, e.g. `3`."""
    stragglers: Worse | None = None
    """Attempts that take longer than others, e.g. `{share: 0.05, times: 3}`."""


class MasterFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults of application masters in containers of their own at random, drawn by job and attempt."""

    per_hour: Annotated[float, written(ge=0, le=1e8)] = 0.0
    """Failures per hour of running, e.g. `0.01`."""
    hangs: Probability = 0.0
    """Part of the failures in which the master falls silent, noticed as a dead node is, e.g. `0.1`."""
    attempts: Count = 2
    """Failures of a job's masters with which the job fails; lost nodes do not count, e.g. `4`."""
    keep_containers: bool = False
    """Let running tasks outlive their master, e.g. `true`."""


class CheckpointRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks of batch jobs save their work, those of a gang together; only what came after the last time is lost."""

    every_ms: Interval
    """Work between two checkpoints, e.g. `1h`."""
    cost_ms: Duration = 0
    """Time that a checkpoint takes, e.g. `20s`."""
    restart: Fixed | Drawn = Fixed(0)


class Restart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A while in which the resource manager hears and decides nothing."""

    at_ms: Duration
    """When, e.g. `10m`."""
    lasts_ms: Annotated[int, written("interval", key="for")]
    """Length, e.g. `30s`."""
    recovery: bool = True
    """false: all jobs begin anew (`yarn.resourcemanager.recovery.enabled`), e.g. `false`."""


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What breaks, and when somebody notices."""

    outages: tuple[NodeFault, ...] = ()
    """Faults at given times."""
    nodes: NodeFaultRates | None = None
    tasks: TaskFaults | None = None
    """Attempts that fail or are slow, e.g. `{per_hour: 0.01}`."""
    masters: MasterFaults | None = None
    """Application masters that fail, e.g. `{per_hour: 0.01}`."""
    checkpoints: CheckpointRules | None = None
    """What attempts save of their work, e.g. `{every: 1h, cost: 20s, restart: 5m}`."""
    restarts: tuple[Restart, ...] = ()
    """Restarts of the resource manager, e.g. `[{at: 10m, for: 30s}]`."""
    speculation: Literal["mapreduce", "late"] | None = None
    """Rule by which masters ask for copies of late tasks (Hadoop, OSDI 2008), e.g. `late`."""
    noticed_after_ms: Duration | None = None
    """Silence of a node until the loss is noticed. The profile's when left out: yarn and sls at the first check after
    600 s, checks coming in thirds of this time; kubernetes 40 s; events at once, e.g. `60s`.
    """
    evicted_after_ms: Duration | None = None
    """From then on, or from being unhealthy, until the node's containers are lost. The profile's when left out:
    kubernetes 300 s, all others at once, e.g. `30s`.
    """
    drain_limit_ms: Duration = 3_600_000
    """Time after which containers of a drained node are ended, e.g. `10m`."""


class JobSelector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs of any of these queues, users or kinds; all jobs where nothing is named."""

    queues: tuple[Name, ...] = ()
    """Queues of the jobs, e.g. `[prod]`."""
    users: tuple[Name, ...] = ()
    """Users of the jobs, e.g. `[alice]`."""
    kinds: tuple[Literal["batch", "service"], ...] = ()
    """Kinds of the jobs, e.g. `[service]`."""

    def takes(self, job: Job) -> bool:
        """Whether the job is among these jobs."""
        # No choice at all means every job, so that the last scheduler needs no list.
        named = self.queues or self.users or self.kinds
        return not named or job.queue in self.queues or job.user in self.users or job.kind in self.kinds

    @property
    def selector(self) -> JobSelector:
        """The choice of jobs alone, without the fields of subclasses."""
        # A plain `JobSelector` as the key for groups of equal schedulers, whatever their names and think times.
        return JobSelector(queues=self.queues, users=self.users, kinds=self.kinds)


class Path(JobSelector, frozen=True, kw_only=True):
    """Jobs with a think time of their own in a scheduler."""

    t_job_ms: Duration = 100
    """Think time for a job in an attempt, e.g. `6s`."""
    t_task_ms: Duration = 5
    """Further think time for each task of the job not placed yet, e.g. `1s`."""


class Thinker(Path, frozen=True, kw_only=True):
    """A scheduler, or framework, with a queue of jobs of its own, at work on a single job at a time.

    The scheduler takes its jobs from the jobs left by the schedulers before.
    """

    name: Annotated[str, written(pattern=NAME, max_length=60)]
    """Name in results, e.g. `batch`."""
    count: Annotated[int, written(ge=1, le=1000)] = 1
    """Number of equal schedulers, called NAME-1, NAME-2, ...; each job goes to the next in turn, e.g. `4`."""
    policy: Annotated[dict[str, Any] | None, written("decider")] = None
    """Policy, predictor and placement; those of the label when left out, e.g. `{kind: gs, predictor: {kind:
    slearn}}`.
    """

    @property
    def names(self) -> list[str]:
        """Name of each of the equal schedulers."""
        return [self.name] if self.count == 1 else [f"{self.name}-{number + 1}" for number in range(self.count)]


class GiveUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits beyond which a job is given up at the end of an attempt."""

    none_placed: Count = 100
    """Attempts without any task placed so far, e.g. `10`."""
    attempts: Count = 1000
    """Attempts in all, e.g. `50`."""


class Thinking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Settings of all architectures with think times."""

    retry_ms: Interval = 1000
    """Time after an attempt at which a job with tasks left is in the queue again, e.g. `5s`."""
    give_up: GiveUp = GiveUp()
    """When a scheduler gives a job up, e.g. `{attempts: 50}`."""


class Central(Thinking, frozen=True, kw_only=True, tag="central"):
    """A single scheduler for all decisions; with think times, Omega's monolithic scheduler."""

    t_job_ms: Duration = 0
    """Think time for a job in an attempt; without any think times decisions come at once, e.g. `100ms`."""
    t_task_ms: Duration = 0
    """Further think time for each task of the job not placed yet, e.g. `5ms`."""
    paths: tuple[Path, ...] = ()
    """Jobs with other think times: multi path, e.g. `[{kinds: [service], t_job: 6s}]`."""

    @property
    def thinks(self) -> bool:
        """Whether any think time is above 0."""
        return any(path.t_job_ms or path.t_task_ms for path in (*self.paths, self._rest))

    def path(self, job: Job) -> Path:
        """The first path that takes the job."""
        return next((path for path in self.paths if path.takes(job)), self._rest)

    @property
    def _rest(self) -> Path:
        return Path(t_job_ms=self.t_job_ms, t_task_ms=self.t_task_ms)


class MultipleThinkers(Thinking, frozen=True, kw_only=True):
    """Settings of architectures with several schedulers."""

    schedulers: Annotated[tuple[Thinker, ...], written(min_length=1)]
    """The schedulers, or frameworks, e.g. `[{name: service, kinds: [service], t_job: 6s}, {name: batch}]`."""

    @property
    def thinkers(self) -> tuple[Thinker, ...]:
        """Each scheduler by itself, groups of equal schedulers taken apart."""
        return tuple(
            msgspec.structs.replace(each, name=name, count=1) for each in self.schedulers for name in each.names
        )


class TwoLevel(MultipleThinkers, frozen=True, kw_only=True, tag="two_level"):
    """Mesos: all free room is offered to a single framework at a time, and locked during its think time."""


class SharedState(MultipleThinkers, frozen=True, kw_only=True, tag="shared_state"):
    """Omega: schedulers with private copies of the cluster, whose claims are committed or refused."""

    conflict: Literal["resource_fit", "sequence"] = "resource_fit"
    """Reason to refuse a claim: too little room on its node, or any start there since the copy, e.g. `sequence`."""
    commit: Literal["incremental", "all_or_nothing"] = "incremental"
    """Effect of a refused claim on the rest of its attempt, e.g. `all_or_nothing`."""
    own_ends: Literal["afterwards", "at_once"] = "afterwards"
    """Time at which a scheduler hears of ends of its own tasks during an attempt: with the next copy, as in Omega's
    simulator, or at once, e.g. `at_once`.
    """


class Decentralised(Probing, frozen=True, kw_only=True, tag_field="kind", tag="decentralised"):
    """Sparrow: schedulers without knowledge of the cluster, and workers with queues."""

    message_ms: Annotated[int, written("duration", key="message_delay")] = 1
    """Travel time of a message, e.g. `5ms`."""
    slots_per_worker: Count | None = None
    """Number of tasks that run on a node at once; as many as fit when left out, e.g. `4`."""

    @property
    def probing(self) -> Probing:
        """The part of the settings known to schedulers and workers: how to find each other."""
        return Probing(**{name: getattr(self, name) for name in Probing.__struct_fields__})


# A union of tagged structs: the `kind` of the block chooses the struct, and an unknown kind is refused.
Architecture = Central | TwoLevel | SharedState | Decentralised


def kind(architecture: Architecture) -> str:
    """The architecture's name in a scenario."""
    return str(architecture.__struct_config__.tag)


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and its behaviour, as plain data; `assemble.timing` names the class for the timing."""

    nodes: tuple[Node, ...]
    """The nodes, capacities in the order of `resources`."""
    resources: tuple[str, ...] = ("cpu", "memory")
    """Names of the resources."""
    queues: tuple[Queue, ...] = ()
    """The tree of queues."""
    profile: str = "yarn"
    """Timing of the resource manager: a name of `rm_emulator.engine.profile.profiles`."""
    settings: Mapping[str, Any] = {}
    """The profile's own settings, as its registry parses them."""
    heartbeat_ms: int = 1000
    """Interval of node heartbeats, ms."""
    am_heartbeat_ms: int = 1000
    """Interval of an application master's calls, ms."""
    skip: bool = True
    """Skip heartbeats without any effect; false: every node beats in every interval (same log)."""
    startup: Fixed | Drawn = Fixed(0)
    """Time between launch and the task's first instant."""
    containers_per_heartbeat: int | None = None
    """Most new containers per node heartbeat; None: as many as fit."""
    executors: Executors | None = None
    """Keep containers between tasks; None: a container for each task."""
    disorder: Disorder | None = None
    """Disorder of facts and decisions; None: there is none."""
    faults: Faults | None = None
    """What breaks; None: nothing does."""
    links: Links | None = None
    """Speed of data from node to node; None: data takes no time."""
    architecture: Architecture | None = None
    """Deciders and their timing; None: a single scheduler, timed by the profile."""

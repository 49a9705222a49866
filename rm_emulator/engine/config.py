"""What the engine needs to know of a cluster: fully resolved, integers only, no defaults left open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core.fields import NAME, Count, Duration, Interval, Name, Probability, written
from schedulers.core.model import Job, Links, Node, Queue
from schedulers.decentralised.settings import Probing


class Disorder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seeded disorder of facts and decisions, to find races that determinism hides."""

    permute: bool = True
    """Facts of the same millisecond come in a random order, e.g. `false`."""
    delay: Probability = 0.0
    """Probability that a heartbeat or an end is heard late, e.g. `0.1`."""
    delay_ms: Annotated[int, written("interval", key="delay_time")] = 1000
    """By how much at most, e.g. `2s`."""
    duplicate: Probability = 0.0
    """Probability that a heartbeat or an end is heard twice, e.g. `0.1`."""
    late: Probability = 0.0
    """Probability that a decision takes effect late, e.g. `0.1`."""
    late_ms: Annotated[int, written("interval", key="late_time")] = 1000
    """By how much at most, e.g. `2s`."""


class Executors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Containers that a job keeps between tasks, as in Spark (Decima, section 6.2; hongzimao/decima-sim)."""

    moving_ms: Annotated[int, written("duration", key="moving_delay")] = 2000
    """Cost of taking up an executor, new or from another job, e.g. `2s`."""
    warmup_ms: Duration = 1000
    """Added to a first-wave duration when no fresh duration was measured, e.g. `1s`."""
    inverted_levels: bool = True
    """Choose between two measured levels of parallelism as Decima's released code does (spark_env/node.py), which
    inverts the interpolation; false: interpolate, e.g. `false`.
    """


class JobsOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs of any of these queues, users or kinds, or all where none is named."""

    queues: tuple[Name, ...] = ()
    """Their queues, e.g. `[prod]`."""
    users: tuple[Name, ...] = ()
    """Their users, e.g. `[alice]`."""
    kinds: tuple[Literal["batch", "service"], ...] = ()
    """What they are, e.g. `[service]`."""

    def takes(self, job: Job) -> bool:
        """Whether the job is one of them."""
        named = self.queues or self.users or self.kinds
        return not named or job.queue in self.queues or job.user in self.users or job.kind in self.kinds

    @property
    def jobs(self) -> JobsOf:
        """What it takes, whatever else it is."""
        return JobsOf(queues=self.queues, users=self.users, kinds=self.kinds)


class Path(JobsOf, frozen=True, kw_only=True):
    """Jobs that one scheduler thinks about for a time of their own."""

    t_job_ms: Duration = 100
    """How long it thinks about a job in an attempt, e.g. `6s`."""
    t_task_ms: Duration = 5
    """And for each of its tasks that are not placed yet, e.g. `1s`."""


class Thinker(Path, frozen=True, kw_only=True):
    """A scheduler, or framework, with a queue of jobs of its own, that works on one at a time.

    It takes its jobs of what those before it have left.
    """

    name: Annotated[str, written(pattern=NAME, max_length=60)]
    """What results call it, e.g. `batch`."""
    count: Annotated[int, written(ge=1, le=1000)] = 1
    """So many of them, called NAME-1, NAME-2, ...; each job goes to the next one, e.g. `4`."""
    policy: Annotated[dict[str, Any] | None, written("decider")] = None
    """Its policy, predictor and placement; those of the label when left out, e.g. `{kind: gs, predictor: {kind:
    slearn}}`.
    """

    @property
    def names(self) -> list[str]:
        """What each of them is called."""
        return [self.name] if self.count == 1 else [f"{self.name}-{number + 1}" for number in range(self.count)]


class GiveUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a job is given up: after an attempt, when more than so many were in vain."""

    none_placed: Count = 100
    """Attempts, as long as none of its tasks was placed, e.g. `10`."""
    attempts: Count = 1000
    """Attempts in all, e.g. `50`."""


class Thinking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all architectures in which schedulers think have."""

    retry_ms: Interval = 1000
    """A job with tasks left is in the queue again so long after an attempt, e.g. `5s`."""
    give_up: GiveUp = GiveUp()
    """When a scheduler gives a job up, e.g. `{attempts: 50}`."""


class Central(Thinking, frozen=True, kw_only=True, tag="central"):
    """One scheduler that decides on everything; with think times, Omega's monolithic scheduler."""

    t_job_ms: Duration = 0
    """How long it thinks about a job in an attempt; it decides at once where it never thinks, e.g. `100ms`."""
    t_task_ms: Duration = 0
    """And for each of its tasks that are not placed yet, e.g. `5ms`."""
    paths: tuple[Path, ...] = ()
    """Jobs it thinks about for another time: multi path, e.g. `[{kinds: [service], t_job: 6s}]`."""

    @property
    def thinks(self) -> bool:
        """Whether it ever takes its time."""
        return any(path.t_job_ms or path.t_task_ms for path in (*self.paths, self._rest))

    def path(self, job: Job) -> Path:
        """Of the job: the first that takes it."""
        return next((path for path in self.paths if path.takes(job)), self._rest)

    @property
    def _rest(self) -> Path:
        return Path(t_job_ms=self.t_job_ms, t_task_ms=self.t_task_ms)


class OfSeveral(Thinking, frozen=True, kw_only=True):
    """What architectures with several schedulers have."""

    schedulers: Annotated[tuple[Thinker, ...], written(min_length=1)]
    """The schedulers, or frameworks, e.g. `[{name: service, kinds: [service], t_job: 6s}, {name: batch}]`."""

    @property
    def thinkers(self) -> tuple[Thinker, ...]:
        """Each of them by itself, groups of equal ones in parts."""
        return tuple(
            msgspec.structs.replace(each, name=name, count=1) for each in self.schedulers for name in each.names
        )


class TwoLevel(OfSeveral, frozen=True, kw_only=True, tag="two_level"):
    """Mesos: all that is free is offered to one framework at a time, and locked while that thinks."""


class SharedState(OfSeveral, frozen=True, kw_only=True, tag="shared_state"):
    """Omega: schedulers with private copies of the cluster, whose claims are committed or refused."""

    conflict: Literal["resource_fit", "sequence"] = "resource_fit"
    """What refuses a claim: too little room on its node, or any start there since the copy, e.g. `sequence`."""
    commit: Literal["incremental", "all_or_nothing"] = "incremental"
    """What a refused claim means for the others of its attempt, e.g. `all_or_nothing`."""
    own_ends: Literal["afterwards", "at_once"] = "afterwards"
    """When a scheduler hears of ends of its own tasks while it thinks: with its next copy, as in Omega's simulator, or
    at once, e.g. `at_once`.
    """


class Decentralised(Probing, frozen=True, kw_only=True, tag_field="kind", tag="decentralised"):
    """Sparrow: schedulers that know nothing of the cluster, and workers with queues."""

    message_ms: Annotated[int, written("duration", key="message_delay")] = 1
    """How long a message is under way, e.g. `5ms`."""
    slots_per_worker: Count | None = None
    """So many tasks run on a node at once; as many as fit when left out, e.g. `4`."""

    @property
    def probing(self) -> Probing:
        """How schedulers and workers find each other, which is all that these know."""
        return Probing(**{name: getattr(self, name) for name in Probing.__struct_fields__})


Architecture = Central | TwoLevel | SharedState | Decentralised


def kind(architecture: Architecture) -> str:
    """What a scenario calls it."""
    return str(architecture.__struct_config__.tag)


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and how it behaves, as plain data: `assemble.timing` says which class times it."""

    nodes: tuple[Node, ...]
    """The nodes, capacities in the order of `resources`."""
    resources: tuple[str, ...] = ("cpu", "memory")
    """Names of the resources."""
    queues: tuple[Queue, ...] = ()
    """The tree of queues."""
    profile: str = "yarn"
    """How the resource manager hears and acts: a name of `rm_emulator.engine.profile.profiles`."""
    settings: Mapping[str, Any] = {}
    """The profile's own settings, as its registry parses them."""
    heartbeat_ms: int = 1000
    """How often a node beats."""
    am_heartbeat_ms: int = 1000
    """How often an application master calls."""
    skip: bool = True
    """Skip heartbeats that cannot change anything; false beats every node every interval (same log)."""
    startup: Fixed | Drawn = Fixed(0)
    """Time between launch and the task's first instant."""
    containers_per_heartbeat: int | None = None
    """At most so many new containers per node heartbeat; None: as many as fit."""
    executors: Executors | None = None
    """Keep containers between tasks; None: a container for each task."""
    disorder: Disorder | None = None
    """Disorder of facts and decisions; None: there is none."""
    links: Links | None = None
    """How fast data goes from node to node; None: it takes no time."""
    architecture: Architecture | None = None
    """Who decides, and when; None: one scheduler, when the profile says."""

"""The nodes, how the resource manager hears of them, and the queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema, model_validator

from rm_emulator.engine import known
from rm_emulator.engine.config import Kubernetes as KubernetesDelays
from rm_emulator.scenario.schema.architecture import Architecture, Central
from rm_emulator.scenario.schema.values import (
    NAME,
    Block,
    Count,
    Duration,
    Interval,
    Positive,
    Probability,
    Quantities,
    Rate,
    StartUp,
    read,
)
from schedulers.core.queues import parse_share

#: Node speeds that can be emulated: run times are whole milliseconds.
SLOWEST: Final = 1e-3
FASTEST: Final = 1e3
_KUBERNETES: Final = KubernetesDelays()
if TYPE_CHECKING:
    Profile = str
else:
    Profile = Literal[known.names()]


class Taint(Block):
    """Keeps stages off a node that do not tolerate it (Kubernetes' meaning)."""

    key: Annotated[str, Field(min_length=1)]
    """Name of the taint, e.g. `gpu`."""
    value: str = ""
    """Its value, where tolerations compare it, e.g. `a100`."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """PreferNoSchedule keeps nobody away, e.g. `NoExecute`."""


class Nodes(Block):
    """A group of equal nodes."""

    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How many, e.g. `150`."""
    name: Annotated[str, Field(pattern=NAME, max_length=253)] | None = None
    """Prefix of their names (`n` gives n001, n002, ...); the name itself when count is 1, e.g. `worker`."""
    capacity: Quantities
    """What one node has; `cpu` in cores, `memory` in bytes with a unit, others in pieces, e.g. `{cpu: 32, memory:
    128Gi}`.
    """
    speed: Annotated[float, Field(ge=SLOWEST, le=FASTEST)] = 1.0
    """2.0 runs a task in half its time, e.g. `1.5`."""
    rack: str = ""
    """The rack that all of them stand in, e.g. `r1`."""
    racks: Count | None = None
    """Spread the group over so many racks, in blocks, instead, e.g. `5`."""
    kind: str = ""
    """Name of the kind of machine, for people, e.g. `m5.large`."""
    labels: dict[str, str] = {}
    """Labels that stages may ask for (`places` of a stage), e.g. `{disk: ssd}`."""
    taints: list[Taint] = []
    """Keep stages away that do not tolerate them, e.g. `[{key: gpu}]`."""


class ApplicationMaster(Block):
    """Each job's application master."""

    heartbeat: Interval = 1000
    """How often it asks, and picks up what was granted, e.g. `3s`."""
    container: Quantities | None = None
    """What its own container holds; it has none when left out, e.g. `{cpu: 1, memory: 1Gi}`."""


class Executors(Block):
    """Containers that a job keeps between tasks, as in Spark (Decima, section 6.2)."""

    moving_delay: Duration = 2000
    """Cost of taking up an executor, new or from another job, e.g. `2s`."""
    warmup: Duration = 1000
    """Added to a first-wave duration when no fresh duration was measured, e.g. `1s`."""
    inverted_levels: bool = True
    """Choose between two measured levels of parallelism as Decima's released code does; false: interpolate, e.g.
    `false`.
    """


class Disorder(Block):
    """Seeded disorder of facts and decisions, to find races."""

    permute: bool = True
    """Facts of the same millisecond come in a random order, e.g. `false`."""
    delay: Probability = 0.0
    """Probability that a fact is heard late, e.g. `0.1`."""
    delay_time: Interval = 1000
    """By how much at most, e.g. `2s`."""
    duplicate: Probability = 0.0
    """Probability that a fact is heard twice, e.g. `0.1`."""
    late: Probability = 0.0
    """Probability that a decision takes effect late, e.g. `0.1`."""
    late_time: Interval = 1000
    """By how much at most, e.g. `2s`."""


class Sizes(Block):
    """Container sizes as YARN hands them out: demands are raised to the minimum and rounded up to the increment."""

    minimum: Quantities
    """The smallest container, e.g. `{cpu: 1, memory: 1Gi}`."""
    increment: Quantities | None = None
    """Step of sizes; the minimum unless given, as in the CapacityScheduler, e.g. `{cpu: 1, memory: 512Mi}`."""
    maximum: Quantities | None = None
    """The largest container; a demand above it is refused, e.g. `{cpu: 8, memory: 32Gi}`."""


class Kubernetes(Block):
    """Delays of profile kubernetes, measured on a devcluster ([Kubernetes](kubernetes.md))."""

    cycle: Duration = _KUBERNETES.cycle_ms
    """Facts are gathered so long before the core decides, e.g. `100ms`."""
    create: Duration = _KUBERNETES.create_ms
    """From a stage's turn to its first pod, e.g. `30ms`."""
    create_rate: Positive = _KUBERNETES.create_rate
    """Pods created per second, e.g. `50`."""
    release_rate: Positive = _KUBERNETES.release_rate
    """Gates removed per second, e.g. `100`."""
    start: Duration = _KUBERNETES.start_ms
    """From the removed gate to the running container, e.g. `2s`."""
    seen: Duration = _KUBERNETES.seen_ms
    """From a change of a pod to the watch that tells of it, e.g. `5ms`."""
    whole_seconds: bool = _KUBERNETES.whole_seconds
    """A pod ends at a whole second of the clock, as fake kubelets make it, e.g. `false`."""


class Links(Block):
    """How fast data that edges carry goes from node to node; on one node it takes no time."""

    rate: Rate | None = None
    """Bytes per second between nodes of which nothing else is said; no time when left out, e.g. `1Gi`."""
    in_rack: Rate | None = None
    """Between nodes of one rack, e.g. `10Gi`."""
    between: dict[str, dict[str, Rate]] = {}
    """From one node to another, one way, before all else, e.g. `{n1: {n2: 100Mi}}`."""


class Cluster(Block):
    """The nodes and how the resource manager hears of them."""

    nodes: Annotated[list[Nodes], Field(min_length=1)]
    """Groups of equal nodes, e.g. `[{count: 4, capacity: {cpu: 8, memory: 32Gi}}]`."""
    profile: Profile = "yarn"
    """yarn: out-of-band heartbeat at a container's end; sls: ticks only; events: no heartbeats, and what every
    architecture has in which schedulers think, or know nothing; kubernetes: decisions in cycles, pods are created,
    released, bound and watched, e.g. `events`.
    """
    heartbeat: Interval = 1000
    """How often a node beats, e.g. `3s`."""
    architecture: Architecture = Central(kind="central")
    """Who decides, e.g. `{kind: shared_state, schedulers: [{name: batch}]}`."""
    application_master: ApplicationMaster = ApplicationMaster()
    """Each job's application master, e.g. `{heartbeat: 3s}`."""
    mode: Literal["skipping", "naive"] = "skipping"
    """skipping leaves out heartbeats that cannot change anything; naive beats them all; same decisions, e.g. `naive`.
    """
    startup: StartUp = 0
    """Time between a container's launch and its task's first instant, e.g. `{kind: lognormal, mean: 2s, cov: 0.5}`."""
    containers_per_heartbeat: Count | None = None
    """At most so many new containers on a node per beat; as many as fit when left out, e.g. `1`."""
    reserve_after: Interval | None = None
    """Nodes are reserved for a large task or a gang that waited so long without room; never when left out, e.g. `30s`.
    """
    sizes: Sizes | None = None
    """Container sizes as YARN hands them out; as asked for when left out, e.g. `{minimum: {cpu: 1, memory: 1Gi}}`."""
    links: Links | None = None
    """What data takes from node to node; no time when left out, e.g. `{rate: 1Gi}`."""
    executors: Executors | None = None
    """Keep containers between tasks, e.g. `{moving_delay: 2s}`."""
    disorder: Disorder | None = None
    """Seeded disorder of facts and decisions, e.g. `{delay: 0.1}`."""
    kubernetes: Kubernetes | None = None
    """Delays of profile kubernetes, e.g. `{start: 2s}`."""
    overbook: dict[Literal["network", "disk"], Annotated[float, Field(ge=0)]] = {}
    """How much more than a node has of network or disk its tasks may ask for, as a part of it; they slow down, as
    where tasks use more than they ask for (`asks` of the workload), e.g. `{network: 0.5}`.
    """

    @model_validator(mode="before")
    @classmethod
    def _timed(cls, data: Any) -> Any:
        """An architecture with timing of its own brings the profile."""
        block = data.get("architecture") if isinstance(data, Mapping) else None
        if isinstance(block, Mapping) and "profile" not in data and (block.get("kind") != "central" or len(block) > 1):
            return {**data, "profile": "events"}
        return data


def _limit(value: Any) -> Any:
    """Resources, or a share of the cluster."""
    if isinstance(value, Mapping):
        return _QUANTITIES.validate_python(dict(value))
    read(parse_share)(value)
    return value


_QUANTITIES: Final = TypeAdapter[dict[str, Any]](Quantities)
Limit = Annotated[
    dict[str, Any] | str | float,
    BeforeValidator(_limit),
    WithJsonSchema(
        {
            "$comment": "limit",
            "anyOf": [
                {"type": "string", "pattern": r"^\s*(\d+\.?\d*|\.\d+)%?\s*$"},
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "object", "additionalProperties": {"type": ["string", "number"]}, "minProperties": 1},
            ],
            "description": "a share of the cluster (25% or 0.25), or resources ({cpu: 4, memory: 8Gi})",
        }
    ),
]


class PerUser(Block):
    """Limits of each user inside a queue."""

    limit: Limit | None = None
    """What their tasks hold at most, e.g. `25%`."""
    max_running: Count | None = None
    """So many of their jobs run at once, e.g. `2`."""


class Queue(Block):
    """A queue of the weighted tree; jobs sit in leaves."""

    name: Annotated[str, Field(min_length=1)]
    """Its name, e.g. `prod`."""
    weight: Positive = 1.0
    """Its part of what its siblings share, e.g. `3`."""
    parent: str = ""
    """The queue above it; the root when left out, e.g. `company`."""
    guaranteed: Limit | None = None
    """What it can count on, e.g. `40%`."""
    max: Limit | None = None
    """What its tasks hold at most; a resource that is not named is not limited, e.g. `{cpu: 100}`."""
    per_user: PerUser | None = None
    """Limits of each user inside it, e.g. `{limit: 25%}`."""
    max_running: Count | None = None
    """So many of its jobs run at once, the others wait in order of submission, e.g. `10`."""
    preemptible: bool = True
    """Whether preemption may take containers from it, e.g. `false`."""

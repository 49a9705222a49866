"""The nodes, how the resource manager hears of them, and the queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema

from rm_emulator.engine import known
from rm_emulator.engine.config import Kubernetes as KubernetesDelays
from rm_emulator.scenario.schema.values import (
    NAME,
    Block,
    Count,
    Duration,
    Interval,
    Positive,
    Probability,
    Quantities,
    StartUp,
    read,
)
from schedulers.core.queues import parse_share

_KUBERNETES: Final = KubernetesDelays()
if TYPE_CHECKING:
    Profile = str
else:
    Profile = Literal[known.names()]


class Taint(Block):
    """Keeps stages off a node that do not tolerate it (Kubernetes' meaning)."""

    key: Annotated[str, Field(min_length=1)]
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


class Nodes(Block):
    """A group of equal nodes.

    name: prefix of their names (`n` gives n001, n002, ...), the name itself when count is 1.
    speed: 2.0 runs a task in half its time. racks: spread the group over so many racks, in blocks.
    labels, taints: say which stages may use them (`places` of a stage).
    """

    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    name: Annotated[str, Field(pattern=NAME, max_length=253)] | None = None
    capacity: Quantities
    speed: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    rack: str = ""
    racks: Count | None = None
    kind: str = ""
    labels: dict[str, str] = {}
    taints: list[Taint] = []


class ApplicationMaster(Block):
    """How often each job's application master asks and picks up, and what its container holds (nothing: none)."""

    heartbeat: Interval = 1000
    container: Quantities | None = None


class Executors(Block):
    """Containers that a job keeps between tasks, as in Spark (Decima, section 6.2)."""

    moving_delay: Duration = 2000
    warmup: Duration = 1000
    inverted_levels: bool = True


class Disorder(Block):
    """Seeded disorder of facts and decisions, to find races; all probabilities in [0, 1]."""

    permute: bool = True
    delay: Probability = 0.0
    delay_time: Interval = 1000
    duplicate: Probability = 0.0
    late: Probability = 0.0
    late_time: Interval = 1000


class Sizes(Block):
    """Container sizes as YARN hands them out: demands are raised to the minimum and rounded up to the increment.

    increment: the minimum unless given (as the CapacityScheduler does). A demand above the maximum is refused.
    """

    minimum: Quantities
    increment: Quantities | None = None
    maximum: Quantities | None = None


class Kubernetes(Block):
    """Delays of profile kubernetes; see `rm_emulator.engine.config.Kubernetes`, whose defaults these are."""

    cycle: Duration = _KUBERNETES.cycle_ms
    create: Duration = _KUBERNETES.create_ms
    create_rate: Positive = _KUBERNETES.create_rate
    release_rate: Positive = _KUBERNETES.release_rate
    start: Duration = _KUBERNETES.start_ms
    seen: Duration = _KUBERNETES.seen_ms
    whole_seconds: bool = _KUBERNETES.whole_seconds


class Cluster(Block):
    """The nodes and how the resource manager hears of them.

    profile: yarn (out-of-band heartbeat at a container's end), sls (ticks only), events (no heartbeats),
    kubernetes (decisions in cycles; pods are created, released, bound and watched).
    mode: skipping leaves out heartbeats that cannot change anything; naive beats them all; same decisions.
    overbook: how much more than a node has of network or disk its tasks may ask for, as a part of it; they slow down.
    Where tasks use more than they ask for (`asks` of the workload), they slow down as well.
    """

    nodes: Annotated[list[Nodes], Field(min_length=1)]
    profile: Profile = "yarn"
    heartbeat: Interval = 1000
    application_master: ApplicationMaster = ApplicationMaster()
    mode: Literal["skipping", "naive"] = "skipping"
    startup: StartUp = 0
    containers_per_heartbeat: Count | None = None
    sizes: Sizes | None = None
    executors: Executors | None = None
    disorder: Disorder | None = None
    kubernetes: Kubernetes | None = None
    overbook: dict[Literal["network", "disk"], Annotated[float, Field(ge=0)]] = {}


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
    """Limits of each user inside a queue: what their tasks hold at most, how many of their jobs run at once."""

    limit: Limit | None = None
    max_running: Count | None = None


class Queue(Block):
    """A queue of the weighted tree; jobs sit in leaves.

    guaranteed: what it can count on. max: what its tasks hold at most; a resource that is not named is not limited.
    max_running: so many of its jobs run at once, the others wait in order of submission.
    """

    name: Annotated[str, Field(min_length=1)]
    weight: Positive = 1.0
    parent: str = ""
    guaranteed: Limit | None = None
    max: Limit | None = None
    per_user: PerUser | None = None
    max_running: Count | None = None
    preemptible: bool = True

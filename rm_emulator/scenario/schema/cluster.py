"""The nodes, how the resource manager hears of them, and the queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from rm_emulator.engine.config import Architecture, Disorder, Executors
from rm_emulator.engine.profile import profiles
from rm_emulator.engine.profiles.kubernetes import Kubernetes
from rm_emulator.issues import did_you_mean, show_value
from rm_emulator.scenario.schema.faults import FaultsBlock
from rm_emulator.scenario.schema.settings import named_errors, registry_schema
from rm_emulator.scenario.schema.structs import OF, block
from rm_emulator.scenario.schema.values import (
    Block,
    Count,
    Interval,
    Quantities,
    StartUp,
    has_text_keys,
    mistake,
    read,
    refuse,
)
from schedulers.core.errors import nearest
from schedulers.core.fields import NAME
from schedulers.core.model import Links, Node, PerUser, Queue
from schedulers.core.queues import parse_share


class _Profile:
    """Reads the name of a profile, or `{kind: NAME, settings}`, both as the registry has them when a file is read."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_known_profile, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        names = {"type": "string", "enum": profiles.names}
        return {"anyOf": [names, {"$comment": "{kind: NAME, settings}", **registry_schema(profiles)}]}


def _known_profile(value: Any) -> Any:
    if has_text_keys(value):
        refuse(named_errors(profiles, value))
    elif value not in (names := profiles.names):
        words = " or ".join(filter(None, [", ".join(f"'{name}'" for name in names[:-1]), f"'{names[-1]}'"]))
        hint = did_you_mean(nearest(value, names)) if isinstance(value, str) else ""
        raise mistake(f"{show_value(value)} is not accepted (expected {words})", hint)
    return value


_NodeKeys: Any = block(Node, "id", "slack", "slots")


class Nodes(_NodeKeys):  # type: ignore[misc]
    """A group of equal nodes."""

    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How many, e.g. `150`."""
    name: Annotated[str, Field(pattern=NAME, max_length=253)] | None = None
    """Prefix of their names (`n` gives n001, n002, ...); the name itself when count is 1, e.g. `worker`."""
    capacity: Quantities
    """Resources of each node; `cpu` in cores, `memory` in bytes with a unit, others in pieces, e.g. `{cpu: 32, memory:
    128Gi}`.
    """
    racks: Count | None = None
    """Spread the group over so many racks, in blocks; `rack` then begins their names (rack1, rack2, ...), e.g. `5`."""


class ApplicationMaster(Block):
    """Each job's application master."""

    heartbeat: Interval = 1000
    """Interval at which the master asks for containers and picks up granted ones, e.g. `3s`."""
    container: Quantities | None = None
    """Size of the master's own container; no container when left out, e.g. `{cpu: 1, memory: 1Gi}`."""


class ContainerSizes(Block):
    """Container sizes as YARN hands them out: demands are raised to the minimum and rounded up to the increment."""

    minimum: Quantities
    """The smallest container, e.g. `{cpu: 1, memory: 1Gi}`."""
    increment: Quantities | None = None
    """Step of sizes; the minimum unless given, as in the CapacityScheduler, e.g. `{cpu: 1, memory: 512Mi}`."""
    maximum: Quantities | None = None
    """The largest container; larger demands are refused, e.g. `{cpu: 8, memory: 32Gi}`."""


class Cluster(Block):
    """The nodes and how the resource manager hears of them."""

    nodes: Annotated[list[Nodes], Field(min_length=1)]
    """Groups of equal nodes, e.g. `[{count: 4, capacity: {cpu: 8, memory: 32Gi}}]`."""
    profile: Annotated[str | dict[str, Any], _Profile()] = "yarn"
    """A name from `rm-emulator profiles`, or with settings `{kind: NAME, settings}`; yarn: out-of-band heartbeat at a
    container's end; sls: ticks only; events: no heartbeats, for all architectures where schedulers think, or do not
    see the cluster; kubernetes: decisions in cycles, pods are created, released, bound and watched, e.g. `events`.
    """
    heartbeat: Interval = 1000
    """How often a node beats, e.g. `3s`."""
    architecture: Annotated[Architecture, OF] = Field(default={"kind": "central"}, validate_default=True)
    """The schedulers and how they work together, e.g. `{kind: shared_state, schedulers: [{name: batch}]}`."""
    application_master: ApplicationMaster = ApplicationMaster()
    """Each job's application master, e.g. `{heartbeat: 3s}`."""
    mode: Literal["skipping", "naive"] = "skipping"
    """skipping leaves out heartbeats that cannot change anything, naive simulates all; the decisions are the same, e.g.
    `naive`.
    """
    startup: StartUp = 0
    """Time between a container's launch and its task's first instant, e.g. `{kind: lognormal, mean: 2s, cov: 0.5}`."""
    containers_per_heartbeat: Count | None = None
    """At most so many new containers on a node per beat; as many as fit when left out, e.g. `1`."""
    reserve_after: Interval | None = None
    """Waiting time without room after which nodes are reserved for a large task or a gang; never when left out, e.g.
    `30s`.
    """
    sizes: ContainerSizes | None = None
    """Container sizes as YARN hands them out; as asked for when left out, e.g. `{minimum: {cpu: 1, memory: 1Gi}}`."""
    links: Annotated[Links, OF] | None = None
    """Times of transfers from node to node; transfers take no time when left out, e.g. `{rate: 1Gi}`."""
    executors: Annotated[Executors, OF] | None = None
    """Keep containers between tasks, e.g. `{moving_delay: 2s}`."""
    disorder: Annotated[Disorder, OF] | None = None
    """Seeded disorder of facts and decisions, e.g. `{delay: 0.1}`."""
    faults: FaultsBlock | None = None
    """What breaks, and when somebody notices, e.g. `{preset: gpu-2024}`."""
    kubernetes: Annotated[Kubernetes.Params, OF] | None = None
    """Delays of profile kubernetes: the profile's settings with units, e.g. `{start: 2s}`."""
    overbook: dict[Literal["network", "disk"], Annotated[float, Field(ge=0)]] = {}
    """Network or disk that tasks may ask for beyond a node's own, as a part of the node's own; tasks on an overbooked
    node slow down, as where tasks use more than asked for (`asks` of the workload), e.g. `{network: 0.5}`.
    """

    @property
    def profile_name(self) -> str:
        """The profile, without its settings."""
        return self.profile if isinstance(self.profile, str) else str(self.profile["kind"])

    @property
    def profile_settings(self) -> dict[str, Any]:
        """Settings of the profile given in the file."""
        if isinstance(self.profile, str):
            return msgspec.to_builtins(self.kubernetes) if self.kubernetes and self.profile == "kubernetes" else {}
        return {key: value for key, value in self.profile.items() if key != "kind"}

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
#: What it is in resources only the cluster can say.
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
_PerUserKeys: Any = block(PerUser)
_QueueKeys: Any = block(Queue)


class InlinePerUser(_PerUserKeys):  # type: ignore[misc]
    """Limits of each user inside a queue."""

    limit: Limit | None = None


class InlineQueue(_QueueKeys):  # type: ignore[misc]
    """A queue of the weighted tree; jobs sit in leaves."""

    guaranteed: Limit | None = None
    max: Limit | None = None
    per_user: InlinePerUser | None = None

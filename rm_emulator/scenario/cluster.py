"""From the scenario's cluster block to the engine's configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from rm_emulator.engine.config import Architecture, Central, EngineConfig
from rm_emulator.engine.sizes import Sizes
from rm_emulator.scenario.faults import faults_of
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.schema import cluster as blocks
from rm_emulator.scenario.schema.structs import into
from rm_emulator.scenario.schema.values import Distribution
from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core.model import Node, PerUser, Queue
from schedulers.core.queues import UNLIMITED, parse_limit
from schedulers.core.resources import Resources, Vector


def engine_config(scenario: Scenario, resources: Resources) -> EngineConfig:
    """The cluster in the engine's form; vectors in the order of `resources`.

    Raises TraceError for an unreadable table of faults.
    """
    cluster = scenario.spec.cluster
    machines = tuple(_overbooked(nodes(cluster.nodes, resources), cluster.overbook, resources))
    return EngineConfig(
        nodes=machines,
        faults=faults_of(cluster.faults, machines),
        resources=resources.names,
        queues=tuple(core_queue(queue, resources) for queue in scenario.spec.queues),
        profile=cluster.profile_name,
        settings=cluster.profile_settings,
        heartbeat_ms=cluster.heartbeat,
        am_heartbeat_ms=cluster.application_master.heartbeat,
        skip=cluster.mode == "skipping",
        startup=run_times(cluster.startup),
        containers_per_heartbeat=cluster.containers_per_heartbeat,
        executors=cluster.executors,
        disorder=cluster.disorder,
        links=cluster.links,
        architecture=who_decides(cluster.architecture),
    )


def core_queue(queue: blocks.InlineQueue, resources: Resources) -> Queue:
    """A queue in the core's form. Raises InvalidQuantity for resources missing in the cluster."""
    each = queue.per_user
    return into(
        Queue,
        queue,
        guaranteed=parse_limit(queue.guaranteed, resources, 0),
        max=parse_limit(queue.max, resources, UNLIMITED),
        per_user=each and into(PerUser, each, limit=parse_limit(each.limit, resources, UNLIMITED)),
    )


def container_sizes(block: blocks.ContainerSizes, resources: Resources) -> Sizes:
    """Container sizes of the cluster; resources without a size are left as asked for."""
    return Sizes(
        minimum=resources.demand(block.minimum),
        increment=resources.demand(block.increment or block.minimum),
        maximum=tuple(limit or sys.maxsize for limit in resources.capacity(block.maximum or {})),
    )


def resources_of(scenario: Scenario, others: Iterable[str] = ()) -> Resources:
    """cpu, memory, then all further resources of nodes and of `others`, sorted."""
    cluster = scenario.spec.cluster
    named = [name for group in cluster.nodes for name in group.capacity]
    if cluster.sizes is not None:
        blocks = (cluster.sizes.minimum, cluster.sizes.increment, cluster.sizes.maximum)
        named += [name for block in blocks for name in block or ()]
    return Resources().extended([*named, *others])


def nodes(groups: Iterable[blocks.Nodes], resources: Resources) -> list[Node]:
    """Each node of each group, in order; names are numbered per prefix, with leading zeros."""
    groups = list(groups)
    totals: dict[str, int] = {}
    for group in groups:
        totals[group.name or "n"] = totals.get(group.name or "n", 0) + group.count
    numbers: dict[str, int] = {}
    made = []
    for group in groups:
        prefix, capacity = group.name or "n", resources.capacity(group.capacity)
        digits = len(str(totals[prefix]))
        for index in range(group.count):
            number = numbers[prefix] = numbers.get(prefix, 0) + 1
            single = group.name is not None and totals[prefix] == 1
            name = prefix if single else f"{prefix}{number:0{digits}d}"
            made.append(into(Node, group, id=name, capacity=capacity, rack=_rack(group, index), slack=(), slots=0))
    return made


def _overbooked(nodes: Iterable[Node], parts: Mapping[Any, float], resources: Resources) -> Iterator[Node]:
    """The nodes with slack: `parts` of their capacity, rounded down."""
    for node in nodes:
        slack = tuple(int(c * parts.get(name, 0.0)) for name, c in zip(resources.names, node.capacity, strict=True))
        yield msgspec.structs.replace(node, slack=slack) if any(slack) else node


def _rack(group: blocks.Nodes, index: int) -> str:
    if group.racks is None:
        return str(group.rack)
    return f"{group.rack or 'rack'}{index * group.racks // group.count + 1}"


def slots(scenario: Scenario, demand: Mapping[str, str | int | float]) -> int:
    """Number of tasks of a demand the cluster runs at once, with a node of speed 2 counted twice."""
    resources = resources_of(scenario, demand)
    wanted = resources.demand(demand)
    total = 0.0
    for group in scenario.spec.cluster.nodes:
        total += group.count * group.speed * _times(resources.capacity(group.capacity), wanted)
    return round(total)


def _times(capacity: Vector, demand: Vector) -> int:
    return min((c // d for c, d in zip(capacity, demand, strict=True) if d), default=0)


def run_times(value: int | Distribution) -> Fixed | Drawn:
    """A duration or a distribution in the engine's form."""
    if isinstance(value, Distribution):
        return Drawn(mean_ms=float(value.mean), cov=value.cov, kind=value.kind)
    return Fixed(value)


def who_decides(architecture: Architecture) -> Architecture | None:
    """The architecture in the engine's form; None for a single scheduler without thinking time."""
    return None if isinstance(architecture, Central) and not architecture.thinks else architecture

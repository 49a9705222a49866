"""From the scenario's cluster block to the engine's configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from rm_emulator.engine.config import (
    Architecture,
    Central,
    Decentralised,
    Disorder,
    EngineConfig,
    Executors,
    JobsOf,
    Kubernetes,
    SharedState,
    Thinker,
    TwoLevel,
)
from rm_emulator.engine.sizes import Sizes
from rm_emulator.scenario.schema import Scenario, architecture
from rm_emulator.scenario.schema import cluster as blocks
from rm_emulator.scenario.schema.values import Spread
from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core.model import Decentralised as DecentralisedSettings
from schedulers.core.model import Links, Node, PerUser, Queue
from schedulers.core.places import Taint
from schedulers.core.queues import UNLIMITED, parse_limit
from schedulers.core.resources import Resources, Vector


def engine_config(scenario: Scenario, resources: Resources) -> EngineConfig:
    """The cluster as the engine wants it; vectors in the order of `resources`."""
    cluster = scenario.spec.cluster
    return EngineConfig(
        nodes=tuple(_overbooked(nodes(cluster.nodes, resources), cluster.overbook, resources)),
        resources=resources.names,
        queues=tuple(core_queue(queue, resources) for queue in scenario.spec.queues),
        profile=cluster.profile,
        heartbeat_ms=cluster.heartbeat,
        am_heartbeat_ms=cluster.application_master.heartbeat,
        skip=cluster.mode == "skipping",
        startup=run_times(cluster.startup),
        containers_per_heartbeat=cluster.containers_per_heartbeat,
        executors=_executors(cluster.executors),
        disorder=_disorder(cluster.disorder),
        kubernetes=_kubernetes(cluster.kubernetes),
        links=_links(cluster.links),
        architecture=architecture_of(cluster.architecture),
    )


def core_queue(queue: blocks.Queue, resources: Resources) -> Queue:
    """A queue as the core knows it. Raises InvalidQuantity for resources that the cluster does not have."""
    each = queue.per_user
    per_user = None
    if each is not None:
        per_user = PerUser(limit=parse_limit(each.limit, resources, UNLIMITED), max_running=each.max_running)
    return Queue(
        name=queue.name,
        weight=queue.weight,
        parent=queue.parent,
        guaranteed=parse_limit(queue.guaranteed, resources, 0),
        max=parse_limit(queue.max, resources, UNLIMITED),
        per_user=per_user,
        max_running=queue.max_running,
        preemptible=queue.preemptible,
    )


def container_sizes(block: blocks.Sizes, resources: Resources) -> Sizes:
    """The sizes that the cluster hands out; a resource that is not named is left as asked for."""
    return Sizes(
        minimum=resources.demand(block.minimum),
        increment=resources.demand(block.increment or block.minimum),
        maximum=tuple(limit or sys.maxsize for limit in resources.capacity(block.maximum or {})),
    )


def resources_of(scenario: Scenario, others: Iterable[str] = ()) -> Resources:
    """cpu, memory, then all others that nodes have or `others` names, sorted."""
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
            node = Node(
                id=prefix if single else f"{prefix}{number:0{digits}d}",
                capacity=capacity,
                speed=group.speed,
                rack=_rack(group, index),
                kind=group.kind,
                labels=dict(group.labels),
                taints=tuple(Taint(t.key, t.value, t.effect) for t in group.taints),
            )
            made.append(node)
    return made


def _overbooked(nodes: Iterable[Node], parts: Mapping[Any, float], resources: Resources) -> Iterator[Node]:
    """The nodes with slack for these parts of their capacity, rounded down."""
    for node in nodes:
        slack = tuple(int(c * parts.get(name, 0.0)) for name, c in zip(resources.names, node.capacity, strict=True))
        yield msgspec.structs.replace(node, slack=slack) if any(slack) else node


def _rack(group: blocks.Nodes, index: int) -> str:
    if group.racks is None:
        return group.rack
    return f"{group.rack or 'rack'}{index * group.racks // group.count + 1}"


def slots(scenario: Scenario, demand: Mapping[str, str | int | float]) -> int:
    """How many tasks of this demand the cluster runs at once, a node of speed 2 counting twice."""
    resources = resources_of(scenario, demand)
    wanted = resources.demand(demand)
    total = 0.0
    for group in scenario.spec.cluster.nodes:
        total += group.count * group.speed * _times(resources.capacity(group.capacity), wanted)
    return round(total)


def _times(capacity: Vector, demand: Vector) -> int:
    return min((c // d for c, d in zip(capacity, demand, strict=True) if d), default=0)


def run_times(value: int | Spread) -> Fixed | Drawn:
    """A duration or a distribution as the engine reads it."""
    if isinstance(value, Spread):
        return Drawn(mean_ms=float(value.mean), cov=value.cov, kind=value.kind)
    return Fixed(value)


def architecture_of(block: architecture.Architecture) -> Architecture | None:
    """The architecture as the engine wants it; None where one scheduler decides without thinking."""
    if isinstance(block, architecture.Decentralised):
        settings = DecentralisedSettings(
            schedulers=block.schedulers,
            method=block.method,
            probe_ratio=block.probe_ratio,
            constraints=block.constraints,
            constrained_probe_ratio=block.constrained_probe_ratio,
            cancellation=block.cancellation,
            worker_order=block.worker_order,
        )
        return Decentralised(message_ms=block.message_delay, slots_per_worker=block.slots_per_worker, settings=settings)
    give_up = block.give_up.none_placed, block.give_up.attempts
    if isinstance(block, architecture.Central):
        rest = Thinker(name="", t_job_ms=block.t_job, t_task_ms=block.t_task)
        paths = (*(_thinker("", path) for path in block.paths), rest)
        thinks = any(path.t_job_ms or path.t_task_ms for path in paths)
        return Central(paths=paths, retry_ms=block.retry, give_up=give_up) if thinks else None
    schedulers = tuple(_thinker(name, each) for each in block.schedulers for name in each.names)
    if isinstance(block, architecture.TwoLevel):
        return TwoLevel(schedulers=schedulers, retry_ms=block.retry, give_up=give_up)
    return SharedState(
        schedulers=schedulers,
        conflict=block.conflict,
        commit=block.commit,
        own_ends=block.own_ends,
        retry_ms=block.retry,
        give_up=give_up,
    )


def _thinker(name: str, block: architecture.Path) -> Thinker:
    jobs = JobsOf(queues=tuple(block.queues), users=tuple(block.users), kinds=tuple(block.kinds))
    return Thinker(name=name, jobs=jobs, t_job_ms=block.t_job, t_task_ms=block.t_task)


def _links(block: blocks.Links | None) -> Links | None:
    return None if block is None else Links(rate=block.rate, in_rack=block.in_rack, pairs=block.between)


def _executors(block: blocks.Executors | None) -> Executors | None:
    if block is None:
        return None
    return Executors(moving_ms=block.moving_delay, warmup_ms=block.warmup, inverted_levels=block.inverted_levels)


def _kubernetes(block: blocks.Kubernetes | None) -> Kubernetes:
    if block is None:
        return Kubernetes()
    return Kubernetes(
        cycle_ms=block.cycle,
        create_ms=block.create,
        create_rate=block.create_rate,
        release_rate=block.release_rate,
        start_ms=block.start,
        seen_ms=block.seen,
        whole_seconds=block.whole_seconds,
    )


def _disorder(block: blocks.Disorder | None) -> Disorder | None:
    if block is None:
        return None
    return Disorder(
        permute=block.permute,
        delay=block.delay,
        delay_ms=block.delay_time,
        duplicate=block.duplicate,
        late=block.late,
        late_ms=block.late_time,
    )

"""The state as plain data, for another process to take over. Derived figures are left out."""

from __future__ import annotations

from typing import Any

import msgspec

from schedulers.core.decisions import Reserve
from schedulers.core.live import MOVING, ContainerState, JobState, NodeState, StageState
from schedulers.core.model import Links, Queue
from schedulers.core.places import Places
from schedulers.core.predictor import SamplePlan
from schedulers.core.queues import Group
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector
from schedulers.core.state import ClusterState
from schedulers.core.ties import ties_of

# msgspec reads a dataclass by its annotations, of which a compiled class keeps the outermost class alone.
StageState.__annotations__.update(demand=Vector, outputs=dict[int, list[tuple[str, int]]] | None)
JobState.__annotations__.update(
    stages=list[StageState], plan=SamplePlan | None, size_ms=float | None, hold=Reason | None
)
NodeState.__annotations__.update(foreign=dict[str, Vector])


class _Reserved(msgspec.Struct):
    """The data of `Reservations.dump`."""

    since: list[tuple[str, int, int]]
    held: list[tuple[int, Reserve]]
    served: list[tuple[int, int]] = []


class _Saved(msgspec.Struct):
    """The data of `dump`."""

    now: int
    nodes: list[NodeState]
    jobs: list[JobState]
    waiting: list[str]
    containers: list[ContainerState]
    idle: list[int]
    queues: list[Queue]
    sizes: list[tuple[Vector, Places]]
    active_sizes: list[int]
    touched: list[str]
    """Entries of the journal's orders unread by the policy."""
    next: tuple[int, int, int, int]
    finished: list[str]
    removed: dict[str, int] = {}
    groups: list[Group | None] = []
    doubted: list[str] = []
    """Entries of the journal's reasons unread by the scheduler."""
    reservations: _Reserved | None = None
    links: Links | None = None
    leaving: list[int] = []
    asked: list[tuple[str, int, int, tuple[str, ...]]] = []
    parted: list[tuple[str, int]] = []


def dump(state: ClusterState) -> dict[str, Any]:
    """Everything underived, as plain data."""
    sizes, reservations, counts = state.sizes, state.reservations, state.counts
    kept: dict[str, Any] = {"reservations": reservations.dump()} if reservations is not None else {}
    if state.work.parted:
        kept["parted"] = list(state.work.parted)
    if state.links is not None:
        kept["links"] = state.links
    if state.copies.leaving:
        kept["leaving"] = list(state.copies.leaving)
    asked = [(j.id, s.index, *each) for j in state.jobs.values() for s in j.stages for each in s.copies.items()]
    if asked:
        kept["asked"] = asked
    return {
        "now": state.now,
        "nodes": list(state.nodes.values()),
        "jobs": list(state.jobs.values()),
        # Its own list, because the order of `waiting` is not the order of submission and policies walk through it.
        "waiting": list(state.waiting),
        "containers": list(state.containers.values()),
        "idle": list(state.idle),
        "queues": list(state.queues.values()),
        "removed": state.tree.removed,
        "sizes": list(zip(sizes.demands, sizes.places, strict=True)),
        "groups": sizes.groups if sizes.bounds else [],
        "active_sizes": list(sizes.active),
        "touched": list(state.journal.orders.unread()),
        "doubted": list(state.journal.reasons.unread()),
        "next": [counts.next_container, counts.next_job, counts.next_node, counts.version],
        "finished": list(state.work.finished),
        **kept,
    }


def load(state: ClusterState, data: Any) -> None:
    """Let an empty state take over the data of `dump` (after a round trip through msgpack)."""
    saved = msgspec.convert(data, _Saved)
    state.now, state.work.links, counts = saved.now, saved.links, state.counts
    counts.next_container, counts.next_job, counts.next_node, counts.version = saved.next
    state.nodes.update((n.id, n) for n in saved.nodes)
    state.jobs.update((j.id, j) for j in saved.jobs)
    for name, stage, task, apart in saved.asked:
        state.jobs[name].stages[stage].copies[task] = apart
    state.waiting.update((j, state.jobs[j]) for j in saved.waiting)
    state.containers.update((c.id, c) for c in saved.containers)
    state.idle.update((c, state.containers[c]) for c in saved.idle)
    state.copies.leaving.update(dict.fromkeys(saved.leaving))
    for container in saved.containers:
        if container.copy:
            state.copies.add(container, state.containers)
    state.moving.update((c.id, c) for c in saved.containers if c.status == MOVING)
    state.work.finished.update(dict.fromkeys(saved.finished))
    _load_ties(state)
    state.work.parted.update(dict.fromkeys(saved.parted))
    # In this order: sums need the demands of sizes, queues need both to charge every container anew.
    _load_sizes(state, saved)
    _load_sums(state)
    _load_queues(state, saved)
    if state.reservations is not None and saved.reservations is not None:
        state.reservations.load(saved.now, *msgspec.structs.astuple(saved.reservations))
    for topic, unread in ((state.journal.orders, saved.touched), (state.journal.reasons, saved.doubted)):
        # In place, because cursors hold this very list.
        topic.entries[:] = unread


def _load_ties(state: ClusterState) -> None:
    for job in state.jobs.values():
        if (ties := ties_of(job.spec)) is not None:
            ties.recall(job, [c for c in state.containers.values() if c.job == job.id])
            state.work.ties[job.id] = ties


def _load_sizes(state: ClusterState, saved: _Saved) -> None:
    state.sizes.nodes.update((n.index, n) for n in sorted(saved.nodes, key=lambda n: n.index))
    groups = saved.groups or [None] * len(saved.sizes)
    sizes = ((demand, places, group) for (demand, places), group in zip(saved.sizes, groups, strict=True))
    state.sizes.load(sizes, saved.active_sizes)


def _load_sums(state: ClusterState) -> None:
    for node in state.nodes.values():
        for r, amount in enumerate(node.spec.capacity):
            state.capacity[r] += amount
        for vector in node.foreign.values():
            for r, amount in enumerate(vector):
                state.foreign[r] += amount
    for container in state.containers.values():
        for r, amount in enumerate(state.sizes.demands[container.size]):
            state.used[r] += amount


def _load_queues(state: ClusterState, saved: _Saved) -> None:
    for queue in saved.queues:
        state.tree.put(queue)
    state.tree.removed.update(saved.removed)
    for job in state.jobs.values():
        if not job.admitted:
            state.admission.wait(job)
    state.recount()
    for size in state.sizes.bounds:
        # Asked for its note alone: a sleeping reader must be woken when the limit is left.
        state.sizes.admits(size)  # notes sizes at a limit

"""Arrival times of data (LACHESIS, equation 9): output sets out as soon as it is made.

Each pair of a parent's task and a child's task moves an equal part of the edge's data, over a link of its own; between
two tasks on the same node nothing moves. Of a task with several copies, the first output to arrive counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from schedulers.core.live import JobState, NodeState, StageState
from schedulers.core.model import Links


def transfer_ms(data: int, parts: int, rate: int | None) -> int:
    """Time for one of `parts` equal parts of the data at the rate, in whole ms, rounded up (None: 0)."""
    return 0 if rate is None else -(-data * 1000 // (rate * parts))


class Parcel(Struct, frozen=True):
    """Input of a task from a single node: `data` bytes, all of them there at time `at` (ms)."""

    source: str
    data: int
    at: int


def arrival(
    job: JobState, stage: StageState, node: NodeState, links: Links | None, nodes: Mapping[str, NodeState]
) -> int:
    """Time at which all input of a task of the stage is on the node, in ms, if all parents are done; 0 without input.

    The time is the same for all tasks of a stage. nodes: live nodes, for their racks; output outlives its node.
    """
    there = 0
    for _, outputs, took in _taken(job, stage, node, links, nodes):
        # Tasks with a single output apart: a `min` per task would double the time, and copies are rare.
        alone = [places[0][1] + took[places[0][0]] for places in outputs.values() if len(places) == 1]
        copied = [min([ended + took[source] for source, ended in made]) for made in outputs.values() if len(made) > 1]
        # The last input counts: a task starts only with all of its data.
        there = max(there, *alone, *copied)
    return there


def parcels(
    job: JobState, stage: StageState, node: NodeState, links: Links | None, nodes: Mapping[str, NodeState]
) -> list[Parcel]:
    """Input of a task of the stage by source node, the last to arrive in front; as for `arrival`."""
    # Fractions, because equal parts of an odd number of bytes must add up to all of them.
    found: dict[str, tuple[Fraction, int]] = {}
    for part, outputs, took in _taken(job, stage, node, links, nodes):
        for places in outputs.values():
            at, source = min((ended + took[source], source) for source, ended in places)
            data, before = found.get(source, (Fraction(0), 0))
            found[source] = (data + part, max(at, before))
    made = [Parcel(source, -int(-data // 1), at) for source, (data, at) in found.items()]
    return sorted(made, key=lambda parcel: (-parcel.at, parcel.source))


def _taken(
    job: JobState, stage: StageState, node: NodeState, links: Links | None, nodes: Mapping[str, NodeState]
) -> Iterator[tuple[Fraction, Mapping[int, list[tuple[str, int]]], dict[str, int]]]:
    """For each edge with data: bytes per pair of tasks, places of the outputs, and transfer time from each source."""
    if links is None:
        return
    for edge in job.spec.stages[stage.index].edges:
        outputs = job.stages[edge.parent].outputs
        if edge.data and outputs:
            parts = job.stages[edge.parent].tasks * stage.tasks
            # Per source and not per task: tasks are many, nodes are few.
            sources = {source for places in outputs.values() for source, _ in places}
            rates = {source: rate_between(links, nodes.get(source), source, node) for source in sources}
            took = {source: transfer_ms(edge.data, parts, rate) for source, rate in rates.items()}
            yield Fraction(edge.data, parts), outputs, took


def rate_between(links: Links, source: NodeState | None, name: str, node: NodeState) -> int | None:
    """Rate from the named node to another, bytes per second, None for no time; source None: the node is gone."""
    rack = node.spec.rack
    return links.between(name, node.spec.id, in_rack=bool(rack) and source is not None and source.spec.rack == rack)

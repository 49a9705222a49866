"""When the data that a task takes is there (LACHESIS, equation 9): output sets out as soon as it is made.

Each pair of a parent's task and a child's task moves an equal part of the edge's data, over a link of its own; between
two tasks on one node nothing moves. Of a task with several copies the output that is there first counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from schedulers.core.live import JobState, NodeState, StageState
from schedulers.core.model import Links


def transfer_ms(data: int, parts: int, rate: int | None) -> int:
    """How long one of `parts` equal parts of so many bytes takes at this rate, in whole ms, rounded up (None: 0)."""
    return 0 if rate is None else -(-data * 1000 // (rate * parts))


class Parcel(Struct, frozen=True):
    """What a task takes from one node: so many bytes, all of it there at that time (ms)."""

    source: str
    data: int
    at: int


def arrival(
    job: JobState, stage: StageState, node: NodeState, links: Links | None, nodes: Mapping[str, NodeState]
) -> int:
    """When what a task of the stage takes is on the node, in ms, if all parents are done; 0 where it takes nothing.

    It is the same for all tasks of a stage. nodes: those that are there, for their racks; output outlives its node.
    """
    there = 0
    for _, outputs, took in _taken(job, stage, node, links, nodes):
        alone = [places[0][1] + took[places[0][0]] for places in outputs.values() if len(places) == 1]
        copied = [min([ended + took[source] for source, ended in made]) for made in outputs.values() if len(made) > 1]
        there = max(there, *alone, *copied)
    return there


def parcels(
    job: JobState, stage: StageState, node: NodeState, links: Links | None, nodes: Mapping[str, NodeState]
) -> list[Parcel]:
    """What a task of the stage takes from which node, the last to be there in front; as for `arrival`."""
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
    """Of each edge with data what one pair of tasks moves, where that was made, and what it takes from each node."""
    if links is None:
        return
    for edge in job.spec.stages[stage.index].edges:
        outputs = job.stages[edge.parent].outputs
        if edge.data and outputs:
            parts = job.stages[edge.parent].tasks * stage.tasks
            sources = {source for places in outputs.values() for source, _ in places}
            rates = {source: rate_between(links, nodes.get(source), source, node) for source in sources}
            took = {source: transfer_ms(edge.data, parts, rate) for source, rate in rates.items()}
            yield Fraction(edge.data, parts), outputs, took


def rate_between(links: Links, source: NodeState | None, name: str, node: NodeState) -> int | None:
    """The rate from the node of this name to another, bytes per second, None for no time; source None: it is gone."""
    rack = node.spec.rack
    return links.between(name, node.spec.id, in_rack=bool(rack) and source is not None and source.spec.rack == rack)

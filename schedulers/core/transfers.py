"""When the data that a task takes is there (LACHESIS, equation 9): output sets out as soon as it is made.

Each pair of a parent's task and a child's task moves an equal part of the edge's data, over a link of its own; between
two tasks on one node nothing moves. Of a task with several copies the output that is there first counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedulers.core.live import JobState, NodeState, StageState
from schedulers.core.model import Links


def transfer_ms(data: int, parts: int, rate: int | None) -> int:
    """How long one of `parts` equal parts of so many bytes takes at this rate, in whole ms, rounded up (None: 0)."""
    return 0 if rate is None else -(-data * 1000 // (rate * parts))


def arrival(
    job: JobState, stage: StageState, node: NodeState, links: Links | None, nodes: Mapping[str, NodeState]
) -> int:
    """When what a task of the stage takes is on the node, in ms, if all parents are done; 0 where it takes nothing.

    It is the same for all tasks of a stage. nodes: those that are there, for their racks; output outlives its node.
    """
    there = 0
    for edge in job.spec.stages[stage.index].edges if links is not None else ():
        outputs = job.stages[edge.parent].outputs
        if not edge.data or not outputs:
            continue
        assert links is not None
        parts = job.stages[edge.parent].tasks * stage.tasks
        sources = {source for places in outputs.values() for source, _ in places}
        took = {
            source: transfer_ms(edge.data, parts, _rate(links, nodes.get(source), source, node)) for source in sources
        }
        for places in outputs.values():
            there = max(there, min([ended + took[source] for source, ended in places]))
    return there


def _rate(links: Links, source: NodeState | None, name: str, node: NodeState) -> int | None:
    rack = node.spec.rack
    return links.between(name, node.spec.id, in_rack=bool(rack) and source is not None and source.spec.rack == rack)

"""Executor classes: which size of node a stage is given, and who says so."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Decision, Place
from schedulers.core.events import ContainerEnded, ContainerStarted, JobSubmitted, NodeAdded, NodeRemoved
from schedulers.core.live import NodeState
from schedulers.core.model import Node
from schedulers.core.policy import ClusterView
from schedulers.core.registry import NoParams
from schedulers.learned.classes import MOST, classes_of
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph, able


class Fixed(Dispatch):
    """The first valid stage, all executors, and this class where it has room. seen: classes, and the stage's rooms."""

    def __init__(self, wanted: int | None = None) -> None:
        super().__init__(NoParams())
        self.wanted = wanted
        self.seen: list[tuple[tuple[float, ...], list[int]]] = []

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        index = next(index for index, each in enumerate(graph.jobs) if each.valid.any())
        chosen = graph.jobs[index]
        row = int(chosen.valid.argmax())
        self.seen.append((graph.classes, [] if chosen.rooms is None else chosen.rooms[row].tolist()))
        return Action(index, row, graph.executors, self.wanted if self.wanted in able(graph, index, row) else None)


class World:
    """Nodes of 1, 2 and 4 GiB with a core each, two of a kind; facts come by `handle`."""

    def __init__(self, wanted: int | None = None, *, executors: bool = False) -> None:
        sizes = [4, 1, 2, 4, 1, 2]
        nodes = [Node(id=f"{size}g{number}", capacity=(1000, 1024 * size)) for number, size in enumerate(sizes)]
        self.scheduler = scheduler("fifo", *nodes, executors=executors)
        self.scheduler.policy = self.policy = Fixed(wanted)

    def submit(self, name: str, tasks: int, gib: float) -> list[str]:
        """By size the nodes on which a job of one stage starts."""
        decided = self.scheduler.handle(JobSubmitted(0, job(name, stage(tasks, (1000, int(1024 * gib))))))
        validate(self.scheduler.state)
        return placed(decided)


def placed(decided: list[Decision]) -> list[str]:
    return sorted(each.node[:2] for each in decided if isinstance(each, Place))


def node_state(memory: int, name: str = "n") -> NodeState:
    return NodeState(Node(id=f"{name}{memory}", capacity=(1000, memory)), 0, [1000, memory])


def test_classes_are_the_capacities_smallest_first_as_parts_of_the_largest() -> None:
    found = classes_of([node_state(4), node_state(1), node_state(2), node_state(1, "m")])
    assert found is not None
    assert found.parts == (0.25, 0.5, 1.0)
    assert found.of == {"n1": 0, "m1": 0, "n2": 1, "n4": 2}


@pytest.mark.parametrize("count", [1, MOST + 1])
def test_equal_nodes_and_too_many_capacities_are_no_classes(count: int) -> None:
    assert classes_of([node_state(1 + size) for size in range(count)]) is None


@pytest.mark.parametrize("executors", [False, True])
def test_a_stage_has_the_smallest_class_with_room_unless_another_is_named(executors: bool) -> None:
    assert World(executors=executors).submit("a", 2, 1) == ["1g", "1g"]
    assert World(2, executors=executors).submit("a", 2, 1) == ["4g", "4g"]


def test_what_a_class_has_no_room_for_is_asked_about_again() -> None:
    world = World()
    assert world.submit("a", 5, 1.5) == ["2g", "2g", "4g", "4g"]
    assert world.policy.seen == [((0.25, 0.5, 1.0), [0, 2, 2]), ((0.25, 0.5, 1.0), [0, 0, 2])]


def test_a_slot_is_filled_on_the_smallest_class_that_has_room() -> None:
    world = World()
    world.submit("a", 3, 1)
    world.submit("b", 9, 0.5)
    for number in (1, 2, 3):
        world.scheduler.handle(ContainerStarted(1, number))
    ended = world.scheduler.handle(ContainerEnded(5, 1, code=0, runtime_ms=4))
    assert placed(ended) == ["1g"]


def test_a_class_without_room_cannot_be_chosen() -> None:
    class Wrong(Fixed):
        def choose(self, graph: Graph, view: ClusterView) -> Action:
            return super().choose(graph, view)._replace(executor_class=0)

    world = World()
    world.scheduler.policy = Wrong()
    with pytest.raises(ValueError, match="executor class 0 has no room for the stage"):
        world.submit("a", 1, 2)


def test_a_node_that_comes_may_bring_a_class() -> None:
    made = scheduler({"kind": "dispatch", "rule": "fair"}, Node(id="big", capacity=(1000, 4096)))
    made.handle(JobSubmitted(0, job("a", stage(1))))
    made.handle(NodeAdded(1, Node(id="small", capacity=(1000, 1024))))
    made.handle(NodeAdded(1, Node(id="other", capacity=(1000, 4096))))
    assert placed(made.handle(JobSubmitted(2, job("b", stage(1))))) == ["sm"]
    made.handle(NodeRemoved(3, "small"))


def test_of_equal_nodes_nothing_is_to_be_chosen() -> None:
    made = scheduler("fifo", Node(id="n", capacity=(1000, 1024)), Node(id="m", capacity=(1000, 1024)))
    policy = made.policy = Fixed()
    made.handle(JobSubmitted(0, job("a", stage(2))))
    assert policy.seen == [((), [])]

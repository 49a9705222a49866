"""Data that moves: in every profile a task starts when it is launched and what it takes is on its node."""

from __future__ import annotations

import pytest

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import EngineConfig, Executors
from rm_emulator.engine.profile import profiles
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Attempt, Audit, MemoryRecording, job, node, stage
from rm_emulator.workload.model import Drawn, Fixed, RunTimes, Workload, WorkloadJob
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Edge, Job, Links, Node
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler

MIB = 1024**2
RATE = Links(rate=10 * MIB)
#: Three nodes of one core; the data of `map`, 90 MiB, is one second a pair of tasks.
SHUFFLE = job("a", stage(3, name="map"), stage(3, parents=(Edge(parent=0, data=90 * MIB),), name="reduce"))


class Run:
    """A run of `spec` on three nodes of one core, and its log."""

    def __init__(
        self, spec: Job, *runtimes: RunTimes, nodes: tuple[Node, ...] = (), am: bool = False, **config
    ) -> None:
        nodes = nodes or tuple(node(f"n{i}") for i in range(3))
        self.config = EngineConfig(nodes=nodes, **config)
        chunks: list[bytes] = []
        log = Log(chunks.append)
        made = SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers=timing(self.config).offers)
        self.audit, self.kept = Audit(Scheduler(made, log=log)), MemoryRecording()
        entry = WorkloadJob(job=spec, submit_ms=0, runtimes=runtimes, am=(1, 1) if am else ())
        Simulation(self.config, Workload(name="t", jobs=(entry,)), self.audit, self.kept).run()
        self.audit.drained()
        log.flush()
        self.lines = b"".join(chunks).splitlines(keepends=True)

    def of(self, stage: int) -> dict[str, Attempt]:
        """The attempts of a stage by node."""
        return {task.node: task for task in self.kept.tasks if task.stage == stage}


def test_a_child_starts_when_its_input_has_arrived_and_holds_its_node_until_then() -> None:
    reduces = Run(SHUFFLE, Fixed(500), Fixed(100), profile="events", links=RATE).of(1)
    assert [(t.granted_ms, t.arrived_ms, t.started_ms, t.ended_ms) for t in reduces.values()] == [
        (500, 1500, 1500, 1600)
    ] * 3


@pytest.mark.parametrize("name", profiles.names)
@pytest.mark.parametrize("startup", [Fixed(0), Drawn(3000.0, 0.5)])
def test_in_every_profile_no_task_starts_before_its_launch_or_its_input(name: str, startup: Fixed | Drawn) -> None:
    run = Run(SHUFFLE, Fixed(500), Fixed(100), profile=name, links=RATE, startup=startup)
    maps, reduces = run.of(0), run.of(1)
    assert len(reduces) == 3
    seen = 1000 if name == "kubernetes" else 0  # a pod is seen to end at a whole second
    for where, task in reduces.items():
        there = max(each.ended_ms + (0 if each.node == where else 1000) for each in maps.values())
        assert task.arrived_ms is not None
        assert there - seen <= task.arrived_ms <= there
        assert task.started_ms is not None
        assert task.started_ms >= max(task.granted_ms, task.arrived_ms)


def test_with_masters_in_containers_of_their_own_as_well() -> None:
    run = Run(SHUFFLE, Fixed(500), Fixed(100), nodes=tuple(node(f"n{i}", 2) for i in range(3)), links=RATE, am=True)
    assert all((task.started_ms or 0) >= max(task.granted_ms, task.arrived_ms or 0) for task in run.of(1).values())
    assert all(task.arrived_ms is not None for task in run.of(1).values())


@pytest.mark.parametrize("links", [None, Links()])
def test_without_rates_data_takes_no_time(links: Links | None) -> None:
    reduces = Run(SHUFFLE, Fixed(500), Fixed(100), profile="events", links=links).of(1)
    assert [task.started_ms for task in reduces.values()] == [500] * 3


@pytest.mark.parametrize("name", profiles.names)
def test_a_log_with_transfers_is_replayed_to_the_same_decisions(name: str) -> None:
    lines = Run(SHUFFLE, Fixed(500), Drawn(700.0, 0.5), profile=name, links=RATE).lines
    assert any(b'"LinksSet"' in line for line in lines)
    assert sum(len(step.decisions) for step in Replay(lines)) > 0


def test_skipping_beats_changes_nothing_where_data_moves() -> None:
    logs = [Run(SHUFFLE, Fixed(500), Fixed(100), links=RATE, skip=skip).lines for skip in (True, False)]
    assert logs[0] == logs[1]


def test_the_arrival_is_a_column_only_where_data_may_move() -> None:
    run = Run(job("a", stage(), stage(parents=(0,))), Fixed(500), Fixed(100), profile="events", links=RATE)
    assert [task.arrived_ms for task in run.kept.tasks] == [None, None]


def test_executors_that_outlive_tasks_wait_for_no_data() -> None:
    name = next(each for each in profiles.names if profiles.entry(each).cls.has_executors)
    with pytest.raises(ValueError, match="links do not go with executors"):
        Run(SHUFFLE, Fixed(1), Fixed(1), profile=name, links=RATE, executors=Executors())

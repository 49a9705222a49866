"""Faults of nodes and tasks in the engine: what happens, when the scheduler hears, and what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise, takewhile
from typing import Any

import msgspec
import pytest

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.branch import obstacle
from rm_emulator.engine.config import (
    Central,
    CheckpointRules,
    Disorder,
    EngineConfig,
    FaultKind,
    Faults,
    NodeFault,
    NodeFaultRates,
    Restart,
    TaskFaults,
    Worse,
)
from rm_emulator.engine.faults import mean_times, node_faults
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.takeover import takeover_obstacle
from rm_emulator.testing import Audit, MemoryRecording
from rm_emulator.workload.model import Drawn, Fixed, Workload, WorkloadJob
from schedulers.core.events import ContainerEnded, Event, JobCancelled, NodeAdded, NodeLost, NodeRemoved, NodesRefused
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler

MINUTE, HOUR = 60_000, 3_600_000
DAY = 24 * HOUR


def batch(name: str, tasks: int = 1, ms: int = 30 * MINUTE, **fields: Any) -> WorkloadJob:
    stages = (Stage(name="s", tasks=tasks, **{"demand": (1000, 1024), **fields}),)
    return WorkloadJob(job=Job(id=name, stages=stages), submit_ms=0, runtimes=(Fixed(ms),))


def fault(at: int, kind: FaultKind = "death", until: int | None = None, node: str = "n0", **fields: Any) -> NodeFault:
    lasts = None if until is None else until - at
    return NodeFault(at_ms=at, node=node, kind=kind, lasts_ms=lasts, **fields)


def faulty(nodes: int, profile: str, faults: Faults, **more: Any) -> EngineConfig:
    """Nodes of one slot."""
    machines = tuple(Node(id=f"n{index}", capacity=(1000, 1024)) for index in range(nodes))
    return EngineConfig(nodes=machines, profile=profile, faults=faults, **more)


def fifo(config: EngineConfig) -> Scheduler:
    offers = timing(config).offers
    return Scheduler(SchedulerConfig(resources=config.resources, policy={"kind": "fifo"}, offers=offers))


def workload_of(config: EngineConfig, jobs: Sequence[WorkloadJob]) -> Workload:
    return Workload(name="w", jobs=tuple(jobs), resources=config.resources)


class Ran:
    """A finished run of `fifo` on nodes of one slot, under audit."""

    def __init__(
        self,
        *jobs: WorkloadJob,
        nodes: int = 2,
        profile: str = "yarn",
        rates: NodeFaultRates | None = None,
        startup_ms: int = 0,
        disorder: Disorder | None = None,
        **faults: Any,
    ) -> None:
        config = faulty(nodes, profile, Faults(nodes=rates, **faults), startup=Fixed(startup_ms), disorder=disorder)
        self.audit, self.kept = Audit(fifo(config)), MemoryRecording()
        self.simulation = Simulation(config, workload_of(config, jobs), self.audit, self.kept)
        self.simulation.run()
        self.audit.drained()

    def told(self, *kinds: type[Event]) -> list[tuple[str, int]]:
        """The facts of these kinds after the first instant, with their times."""
        facts = [fact for fact, _ in self.audit.history if isinstance(fact, kinds) and fact.at]
        return [(type(fact).__name__, fact.at) for fact in facts]

    @property
    def of_nodes(self) -> list[tuple[str, int]]:
        return self.told(NodeLost, NodeRemoved, NodeAdded)


OUTAGE = [fault(100_000, until=2 * HOUR)]


@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_yarn_notices_a_death_at_the_first_check_beyond_ten_minutes(profile: str) -> None:
    # Dead at 100 s: 700 s is a silence of 600 s; checks come at 200, 400, 600, 800 s.
    assert Ran(batch("a"), profile=profile, outages=OUTAGE).of_nodes == [("NodeLost", 800_000)]
    late = [fault(200_000, until=2 * HOUR)]  # 800 s is a silence of 600 s, and not beyond
    assert Ran(batch("a"), profile=profile, outages=late).of_nodes == [("NodeLost", 1_000_000)]


def test_kubernetes_places_nothing_after_40_s_and_evicts_after_300_more() -> None:
    told = Ran(batch("a"), profile="kubernetes", outages=OUTAGE).of_nodes
    assert told == [("NodeRemoved", 140_000), ("NodeLost", 440_000)]


def test_without_heartbeats_a_death_is_noticed_at_once_unless_set() -> None:
    assert Ran(batch("a"), profile="events", outages=OUTAGE).of_nodes == [("NodeLost", 100_000)]
    late = Ran(batch("a"), profile="events", outages=OUTAGE, noticed_after_ms=5000, evicted_after_ms=7000)
    assert late.of_nodes == [("NodeRemoved", 105_000), ("NodeLost", 112_000)]


def test_a_dead_node_holds_its_room_until_the_death_is_noticed() -> None:
    ran = Ran(batch("a", ms=200_000), nodes=1, outages=OUTAGE)
    lost, done = ran.kept.tasks
    # Without the fault the task would have ended at 200 s; its end is heard of nowhere.
    assert (lost.ended_ms, lost.code) == (800_000, -100)
    assert (done.attempt, done.code) == (1, 0)
    assert done.granted_ms >= 2 * HOUR
    assert ran.kept.jobs[0].failed_tasks == 1


def test_a_repaired_node_comes_back_empty_also_before_anybody_noticed() -> None:
    ran = Ran(batch("a", ms=200_000), nodes=1, outages=[fault(100_000, until=150_000)])
    assert ran.of_nodes == [("NodeLost", 150_000), ("NodeAdded", 150_000)]
    assert [(task.node, task.code) for task in ran.kept.tasks] == [("n0", -100), ("n0", 0)]


def test_a_silent_node_goes_on_and_its_ends_arrive_together() -> None:
    ran = Ran(batch("a", 2, ms=100_000), batch("b"), nodes=2, outages=[fault(50_000, "silent", 400_000)])
    ends = ran.told(ContainerEnded)
    assert ran.of_nodes == []
    assert [task.code for task in ran.kept.tasks] == [0, 0, 0]
    assert ends[0][1] < 110_000  # on the other node
    assert ends[1][1] == 400_000  # ended at 100 s, heard when the node was heard again


def test_a_silent_node_is_lost_after_the_expiry_and_what_it_did_is_lost() -> None:
    ran = Ran(batch("a", ms=100_000), nodes=1, outages=[fault(50_000, "silent", HOUR)])
    assert ran.of_nodes == [("NodeLost", 800_000), ("NodeAdded", HOUR)]
    assert (ran.kept.tasks[0].ended_ms, ran.kept.tasks[0].code) == (800_000, -100)


def test_an_unhealthy_node_is_lost_at_once() -> None:
    assert Ran(batch("a"), outages=[fault(50_000, "unhealthy", HOUR)]).of_nodes[0] == ("NodeLost", 50_000)


def test_a_drained_node_ends_what_runs_and_takes_nothing_more() -> None:
    ran = Ran(batch("a", 3, ms=100_000), outages=[fault(50_000, "drain")])
    assert ran.of_nodes == [("NodeRemoved", 50_000)]
    assert sorted(task.node for task in ran.kept.tasks) == ["n0", "n1", "n1"]
    assert all(task.code == 0 for task in ran.kept.tasks)


def test_a_drained_node_is_forced_after_its_limit() -> None:
    ran = Ran(batch("a", 2, ms=100_000), outages=[fault(50_000, "drain")], drain_limit_ms=20_000)
    assert ran.of_nodes == [("NodeRemoved", 50_000), ("NodeLost", 70_000)]


def test_a_drained_node_that_is_back_before_its_last_container_ends_takes_tasks_again() -> None:
    ran = Ran(batch("a", 4, ms=100_000), outages=[fault(50_000, "drain", 60_000)])
    assert ran.of_nodes == [("NodeRemoved", 50_000), ("NodeAdded", 60_000)]
    assert sorted(task.node for task in ran.kept.tasks) == ["n0", "n0", "n1", "n1"]


def test_a_slow_node_stretches_the_tasks_that_start_there_and_nobody_is_told() -> None:
    ran = Ran(batch("a", 2, ms=100_000), nodes=1, outages=[fault(50_000, "slow", HOUR, times=3.0)])
    first, second = ran.kept.tasks
    assert ran.of_nodes == []
    assert [each.ended_ms - (each.started_ms or 0) for each in (first, second)] == [100_000, 300_000]


def test_a_fault_during_another_fault_of_its_node_is_left_out() -> None:
    both = [fault(50_000, "unhealthy", 300_000), fault(100_000, "unhealthy", HOUR)]
    assert Ran(batch("a"), outages=both).of_nodes == [("NodeLost", 50_000), ("NodeAdded", 300_000)]


def test_ends_that_are_late_are_heard_with_the_loss_of_their_node_and_repeated_in_vain() -> None:
    late = Disorder(permute=False, delay=1.0, delay_ms=5000)
    ran = Ran(batch("a", 2, ms=1000), profile="events", outages=[fault(1001)], disorder=late)
    told = [(type(fact).__name__, fact.at) for fact, _ in ran.audit.history]
    # The end at 1 s, and at its own late time again; the end on the other node once.
    assert told.index(("ContainerEnded", 1001)) < told.index(("NodeLost", 1001))
    assert sum(kind == "ContainerEnded" for kind, _ in told) == 3
    assert [task.code for task in ran.kept.tasks] == [0, 0]


def test_nothing_is_told_after_the_last_job() -> None:
    assert Ran(batch("a", ms=1000), outages=[fault(900_000)]).of_nodes == []


def test_a_job_without_a_node_for_ever_ends_the_run_in_spite_of_endless_faults() -> None:
    rates = NodeFaultRates(per_1000_node_days=1e6, repair=Fixed(MINUTE))
    with pytest.raises(RuntimeError, match="can never finish"):
        Ran(batch("wide", 3, gang=True), profile="events", rates=rates)


# -- tasks ----------------------------------------------------------------------------------------


def test_a_job_fails_with_the_fourth_failure_of_a_task_and_its_other_tasks_end() -> None:
    ran = Ran(batch("a", 4, ms=100_000), tasks=TaskFaults(probability=1.0), nodes=4)
    (row,) = ran.kept.jobs
    assert row.finish_ms is None
    assert row.failed_ms == ran.simulation.end_ms
    assert max(task.attempt for task in ran.kept.tasks) == 3
    assert {task.code for task in ran.kept.tasks} <= {1, -107}
    (told,) = [fact for fact, _ in ran.audit.history if isinstance(fact, JobCancelled)]
    assert told.why.endswith("failed 4 times")


@pytest.mark.parametrize("profile", ["yarn", "sls", "events", "kubernetes"])
def test_a_failed_attempt_is_reported_with_its_code_and_the_task_runs_again(profile: str) -> None:
    ran = Ran(batch("a", 40, ms=100_000), tasks=TaskFaults(probability=0.2, attempts=40), nodes=8, profile=profile)
    assert 2 <= sum(task.code == 1 for task in ran.kept.tasks) <= 30
    assert all(task.ended_ms - (task.started_ms or 0) <= 101_000 for task in ran.kept.tasks)


@pytest.mark.parametrize(
    ("nodes", "went", "lists"),
    [
        # The second failure on n0 lists a quarter of the nodes; the second on n1 a half, which Hadoop ignores.
        (4, ["n0", "n0", "n1", "n1", "n0", "n0"], [("n0",), ()]),
        # One of three nodes is 33 %.
        (3, ["n0"] * 6, [()]),
    ],
)
def test_a_job_leaves_nodes_alone_on_which_it_has_failed(
    nodes: int, went: list[str], lists: list[tuple[str, ...]]
) -> None:
    ran = Ran(batch("a"), nodes=nodes, profile="events", tasks=TaskFaults(probability=1.0, attempts=6, blacklist=2))
    assert [task.node for task in ran.kept.tasks] == went
    assert [fact.nodes for fact, _ in ran.audit.history if isinstance(fact, NodesRefused)] == lists


def test_failures_per_hour_follow_the_rate() -> None:
    ran = Ran(batch("a", 400, ms=30 * MINUTE), tasks=TaskFaults(per_hour=0.5, attempts=99), nodes=50)
    hours = sum(task.ended_ms - (task.started_ms or 0) for task in ran.kept.tasks) / HOUR
    assert sum(task.code == 1 for task in ran.kept.tasks) / hours == pytest.approx(0.5, rel=0.2)


def test_a_stage_that_backs_off_asks_for_nothing_twice_as_long_each_time() -> None:
    rules = TaskFaults(probability=1.0, attempts=3, backoff_ms=60_000)
    tasks = Ran(batch("a", ms=10_000), tasks=rules, profile="events").kept.tasks
    waits = [later.granted_ms - before.ended_ms for before, later in pairwise(tasks)]
    assert waits == [60_000, 120_000]


def test_a_back_off_is_at_most_six_minutes() -> None:
    tasks = Ran(
        batch("a", ms=10_000), tasks=TaskFaults(probability=1.0, attempts=6, backoff_ms=60_000), profile="events"
    )
    waits = [later.granted_ms - before.ended_ms for before, later in pairwise(tasks.kept.tasks)]
    assert waits == [60_000, 120_000, 240_000, 360_000, 360_000]


@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_a_failed_job_takes_its_application_master_along(profile: str) -> None:
    with_master = msgspec.structs.replace(batch("a", 2, ms=10_000), am=(1000, 1024))
    ran = Ran(with_master, batch("b", ms=1000), nodes=3, tasks=TaskFaults(probability=1.0, attempts=2), profile=profile)
    assert [row.finish_ms for row in ran.kept.jobs] == [None, None]
    assert [task.code for task in ran.kept.tasks if task.job == "a" and task.stage == 1] == [-107]


def test_two_runs_of_other_order_meet_the_same_failures() -> None:
    rules = TaskFaults(probability=0.3, attempts=99, stragglers=Worse(share=0.3, times=2.0))
    ran = [Ran(batch("a", 20, ms=10_000), tasks=rules, nodes=nodes, profile="events") for nodes in (2, 7)]
    met = [{(t.task, t.attempt): (t.code, t.ended_ms - (t.started_ms or 0)) for t in each.kept.tasks} for each in ran]
    assert met[0] == met[1]


# -- draws ----------------------------------------------------------------------------------------


LEMONS = Worse(share=0.03, times=10.0)


def machines(gpus: int) -> list[Node]:
    return [Node(id=f"n{index}", capacity=(8000,)) for index in range(gpus // 8)]


@pytest.mark.parametrize("gpus", [1024, 16_384, 131_072])
def test_the_mean_time_between_failures_is_that_of_the_mean_rate(gpus: int) -> None:
    nodes = machines(gpus)
    rates = NodeFaultRates(per_1000_node_days=4.0, repair=Drawn(2.5 * HOUR, 0.35, "uniform"), lemons=LEMONS)
    hours = 24 / (len(nodes) * 0.004)
    drawn = list(islice(node_faults(Faults(nodes=rates), nodes, 1), 4000))
    assert drawn[-1].at_ms / HOUR / len(drawn) == pytest.approx(hours, rel=0.05)


def test_lemons_fail_so_many_times_as_often() -> None:
    nodes = [node.id for node in machines(1600)]
    rates = NodeFaultRates(per_1000_node_days=4.0, repair=Fixed(1), lemons=LEMONS)
    means = mean_times(rates, nodes, 7)
    lemons = [node for node in nodes if means[node] == min(means.values())]
    assert len(lemons) == 6
    assert max(means.values()) == pytest.approx(10 * min(means.values()))
    assert sum(DAY / mean for mean in means.values()) / len(nodes) == pytest.approx(0.004)


def test_faults_come_in_order_and_never_during_a_repair() -> None:
    rates = NodeFaultRates(per_1000_node_days=500_000.0, repair=Fixed(HOUR), kind="unhealthy")
    outages = tuple(fault(at, node="n1") for at in (9 * HOUR, HOUR, 5 * HOUR))
    found = list(
        takewhile(
            lambda each: each.at_ms < 10 * HOUR, node_faults(Faults(outages=outages, nodes=rates), machines(24), 0)
        )
    )
    assert [each.at_ms for each in found] == sorted(each.at_ms for each in found)
    assert [each.at_ms for each in found if each.kind == "death"] == [HOUR, 5 * HOUR, 9 * HOUR]
    ends: dict[str, int] = {}
    for each in found:
        if each.kind == "unhealthy":
            assert each.at_ms > ends.get(each.node, 0)
            ends[each.node] = each.at_ms + (each.lasts_ms or 0)


def test_a_node_keeps_its_faults_whatever_other_nodes_there_are() -> None:
    rates = NodeFaultRates(per_1000_node_days=1000.0, repair=Fixed(HOUR))
    few, many = (
        [each for each in islice(node_faults(Faults(nodes=rates), machines(gpus), 0), 400) if each.node == "n1"]
        for gpus in (16, 80)
    )
    assert few[: len(many)] == many
    assert len(many) > 10


# -- combinations without a meaning yet -------------------------------------------------------------

SAVES = Faults(outages=(fault(1),), checkpoints=CheckpointRules(every_ms=1000))
FORGETS = Faults(restarts=(Restart(at_ms=1, lasts_ms=1, recovery=False),))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"nodes": (Node(id="other", capacity=(1000, 1024)),)}, "'n0', which is not there"),
        ({"faults": FORGETS, "profile": "kubernetes"}, "whose leaders know all objects"),
        ({"faults": FORGETS, "architecture": Central(t_job_ms=100), "profile": "events"}, "architecture 'central'"),
        ({"faults": FORGETS, "disorder": Disorder()}, "disorder"),
        ({"faults": SAVES, "disorder": Disorder()}, "faults with checkpoints do not go with disorder"),
    ],
)
def test_faults_are_refused_where_they_have_no_meaning(more: dict[str, Any], words: str) -> None:
    there = {"nodes": (Node(id="n0", capacity=(1000, 1024)),), "faults": Faults(outages=(fault(1),)), **more}
    config = EngineConfig(**there)
    rules = SchedulerConfig(resources=config.resources, policy={"kind": "fifo"})
    with pytest.raises(ValueError, match=words):
        Simulation(config, Workload(name="w", jobs=(batch("a"),), resources=config.resources), Scheduler(rules))


def test_a_run_with_faults_goes_on_from_a_moment_but_nobody_takes_it_over() -> None:
    simulation = Ran(batch("a", ms=1000), outages=OUTAGE).simulation
    assert obstacle(simulation) == ""
    assert takeover_obstacle(simulation) == "nodes or tasks have faults"


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        (FORGETS, "the resource manager restarts"),
        (Faults(speculation="late"), "masters ask for copies"),
        (Faults(outages=(fault(1),)), "masters may be lost"),
    ],
)
def test_a_run_whose_masters_or_manager_break_does_not_go_on_from_a_moment(faults: Faults, why: str) -> None:
    config = faulty(1, "yarn", faults)
    am = (1000, 1024) if why == "masters may be lost" else None
    jobs = [msgspec.structs.replace(batch("a"), am=am)]
    simulation = Simulation(config, workload_of(config, jobs), fifo(config))
    assert obstacle(simulation) == why

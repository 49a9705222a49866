"""Emulated lines of nodes are the planners' schedules: same DAG, one task a node, true times known, copies where on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rm_emulator.engine.config import EngineConfig
from rm_emulator.known_answers.schedules import Problem, TaskRun, violations
from rm_emulator.testing import Case, Subject, job, node, run_case, scheduler, stage
from rm_emulator.workload.model import PerNode, Workload, WorkloadJob
from schedulers.core.events import JobSubmitted
from schedulers.core.live import JobState, StageState
from schedulers.core.model import CopyRules, Edge, Job, Links, Node, Stage
from schedulers.kit.assigned import Choice
from schedulers.kit.forecast import Forecast
from schedulers.kit.lookahead import Lookahead
from schedulers.placers.deft import Deft
from schedulers.planning.unrelated.deft import ORDERS, deft
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.planners import PLANNERS

CASES = Path(__file__).parents[3] / "shared" / "cases" / "dag.yaml"
ORACLE = {"kind": "oracle"}
DEFT = {"kind": "deft"}
#: One unit of time of a case is a second, one of data moves in a second at this rate.
UNIT = 1000
MANY = CopyRules(max=99)


class Dag(NamedTuple):
    """times: [tasks][nodes], units. edges: parent, child, units of data."""

    times: Sequence[Sequence[int]]
    edges: Sequence[tuple[int, int, int]]


def emulate(
    dags: Sequence[Dag],
    policy: dict[str, Any],
    placement: dict[str, Any],
    *,
    copies: CopyRules | None = MANY,
    arrivals: Sequence[int] = (),
) -> float:
    """When all is done in profile `events`, in units; the schedule is a valid one."""
    machines = len(dags[0].times[0])
    nodes = tuple(Node(id=f"n{i}", capacity=(1000,)) for i in range(machines))
    jobs = []
    for number, dag in enumerate(dags):
        stages, times = [], []
        for task, row in enumerate(dag.times):
            above = tuple(Edge(parent=a, data=UNIT * data) for a, b, data in dag.edges if b == task)
            stages.append(Stage(name=f"s{task}", tasks=1, demand=(1000,), parents=above))
            times.append(PerNode(tuple(n.id for n in nodes), (tuple(UNIT * ms for ms in row),)))
        at = UNIT * arrivals[number] if arrivals else 0
        jobs.append(WorkloadJob(job=Job(id=f"j{number}", stages=tuple(stages)), submit_ms=at, runtimes=tuple(times)))
    config = EngineConfig(nodes=nodes, resources=("cpu",), links=Links(rate=UNIT), profile="events")
    workload = Workload(name="w", jobs=tuple(jobs), history=(), resources=("cpu",))
    subject = Subject(policy=policy, predictor=ORACLE, placement=placement, copies=copies)
    ran = run_case(subject, Case(name="lines", config=config, workload=workload, seed=1))
    first = [sum(len(dag.times) for dag in dags[:number]) for number in range(len(dags))]
    runs, ended = [], set[int]()
    for t in sorted(ran.kept.tasks, key=lambda t: (t.ended_ms, t.container)):
        task, done = first[int(t.job[1:])] + t.stage, t.code == 0
        if t.started_ms is not None:  # of several that came to their end the first is the task
            copy = task in ended if done else bool(t.copy)
            runs.append(TaskRun(task, int(t.node[1:]), t.started_ms, t.ended_ms, copy, done))
        ended |= {task} if done else set()
    whole = together(dags)
    problem = Problem(
        times=[[UNIT * ms for ms in row] for row in whole.times],
        machines=machines,
        edges=[(a, b, UNIT * data) for a, b, data in whole.edges],
        rates=1.0,
        releases=[UNIT * at for at, dag in zip(arrivals, dags, strict=True) for _ in dag.times] if arrivals else (),
        copies=1 if copies is None else copies.max,
    )
    assert violations(problem, runs) == []
    return ran.simulation.end_ms / UNIT


def together(dags: Sequence[Dag]) -> Dag:
    """All of them as one."""
    times, edges = list[Sequence[int]](), list[tuple[int, int, int]]()
    for dag in dags:
        edges += [(len(times) + a, len(times) + b, data) for a, b, data in dag.edges]
        times += dag.times
    return Dag(times, edges)


def drawn(seed: int, machines: int | None = None) -> Dag:
    draw = random.Random(seed)
    machines = machines or draw.randint(1, 5)
    tasks = draw.randint(1, 14)
    times = [[draw.randint(1, 40) for _ in range(machines)] for _ in range(tasks)]
    edges = [(a, b, draw.randint(0, 60)) for b in range(tasks) for a in range(b) if draw.random() < 0.3]
    return Dag(times, edges)


def instance(dag: Dag) -> Instance:
    return Instance(dag.times, dag.edges, 1.0)


def known(name: str) -> Dag:
    if not CASES.exists():
        pytest.skip("shared/cases is not here")
    found = next(one for one in yaml.safe_load(CASES.read_text())["instances"] if one["name"] == name)
    return Dag(found["exec"], [tuple(edge) for edge in found["edges"]])


# -- DEFT -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "end"),
    [("topcuoglu10", 73), ("dup_fork", 10), ("hetero_speed8", 64), ("kwok_ahmad9_m2", 18)],
)
def test_high_rank_up_with_deft_reaches_the_known_answer(name: str, end: int) -> None:
    assert emulate([known(name)], {"kind": "rank_up"}, DEFT) == end


def test_without_copies_the_root_of_a_fork_is_run_once() -> None:
    assert emulate([known("dup_fork")], {"kind": "rank_up"}, DEFT, copies=None) == 22


def test_copies_of_tasks_that_have_finished_are_made_too() -> None:
    fork = known("dup_fork")
    assert emulate([fork], {"kind": "rank_up"}, {"kind": "deft", "ahead": False}) == 14


@pytest.mark.parametrize("order", ["fifo", "rank_up", "rank_down"])
@pytest.mark.parametrize("seed", range(12))
def test_the_emulated_schedule_is_the_planned_one(seed: int, order: str) -> None:
    dag = drawn(seed)
    assert emulate([dag], {"kind": order}, DEFT) == deft(instance(dag), ORDERS[order](instance(dag))).makespan


def work(dag: Dag) -> float:
    return sum(sum(row) / len(row) for row in dag.times)


@pytest.mark.parametrize("policy", ["fifo", "sjf", "hrrn", "srpt"])
@pytest.mark.parametrize("seed", range(6))
def test_jobs_that_come_together_are_assigned_job_by_job(seed: int, policy: str) -> None:
    dags = [drawn(100 * seed + number, machines=3) for number in range(4)]
    rank = [work(dag) if policy in ("sjf", "srpt") else 0.0 for dag in dags]
    order = sorted(range(4), key=lambda number: (round(rank[number], 3), number))
    priorities = [-float(order.index(number)) for number, dag in enumerate(dags) for _ in dag.times]
    assert emulate(dags, {"kind": policy}, DEFT) == deft(instance(together(dags)), priorities).makespan


@pytest.mark.parametrize("policy", ["fifo", "sjf", "hrrn", "rank_up", "rank_down"])
@pytest.mark.parametrize("ahead", [True, False])
def test_jobs_that_come_one_after_another_are_valid_schedules(policy: str, ahead: bool) -> None:
    dags = [drawn(number, machines=4) for number in range(6)]
    placement = {"kind": "deft", "ahead": ahead}
    assert emulate(dags, {"kind": policy}, placement, arrivals=[0, 0, 20, 45, 46, 100]) > 0


# -- waiting for a node ---------------------------------------------------------------------------

#: Two parents of one task: transfers take 100, and the other node is idle.
JOIN = Dag([[4, 4], [4, 4], [1, 1]], [(0, 2, 100), (1, 2, 100)])


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(("wait", "end"), [(None, 105), (0.25, 9), (23, 9), (25, 105)])
def test_a_task_waits_where_its_child_gains_more_than_the_price_of_the_delay(
    ahead: bool, wait: float | None, end: int
) -> None:
    """A delay of 4 lets the child end at 9, not at 105."""
    placement = {**DEFT, "ahead": ahead, "wait": wait}
    assert emulate([JOIN], {"kind": "rank_up"}, placement, copies=None) == end


def test_a_task_waits_for_the_sake_of_its_grandchild() -> None:
    """Both ways to the last task are as in JOIN, with a short task in between on one of them."""
    dag = Dag([[9, 9], [4, 4], [1, 1], [1, 1]], [(1, 2, 100), (2, 3, 100), (0, 3, 100)])
    ends = [emulate([dag], {"kind": "fifo"}, {**DEFT, "wait": wait}, copies=None) for wait in (None, 0.25)]
    assert ends == [106, 15]


@pytest.mark.parametrize(("tasks", "tried"), [(1, True), (2, False)])
def test_stages_of_several_tasks_and_their_parents_go_by_deft(
    tasks: int, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes are tried for the second parent of a join, where no parent has several tasks."""
    found, columns = list[list[int]](), Lookahead.columns
    monkeypatch.setattr(Lookahead, "columns", lambda self: found.append(columns(self)) or found[-1])
    made = scheduler({"kind": "rank_up"}, node("a"), node("b"), predictor=ORACLE, placement={**DEFT, "wait": 0.01})
    made.handle(JobSubmitted(0, job("j", stage(tasks), stage(1), stage(1, parents=(0, 1)))))
    assert len(found) == tasks + 2
    assert any(found) is tried


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("copies", [MANY, None])
@pytest.mark.parametrize("order", ["rank_up", "lachesis"])
@pytest.mark.drawn(of=8)
def test_whoever_waits_ends_and_waits_no_longer_than_the_gain_over_the_price(
    ahead: bool, copies: CopyRules | None, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait is at most what the tasks below could gain, from now on, divided by the price."""
    waits, choose = list[float](), Deft.choose

    def bounded(self: Deft, of: JobState, part: StageState, forecast: Forecast, runs: int) -> Choice | None:
        chosen, first = choose(self, of, part, forecast, runs), self._soonest(of, part, forecast, runs)
        assert chosen is not None
        assert first is not None
        most = (Lookahead(of, part, forecast, runs).end(first) - forecast.now) / (self.params.wait or 1)
        assert 0 <= chosen.end - first.end <= most
        waits.append(chosen.end - first.end)
        return chosen

    monkeypatch.setattr(Deft, "choose", bounded)
    dags = [drawn(number, machines=4) for number in range(30)]
    placement = {**DEFT, "ahead": ahead, "wait": 0.05}
    assert emulate(dags, {"kind": order}, placement, copies=copies, arrivals=range(0, 300, 10)) > 0
    assert max(waits) > 0


# -- planners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", sorted(PLANNERS))
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.drawn(of=4)
def test_a_plan_is_followed_to_the_end(seed: int, planner: str) -> None:
    dag = drawn(seed)
    policy = {"kind": "planned", "planner": planner}
    assert emulate([dag], policy, {"kind": "first_fit"}) == PLANNERS[planner](instance(dag)).makespan


@pytest.mark.parametrize(("planner", "end"), [("heft", 80), ("cpop", 86), ("dls", 91), ("peft", 85), ("etf", 93)])
def test_published_schedules_are_followed(planner: str, end: int) -> None:
    policy = {"kind": "planned", "planner": planner}
    assert emulate([known("topcuoglu10")], policy, {"kind": "first_fit"}, copies=None) == end


def test_jobs_that_come_together_are_planned_as_one_dag() -> None:
    dags = [drawn(number, machines=3) for number in range(5)]
    plan = PLANNERS["heft"](instance(together(dags)))
    assert emulate(dags, {"kind": "planned"}, {"kind": "first_fit"}) == plan.makespan


def test_a_later_job_is_planned_around_what_runs() -> None:
    """The faster node is busy for nine more units, so that the other one is done sooner."""
    dags = [Dag([[10, 20]], []), Dag([[4, 8]], [])]
    assert emulate(dags, {"kind": "planned"}, {"kind": "first_fit"}, arrivals=[0, 1]) == 10


@pytest.mark.parametrize("planner", sorted(PLANNERS))
@pytest.mark.parametrize("copies", [MANY, CopyRules(max=2, others="end"), None])
@pytest.mark.drawn(of=4)
def test_later_jobs_are_planned_behind_earlier_ones(planner: str, copies: CopyRules | None) -> None:
    dags = [drawn(number, machines=4) for number in range(4)]
    policy = {"kind": "planned", "planner": planner}
    assert emulate(dags, policy, {"kind": "first_fit"}, copies=copies, arrivals=[0, 10, 30, 31]) > 0


def test_a_plan_whose_copies_are_left_out_starts_nobody_before_what_it_waits_for() -> None:
    """By start alone tasks that were to take a copy's output would stand before their parents, and wait for ever."""
    dags = [drawn(number, machines=5) for number in (33, 34, 35)]
    policy = {"kind": "planned", "planner": "tdca"}
    assert emulate(dags, policy, {"kind": "first_fit"}, copies=None) > 0


# -- plays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_one_play_is_deft_by_upward_rank(seed: int) -> None:
    dag = drawn(seed)
    ends = emulate([dag], {"kind": "played", "plays": 1, "order": "rank_up"}, {"kind": "first_fit"})
    assert ends == deft(instance(dag)).makespan


@pytest.mark.parametrize("order", ["rank_up", "lachesis"])
@pytest.mark.parametrize("copies", [MANY, None])
def test_plays_that_differ_are_followed_and_end_no_later(order: str, copies: CopyRules | None) -> None:
    dags = [drawn(number, machines=4) for number in range(6)]
    one, many = (
        emulate(dags, {"kind": "played", "plays": plays, "order": order}, {"kind": "first_fit"}, copies=copies)
        for plays in (1, 150)
    )
    assert many < one


def test_jobs_that_come_later_are_played_behind_earlier_ones() -> None:
    dags = [drawn(number, machines=4) for number in range(4)]
    policy = {"kind": "played", "plays": 8}
    assert emulate(dags, policy, {"kind": "first_fit"}, arrivals=[0, 10, 30, 31]) > 0

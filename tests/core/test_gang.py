"""A gang starts with all its tasks or with none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.checks import validate
from schedulers.core.decisions import Decision, Hold, Place, Reserve
from schedulers.core.events import (
    ContainerAdopted,
    ContainerEnded,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    OfferAsked,
    TaskFound,
    Tick,
)
from schedulers.core.live import StageState
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.policy import policies
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


def cluster(*capacities: int, policy: str = "fifo", predictor: str | None = None) -> Scheduler:
    config = SchedulerConfig(
        resources=("cpu",),
        policy={"kind": policy},
        predictor={"kind": predictor} if predictor else None,
        offers="cycle",
    )
    scheduler = Scheduler(config)
    for index, capacity in enumerate(capacities):
        scheduler.handle(NodeAdded(0, Node(id=f"n{index}", capacity=(capacity,))))
    return scheduler


def submit(scheduler: Scheduler, job: str, tasks: int, *, gang: bool, demand: int = 1) -> None:
    stage = Stage(name="all", tasks=tasks, demand=(demand,), gang=gang)
    scheduler.handle(JobSubmitted(scheduler.state.now, Job(id=job, stages=(stage,))))


def placed(decisions: list[Decision]) -> list[Place]:
    return [d for d in decisions if isinstance(d, Place)]


def test_a_gang_that_does_not_fit_whole_starts_nothing_and_says_so() -> None:
    scheduler = cluster(2, 3)
    submit(scheduler, "one", 1, gang=False)
    scheduler.handle(Tick(1))
    submit(scheduler, "g", 5, gang=True)
    decisions = scheduler.handle(Tick(1))
    assert placed(decisions) == []
    assert scheduler.state.jobs["g"].hold is Reason.NO_ROOM_FOR_GANG
    assert (
        scheduler.explain("g").reasons[0].sentence == "the 5 tasks of stage all start together, and there is room for 4"
    )


def test_a_gang_that_even_the_empty_cluster_does_not_hold_is_told_so() -> None:
    scheduler = cluster(2, 2)
    submit(scheduler, "small", 4, gang=False)
    scheduler.handle(Tick(1))
    submit(scheduler, "g", 5, gang=True)
    scheduler.handle(Tick(2))
    assert scheduler.state.jobs["g"].hold is scheduler.explain("g").reasons[0].reason is Reason.TOO_LARGE
    assert scheduler.explain("g").reasons[0].sentence == (
        "stage all asks for 5 tasks of 1m cpu at once, "
        "more than the 4 that the 2 nodes hold when nothing else runs there"
    )


def test_a_gang_that_a_node_more_would_hold_starts_when_it_comes() -> None:
    scheduler = cluster(2, 2)
    submit(scheduler, "g", 5, gang=True)
    scheduler.handle(Tick(1))
    scheduler.handle(NodeAdded(2, Node(id="n2", capacity=(1,))))
    assert len(placed(scheduler.handle(Tick(3)))) == 5


def test_a_gang_that_fits_starts_whole() -> None:
    scheduler = cluster(2, 3)
    submit(scheduler, "g", 5, gang=True)
    assert len(placed(scheduler.handle(Tick(1)))) == 5


def test_others_may_pass_a_gang_that_waits() -> None:
    scheduler = cluster(2)
    submit(scheduler, "g", 5, gang=True)
    submit(scheduler, "small", 1, gang=False)
    assert [d.job for d in placed(scheduler.handle(Tick(1)))] == ["small"]


def test_a_task_that_failed_comes_back_alone() -> None:
    scheduler = cluster(4)
    submit(scheduler, "g", 4, gang=True)
    first = placed(scheduler.handle(Tick(1)))[0]
    scheduler.handle(ContainerEnded(2, first.container, code=1))
    assert [(d.task, d.attempt) for d in placed(scheduler.handle(Tick(3)))] == [(first.task, 1)]


def parted(policy: str) -> Scheduler:
    """A gang fills the cluster, small tasks wait before it in the order, and one member is evicted."""
    scheduler = cluster(2, 2, policy=policy)
    submit(scheduler, "g", 2, gang=True, demand=2)
    members = placed(scheduler.handle(Tick(1)))
    for number in range(4):
        submit(scheduler, f"small{number}", 2, gang=False)
    scheduler.handle(ContainerEnded(2, members[0].container, code=-1))
    return scheduler


@pytest.mark.parametrize("policy", ["fifo", "sjf", "drf", "hdrf"])
def test_a_member_that_was_evicted_is_placed_before_all_others(policy: str) -> None:
    scheduler = parted(policy)
    assert [(d.job, d.task) for d in placed(scheduler.handle(Tick(3)))] == [("g", 0)]
    validate(scheduler.state)


def test_members_that_run_go_on_while_one_is_missing() -> None:
    scheduler = parted("drf")
    assert [(c.job, c.task) for c in scheduler.state.containers.values()] == [("g", 1)]


def test_after_a_change_of_leaders_a_missing_member_still_goes_first() -> None:
    scheduler = Scheduler.restore(parted("drf").snapshot())
    assert [d.job for d in placed(scheduler.handle(Tick(3)))] == ["g"]


def test_where_its_node_is_lost_a_missing_member_gets_a_reservation_whatever_the_order() -> None:
    config = SchedulerConfig(
        resources=("cpu",), policy={"kind": "drf"}, predictor=None, offers="cycle", reserve_after=1000
    )
    scheduler = Scheduler(config)
    for index in range(3):
        scheduler.handle(NodeAdded(0, Node(id=f"n{index}", capacity=(2,))))
    submit(scheduler, "g", 2, gang=True, demand=2)
    scheduler.handle(Tick(1))
    for number in range(4):
        submit(scheduler, f"small{number}", 5, gang=False)
    small = placed(scheduler.handle(Tick(2)))
    assert {d.node for d in small} == {"n2"}
    scheduler.handle(NodeLost(3, "n0"))
    assert placed(scheduler.handle(Tick(4))) == []
    scheduler.handle(ContainerEnded(1500, small[0].container))
    decisions = scheduler.handle(Tick(1500))
    assert [d.nodes for d in decisions if isinstance(d, Reserve) and d.job == "g"] == [(("n2", 1),)]
    assert placed(decisions) == []
    scheduler.handle(ContainerEnded(1600, small[1].container))
    assert [(d.job, d.task) for d in placed(scheduler.handle(Tick(1600)))] == [("g", 0)]


def test_a_gang_is_not_served_one_by_one_to_an_outside_scheduler() -> None:
    scheduler = cluster(4)
    submit(scheduler, "g", 2, gang=True)
    assert placed(scheduler.handle(OfferAsked(1, "g", 0))) == []


def test_a_gang_is_not_sampled() -> None:
    scheduler = cluster(50, policy="gs", predictor="slearn")
    submit(scheduler, "g", 40, gang=True)
    assert scheduler.state.jobs["g"].pilots_left == 0
    assert len(placed(scheduler.handle(Tick(1)))) == 40


@given(
    capacities=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    jobs=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3), st.booleans()), min_size=1, max_size=6),
    policy=st.sampled_from([entry.name for entry in policies]),
)
@pytest.mark.slow
def test_no_policy_leaves_a_gang_partial(capacities: list[int], jobs: list[tuple[int, int, bool]], policy: str) -> None:
    scheduler = cluster(*(c or 1 for c in capacities), policy=policy, predictor="slearn")
    for number, (tasks, demand, gang) in enumerate(jobs):
        submit(scheduler, f"j{number}", tasks, gang=gang, demand=demand)
    running: list[Place] = []
    for at in range(1, 8):
        running += placed(scheduler.handle(Tick(at)))
        validate(scheduler.state)
        for job in scheduler.state.jobs.values():
            if job.spec.stages[0].gang:
                assert job.stages[0].waiting in (0, job.stages[0].tasks)
        if running:
            scheduler.handle(ContainerEnded(at, running.pop(0).container, runtime_ms=1))


@given(
    capacities=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    facts=st.lists(
        st.tuples(st.sampled_from(("job", "end", "add", "resize", "drain", "lose")), st.integers(0, 99)), max_size=40
    ),
    policy=st.sampled_from(["fifo", "sjf", "drf", "srpt"]),
)
@pytest.mark.slow
def test_a_gang_waits_just_as_long_as_all_nodes_together_have_too_little_room(
    capacities: list[int], facts: list[tuple[str, int]], policy: str
) -> None:
    scheduler = cluster(*capacities, policy=policy)
    for at, (fact, number) in enumerate(facts, 1):
        _tell(scheduler, at, fact, number)
        _compare_room(scheduler)
        scheduler.handle(Tick(at))
        _compare_room(scheduler)
        validate(scheduler.state)
        assert not any(_has_room(scheduler, stage) for stage in _gangs(scheduler))


def _tell(scheduler: Scheduler, at: int, fact: str, number: int) -> None:
    """One of these facts about what is there. number: which, and how many tasks of how much."""
    state = scheduler.state
    nodes, containers = list(state.nodes), list(state.containers)
    if fact == "job":
        submit(scheduler, f"j{at}", 1 + number % 7, gang=number % 5 > 0, demand=1 + number % 2)
    elif fact == "add":
        scheduler.handle(NodeAdded(at, Node(id=f"n{at}x", capacity=(1 + number % 6,))))
    elif fact == "end" and containers:
        scheduler.handle(ContainerEnded(at, containers[number % len(containers)], runtime_ms=1))
    elif fact == "resize" and nodes:
        scheduler.handle(NodeChanged(at, Node(id=nodes[number % len(nodes)], capacity=(1 + number % 6,))))
    elif fact == "drain" and nodes:
        scheduler.handle(NodeRemoved(at, nodes[number % len(nodes)]))
    elif fact == "lose" and nodes:
        scheduler.handle(NodeLost(at, nodes[number % len(nodes)]))


def _gangs(scheduler: Scheduler) -> list[StageState]:
    jobs = scheduler.state.jobs.values()
    return [stage for job in jobs for stage in job.open_stages() if job.is_waiting_gang(stage)]


def _has_room(scheduler: Scheduler, stage: StageState) -> bool:
    """Node by node."""
    return sum(node.fit_count(stage) for node in scheduler.state.nodes.values()) >= stage.waiting


def _compare_room(scheduler: Scheduler) -> None:
    for stage in _gangs(scheduler):
        assert scheduler.state.sizes.has_room_for_all(stage) == _has_room(scheduler, stage)


def test_a_task_that_another_leader_placed_is_taken_over() -> None:
    scheduler = cluster(2)
    submit(scheduler, "a", 3, gang=False)
    scheduler.handle(ContainerAdopted(1, container=7, node="n0", job="a", stage=0, task=1))
    validate(scheduler.state)
    assert [(d.container, d.task) for d in placed(scheduler.handle(Tick(2)))] == [(8, 0)]


def test_a_task_is_taken_over_once() -> None:
    scheduler = cluster(4)
    submit(scheduler, "a", 3, gang=False)
    for container in (7, 8):
        scheduler.handle(ContainerAdopted(1, container=container, node="n0", job="a", stage=0, task=1))
    assert list(scheduler.state.containers) == [7]


def test_what_was_taken_over_may_fill_a_node_beyond_its_capacity() -> None:
    scheduler = cluster(1)
    submit(scheduler, "a", 2, gang=False)
    for container, task in ((1, 0), (2, 1)):
        scheduler.handle(ContainerAdopted(1, container=container, node="n0", job="a", stage=0, task=task))
    assert scheduler.state.nodes["n0"].free == [-1]
    validate(scheduler.state)


def test_a_hold_is_said_once() -> None:
    scheduler = cluster(1)
    submit(scheduler, "g", 2, gang=True)
    said = [d for at in (1, 2, 3) for d in scheduler.handle(Tick(at)) if isinstance(d, Hold)]
    assert len(said) <= 1


def test_a_task_found_finished_feeds_what_comes_after_it() -> None:
    scheduler = cluster(4, policy="gs", predictor="slearn")
    stages = (Stage(name="a", tasks=2, demand=(1,)), Stage(name="b", tasks=1, demand=(1,), parents=(0,)))
    scheduler.handle(JobSubmitted(0, Job(id="j", stages=stages)))
    for task in (0, 1, 1):
        scheduler.handle(TaskFound(1, "j", 0, task, 500))
        validate(scheduler.state)
    assert [(d.stage, d.task) for d in placed(scheduler.handle(Tick(2)))] == [(1, 0)]


def test_a_pilot_found_finished_teaches() -> None:
    scheduler = cluster(4, policy="gs", predictor="slearn")
    scheduler.handle(JobSubmitted(0, Job(id="j", stages=(Stage(name="a", tasks=20, demand=(1,)),))))
    (pilot,) = scheduler.state.jobs["j"].stages[0].pilots
    scheduler.handle(TaskFound(1, "j", 0, pilot, 500))
    assert scheduler.state.jobs["j"].size_ms == 10_000


def test_a_pilot_found_finished_teaches_nothing_where_its_run_time_is_not_known() -> None:
    scheduler = cluster(4, policy="gs", predictor="slearn")
    scheduler.handle(JobSubmitted(0, Job(id="j", stages=(Stage(name="a", tasks=20, demand=(1,)),))))
    (pilot,) = scheduler.state.jobs["j"].stages[0].pilots
    scheduler.handle(TaskFound(1, "j", 0, pilot, 0))
    assert scheduler.state.jobs["j"].size_ms is None
    assert len(placed(scheduler.handle(Tick(2)))) == 4

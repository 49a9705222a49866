"""bfs, cp, random, sjf_cp, weighted_fair, capped_sjf, curves: who is first among stages and jobs of small DAGs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Move, Place, Run
from schedulers.core.events import ContainerEnded, ContainerStarted, Estimated, JobSubmitted, NodeAdded, TaskEnded, Tick
from schedulers.core.model import Job, Node
from schedulers.core.scheduler import Scheduler
from schedulers.kit.paths import depths, to_output
from schedulers.kit.speedups import Shape, spans

ORACLE = {"kind": "oracle"}


def served(decisions: Iterable[object]) -> list[tuple[str, int]]:
    """(job, stage) of what starts."""
    return [(d.job, d.stage) for d in decisions if isinstance(d, Place | Run | Move)]


def jobs_of(decisions: Iterable[object]) -> list[str]:
    return [name for name, _ in served(decisions)]


def submit(made: Scheduler, spec: Job, *ms: int, at: int = 0) -> list[object]:
    """Submit a job of which the oracle knows these run times per stage."""
    if ms:
        made.handle(Estimated(at, spec.id, ms))
    return list(made.handle(JobSubmitted(at, spec)))


# -- paths ----------------------------------------------------------------------------------------

#: A diamond with a tail on one side: 0 -> (1, 2) -> 4, and 1 -> 3 -> 4.
DIAMOND = (
    stage(name="0"),
    stage(4, name="1", parents=(0,)),
    stage(name="2", parents=(0,)),
    stage(name="3", parents=(1,)),
    stage(name="4", parents=(2, 3)),
)


def test_the_longest_path_to_the_output() -> None:
    ms = [1.0, 2.0, 8.0, 3.0, 1.0]
    # 4: 1; 3: 3 + 1; 2: 8 + 1; 1: 2 + 4; 0: 1 + 9.
    assert to_output(DIAMOND, ms.__getitem__) == [10.0, 6.0, 9.0, 4.0, 1.0]


def test_depth_is_the_longest_way_from_an_input() -> None:
    assert depths(DIAMOND) == [0, 1, 1, 2, 3]


def test_stages_need_not_stand_in_the_order_of_their_parents() -> None:
    turned = (stage(parents=(1,)), stage(parents=(2,)), stage())
    assert depths(turned) == [2, 1, 0]
    assert to_output(turned, lambda index: 1.0) == [1.0, 2.0, 3.0]


# -- bfs, cp --------------------------------------------------------------------------------------

#: Three inputs that end in stage 3: one is two stages long (0 -> 1), the others one; stage 2 is the longest task.
FORK = (stage(), stage(parents=(0,)), stage(2), stage(parents=(1, 2)))


def opened(policy: dict[str, object], *ms: int) -> list[tuple[str, int]]:
    """What a core serves one after the other when it is the only one, and stages open as others end."""
    made = scheduler(policy, node("n", 1), offers="event", predictor=ORACLE)
    decided = served(submit(made, job("a", *FORK), *ms))
    for container in range(1, 5):
        decided += served(made.handle(ContainerEnded(container, container, 0, 1)))
    return decided


def test_bfs_goes_level_by_level() -> None:
    # Stage 1 is open after stage 0, and the two tasks of stage 2, nearer to the input, go before it.
    assert [index for _, index in opened({"kind": "bfs"})] == [0, 2, 2, 1, 3]


def test_cp_goes_by_the_longest_path() -> None:
    # Paths: 0: 1 + 5 + 1, 1: 5 + 1, 2: 3 + 1, 3: 1.
    assert [index for _, index in opened({"kind": "cp"}, 1, 5, 3, 1)] == [0, 1, 2, 2, 3]


def test_cp_may_count_all_tasks_of_a_stage() -> None:
    # The same with two tasks of 4 in stage 2: by work 8 + 1 against 1 + 5 + 1.
    assert opened({"kind": "cp", "length": "task"}, 1, 5, 4, 1)[0] == ("a", 0)
    assert opened({"kind": "cp", "length": "work"}, 1, 5, 4, 1)[0] == ("a", 2)


@pytest.mark.parametrize("policy", ["bfs", "cp"])
def test_jobs_go_as_they_came(policy: str) -> None:
    made = scheduler(policy, node("n", 2), offers="cycle", predictor=ORACLE)
    submit(made, job("b", stage()), 1)
    submit(made, job("a", stage()), 10**6)
    assert jobs_of(made.handle(Tick(1))) == ["b", "a"]


def test_cp_without_estimates_goes_by_index() -> None:
    made = scheduler("cp", node("n", 2), offers="cycle")
    submit(made, job("a", stage(), stage(), stage()))
    assert served(made.handle(Tick(1))) == [("a", 0), ("a", 1)]


# -- random ---------------------------------------------------------------------------------------


def shuffled(seed: int, names: str = "abcdef") -> list[tuple[str, int]]:
    made = scheduler("random", node("n", 18), offers="cycle", seed=seed)
    for name in names:
        submit(made, job(name, stage(), stage(), stage()))
    return served(made.handle(Tick(1)))


def test_random_orders_the_stages_of_all_jobs() -> None:
    assert sorted(shuffled(1)) == [(name, index) for name in "abcdef" for index in range(3)]
    assert len({name for name, _ in shuffled(1)[:3]}) > 1


def test_random_is_seeded_and_does_not_depend_on_the_order_of_submission() -> None:
    assert shuffled(1) == shuffled(1) == shuffled(1, "fedcba")
    assert shuffled(1) != shuffled(2)


# -- sjf_cp ---------------------------------------------------------------------------------------


def test_sjf_cp_takes_the_smallest_job_and_in_it_the_longest_path() -> None:
    made = scheduler("sjf_cp", node("n", 3), offers="cycle", predictor=ORACLE)
    submit(made, job("large", stage()), 100)
    submit(made, job("small", stage(), stage(), stage(parents=(1,))), 9, 5, 8)
    assert served(made.handle(Tick(1))) == [("small", 1), ("small", 0), ("large", 0)]


@pytest.mark.parametrize("policy", ["sjf_cp", "capped_sjf"])
def test_jobs_without_an_estimate_come_last(policy: str) -> None:
    made = scheduler(policy, node("n", 1), offers="cycle", predictor=ORACLE)
    submit(made, job("unknown"))
    submit(made, job("known"), 10**9)
    assert jobs_of(made.handle(Tick(1))) == ["known"]


# -- weighted_fair --------------------------------------------------------------------------------


def counts(alpha: float, nodes: int = 8, **config: object) -> dict[str, int]:
    """Containers of a job of 100 ms and one of 300 ms of work, each of 12 tasks."""
    policy = {"kind": "weighted_fair", "alpha": alpha}
    made = scheduler(policy, node("n", nodes), offers="cycle", predictor=ORACLE, **config)
    submit(made, job("one", stage(12)), 100)
    submit(made, job("three", stage(12)), 300)
    names = jobs_of(made.handle(Tick(1)))
    return {name: names.count(name) for name in ("one", "three")}


@pytest.mark.parametrize("executors", [False, True])
def test_shares_follow_a_power_of_the_work(executors: bool) -> None:
    assert counts(0, executors=executors) == {"one": 4, "three": 4}
    assert counts(1, executors=executors) == {"one": 2, "three": 6}
    assert counts(-1, executors=executors) == {"one": 6, "three": 2}


def test_with_executors_shares_are_rounded_up_in_order_of_submission() -> None:
    # 5 executors: ceil(2.5) for the first, what is left for the second.
    assert counts(0, 5, executors=True) == {"one": 3, "three": 2}


def test_a_job_without_an_estimate_counts_as_one_of_the_given_size() -> None:
    policy = {"kind": "weighted_fair", "alpha": 1, "unsized_ms": 3600}
    made = scheduler(policy, node("n", 8), offers="cycle", predictor=ORACLE)
    submit(made, job("one", stage(12)), 100)
    submit(made, job("unknown", stage(12)))
    assert jobs_of(made.handle(Tick(1))).count("unknown") == 6


def test_weighted_fair_weighs_anew_when_the_cluster_changes() -> None:
    made = scheduler({"kind": "weighted_fair", "alpha": 0}, Node(id="n", capacity=(4000, 4096)), offers="cycle")
    submit(made, job("cpu", stage(9, (1000, 0))))
    submit(made, job("memory", stage(9, (0, 1024))))
    made.handle(Tick(0))
    for container in (1, 2):
        made.handle(ContainerEnded(1, container, 0, 1))
    made.handle(NodeAdded(2, Node(id="m", capacity=(0, 4096))))
    assert jobs_of(made.handle(Tick(3)))[0] == "memory"


# -- capped_sjf -----------------------------------------------------------------------------------


def test_capped_sjf_gives_each_job_its_number_and_then_the_rest_in_order() -> None:
    # 2 x (T / 500 s) ^ 1: 2 for the job of 500 s, 4 for that of 1000 s; the two that are left go to the smaller one.
    policy = {"kind": "capped_sjf", "containers": 2, "growth": 1}
    made = scheduler(policy, node("n", 8), offers="cycle", predictor=ORACLE)
    submit(made, job("large", stage(10)), 100_000)
    submit(made, job("small", stage(10)), 50_000)
    assert jobs_of(made.handle(Tick(1))) == ["small"] * 2 + ["large"] * 4 + ["small"] * 2


def test_the_number_is_never_below_one() -> None:
    policy = {"kind": "capped_sjf", "containers": 1, "growth": 1}
    made = scheduler(policy, node("n", 2), offers="cycle", predictor=ORACLE)
    submit(made, job("tiny", stage(3)), 1)
    submit(made, job("small", stage(3)), 2)
    assert jobs_of(made.handle(Tick(1))) == ["tiny", "small"]


# -- curves ---------------------------------------------------------------------------------------


def starts(policy: dict[str, object], nodes: int, **jobs: tuple[int, int]) -> list[str]:
    """Jobs in the order of their starts when executors come, where each job has so many tasks of so many ms."""
    made = scheduler(policy, offers="event", predictor=ORACLE, executors=True)
    for name, (tasks, ms) in jobs.items():
        submit(made, job(name, stage(tasks)), ms)
    return jobs_of(made.handle(NodeAdded(1, node("n", nodes))))


def test_curves_serves_the_shortest_job_first() -> None:
    order = starts({"kind": "curves"}, 12, long=(4, 60_000), short=(4, 6_000), middle=(4, 20_000))
    assert list(dict.fromkeys(order)) == ["short", "middle", "long"]


def test_curves_gives_the_only_job_all_executors() -> None:
    assert starts({"kind": "curves"}, 50, a=(100, 60_000)) == ["a"] * 50


def test_the_more_jobs_are_behind_a_job_the_narrower_it_is_under_curves() -> None:
    def width(others: int) -> int:
        jobs = {f"later{n}": (100, 3_000 + n) for n in range(others)}
        order = starts({"kind": "curves"}, 50, first=(100, 2_000), **jobs)
        return order.index("later0")

    assert width(1) > width(5) > width(19)


def test_under_curves_jobs_grow_with_the_cluster() -> None:
    made = scheduler({"kind": "curves"}, node("n", 1), offers="event", predictor=ORACLE, executors=True)
    submit(made, job("a", stage(40)), 20_000)
    submit(made, job("b", stage(40)), 30_000)
    assert jobs_of(made.handle(NodeAdded(2, node("m", 9))))[0] == "a"


def test_where_containers_end_with_their_tasks_curves_has_no_widths() -> None:
    made = scheduler({"kind": "curves"}, node("n", 50), offers="cycle", predictor=ORACLE)
    for n in range(20):
        submit(made, job(f"j{n}", stage(100)), 2_000 + n)
    assert jobs_of(made.handle(Tick(1))) == ["j0"] * 50


def test_widths_of_curves_beyond_the_measured_ones_grow_by_half() -> None:
    widths = [n for n, _ in spans(Shape(5000.0, 20.0, 4, 500), 200)]
    assert widths == [1, 2, 3, 4, 5, 9, 19, 39, 49, 73, 109, 163]


@pytest.mark.parametrize("work", [500.0, 1000.0, 20_000.0])
def test_a_wider_job_alone_ends_sooner_by_the_curve(work: float) -> None:
    times = [t for _, t in spans(Shape(work, 20.0, 4, round(work)), 50)]
    assert times == sorted(times, reverse=True)


def test_jobs_without_an_estimate_come_last_under_curves() -> None:
    made = scheduler({"kind": "curves"}, node("n", 2), offers="cycle", predictor=ORACLE)
    submit(made, job("unknown", stage(2)))
    submit(made, job("known", stage(1)), 10**7)
    assert jobs_of(made.handle(Tick(1))) == ["known", "unknown"]


def test_a_job_without_an_estimate_has_eight_executors_under_curves_before_the_next_one_has_any() -> None:
    made = scheduler({"kind": "curves"}, offers="event", predictor=ORACLE, executors=True)
    for name in ("first", "second"):
        submit(made, job(name, stage(100)))
    assert jobs_of(made.handle(NodeAdded(1, node("n", 12)))) == ["first"] * 8 + ["second"] * 4


# -- executors are held for what comes next -------------------------------------------------------


def two_executors(policy: dict[str, object], first: Job, second: Job, ms: tuple[int, ...]) -> Scheduler:
    """Both executors run the first job's first stage; the second job waits."""
    made = scheduler(policy, node("n", 2), offers="event", predictor=ORACLE, executors=True)
    submit(made, first, *ms)
    submit(made, second, 10_000)
    for container in (1, 2):
        made.handle(ContainerStarted(1, container))
    return made


CHAIN = job("a", stage(2), stage(2, parents=(0,)))
OTHER = job("b", stage(3))


def task_ended(made: Scheduler, at: int, container: int) -> list[object]:
    return list(
        made.handle(TaskEnded(at, container, job="a", stage=0, task=container - 1, attempt=0, runtime_ms=at - 1))
    )


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "fifo"},
        {"kind": "sjf_cp"},
        {"kind": "capped_sjf"},
        {"kind": "curves"},
        {"kind": "weighted_fair", "alpha": -5},
    ],
    ids=str,
)
def test_an_idle_executor_waits_for_the_next_stage_of_its_job(policy: dict[str, object]) -> None:
    made = two_executors(policy, CHAIN, OTHER, (10, 10))
    assert served(task_ended(made, 5, 1)) == []
    assert served(task_ended(made, 6, 2)) == [("a", 1), ("a", 1)]


@pytest.mark.parametrize("policy", [{"kind": "fifo"}, {"kind": "weighted_fair", "alpha": -5}], ids=str)
def test_an_executor_leaves_when_its_job_has_nothing_more_to_start(policy: dict[str, object]) -> None:
    made = two_executors(policy, job("a", stage(2)), OTHER, (10,))
    assert task_ended(made, 5, 1)[0] == Move(1, "b", 0, 0)


def test_sjf_cp_takes_executors_from_a_larger_job_between_its_stages() -> None:
    made = two_executors({"kind": "sjf_cp"}, CHAIN, job("c", stage(3)), (10**6, 10**6))
    assert task_ended(made, 5, 1)[0] == Move(1, "c", 0, 0)


def test_curves_takes_no_executor_between_stages_while_a_job_has_no_estimate() -> None:
    made = two_executors({"kind": "curves"}, CHAIN, job("c", stage(1)), (10**6, 10**6))
    submit(made, job("unknown", stage(1)), at=2)
    assert task_ended(made, 5, 1) == []


def test_curves_takes_no_more_executors_from_a_larger_job_between_its_stages_than_shorter_jobs_lack() -> None:
    made = two_executors({"kind": "curves"}, CHAIN, job("c", stage(1)), (10**6, 10**6))
    assert task_ended(made, 5, 1)[0] == Move(1, "c", 0, 0)
    assert served(task_ended(made, 6, 2)) == [("a", 1)]


LEARNED = {"kind": "curves", "learned": True}


def test_learned_curves_holds_no_idle_executor_for_a_job_above_its_number() -> None:
    made = two_executors(LEARNED, CHAIN, OTHER, (10, 10))
    assert task_ended(made, 5, 1)[0] == Move(1, "b", 0, 0)
    assert served(task_ended(made, 6, 2)) == [("a", 1)]


@pytest.mark.parametrize(("policy", "first"), [({"kind": "curves"}, "a"), (LEARNED, "b")], ids=str)
def test_learned_curves_leaves_the_last_tasks_of_a_stage_to_the_executors_at_work(
    policy: dict[str, object], first: str
) -> None:
    made = scheduler(policy, node("n", 1), offers="event", predictor=ORACLE, executors=True)
    submit(made, job("a", stage(6)), 60_000)
    submit(made, job("b", stage(6)), 90_000)
    assert jobs_of(made.handle(NodeAdded(2, node("m", 9))))[0] == first


def test_learned_curves_gives_a_lone_job_all_executors() -> None:
    made = scheduler(LEARNED, node("n", 1), offers="event", predictor=ORACLE, executors=True)
    submit(made, job("a", stage(6)), 60_000)
    assert jobs_of(made.handle(NodeAdded(2, node("m", 5)))) == ["a"] * 5


@pytest.mark.parametrize(("policy", "first"), [({"kind": "curves"}, "short"), (LEARNED, "picky")], ids=str)
def test_where_containers_end_learned_curves_prefers_tasks_that_few_nodes_take(
    policy: dict[str, object], first: str
) -> None:
    """Of four nodes one takes the picky job, so its 90 s count as 90 / 4^1.5 = 11 s, less than 60 s."""
    made = scheduler(policy, node("n", 1), offers="event", predictor=ORACLE)
    for name in ("o", "p"):
        made.handle(NodeAdded(0, node(name, 1)))
    submit(made, job("running", stage(3)), 10_000)
    submit(made, job("short"), 60_000)
    submit(made, job("picky", stage(1, (2000, 2048))), 90_000)
    assert jobs_of(made.handle(NodeAdded(2, node("large", 2))))[0] == first


def test_where_all_nodes_take_all_tasks_learned_curves_serves_the_shortest_job() -> None:
    made = scheduler(LEARNED, node("n", 1), offers="event", predictor=ORACLE)
    submit(made, job("long", stage(3)), 30_000)
    submit(made, job("short", stage(2)), 20_000)
    assert jobs_of(made.handle(NodeAdded(2, node("m", 1)))) == ["short"]

"""fifo, sjf, srpt, hrrn, fair: who goes first, who among equals, and where."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.compatible import needs_estimates
from schedulers.core.decisions import Move, Place, Run
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Estimated,
    JobSubmitted,
    NodeAdded,
    NodeLost,
    TaskEnded,
    Tick,
)
from schedulers.core.model import Node
from schedulers.core.scheduler import Scheduler


def served(decisions: Iterable) -> list[str]:
    return [d.job for d in decisions if isinstance(d, Place | Run | Move)]


def submit(made: Scheduler, *names: str, tasks: int = 1, at: int = 0, **fields: object) -> None:
    for name in names:
        made.handle(JobSubmitted(at, job(name, stage(tasks), **fields)))


def told(made: Scheduler, **sizes: tuple[int, int]) -> None:
    """Submit jobs in this order, each of (tasks, true mean run time of a task)."""
    for name, (tasks, ms) in sizes.items():
        made.handle(Estimated(0, name, (ms,)))
        made.handle(JobSubmitted(0, job(name, stage(tasks))))


ORACLE = {"kind": "oracle"}


# -- fifo -----------------------------------------------------------------------------------------


def test_fifo_serves_in_order_of_submission() -> None:
    made = scheduler("fifo", node("n", 2), offers="cycle")
    submit(made, "b", at=0)
    submit(made, "a", "c", at=1)
    assert served(made.handle(Tick(2))) == ["b", "a"]


def test_fifo_lets_later_jobs_use_what_the_first_cannot() -> None:
    made = scheduler("fifo", node("n", 2), offers="cycle")
    made.handle(JobSubmitted(0, job("wide", stage(demand=(5000, 1024)))))
    submit(made, "narrow")
    assert served(made.handle(Tick(1))) == ["narrow"]


def test_stages_of_a_job_go_by_index() -> None:
    made = scheduler("fifo", node("n", 2), offers="cycle")
    made.handle(JobSubmitted(0, job("a", stage(), stage(), stage())))
    assert [d.stage for d in made.handle(Tick(1)) if isinstance(d, Place)] == [0, 1]


# -- ties -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srpt", "hrrn", "fair"])
def test_tie_by_submission_is_the_default(policy: str) -> None:
    made = scheduler(policy, node("n", 3), offers="cycle")
    submit(made, "c", "a", "b")
    assert served(made.handle(Tick(1))) == ["c", "a", "b"]


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srpt", "hrrn", "fair"])
def test_tie_by_id(policy: str) -> None:
    made = scheduler({"kind": policy, "tie": "id"}, node("n", 3), offers="cycle")
    submit(made, "c", "a", "b")
    assert served(made.handle(Tick(1))) == ["a", "b", "c"]


def shuffled(seed: int) -> list[str]:
    made = scheduler({"kind": "fifo", "tie": "random"}, node("n", 9), offers="cycle", seed=seed)
    submit(made, *"abcdefghi")
    return served(made.handle(Tick(1)))


def test_random_ties_are_seeded() -> None:
    assert shuffled(1) == shuffled(1)
    assert shuffled(1) != shuffled(2)
    assert sorted(shuffled(1)) == list("abcdefghi")


# -- sjf, srpt ------------------------------------------------------------------------------------


def test_sjf_serves_the_least_total_work() -> None:
    made = scheduler("sjf", node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, long=(2, 900), wide=(9, 100), short=(3, 200))
    assert served(made.handle(Tick(1))) == ["short"]


# -- hrrn -----------------------------------------------------------------------------------------


#: Arrival and service of the textbook's five processes (Stallings, Operating Systems, table 9.4), in units of 100 ms.
PROCESSES = {"A": (0, 3), "B": (2, 6), "C": (4, 4), "D": (6, 5), "E": (8, 2)}


def finishes(policy: str) -> dict[str, int]:
    """When each of them is done on one machine that runs one at a time."""
    made = scheduler(policy, node("n", 1), offers="cycle", predictor=ORACLE)
    left, done, at = dict(PROCESSES), {}, 0

    def arrive() -> None:
        for name, (arrival, service) in PROCESSES.items():
            if name in left and arrival <= at:
                del left[name]
                made.handle(Estimated(100 * arrival, name, (100 * service,)))
                made.handle(JobSubmitted(100 * arrival, job(name)))

    arrive()
    while len(done) < len(PROCESSES):
        (started,) = (d for d in made.handle(Tick(100 * at)) if isinstance(d, Place))
        at += PROCESSES[started.job][1]
        arrive()
        made.handle(ContainerEnded(100 * at, started.container, 0, 100 * PROCESSES[started.job][1]))
        done[started.job] = at
    return done


@pytest.mark.parametrize(
    ("policy", "finish", "turnaround"),
    [("fifo", [3, 9, 13, 18, 20], 8.6), ("sjf", [3, 9, 15, 20, 11], 7.6), ("hrrn", [3, 9, 13, 20, 15], 8.0)],
)
def test_five_processes_on_one_machine(policy: str, finish: list[int], turnaround: float) -> None:
    found = finishes(policy)
    assert [found[name] for name in PROCESSES] == finish
    assert sum(found[name] - arrival for name, (arrival, _) in PROCESSES.items()) / 5 == turnaround


def test_hrrn_lets_a_long_job_pass_shorter_ones_that_came_later() -> None:
    made = scheduler("hrrn", node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, running=(1, 9000), long=(1, 8000))
    made.handle(Tick(0))
    made.handle(Estimated(8500, "short", (1000,)))
    made.handle(JobSubmitted(8500, job("short")))
    made.handle(ContainerEnded(9000, 1, 0, 9000))
    assert served(made.handle(Tick(9000))) == ["long"]  # 9000 / 8000 against 500 / 1000


def test_hrrn_serves_jobs_without_an_estimate_last() -> None:
    made = scheduler("hrrn", node("n", 1), offers="cycle", predictor=ORACLE)
    made.handle(JobSubmitted(0, job("unknown")))
    told(made, known=(1, 9000))
    assert served(made.handle(Tick(0))) == ["known"]


# -- sjf, srpt ------------------------------------------------------------------------------------


def test_sjf_does_not_count_what_is_done_already() -> None:
    made = scheduler("sjf", node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, big=(3, 100))
    made.handle(Tick(0))
    made.handle(ContainerEnded(100, 1, 0, 100))
    made.handle(Estimated(100, "small", (250,)))
    made.handle(JobSubmitted(100, job("small")))
    assert served(made.handle(Tick(101))) == ["small"]


def test_srpt_counts_only_what_is_left() -> None:
    made = scheduler("srpt", node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, big=(3, 100))
    made.handle(Tick(0))
    made.handle(ContainerEnded(100, 1, 0, 100))
    made.handle(Estimated(100, "small", (250,)))
    made.handle(JobSubmitted(100, job("small")))
    assert served(made.handle(Tick(101))) == ["big"]


@pytest.mark.parametrize("policy", ["sjf", "srpt"])
def test_jobs_without_an_estimate_come_last(policy: str) -> None:
    made = scheduler(policy, node("n", 1), offers="cycle", predictor=ORACLE)
    submit(made, "unknown")
    told(made, known=(9, 10**9))
    assert served(made.handle(Tick(1))) == ["known"]


# -- fair -----------------------------------------------------------------------------------------


def test_fair_alternates_between_equal_jobs() -> None:
    made = scheduler("fair", node("n", 4), offers="cycle")
    submit(made, "a", "b", tasks=4)
    assert served(made.handle(Tick(1))) == ["a", "b", "a", "b"]


def test_fair_gives_by_weight() -> None:
    made = scheduler("fair", node("n", 6), offers="cycle")
    submit(made, "a", tasks=9, weight=2.0)
    submit(made, "b", tasks=9)
    counts = served(made.handle(Tick(1)))
    assert (counts.count("a"), counts.count("b")) == (4, 2)


def test_fair_by_dominant_share_is_drf() -> None:
    # DRF (NSDI 2011), section 4.1: <9 CPUs, 18 GB>; A runs tasks of <1 CPU, 4 GB>, B of <3 CPUs, 1 GB>: 3 and 2 tasks.
    made = scheduler("fair", Node(id="n", capacity=(9000, 18 * 1024)), offers="cycle")
    made.handle(JobSubmitted(0, job("A", stage(9, (1000, 4096)))))
    made.handle(JobSubmitted(0, job("B", stage(9, (3000, 1024)))))
    counts = served(made.handle(Tick(1)))
    assert (counts.count("A"), counts.count("B")) == (3, 2)


def test_fair_by_slots_counts_containers() -> None:
    made = scheduler({"kind": "fair", "measure": "slots"}, Node(id="n", capacity=(8000, 90000)), offers="cycle")
    made.handle(JobSubmitted(0, job("large", stage(9, (3000, 10)))))
    made.handle(JobSubmitted(0, job("small", stage(9, (1000, 10)))))
    assert served(made.handle(Tick(1))) == ["large", "small", "large", "small"]


def shares_after(fact: object) -> list[str]:
    made = scheduler("fair", Node(id="n", capacity=(4000, 4096)), offers="cycle")
    made.handle(JobSubmitted(0, job("cpu", stage(9, (1000, 0)))))
    made.handle(JobSubmitted(0, job("memory", stage(9, (0, 1024)))))
    made.handle(Tick(0))
    made.handle(ContainerEnded(1, 1, 0, 1))
    made.handle(ContainerEnded(1, 2, 0, 1))
    made.handle(fact)
    return served(made.handle(Tick(3)))


def test_fair_weighs_anew_when_the_cluster_changes() -> None:
    # Three of 4 cores against three of 4 GiB; with 4 GiB more the job that holds memory is the poorer one.
    assert shares_after(NodeAdded(2, Node(id="m", capacity=(0, 4096))))[0] == "memory"
    assert shares_after(NodeAdded(2, Node(id="m", capacity=(4000, 0))))[0] == "cpu"


def test_fair_goes_on_when_a_node_is_lost() -> None:
    made = scheduler("fair", node("n", 2), node("m", 2), offers="cycle")
    submit(made, "a", "b", tasks=4)
    made.handle(Tick(0))
    made.handle(NodeLost(1, "n"))
    made.handle(NodeAdded(2, node("n", 2)))
    assert sorted(served(made.handle(Tick(3)))) == ["a", "b"]


def test_fair_keeps_an_executor_with_its_job_within_its_part() -> None:
    made = scheduler("fair", node("n", 2), offers="event", executors=True)
    made.handle(JobSubmitted(0, job("a", stage(1), stage(2, parents=(0,)))))
    submit(made, "b", tasks=3)
    for container in (1, 2):
        made.handle(ContainerStarted(1, container))
    decided = made.handle(TaskEnded(5, 1, job="a", stage=0, task=0, attempt=0, runtime_ms=4))
    assert decided[0] == Run(1, "a", 1, 0)


def test_fair_lets_an_executor_go_beyond_its_jobs_part() -> None:
    made = scheduler("fair", node("n", 2), offers="event", executors=True)
    made.handle(JobSubmitted(0, job("a", stage(2), stage(2, parents=(0,)))))
    submit(made, "b", tasks=3)
    for container in (1, 2):
        made.handle(ContainerStarted(1, container))
    first = made.handle(TaskEnded(5, 1, job="a", stage=0, task=0, attempt=0, runtime_ms=4))
    second = made.handle(TaskEnded(6, 2, job="a", stage=0, task=1, attempt=0, runtime_ms=5))
    assert served(first) == ["b"]
    assert served(second) == ["a"]


# -- placers --------------------------------------------------------------------------------------


def where(placement: dict, demand: tuple[int, int] = (1000, 1024), seed: int = 0) -> str:
    nodes = (node("large", 4), node("tight", 1), node("middle", 2))
    made = scheduler("fifo", *nodes, placement=placement, seed=seed)
    decided = made.handle(JobSubmitted(0, job("a", stage(demand=demand))))
    return next(d.node for d in decided if isinstance(d, Place))


def test_first_fit_takes_the_node_that_joined_first() -> None:
    assert where({"kind": "first_fit"}) == "large"


def test_best_fit_leaves_the_least_over() -> None:
    assert where({"kind": "best_fit"}) == "tight"


def test_worst_fit_leaves_the_most_over() -> None:
    assert where({"kind": "worst_fit"}) == "large"


def test_a_placer_chooses_only_among_nodes_that_fit() -> None:
    assert where({"kind": "best_fit"}, demand=(1500, 1024)) == "middle"


@pytest.mark.parametrize("kind", ["best_fit", "worst_fit"])
def test_equal_nodes_by_order_of_joining(kind: str) -> None:
    made = scheduler("fifo", node("b"), node("a"), placement={"kind": kind})
    assert made.handle(JobSubmitted(0, job("j"))) == [Place(1, "b", "j", 0, 0)]


def equal_nodes(seed: int) -> list[str]:
    nodes = [node(f"n{i}") for i in range(8)]
    made = scheduler("fifo", *nodes, placement={"kind": "best_fit", "tie": "random"}, seed=seed)
    return [d.node for d in made.handle(JobSubmitted(0, job("a", stage(8)))) if isinstance(d, Place)]


def test_equal_nodes_in_a_seeded_random_order() -> None:
    assert equal_nodes(1) == equal_nodes(1)
    assert equal_nodes(1) != equal_nodes(2)
    assert sorted(equal_nodes(1)) == [f"n{i}" for i in range(8)]


def test_keeping_an_executor_does_not_open_a_new_one_for_its_job() -> None:
    # a holds an idle executor of half a core and its next stage wants whole ones: b, which holds nothing, goes first.
    made = scheduler("fair", Node(id="n", capacity=(2500, 2560)), offers="cycle", executors=True)
    made.handle(JobSubmitted(0, job("a", stage(2, (500, 512)), stage(2, parents=(0,)))))
    made.handle(Tick(0))
    for container in (1, 2):
        made.handle(ContainerStarted(1, container))
    for container in (1, 2):
        made.handle(TaskEnded(2, container, job="a", stage=0, task=container - 1, attempt=0, runtime_ms=1))
    made.handle(JobSubmitted(2, job("b", stage(2), stage(1, (500, 512)))))
    assert served(made.handle(Tick(3)))[0] == "b"


# -- which of them make no sense without estimates --------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({"kind": "fifo"}, False),
        ({"kind": "sjf"}, True),
        ({"kind": "bounded", "policy": {"kind": "sjf"}}, True),
        ({"kind": "bounded", "policy": {"kind": "fifo"}}, False),
        ({"kind": "weighted_fair"}, True),
        ({"kind": "weighted_fair", "alpha": 0}, False),
        ({"kind": "bounded", "policy": {"kind": "fifoo"}}, False),  # what is wrong with it is said elsewhere
    ],
    ids=str,
)
def test_a_policy_that_orders_by_estimates_needs_them(settings: dict[str, object], needs: bool) -> None:
    assert needs_estimates(settings) == needs

"""rank_up, rank_down: how far stages are from the end and the beginning of their jobs, by time and transfers."""

from __future__ import annotations

from itertools import permutations

import pytest

from rm_emulator.testing import job, node, scheduler
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, Estimated, JobSubmitted, LinksSet, NodeAdded, Tick
from schedulers.core.model import Edge, Job, Links, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import NodeState
from schedulers.kit.ranked import Ranked, mean_rate

ORACLE = {"kind": "oracle"}
#: `hetero_speed8` of the known answers: sizes, edges, speeds of the nodes, and the ranks by LACHESIS's means.
SIZES = [24, 36, 48, 24, 60, 36, 48, 24]
EDGES = [
    *[(0, 1, 10), (0, 2, 14), (0, 3, 8), (1, 4, 12), (2, 4, 16), (2, 5, 6), (3, 5, 18), (3, 6, 10)],
    *[(4, 7, 20), (5, 7, 8), (6, 7, 14)],
]
RANK_UP = [112.4, 80.0, 88.8, 62.4, 53.6, 32.0, 42.8, 9.6]
RANK_DOWN = [0.0, 19.6, 23.6, 17.6, 58.8, 48.8, 37.2, 102.8]


def dag(name: str, edges: list[tuple[int, int, int]], stages: int, tasks: int = 1) -> Job:
    def parents(child: int) -> tuple[Edge, ...]:
        return tuple(Edge(parent=one, data=data) for one, other, data in edges if other == child)

    made = (Stage(name=f"s{i}", tasks=tasks, demand=(1000, 1024), parents=parents(i)) for i in range(stages))
    return job(name, *made)


def hetero(policy: str, *, links: bool = True, tasks: int = 1) -> Scheduler:
    made = scheduler(policy, *(node(f"n{i}", speed=float(1 + i)) for i in range(4)), offers="cycle", predictor=ORACLE)
    if links:
        made.handle(LinksSet(0, Links(rate=1000)))  # a byte per ms
    made.handle(Estimated(0, "j", tuple(SIZES)))
    made.handle(JobSubmitted(0, dag("j", EDGES, 8, tasks)))
    return made


def ranks(made: Scheduler, name: str = "j") -> list[float]:
    live = made.state.jobs[name]
    assert isinstance(made.policy, Ranked)
    return [-made.policy.key_among(live, [stage], made.view)[0] for stage in live.stages]


@pytest.mark.parametrize(("policy", "expected"), [("rank_up", RANK_UP), ("rank_down", RANK_DOWN)])
def test_ranks_are_by_the_mean_speed_and_the_mean_rate(policy: str, expected: list[float]) -> None:
    assert ranks(hetero(policy)) == pytest.approx(expected)


def test_without_links_data_takes_no_time() -> None:
    assert ranks(hetero("rank_up", links=False)) == pytest.approx([62.4, 48.0, 52.8, 38.4, 33.6, 24.0, 28.8, 9.6])


def test_a_rank_is_one_of_a_task_and_of_what_one_task_hands_to_another() -> None:
    one, ten = ranks(hetero("rank_up")), ranks(hetero("rank_up", tasks=10))
    assert ten[7] == one[7]
    assert ten[4] == pytest.approx(60 / 2.5 + 20 / 100 + 24 / 2.5)


def test_times_by_node_count_with_their_harmonic_mean() -> None:
    made = scheduler("rank_up", node("a"), node("b"), offers="cycle", predictor=ORACLE)
    made.handle(Estimated(0, "j", (40,), {"a": (30,), "b": (60,)}))
    made.handle(JobSubmitted(0, job("j")))
    assert ranks(made) == [40.0]


def test_a_node_that_comes_changes_all_ranks() -> None:
    made = hetero("rank_up", links=False)
    made.handle(NodeAdded(1, node("n9", speed=15.0)))
    assert ranks(made)[7] == 24 / 5


def served(made: Scheduler, at: int) -> list[tuple[str, int]]:
    return [(d.job, d.stage) for d in made.handle(Tick(at)) if isinstance(d, Place)]


def two_chains(policy: str) -> Scheduler:
    """Jobs a (100, then 300 ms) and b (400, then 100 ms) on one node."""
    made = scheduler(policy, node("n"), offers="cycle", predictor=ORACLE)
    for name, times in (("a", (100, 300)), ("b", (400, 100))):
        made.handle(Estimated(0, name, times))
        made.handle(JobSubmitted(0, dag(name, [(0, 1, 0)], 2)))
    return made


def run(made: Scheduler, times: dict[tuple[str, int], int]) -> list[tuple[str, int]]:
    """Which stages are served one after another."""
    order, at = [], 0
    while made.state.jobs:
        (one,) = served(made, at)
        order.append(one)
        at += times[one]
        made.handle(ContainerEnded(at, len(order), 0, times[one]))
    return order


TIMES = {("a", 0): 100, ("a", 1): 300, ("b", 0): 400, ("b", 1): 100}


def test_rank_up_goes_to_the_job_that_is_furthest_from_its_end() -> None:
    assert run(two_chains("rank_up"), TIMES) == [("b", 0), ("a", 0), ("a", 1), ("b", 1)]


def test_rank_down_goes_on_with_what_has_come_furthest() -> None:
    assert run(two_chains("rank_down"), TIMES) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_stages_of_a_job_go_by_rank() -> None:
    made = scheduler("rank_up", node("n"), offers="cycle", predictor=ORACLE)
    made.handle(Estimated(0, "j", (100, 100, 900)))
    made.handle(JobSubmitted(0, dag("j", [(1, 2, 0)], 3)))
    assert served(made, 0) == [("j", 1)]


@pytest.mark.parametrize("policy", ["rank_up", "rank_down"])
def test_equal_ranks_go_by_submission(policy: str) -> None:
    made = scheduler(policy, node("n", 3), offers="cycle", predictor=ORACLE)
    for name in "cab":
        made.handle(Estimated(0, name, (100,)))
        made.handle(JobSubmitted(0, job(name)))
    assert served(made, 0) == [("c", 0), ("a", 0), ("b", 0)]


@pytest.mark.parametrize(
    "links",
    [
        Links(rate=100),
        Links(rate=None, in_rack=50),
        Links(rate=100, in_rack=700),
        Links(rate=100, in_rack=700, pairs={"n0": {"n1": 10, "n4": 20, "gone": 1}, "n3": {"n2": 5}}),
        Links(rate=None, pairs={"n4": {"n0": 3}}),
        Links(),
    ],
)
def test_the_mean_rate_is_over_all_pairs_of_nodes_that_need_time(links: Links) -> None:
    racks = ["a", "a", "b", "b", "", ""]
    nodes = [NodeState(node(f"n{i}", rack=rack), i, [0, 0]) for i, rack in enumerate(racks)]
    rates = []
    for one, other in permutations(nodes, 2):
        in_rack = bool(one.spec.rack) and one.spec.rack == other.spec.rack
        rates.append(links.between(one.id, other.id, in_rack=in_rack))
    timed = [rate for rate in rates if rate is not None]
    assert mean_rate(links, nodes) == (pytest.approx(sum(timed) / len(timed)) if timed else None)

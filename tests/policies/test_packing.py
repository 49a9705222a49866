"""The dot placer and tetris: scores worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Place
from schedulers.core.events import Estimated, Heartbeat, JobSubmitted, NodeAdded, NodeLost, Tick
from schedulers.core.model import Node, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.core.vectors import alignment

ORACLE = {"kind": "oracle"}
PACKING = {"kind": "tetris", "m": 0}


def started(decisions: Iterable[object]) -> list[tuple[str, str]]:
    """(job, node) of what starts."""
    return [(d.job, d.node) for d in decisions if isinstance(d, Place)]


# -- alignment ------------------------------------------------------------------------------------


def test_alignment_is_the_dot_product_of_fractions() -> None:
    # Demand (1/2, 1/4) of the capacity, all of one and half of the other free: 1/2 + 1/8.
    assert alignment((2, 2), (4, 4), (4, 8)) == pytest.approx(0.625)


def test_alignment_passes_over_what_there_is_none_of() -> None:
    assert alignment((2, 0), (4, 0), (4, 0)) == pytest.approx(0.5)


# -- the placer -----------------------------------------------------------------------------------

#: One with much CPU, one with much memory.
LEFT, RIGHT = Node(id="left", capacity=(8000, 2048)), Node(id="right", capacity=(2000, 8192))


def where(demand: tuple[int, int], *nodes: Node, **placement: object) -> str:
    made = scheduler("fifo", *nodes, placement={"kind": "dot", **placement})
    return started(made.handle(JobSubmitted(0, job("a", stage(demand=demand)))))[0][1]


def test_dot_takes_fractions_of_each_node_itself() -> None:
    # (1000, 256) is (1/8, 1/8) of left, sum 1/4, and (1/2, 1/32) of right, sum 17/32; (500, 1024) the other way round.
    assert where((1000, 256), LEFT, RIGHT) == "right"
    assert where((500, 1024), LEFT, RIGHT) == "left"


def test_dot_follows_what_is_free() -> None:
    # Two equal nodes; three of four cores are taken on the one that joined first.
    made = scheduler("fifo", node("m", 4), node("n", 4), placement={"kind": "dot"})
    made.handle(JobSubmitted(0, job("cores", stage(demand=(3000, 0)))))
    assert started(made.handle(JobSubmitted(1, job("a", stage(demand=(1000, 0)))))) == [("a", "n")]


def test_equal_nodes_by_order_of_joining() -> None:
    assert where((1000, 1024), node("b"), node("a")) == "b"


def equal_nodes(seed: int) -> list[str]:
    nodes = [node(f"n{i}") for i in range(8)]
    made = scheduler("fifo", *nodes, placement={"kind": "dot", "tie": "random"}, seed=seed)
    return [there for _, there in started(made.handle(JobSubmitted(0, job("a", stage(8)))))]


def test_equal_nodes_in_a_seeded_random_order() -> None:
    assert equal_nodes(1) == equal_nodes(1)
    assert equal_nodes(1) != equal_nodes(2)
    assert sorted(equal_nodes(1)) == [f"n{i}" for i in range(8)]


# -- tetris ---------------------------------------------------------------------------------------


def submit(made: Scheduler, name: str, spec: Stage, ms: int | None = None) -> None:
    if ms is not None:
        made.handle(Estimated(0, name, (ms,)))
    made.handle(JobSubmitted(0, job(name, spec)))


def test_tetris_takes_the_task_that_goes_best_with_what_is_free() -> None:
    # Free (1, 1): fits .25, 1.5, .75. After the middle one (.25, .25) is left: only the first fits.
    made = scheduler(PACKING, node("n", 8), offers="cycle")
    submit(made, "small", stage(demand=(1000, 1024)))
    submit(made, "large", stage(demand=(6000, 6144)))
    submit(made, "middle", stage(demand=(3000, 3072)))
    assert [name for name, _ in started(made.handle(Tick(1)))] == ["large", "small"]


def test_tetris_takes_the_best_of_all_nodes() -> None:
    # (1/4, 1/8) of n and (1/8, 1/4) of wide: .375 on both, then .297 on the one that has the first task, and so on.
    made = scheduler(PACKING, node("n", 4), Node(id="wide", capacity=(8000, 2048)), offers="cycle")
    submit(made, "a", stage(3, demand=(1000, 512)))
    assert [there for _, there in started(made.handle(Tick(1)))] == ["n", "wide", "n"]


def test_tetris_scores_anew_after_each_task() -> None:
    # Node of 8 cores and 8 GiB. "cores" takes (4, 1): .625; "memory" (1, 3): .5; both fit, then (3, 4) is left:
    # "cores" does not fit, "memory" again.
    made = scheduler(PACKING, node("n", 8), offers="cycle")
    submit(made, "memory", stage(9, demand=(1000, 3072)))
    submit(made, "cores", stage(9, demand=(4000, 1024)))
    assert [name for name, _ in started(made.handle(Tick(1)))] == ["cores", "memory", "memory"]


def reads(*hosts: tuple[str, ...]) -> Stage:
    return msgspec.structs.replace(stage(len(hosts)), hosts=hosts)


def test_tetris_penalises_a_task_away_from_its_input() -> None:
    # Fits on n are equal, times .8 for the job whose input is on m.
    made = scheduler(PACKING, node("n"), node("m", 1), offers="heartbeat")
    submit(made, "far", reads(("m",)))
    submit(made, "free", stage())
    assert started(made.handle(Heartbeat(1, "n"))) == [("free", "n")]
    assert started(made.handle(Heartbeat(1, "m"))) == [("far", "m")]


def test_tetris_starts_the_task_that_has_input_on_the_node() -> None:
    made = scheduler(PACKING, node("n"), node("m"), offers="heartbeat")
    submit(made, "a", reads(("m",), ("n",)))
    placed = made.handle(Heartbeat(1, "n"))
    assert [d.task for d in placed if isinstance(d, Place)] == [1]


def test_tetris_places_away_from_the_input_when_nothing_else_fits() -> None:
    made = scheduler(PACKING, node("n"), node("m"), offers="heartbeat")
    submit(made, "a", reads(("m",)))
    assert started(made.handle(Heartbeat(1, "n"))) == [("a", "n")]


def test_input_on_a_lost_node_is_no_input() -> None:
    made = scheduler(PACKING, node("n"), node("m"), offers="heartbeat")
    made.handle(Heartbeat(0, "n"))
    submit(made, "a", reads(("m",)))
    submit(made, "b", stage())
    made.handle(NodeLost(1, "m"))
    assert started(made.handle(Heartbeat(2, "n"))) == [("a", "n")]
    made.handle(NodeAdded(3, node("m")))
    assert started(made.handle(Heartbeat(4, "m"))) == [("b", "m")]


def test_tetris_weighs_packing_against_what_is_left_of_the_job() -> None:
    # Node of 4: fits of long (2, 2) and short (1, 1): 1 and .5. Work left in ms x fractions: long 1000 x 1, short
    # 100 x .5 = 50. Means: .75 and 525; with m 1 the scores are 1 - 1000 x .75/525 = -.43 and .5 - .07 = .43.
    for m, first in ((1.0, "short"), (0.25, "long")):  # m .25: 1 - .36 = .64 against .48
        made = scheduler({"kind": "tetris", "m": m}, node("n", 4), offers="heartbeat", predictor=ORACLE)
        submit(made, "long", stage(demand=(2000, 2048)), 1000)
        submit(made, "short", stage(demand=(1000, 1024)), 100)
        assert started(made.handle(Heartbeat(1, "n")))[0][0] == first


def test_a_job_without_an_estimate_counts_as_the_largest() -> None:
    made = scheduler("tetris", node("n"), offers="heartbeat", predictor=ORACLE)
    submit(made, "unknown", stage())
    submit(made, "large", stage(), 10**6)
    submit(made, "small", stage(), 10)
    assert started(made.handle(Heartbeat(1, "n"))) == [("small", "n")]


def test_without_any_estimate_tetris_packs() -> None:
    made = scheduler("tetris", node("n", 4), offers="cycle")
    submit(made, "small", stage(demand=(1000, 1024)))
    submit(made, "large", stage(demand=(4000, 4096)))
    assert [name for name, _ in started(made.handle(Tick(1)))] == ["large"]


def test_a_gang_without_room_holds_up_nobody() -> None:
    made = scheduler(PACKING, node("n", 4), offers="cycle")
    gang = msgspec.structs.replace(stage(3, demand=(2000, 2048)), gang=True)
    submit(made, "gang", gang)
    submit(made, "a", stage(9))
    assert [name for name, _ in started(made.handle(Tick(1)))] == ["a"] * 4

"""Nodes are kept for what cannot start piecemeal; others run there as long as they are not in its way."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, node, scheduler
from schedulers.core.checks import validate
from schedulers.core.decisions import Decision, Place, Reserve
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import (
    ContainerEnded,
    ContainerObserved,
    Estimated,
    JobCancelled,
    JobSubmitted,
    NodeLost,
    Tick,
)
from schedulers.core.model import Stage
from schedulers.core.reasons import Reason
from schedulers.core.reservations import DEPTH
from schedulers.core.scheduler import Scheduler

AFTER = 30_000
CORES = (1000, 1024)


def cluster(*cores: int, policy: str = "fifo") -> Scheduler:
    nodes = [node(f"n{number}", each) for number, each in enumerate(cores)]
    return scheduler(policy, *nodes, predictor={"kind": "oracle"}, offers="cycle", reserve_after=AFTER)


def submit(
    made: Scheduler, at: int, name: str, cores: int, tasks: int = 1, ms: int | None = None, gang: bool = False
) -> None:
    demand = (cores * CORES[0], cores * CORES[1])
    if ms is not None:
        made.handle(Estimated(at, name, (ms,)))
    made.handle(JobSubmitted(at, job(name, Stage(name="s", tasks=tasks, demand=demand, gang=gang))))


def reserved(decisions: list[Decision]) -> list[Reserve]:
    return [decision for decision in decisions if isinstance(decision, Reserve)]


def placed(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [(decision.job, decision.node) for decision in decisions if isinstance(decision, Place)]


def end(made: Scheduler, at: int, name: str) -> None:
    """The first container of the job ends."""
    number = next(c.id for c in made.state.containers.values() if c.job == name)
    made.handle(ContainerEnded(at, number, runtime_ms=1))


def with_large(*cores: int) -> Scheduler:
    """Three cores of each node are taken, of each for longer than of the one before; then a task of four comes."""
    made = cluster(*cores)
    for number in range(len(cores)):
        submit(made, 0, f"first{number}", 3, ms=50_000 + 10_000 * number)
    made.handle(Tick(0))
    submit(made, 1, "large", 4, ms=1000)
    return made


def test_a_large_task_is_given_the_node_that_is_free_first() -> None:
    made = with_large(4, 4)
    assert reserved(made.handle(Tick(AFTER))) == [], "it has not waited long enough"
    submit(made, AFTER + 1, "small", 1)
    decisions = made.handle(Tick(AFTER + 1))
    assert reserved(decisions) == [Reserve("large", 0, (("n0", 1),), 50_000)]
    assert placed(decisions) == [("small", "n1")]
    validate(made.state)


def test_among_tasks_of_one_size_nothing_is_reserved() -> None:
    """Whoever is first gets what frees: nobody can take it away in pieces."""
    made = cluster(4, 4)
    submit(made, 0, "first", 2, tasks=4, ms=50_000)
    made.handle(Tick(0))
    for number in range(4):
        submit(made, 1, f"next{number}", 2, tasks=2, ms=1000)
    assert reserved(made.handle(Tick(2 * AFTER))) == []
    end(made, 2 * AFTER + 1, "first")
    decisions = made.handle(Tick(2 * AFTER + 1))
    assert (reserved(decisions), placed(decisions)) == ([], [("next0", "n0")])


def crowd(made: Scheduler, at: int, count: int) -> None:
    """Jobs of one task of three cores each, where nodes have less free."""
    for number in range(count):
        submit(made, at, f"three{number}", 3, ms=1000)


def test_of_one_size_only_the_first_few_have_reservations() -> None:
    made = cluster(*[4] * (DEPTH + 2))
    submit(made, 0, "first", 3, tasks=DEPTH + 2, ms=50_000)
    made.handle(Tick(0))
    crowd(made, 1, DEPTH + 2)
    submit(made, 2, "small", 1)
    kept = reserved(made.handle(Tick(AFTER + 1)))
    assert [each.job for each in kept] == [f"three{number}" for number in range(DEPTH)]
    validate(made.state)


def test_where_others_of_its_size_have_started_a_task_waits_for_its_turn() -> None:
    made = cluster(4, 4)
    submit(made, 0, "first", 4, ms=50_000)
    submit(made, 0, "second", 2, ms=50_000)
    made.handle(Tick(0))
    crowd(made, 1, 3)
    end(made, 20_000, "first")
    assert placed(made.handle(Tick(20_000))) == [("three0", "n0")]
    assert made.next_change() == 20_000 + AFTER
    submit(made, AFTER + 1, "small", 2, tasks=2, ms=50_000)
    assert reserved(made.handle(Tick(AFTER + 1))) == []
    submit(made, 20_000 + AFTER, "smaller", 1)
    assert [each.job for each in reserved(made.handle(Tick(20_000 + AFTER)))] == ["three1", "three2"]


def test_time_alone_makes_a_stage_due_and_the_scheduler_says_when() -> None:
    made = with_large(4)
    assert made.next_change() == AFTER + 1
    made.handle(Tick(AFTER + 1))
    assert made.next_change() is None


def test_others_do_not_start_on_a_reserved_node_without_an_estimate() -> None:
    made = with_large(4)
    submit(made, AFTER + 1, "small", 1)
    decisions = made.handle(Tick(AFTER + 1))
    assert placed(decisions) == []
    assert made.state.jobs["small"].hold is Reason.RESERVED
    assert made.state.jobs["large"].hold is Reason.HAS_RESERVATION


def test_what_ends_before_the_reserved_start_backfills() -> None:
    made = with_large(4)
    submit(made, AFTER + 1, "long", 1, ms=20_000)
    submit(made, AFTER + 1, "short", 1, ms=19_000)
    assert placed(made.handle(Tick(AFTER + 1))) == [("short", "n0")]


def test_what_fits_beside_the_reserved_task_starts() -> None:
    made = cluster(4, 5)
    submit(made, 0, "first", 4, ms=50_000)
    made.handle(Tick(0))
    submit(made, 1, "gang", 4, tasks=2, gang=True)
    submit(made, AFTER + 1, "fills", 2)
    submit(made, AFTER + 1, "beside", 1)
    assert placed(made.handle(Tick(AFTER + 1))) == [("beside", "n1")]


def test_the_reserved_start_is_not_put_off_when_tasks_take_longer() -> None:
    made = with_large(4)
    submit(made, AFTER + 1, "small", 1)
    made.handle(Tick(AFTER + 1))
    submit(made, 60_000, "short", 1, ms=1)
    assert placed(made.handle(Tick(60_000))) == [], "50 s has gone by, so nothing more goes before it"
    end(made, 61_000, "first0")
    assert placed(made.handle(Tick(61_000))) == [("large", "n0")]
    assert made.state.reservations is not None
    assert made.state.reservations.by_stage == {}


def test_a_gang_is_given_a_set_of_nodes() -> None:
    made = cluster(4, 4, 4)
    for number in range(3):
        submit(made, 0, f"first{number}", 3, ms=50_000 + 10_000 * number)
    made.handle(Tick(0))
    submit(made, 1, "gang", 4, tasks=2, gang=True)
    submit(made, AFTER + 1, "small", 1)
    decisions = made.handle(Tick(AFTER + 1))
    assert reserved(decisions) == [Reserve("gang", 0, (("n0", 1), ("n1", 1)), 60_000)]
    assert placed(decisions) == [("small", "n2")]


def test_room_elsewhere_that_comes_earlier_is_used() -> None:
    made = with_large(4, 4)
    submit(made, AFTER + 1, "small", 1)
    made.handle(Tick(AFTER + 1))
    end(made, AFTER + 2, "first1")
    end(made, AFTER + 2, "small")
    assert placed(made.handle(Tick(AFTER + 2))) == [("large", "n1")]


@pytest.mark.parametrize(
    "fact",
    [
        NodeLost(AFTER + 2, "n0"),
        JobCancelled(AFTER + 2, "large"),
        ContainerObserved(AFTER + 2, "n0", "daemon", (1000, 0)),
    ],
    ids=["its node is lost", "its job is gone", "others hold its node"],
)
def test_a_reservation_ends_by_facts(fact: object) -> None:
    made = with_large(4, 4)
    submit(made, AFTER + 1, "small", 1)
    made.handle(Tick(AFTER + 1))
    assert made.state.reservations is not None
    assert "n0" in made.state.reservations.by_node
    made.handle(fact)
    assert made.state.reservations.by_stage == {}
    validate(made.state)


def test_a_lost_node_is_made_good_by_another_on_the_next_occasion() -> None:
    made = with_large(4, 4)
    submit(made, AFTER + 1, "small", 1)
    made.handle(Tick(AFTER + 1))
    made.handle(NodeLost(AFTER + 2, "n0"))
    submit(made, AFTER + 2, "more", 1)
    end(made, AFTER + 2, "small")
    assert [each.nodes for each in reserved(made.handle(Tick(AFTER + 2)))] == [(("n1", 1),)]


def test_who_comes_later_in_the_order_gets_no_reservation() -> None:
    made = cluster(4, policy="sjf")
    submit(made, 0, "first", 3, ms=50_000)
    made.handle(Tick(0))
    submit(made, 1, "large", 4, ms=1_000_000)
    submit(made, AFTER + 1, "small", 1, ms=1000)
    decisions = made.handle(Tick(AFTER + 1))
    assert placed(decisions) == [("small", "n0")]
    assert reserved(decisions) == []


def test_a_snapshot_knows_who_waits_since_when_and_what_is_reserved() -> None:
    made = with_large(4)
    submit(made, AFTER + 1, "small", 1)
    made.handle(Tick(AFTER + 1))
    restored = Scheduler.restore(made.snapshot())
    assert made.state.reservations is not None
    assert restored.state.reservations is not None
    assert restored.state.reservations.dump() == made.state.reservations.dump()
    validate(restored.state)


@pytest.mark.parametrize("policy", ["capacity", "fair_yarn"])
def test_yarns_policies_keep_their_own_reservations(policy: str) -> None:
    with pytest.raises(InvalidParameters, match="makes reservations itself"):
        scheduler(policy, reserve_after=AFTER)


def test_executors_that_outlive_tasks_are_refused() -> None:
    with pytest.raises(InvalidParameters, match="outlive tasks"):
        scheduler("fifo", executors=True, reserve_after=AFTER)


def test_where_nobody_knows_how_long_something_takes_nothing_else_starts() -> None:
    """It may be over long before the minute that is guessed, and a task that is known to take less would be late."""
    made = cluster(4)
    submit(made, 0, "first", 3)
    made.handle(Tick(0))
    submit(made, 1, "large", 4, ms=1000)
    submit(made, AFTER + 1, "small", 1, ms=20_000)
    decisions = made.handle(Tick(AFTER + 1))
    assert reserved(decisions) == [Reserve("large", 0, (("n0", 1),), 2 * AFTER + 1 + AFTER, guessed=True)]
    assert placed(decisions) == []

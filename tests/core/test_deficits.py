"""Deficit counters: known answers, a constant sum, and how unfair it can get."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Place
from schedulers.core.errors import UnknownName
from schedulers.core.events import ContainerEnded, JobSubmitted, QueueChanged, Tick
from schedulers.core.model import Queue
from schedulers.core.queues import QueueTree
from schedulers.core.scheduler import Scheduler
from schedulers.kit.deficits import Deficits, fair_shares

HALVES = {"A": 0.5, "B": 0.5}
SHARES = st.lists(st.floats(0.1, 10), min_size=1, max_size=8).map(
    lambda weights: {f"g{i}": weight / sum(weights) for i, weight in enumerate(weights)}
)


def charged(*groups: str) -> Deficits:
    deficits = Deficits()
    for group in groups:
        deficits.charge(group, 1.0, HALVES)
    return deficits


# -- counters -------------------------------------------------------------------------------------


def test_after_two_tasks_of_a_the_third_must_be_of_b() -> None:
    # C = 4 slots, kappa = 0.25: the bound is 1.
    assert not charged("A").owed(HALVES, 1.0)
    deficits = charged("A", "A")
    assert (deficits["A"], deficits["B"]) == (-1.0, 1.0)
    assert deficits.owed(HALVES, 1.0) == ["B"]


def test_three_tasks_of_a_would_go_beyond_the_bound() -> None:
    deficits = charged("A", "A", "A")
    assert (deficits["A"], deficits["B"]) == (-1.5, 1.5)


def test_who_is_owed_most_comes_first_and_equal_ones_by_name() -> None:
    deficits = Deficits()
    deficits.charge("d", 1.0, {"a": 0.2, "b": 0.3, "c": 0.3, "d": 0.2})
    assert deficits.owed(("d", "c", "b", "a"), 0.2) == ["b", "c", "a"]


def test_who_wants_nothing_is_not_owed_anything_now() -> None:
    assert charged("A", "A").owed(("A",), 0.5) == []


@given(SHARES, st.lists(st.tuples(st.integers(0, 7), st.floats(0.01, 3)), max_size=60))
def test_the_sum_stays_0(shares: dict[str, float], tasks: list[tuple[int, float]]) -> None:
    deficits = Deficits()
    for pick, factor in tasks:
        deficits.charge(f"g{pick % len(shares)}", factor, shares)
    assert deficits.sum() == pytest.approx(0, abs=1e-9)
    deficits.keep(list(shares)[::2])
    assert deficits.sum() == pytest.approx(0, abs=1e-9)


@given(SHARES, st.lists(st.integers(0, 7), max_size=120), st.floats(0, 5))
def test_no_group_is_owed_much_more_than_the_bound(shares: dict[str, float], wishes: list[int], bound: float) -> None:
    """Among n groups, serving the one owed most keeps what is above the bound within H(n) + 1 tasks.

    It is a game of filling and emptying cups; the deficits above the bound are the water.
    """
    deficits, most = Deficits(), bound + 1 + sum(1 / n for n in range(1, len(shares) + 1))
    for wish in wishes:
        owed = deficits.owed(shares, bound)
        deficits.charge(owed[0] if owed else f"g{wish % len(shares)}", 1.0, shares)
        assert max(deficits[group] for group in shares) <= most


@given(SHARES, st.integers(1, 200))
def test_kappa_0_gives_everybody_its_share(shares: dict[str, float], tasks: int) -> None:
    deficits, given_to = Deficits(), dict.fromkeys(shares, 0)
    for _ in range(tasks):
        group = deficits.owed(shares, 0.0)[0]
        given_to[group] += 1
        deficits.charge(group, 1.0, shares)
    apart = 1 + sum(1 / n for n in range(1, len(shares) + 1))
    assert all(share * tasks - given_to[group] <= apart for group, share in shares.items())


def test_a_group_alone_is_owed_nothing() -> None:
    deficits = Deficits()
    for _ in range(9):
        deficits.charge("A", 1.0, {"A": 1.0})
    assert deficits["A"] == 0
    assert deficits.owed(("A",), 0.25) == []


def test_what_a_group_that_is_gone_was_owed_goes_to_the_others() -> None:
    deficits = charged("A", "A")
    deficits.keep(("A",))
    assert (deficits["A"], deficits["B"]) == (0.0, 0.0)


def test_counters_survive_being_written_down() -> None:
    deficits, again = charged("A", "B", "A"), Deficits()
    again.load(msgspec.json.decode(msgspec.json.encode(deficits.dump())))
    assert again.dump() == deficits.dump()


# -- fair shares ----------------------------------------------------------------------------------


def tree(*queues: Queue) -> QueueTree:
    made = QueueTree(2)
    for queue in queues:
        made.put(queue)
    return made


PAPER = tree(
    Queue(name="n1"),
    Queue(name="n2"),
    Queue(name="n21", parent="n2"),
    Queue(name="n22", parent="n2", weight=2.0),
    Queue(name="n23", parent="n2", weight=2.0),
)


def test_shares_follow_the_weights_down_the_tree() -> None:
    # H-DRF's example: of 480 slots 240 / 48 96 96.
    shares = fair_shares(("n1", "n21", "n22", "n23"), PAPER)
    assert {queue: 480 * share for queue, share in shares.items()} == pytest.approx(
        {"n1": 240, "n21": 48, "n22": 96, "n23": 96}
    )


def test_the_part_of_an_idle_queue_goes_to_its_siblings() -> None:
    assert fair_shares(("n1", "n21", "n22"), PAPER) == pytest.approx({"n1": 1 / 2, "n21": 1 / 6, "n22": 1 / 3})
    assert fair_shares(("n21", "n22"), PAPER) == pytest.approx({"n21": 1 / 3, "n22": 2 / 3})


def test_queues_that_nobody_declared_have_weight_1() -> None:
    assert fair_shares(("n1", "x"), PAPER) == {"n1": 0.5, "x": 0.5}


def test_jobs_of_an_inner_queue_share_with_the_queues_below_it() -> None:
    assert fair_shares(("n2", "n21"), PAPER) == {"n2": 0.5, "n21": 0.5}


@given(st.sets(st.sampled_from(("n1", "n2", "n21", "n22", "n23", "x")), min_size=1))
def test_shares_sum_to_1(queues: set[str]) -> None:
    assert math.fsum(fair_shares(sorted(queues), PAPER).values()) == pytest.approx(1)


# -- around another policy ------------------------------------------------------------------------


def two_queues(policy: dict[str, object], *, cores: int = 4) -> Scheduler:
    made = scheduler(policy, node("n", cores), offers="cycle")
    for name in ("A", "B"):
        made.handle(QueueChanged(0, Queue(name=name)))
        made.handle(JobSubmitted(0, job(name.lower(), stage(40), queue=name)))
    return made


def served(made: Scheduler, at: int = 1) -> str:
    return "".join(d.job for d in made.handle(Tick(at)) if isinstance(d, Place))


def test_fifo_alone_serves_the_first_job_only() -> None:
    assert served(two_queues({"kind": "fifo"})) == "aaaa"


@pytest.mark.parametrize(("kappa", "order"), [(0.0, "abab"), (0.25, "aaba"), (0.5, "aaaa"), (1.0, "aaaa")])
@pytest.mark.parametrize("factor", ["slot", "drf"])
def test_fifo_with_deficits_serves_who_is_owed_kappa_times_the_cluster(kappa: float, order: str, factor: str) -> None:
    # C = 4 tasks in either unit: with kappa = 0.25 the third is B's.
    assert served(two_queues({"kind": "bounded", "kappa": kappa, "deficit": factor})) == order


def test_what_is_owed_is_remembered_over_rounds() -> None:
    made = two_queues({"kind": "bounded", "kappa": 0.5})
    assert served(made) == "aaaa"
    made = Scheduler.restore(made.snapshot())
    for container in list(made.state.containers):
        made.handle(ContainerEnded(2, container, 0, 1))
    assert served(made, 3) == "baba"


def test_who_has_nothing_that_fits_holds_up_nobody_and_is_still_owed() -> None:
    made = scheduler({"kind": "bounded", "kappa": 0.0}, node("n", 4), offers="cycle")
    made.handle(JobSubmitted(0, job("small", stage(40), queue="A")))
    made.handle(JobSubmitted(0, job("large", stage(40, (5000, 1024)), queue="B")))
    assert [d.job for d in made.handle(Tick(1)) if isinstance(d, Place)] == ["small"] * 4
    assert made.policy._balance.deficits["B"] == pytest.approx(0.5)


def test_jobs_share_by_their_weights() -> None:
    made = scheduler({"kind": "bounded", "kappa": 0.0, "level": "job"}, node("n", 12), offers="cycle")
    for name, weight in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        made.handle(JobSubmitted(0, job(name, stage(40), weight=weight)))
    picks = served(made)
    assert [picks.count(name) for name in "abc"] == [2, 4, 6]


def test_a_policy_that_counts_offers_cannot_be_wrapped() -> None:
    with pytest.raises(ValueError, match="counts offers"):
        scheduler({"kind": "bounded", "policy": {"kind": "delay"}})


def test_a_policy_inside_that_does_not_exist_is_told() -> None:
    with pytest.raises(UnknownName, match="did you mean 'fifo'"):
        scheduler({"kind": "bounded", "policy": {"kind": "fifoo"}})

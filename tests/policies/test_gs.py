"""GS: queues by size, the sampling queue, held-back tasks (SLearn, sections 5.1 and 5.2)."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Place
from schedulers.core.events import (
    ContainerEnded,
    ContainerExpired,
    ContainerStarted,
    Estimated,
    Heartbeat,
    HistoryPrimed,
    JobSubmitted,
    NodeAdded,
    NodeLost,
    Tick,
)
from schedulers.core.model import PastJob
from schedulers.core.scheduler import Scheduler

ORACLE = {"kind": "oracle"}
SLEARN = {"kind": "slearn", "fixed_percent": 30}


def served(decisions: list) -> list[str]:
    return [d.job for d in decisions if isinstance(d, Place)]


def queue(made: Scheduler, name: str) -> int | None:
    return made.policy.about(made.state.jobs[name])["queue"]


def told(made: Scheduler, at: int = 0, **sizes: tuple[int, int]) -> None:
    for name, (tasks, ms) in sizes.items():
        made.handle(Estimated(at, name, (ms,)))
        made.handle(JobSubmitted(at, job(name, stage(tasks))))


def sampled(cores: int, *names: str, tasks: int = 4, **policy: object) -> Scheduler:
    made = scheduler({"kind": "gs", **policy}, node("n", cores), offers="cycle", predictor=SLEARN)
    for name in names:
        made.handle(JobSubmitted(0, job(name, stage(tasks))))
    return made


# -- queues ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "expected"), [(999_999, 0), (1_000_000, 1), (50_000_000, 2), (10**14, 9)])
def test_a_job_stands_in_the_queue_of_its_size(ms: int, expected: int) -> None:
    made = scheduler("gs", node(), offers="cycle", predictor=ORACLE)
    told(made, a=(1, ms), b=(1, ms))
    made.handle(Tick(0))
    assert queue(made, "b") == expected


def test_size_is_the_work_of_all_tasks() -> None:
    made = scheduler("gs", node(), offers="cycle", predictor=ORACLE)
    told(made, a=(10, 100_000))
    assert made.state.jobs["a"].size_ms == 1_000_000


def test_small_jobs_go_first() -> None:
    made = scheduler("gs", node(), offers="cycle", predictor=ORACLE)
    told(made, large=(1, 10**7), small=(1, 10**5))
    assert served(made.handle(Tick(0))) == ["small"]


def test_sizes_count_what_containers_hold_beside_run_times_if_so_asked() -> None:
    made = scheduler({"kind": "gs", "occupancy": True}, node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, first=(1, 1000))
    made.handle(Tick(0))
    made.handle(ContainerStarted(2000, 1))
    made.handle(ContainerEnded(4000, 1, 0, 1000))  # held for 3 s beside the run time
    told(made, 4000, few=(300, 100), many=(400, 100))
    made.handle(Tick(4000))
    assert [queue(made, "few"), queue(made, "many")] == [0, 1]  # of 930 and 1240 s


def test_failed_and_expired_containers_say_nothing_of_what_others_will_hold() -> None:
    made = scheduler({"kind": "gs", "occupancy": True}, node("n", 2), offers="cycle", predictor=ORACLE)
    told(made, first=(2, 1000))
    made.handle(Tick(0))
    made.handle(ContainerEnded(4000, 1, 1, 0))
    made.handle(ContainerExpired(4000, 2))
    told(made, 4000, many=(400, 100))
    made.handle(Tick(4000))
    assert queue(made, "many") == 0


def test_jobs_of_one_queue_go_in_order_of_arrival() -> None:
    made = scheduler("gs", node("n", 2), offers="cycle", predictor=ORACLE)
    told(made, b=(1, 900), a=(1, 10))
    assert served(made.handle(Tick(0))) == ["b", "a"]


def test_jobs_of_one_queue_go_by_work_left_if_so_asked() -> None:
    made = scheduler({"kind": "gs", "inside": "least_left"}, node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, long=(3, 100_000), short=(2, 120_000))
    order = []
    for number in range(5):
        order += served(made.handle(Tick(number)))
        made.handle(ContainerEnded(number, number + 1, 0, 100_000))
    assert order == ["short", "short", "long", "long", "long"]


def test_work_left_falls_as_tasks_end() -> None:
    made = scheduler({"kind": "gs", "inside": "least_left"}, node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, first=(3, 100_000))
    order = served(made.handle(Tick(0)))
    told(made, at=1, later=(2, 110_000))  # first has 300 s left, then 200 s
    for number in range(1, 5):
        made.handle(ContainerEnded(number, number, 0, 100_000))
        order += served(made.handle(Tick(number)))
    assert order == ["first", "first", "first", "later", "later"]


def test_a_job_without_an_estimate_goes_before_those_with_work_left() -> None:
    made = scheduler({"kind": "gs", "inside": "least_left"}, node("n", 1), offers="cycle", predictor=SLEARN)
    made.handle(JobSubmitted(0, job("sampled", stage(4))))
    for number in range(1, 3):  # its pilots
        made.handle(Tick(number))
        made.handle(ContainerEnded(number, number, 0, 10))
    made.handle(JobSubmitted(3, job("thin", stage(1))))
    assert served(made.handle(Tick(3))) == ["thin"]


def test_a_job_does_not_move_once_it_is_estimated() -> None:
    made = scheduler("gs", node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, a=(3, 400_000))
    made.handle(Tick(0))
    made.handle(ContainerEnded(400_000, 1, 0, 400_000))
    made.handle(Tick(400_000))
    assert queue(made, "a") == 1


def test_queues_share_the_cluster_by_weight() -> None:
    made = scheduler({"kind": "gs", "weight_decay": 2.0}, node("n", 6), offers="cycle", predictor=ORACLE)
    told(made, small=(9, 10), large=(9, 10**6))
    counts = served(made.handle(Tick(0)))
    assert (counts.count("small"), counts.count("large")) == (4, 2)


def test_what_has_ended_is_no_longer_charged() -> None:
    made = scheduler("gs", node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, small=(9, 10), large=(9, 10**6))
    order = []
    for at in range(4):
        order += served(made.handle(Tick(at)))
        made.handle(ContainerEnded(at, at + 1, 0, 1))
    assert order == ["small"] * 4


def test_what_was_lost_with_a_node_is_no_longer_charged() -> None:
    made = scheduler("gs", node("n", 1), offers="cycle", predictor=ORACLE)
    told(made, small=(9, 10), large=(9, 10**6))
    made.handle(Tick(0))
    made.handle(NodeLost(1, "n"))
    made.handle(NodeAdded(2, node("m", 1)))
    assert served(made.handle(Tick(3))) == ["small"]


@pytest.mark.parametrize(("unsized", "expected"), [("first", 0), ("last", 9)])
def test_a_job_without_an_estimate(unsized: str, expected: int) -> None:
    made = scheduler({"kind": "gs", "unsized": unsized}, node(), offers="cycle")
    for name in ("a", "b"):
        made.handle(JobSubmitted(0, job(name)))
    made.handle(Tick(0))
    assert queue(made, "b") == expected


# -- sampling -------------------------------------------------------------------------------------


def test_only_pilots_run_while_a_job_is_sampled() -> None:
    made = sampled(9, "a", work_conserving=False)
    made.handle(Tick(0))
    pilots = {task for _, task in made.state.jobs["a"].plan.pilots}
    assert len(pilots) == 2
    assert {c.task for c in made.state.containers.values()} == pilots
    assert all(c.pilot for c in made.state.containers.values())


def test_thin_jobs_go_to_the_first_queue_at_once() -> None:
    made = sampled(1, "a", "b", tasks=2)
    made.handle(Tick(0))
    assert queue(made, "b") == 0
    assert made.state.jobs["b"].plan.thin


def test_a_sampled_job_moves_to_the_tail_of_its_sizes_queue_when_its_pilots_are_done() -> None:
    made = sampled(4, "a", "b", work_conserving=False)
    made.handle(Tick(0))
    mine = [c.id for c in made.state.containers.values() if c.job == "b"]
    assert queue(made, "b") is None
    for container in mine:
        made.handle(ContainerEnded(9, container, 0, 500_000))
    made.handle(Tick(9))
    assert queue(made, "b") == 1
    assert made.state.jobs["b"].size_source == "pilots:2"


def test_who_is_sampled_first_is_served_first_whatever_was_submitted_first() -> None:
    made = sampled(4, "a", "b", work_conserving=False)
    made.handle(Tick(0))
    for name, at in (("b", 5), ("a", 6)):
        for container in [c.id for c in made.state.containers.values() if c.job == name]:
            made.handle(ContainerEnded(at, container, 0, 100))
    assert served(made.handle(Tick(7)))[:2] == ["b", "b"]


def test_held_tasks_run_when_nothing_else_fits_in_order_of_arrival() -> None:
    made = sampled(6, "b", "a")
    # Four pilots, and then what b holds back.
    assert served(made.handle(Tick(0))) == ["b", "b", "a", "a", "b", "b"]
    assert [c.pilot for c in made.state.containers.values()] == [True] * 4 + [False] * 2


def test_held_tasks_wait_behind_everything_else() -> None:
    made = sampled(2, "a")
    made.handle(JobSubmitted(0, job("thin", stage(2))))
    made.handle(JobSubmitted(0, job("other", stage(2))))
    assert "a" not in served(made.handle(Tick(0)))[:1]
    later = []
    for at in (1, 2, 3):
        for container in list(made.state.containers):
            made.handle(ContainerEnded(at, container, 0, 10**7))
        later += [c.pilot for c in made.state.containers.values() if c.job == "a"]
        made.handle(Tick(at))
    assert all(later)


def test_without_work_conservation_held_tasks_wait() -> None:
    made = sampled(9, "a", work_conserving=False)
    assert len(served(made.handle(Tick(0)))) == 2
    assert served(made.handle(Tick(1))) == []


def test_tasks_that_run_by_work_conservation_are_no_samples() -> None:
    made = sampled(4, "a")
    made.handle(Tick(0))
    others = [c.id for c in made.state.containers.values() if not c.pilot]
    for container in others:
        made.handle(ContainerEnded(9, container, 0, 1))
    assert made.state.jobs["a"].size_ms is None


def charges(made: Scheduler) -> dict[int, int]:
    return {container: queue for container, queue, _ in made.policy.dump()["charges"]}


def test_work_conserving_tasks_are_charged_to_nobody() -> None:
    made = sampled(4, "a")
    made.handle(Tick(0))
    assert len(charges(made)) == 2


def test_work_conserving_tasks_may_be_charged_to_the_sampling_queue() -> None:
    made = sampled(4, "a", conserved_charge="sampling")
    made.handle(Tick(0))
    assert len(charges(made)) == 4


def test_pilots_stand_in_a_queue_of_their_own_beside_the_second() -> None:
    made = sampled(4, "a")
    made.handle(Tick(0))
    assert set(charges(made).values()) == {10}


def test_pilots_may_stand_in_the_second_queue_itself() -> None:
    made = sampled(4, "a", sampling_shares=True)
    made.handle(Tick(0))
    assert set(charges(made).values()) == {1}


def test_a_failed_pilot_runs_again_as_a_pilot() -> None:
    made = sampled(2, "a", work_conserving=False)
    made.handle(Tick(0))
    lost = next(iter(made.state.containers.values()))
    made.handle(ContainerEnded(1, lost.id, 1))
    made.handle(Tick(2))
    again = [c for c in made.state.containers.values() if c.task == lost.task]
    assert [(c.pilot, c.attempt) for c in again] == [(True, 1)]
    assert made.state.jobs["a"].size_ms is None


def test_pilots_come_from_the_stages_without_parents() -> None:
    made = scheduler("gs", node("n", 9), offers="cycle", predictor=SLEARN)
    made.handle(JobSubmitted(0, job("a", stage(4), stage(4, parents=(0,)))))
    assert {s for s, _ in made.state.jobs["a"].plan.pilots} == {0}


def pilots_by_node(large: int, cores: int = 1, **policy: object) -> set[tuple[str, bool]]:
    """(node, pilot) of what starts at once of a job, on a node of kind b of a core, and one of kind a."""
    made = scheduler(
        {"kind": "gs", "pilot_kind": "b", **policy},
        node("n1", large, kind="a"),
        node("n2", 1, kind="b"),
        offers="cycle",
        predictor=SLEARN,
    )
    made.handle(JobSubmitted(0, job("j", stage(3, demand=(1000 * cores, 1024)))))
    made.handle(Tick(0))
    return {(each.node, each.pilot) for each in made.state.containers.values()}


def test_pilots_run_on_nodes_of_their_kind_and_other_tasks_anywhere() -> None:
    assert pilots_by_node(1) == {("n1", False), ("n2", True)}
    assert pilots_by_node(1, pilot_kind="a") == {("n1", True), ("n2", False)}


def test_pilots_wait_for_a_node_of_their_kind() -> None:
    assert pilots_by_node(4, work_conserving=False) == {("n2", True)}


def test_in_a_shared_queue_pilots_keep_to_their_kind_too() -> None:
    assert pilots_by_node(1, sampling_shares=True, sampling_queue=0) == {("n1", False), ("n2", True)}


@pytest.mark.parametrize("kind", ["c", "b"])
def test_pilots_that_no_node_of_their_kind_would_hold_run_anywhere(kind: str) -> None:
    assert pilots_by_node(2, cores=2, pilot_kind=kind, work_conserving=False) == {("n1", True)}


def test_with_a_prior_the_others_are_queued_while_the_pilots_run() -> None:
    made = scheduler("gs", node("n", 9), offers="cycle", predictor={"kind": "posterior"})
    made.handle(JobSubmitted(0, job("a", stage(5))))
    assert len(served(made.handle(Tick(0)))) == 5


def order_of_entry(asked_between: bool) -> list[str]:
    """Who is served first: thin job b, or a, whose pilots end after b arrived; with or without a vain offer between."""
    made = scheduler(
        {"kind": "gs", "work_conserving": False}, node("n", 1), node("m", 1), offers="heartbeat", predictor=SLEARN
    )
    made.handle(JobSubmitted(0, job("a", stage(3))))
    made.handle(Heartbeat(1, "n"))
    made.handle(ContainerStarted(2, 1))
    if asked_between:
        made.handle(Heartbeat(3, "m"))
    made.handle(JobSubmitted(4, job("b", stage(2))))
    made.handle(ContainerEnded(5, 1, 0, 3))
    return served(made.handle(Heartbeat(6, "n")))


def test_the_order_in_a_queue_does_not_depend_on_offers_made_in_vain() -> None:
    assert order_of_entry(asked_between=True) == order_of_entry(asked_between=False) == ["b"]


def long_first_task(**settings: object) -> Scheduler:
    """A job whose tasks took a second each in the past; its first task has now taken 1000 s."""
    past = [
        PastJob(name="a", submitted=n * 1000, finished=n * 1000 + 500, stages=((10, 1000.0),)) for n in range(-60, 0)
    ]
    predictor = {"kind": "posterior", "skip_sure": True, **settings}
    made = scheduler("gs", node("n", 1), offers="cycle", predictor=predictor)
    made.handle(HistoryPrimed(0, tuple(past)))
    made.handle(JobSubmitted(0, job("a", stage(10), name="a")))
    made.handle(Tick(0))
    assert queue(made, "a") == 0
    made.handle(ContainerStarted(1, 1))
    made.handle(ContainerEnded(1_000_001, 1, 0, 1_000_000))
    made.handle(Tick(1_000_001))
    return made


def test_a_job_that_turns_out_long_moves_to_the_queue_of_its_revised_size() -> None:
    assert queue(long_first_task(revise=True), "a") == 1


def test_without_revision_a_job_stays_where_it_was_placed() -> None:
    made = long_first_task()
    assert (queue(made, "a"), made.state.jobs["a"].size_ms) == (0, pytest.approx(10_000))

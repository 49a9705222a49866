"""The scheduler: what is offered when, steps, reasons said, the record of rounds, snapshots."""

from __future__ import annotations

import msgspec
import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Commit, Hold, Move, Place, Release, Run, describe
from schedulers.core.errors import InvalidParameters, InvalidTransition, UnknownName
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Heartbeat,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    LeaderStarted,
    NodeAdded,
    NodeLost,
    OfferAsked,
    TaskEnded,
    Tick,
)
from schedulers.core.policy import Suggestion
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


def starts(decisions: list) -> list[tuple[str, int, int]]:
    return [(d.job, d.stage, d.task) for d in decisions if isinstance(d, Place | Run | Move)]


# -- offers ---------------------------------------------------------------------------------------


def test_event_offers_decide_at_every_fact() -> None:
    assert starts(scheduler("fifo", node()).handle(JobSubmitted(0, job("a")))) == [("a", 0, 0)]


def test_cycle_offers_decide_at_ticks_only() -> None:
    made = scheduler("fifo", node(), offers="cycle")
    assert starts(made.handle(JobSubmitted(0, job("a")))) == []
    assert starts(made.handle(Heartbeat(1, "n"))) == []
    assert starts(made.handle(Tick(2))) == [("a", 0, 0)]


def test_heartbeat_offers_are_of_the_node_that_beats() -> None:
    made = scheduler("fifo", node("m"), node("n"), offers="heartbeat")
    made.handle(JobSubmitted(0, job("a", stage(2))))
    assert starts(made.handle(Tick(1))) == []
    assert made.handle(Heartbeat(2, "n")) == [Place(1, "n", "a", 0, 0)]


def test_a_heartbeat_fills_its_node() -> None:
    made = scheduler("fifo", node("n", 3), offers="heartbeat")
    made.handle(JobSubmitted(0, job("a", stage(5))))
    assert len(starts(made.handle(Heartbeat(1, "n")))) == 3


def test_so_many_containers_per_offer_and_no_more() -> None:
    made = scheduler("fifo", node("n", 3), offers="heartbeat", containers_per_offer=2)
    made.handle(JobSubmitted(0, job("a", stage(5))))
    assert [len(starts(made.handle(Heartbeat(at, "n")))) for at in (1, 2, 3)] == [2, 1, 0]


def test_an_asked_offer_serves_one_task_of_that_stage_on_those_nodes() -> None:
    made = scheduler("fifo", node("m", 4), node("n", 4), offers="cycle")
    made.handle(JobSubmitted(0, job("b", stage(2))))
    made.handle(JobSubmitted(0, job("a", stage(2), stage(2))))
    assert starts(made.handle(OfferAsked(1, "a", 1, ("n",)))) == [("a", 1, 0)]


def test_an_asked_offer_of_full_nodes_places_nothing() -> None:
    made = scheduler("fifo", node("m", 4), node("n"), offers="cycle")
    made.handle(JobSubmitted(0, job("a", stage(2))))
    made.handle(OfferAsked(1, "a", 0, ("n",)))
    assert starts(made.handle(OfferAsked(2, "a", 0, ("n", "gone")))) == []


def test_an_asked_offer_of_an_unknown_job_places_nothing() -> None:
    made = scheduler("fifo", node("m", 4), offers="cycle")
    made.handle(JobSubmitted(0, job("a")))
    assert starts(made.handle(OfferAsked(1, "gone", 0, ("m",)))) == []


def test_facts_that_concern_nothing_are_taken_quietly() -> None:
    assert scheduler("fifo", node()).handle(LeaderStarted(3)) == []


# -- steps ----------------------------------------------------------------------------------------


@pytest.fixture
def cycle() -> Scheduler:
    made = scheduler("fifo", node("n", 3), node("m", 1), offers="cycle")
    made.handle(JobSubmitted(0, job("a", stage(3), stage(parents=(0,)))))
    return made


def test_a_round_is_taken_step_by_step(cycle: Scheduler) -> None:
    round_ = cycle.begin(Tick(1))
    first = round_.suggest(Suggestion("a", 0, node="m"))
    second = round_.suggest(Suggestion("a", 0))
    assert (first.containers, second.containers) == ((1,), (2,))
    assert round_.end()[:2] == [Place(1, "m", "a", 0, 0), Place(2, "n", "a", 0, 1)]


def test_each_step_sees_the_effect_of_the_one_before(cycle: Scheduler) -> None:
    round_ = cycle.begin(Tick(1))
    round_.suggest(Suggestion("a", 0, node="m"))
    assert round_.suggest(Suggestion("a", 0, node="m")).reason is Reason.NO_ROOM


def test_a_bundle_is_placed_as_far_as_there_is_room() -> None:
    made = scheduler("fifo", node("n", 2), offers="cycle")
    made.handle(JobSubmitted(0, job("a", stage(5))))
    assert made.begin(Tick(1)).suggest(Suggestion("a", 0, count=5)).placed == 2


@pytest.mark.parametrize(
    ("suggestion", "reason"),
    [
        (Suggestion("gone", 0), Reason.WAITS_FOR_OFFER),
        (Suggestion("a", 1), Reason.WAITS_FOR_STAGE),
        (Suggestion("a", 7), Reason.WAITS_FOR_STAGE),
        (Suggestion("a", -1), Reason.WAITS_FOR_STAGE),
        (Suggestion("a", 0, node="gone"), Reason.NO_ROOM),
    ],
)
def test_a_suggestion_that_cannot_be_is_refused_with_a_reason(
    cycle: Scheduler, suggestion: Suggestion, reason: Reason
) -> None:
    outcome = cycle.begin(Tick(1)).suggest(suggestion)
    assert (outcome.placed, outcome.reason) == (0, reason)


def test_a_named_task_is_placed(cycle: Scheduler) -> None:
    round_ = cycle.begin(Tick(1))
    round_.suggest(Suggestion("a", 0, task=2))
    assert starts(round_.end()) == [("a", 0, 2)]


def test_a_named_task_is_placed_once(cycle: Scheduler) -> None:
    round_ = cycle.begin(Tick(1))
    assert round_.suggest(Suggestion("a", 0, task=2, count=2)).placed == 1
    assert round_.suggest(Suggestion("a", 0, task=2)).placed == 0
    validate(cycle.state)


@pytest.mark.parametrize("task", [-1, 3])
def test_a_task_that_is_not_there_is_refused(cycle: Scheduler, task: int) -> None:
    assert cycle.begin(Tick(1)).suggest(Suggestion("a", 0, task=task)).placed == 0
    validate(cycle.state)


def test_without_an_offer_nothing_is_placed(cycle: Scheduler) -> None:
    round_ = cycle.begin(JobSubmitted(1, job("b")))
    assert round_.offer is None
    assert round_.suggest(Suggestion("a", 0)).placed == 0


def test_a_preemption_names_rule_and_cause_and_frees_nothing_yet(cycle: Scheduler) -> None:
    cycle.handle(Tick(1))
    round_ = cycle.begin(Tick(2))
    round_.preempt(1, "fair share", "b")
    assert describe(round_.end()[0]) == {"decision": "Preempt", "container": 1, "rule": "fair share", "cause": "b"}
    assert 1 in cycle.state.containers


def test_a_container_that_is_gone_is_not_preempted(cycle: Scheduler) -> None:
    with pytest.raises(InvalidTransition, match="container 9"):
        cycle.begin(Tick(2)).preempt(9, "rule", "b")


# -- reasons --------------------------------------------------------------------------------------


def test_a_reason_is_said_once() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("b")))
    assert made.handle(JobSubmitted(0, job("a"))) == [Hold("a", Reason.NO_ROOM)]
    assert [d for at in range(1, 5) for d in made.handle(Tick(at))] == []


def test_a_task_that_fits_nowhere_ever_is_too_large() -> None:
    assert scheduler("fifo", node()).handle(JobSubmitted(0, job("a", stage(demand=(9000, 1))))) == [
        Hold("a", Reason.TOO_LARGE)
    ]


def test_without_nodes_there_is_nowhere_to_run() -> None:
    assert scheduler("fifo").handle(JobSubmitted(0, job("a"))) == [Hold("a", Reason.NO_NODES)]


def test_with_room_a_job_waits_for_a_heartbeat() -> None:
    made = scheduler("fifo", node(), offers="heartbeat")
    assert made.handle(JobSubmitted(0, job("a"))) == [Hold("a", Reason.WAITS_FOR_OFFER)]


def test_of_several_reasons_the_first_in_precedence_is_said() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("b")))
    decided = made.handle(JobSubmitted(0, job("a", stage(), stage(demand=(9000, 1)))))
    assert decided == [Hold("a", Reason.TOO_LARGE)]


def test_while_the_stage_before_runs_its_children_wait_for_it() -> None:
    made = scheduler("fifo", node(), offers="event")
    decided = made.handle(JobSubmitted(0, job("a", stage(), stage(parents=(0,))), asks="roots"))
    decided += made.handle(ContainerStarted(1, 1))
    assert made.reason(made.state.jobs["a"]) in (None, Reason.WAITS_FOR_STAGE)
    assert Hold("a", Reason.WAITS_FOR_ASK) not in decided


def test_when_the_stage_before_is_done_its_children_wait_to_be_asked_for() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a", stage(), stage(parents=(0,))), asks="roots"))
    assert made.handle(ContainerEnded(1, 1, 0, 1)) == [Hold("a", Reason.WAITS_FOR_ASK)]
    assert starts(made.handle(JobChanged(2, "a", (1,)))) == [("a", 1, 0)]


def test_held_back_tasks_wait_for_their_pilots() -> None:
    made = scheduler(
        {"kind": "gs", "work_conserving": False}, node("n", 9), predictor={"kind": "slearn", "fixed_percent": 20}
    )
    decided = made.handle(JobSubmitted(0, job("a", stage(5))))
    assert decided[-1] == Hold("a", Reason.WAITS_FOR_PILOTS)


# -- the record of rounds -------------------------------------------------------------------------


def test_record_full_keeps_every_round() -> None:
    made = scheduler("fifo", node("n", 2), offers="cycle", record="full")
    made.handle(JobSubmitted(0, job("a", stage(3))))
    made.handle(Tick(4))
    kept = made.rounds[-1]
    assert (kept.at, kept.event, kept.offered, kept.ended) == (4, "Tick", 1, "nothing fits any more")
    assert [(asked.suggestion.job, asked.outcome.placed) for asked in kept.asked] == [("a", 2)]


def test_a_round_that_ends_with_room_says_that_the_policy_wants_no_more() -> None:
    made = scheduler(
        {"kind": "gs", "work_conserving": False},
        node("n", 9),
        offers="cycle",
        record="full",
        predictor={"kind": "slearn", "fixed_percent": 20},
    )
    made.handle(JobSubmitted(0, job("a", stage(5))))
    made.handle(Tick(1))
    assert made.rounds[-1].ended == "the policy suggests nothing more"


def test_by_default_no_rounds_are_kept(cycle: Scheduler) -> None:
    cycle.handle(Tick(1))
    assert cycle.rounds == []


# -- executors ------------------------------------------------------------------------------------


def over_event(made: Scheduler, at: int, container: int) -> TaskEnded:
    c = made.state.containers[container]
    ms = at - c.started
    return TaskEnded(at, container, job=c.job, stage=c.stage, task=c.task, attempt=c.attempt, runtime_ms=ms)


def over(made: Scheduler, at: int, container: int) -> list:
    return made.handle(over_event(made, at, container))


@pytest.fixture
def kept() -> Scheduler:
    made = scheduler("bfs", node("n", 2), executors=True)
    made.handle(JobSubmitted(0, job("a", stage(3), stage(parents=(0,)))))
    for container in (1, 2):
        made.handle(ContainerStarted(1, container))
    return made


def test_an_executor_takes_the_next_task_of_its_stage(kept: Scheduler) -> None:
    assert over(kept, 5, 1) == [Run(1, "a", 0, 2)]


def test_an_idle_executor_moves_to_another_job(kept: Scheduler) -> None:
    kept.handle(JobSubmitted(2, job("b")))
    over(kept, 5, 1)
    assert over(kept, 6, 1) == [Move(1, "b", 0, 0)]


def test_a_moved_executor_counts_for_the_job_that_has_it(kept: Scheduler) -> None:
    kept.handle(JobSubmitted(2, job("b")))
    over(kept, 5, 1)
    over(kept, 6, 1)
    assert (kept.state.jobs["a"].executors, kept.state.jobs["b"].executors) == (1, 1)
    validate(kept.state)


def test_a_jobs_executors_are_given_back_at_its_end(kept: Scheduler) -> None:
    over(kept, 5, 1)
    over(kept, 6, 1)
    over(kept, 7, 2)
    container = next(c.id for c in kept.state.containers.values() if c.status == 1)
    decided = over(kept, 9, container)
    assert {d.container for d in decided if isinstance(d, Release)} == {1, 2}
    assert kept.state.used == [0, 0]


@pytest.fixture
def ahead() -> Scheduler:
    """A job of one task and then three, alone on four cores: what it holds beside the one task waits for the three."""
    made = scheduler({"kind": "weighted_fair", "alpha": 0}, node("n", 4), executors=True)
    made.handle(JobSubmitted(0, job("a", stage(), stage(3, parents=(0,)))))
    return made


def test_a_suggestion_may_name_the_executor(kept: Scheduler) -> None:
    kept.handle(JobSubmitted(2, job("b", stage(demand=(500, 512)))))
    over(kept, 5, 1)
    made = kept.begin(over_event(kept, 6, 1))
    assert made.suggest(Suggestion("a", 0, executor=2)).placed == 0  # it is busy
    assert made.suggest(Suggestion("b", 0, executor=1)).placed == 0  # it has another size
    assert made.suggest(Suggestion("b", 0, executor=9)).placed == 0
    made.end()


def test_executors_are_brought_to_a_job_before_it_has_tasks_for_them() -> None:
    made = scheduler({"kind": "weighted_fair", "alpha": 0}, node("n", 4), executors=True)
    decided = made.handle(JobSubmitted(0, job("a", stage(), stage(3, parents=(0,)))))
    assert decided[:4] == [Place(1, "n", "a", 0, 0), *(Commit(number, "a", 1, "n") for number in (2, 3, 4))]
    assert made.state.jobs["a"].executors == 4
    validate(made.state)


def test_a_brought_executor_is_idle_when_it_arrives_and_runs_when_the_stage_opens(ahead: Scheduler) -> None:
    ahead.handle(ContainerStarted(1, 1))
    ahead.handle(ContainerStarted(2, 2))
    validate(ahead.state)
    assert list(ahead.state.idle) == [2]
    decided = over(ahead, 5, 1)
    assert [d for d in decided if not isinstance(d, Hold)] == [Run(2, "a", 1, 0), Run(1, "a", 1, 1)]
    assert ahead.handle(ContainerStarted(6, 3))[0] == Run(3, "a", 1, 2)


def test_an_executor_under_way_takes_room_and_is_given_back_with_its_job(ahead: Scheduler) -> None:
    assert ahead.state.used == [4000, 4096]
    decided = ahead.handle(JobCancelled(1, "a"))
    assert {d.container for d in decided if isinstance(d, Release)} == {2, 3, 4}
    assert ahead.state.used == [1000, 1024]
    validate(ahead.state)


def test_an_executor_under_way_may_be_lost_with_its_node(ahead: Scheduler) -> None:
    ahead.handle(NodeLost(1, "n"))
    validate(ahead.state)
    assert not ahead.state.containers


def test_executors_under_way_are_in_the_snapshot(ahead: Scheduler) -> None:
    restored = Scheduler.restore(ahead.snapshot())
    validate(restored.state)
    assert list(restored.state.moving) == [2, 3, 4]


def test_an_idle_executor_is_brought_to_another_job() -> None:
    # "a" holds all three; when it has nothing more to start, "b" gets one for its task and one ahead, before "c".
    made = scheduler({"kind": "capped_sjf", "growth": 0}, node("n", 3), executors=True)
    made.handle(JobSubmitted(0, job("a", stage(3))))
    for container in (1, 2, 3):
        made.handle(ContainerStarted(1, container))
    made.handle(JobSubmitted(1, job("b", stage(), stage(parents=(0,)))))
    made.handle(JobSubmitted(1, job("c")))
    assert over(made, 5, 1)[0] == Move(1, "b", 0, 0)
    assert over(made, 6, 2)[0] == Commit(2, "b", 1)
    assert (made.state.jobs["a"].executors, made.state.jobs["b"].executors) == (1, 2)
    validate(made.state)


def test_a_busy_executor_is_not_brought_anywhere(ahead: Scheduler) -> None:
    with pytest.raises(InvalidTransition, match="not idle, or not of the size"):
        ahead.state.apply(Commit(1, "a", 1))


# -- memory ---------------------------------------------------------------------------------------


def test_a_snapshot_of_another_format_is_refused() -> None:
    data = msgspec.msgpack.decode(scheduler("fifo").snapshot())
    with pytest.raises(InvalidTransition, match="snapshot of format 99"):
        Scheduler.restore(msgspec.msgpack.encode({**data, "format": 99}))


def test_a_restored_scheduler_knows_what_was_finished() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a")))
    made.handle(ContainerEnded(1, 1, 0, 1))
    restored = Scheduler.restore(made.snapshot())
    assert restored.handle(JobSubmitted(2, job("a"))) == []


def test_a_restored_scheduler_numbers_containers_on() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a", stage(2))))
    restored = Scheduler.restore(made.snapshot())
    assert restored.handle(ContainerEnded(1, 1, 0, 1)) == [Place(2, "n", "a", 0, 1)]


def test_a_restored_scheduler_counts_its_decisions_on() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a")))
    assert Scheduler.restore(made.snapshot()).decision_count == made.decision_count > 0


def test_jobs_whose_pilots_ended_between_two_rounds_keep_their_order_over_a_snapshot() -> None:
    made = scheduler("gs", node("n", 2), offers="cycle", predictor={"kind": "slearn", "fixed_percent": 1})
    for name in ("a", "b"):
        made.handle(JobSubmitted(0, job(name, stage(3))))
    made.handle(Tick(0))
    first, second = made.state.containers.values()
    assert (first.job, second.job) == ("a", "b")
    for at, container in ((1, second), (2, first)):
        made.handle(ContainerEnded(at, container.id, 0, 100))
    restored = Scheduler.restore(made.snapshot())
    assert starts(restored.handle(Tick(3))) == starts(made.handle(Tick(3)))


def test_fair_order_survives_a_change_of_capacity_and_a_snapshot() -> None:
    made = scheduler({"kind": "fair", "tie": "id"}, node("n", 2), offers="cycle")
    made.handle(JobSubmitted(0, job("b", stage(9, (1000, 0)))))
    made.handle(JobSubmitted(0, job("a", stage(9, (0, 1024)))))
    made.handle(Tick(0))
    made.handle(NodeAdded(1, node("m", 8)))
    restored = Scheduler.restore(made.snapshot())
    assert starts(restored.handle(Tick(2))) == starts(made.handle(Tick(2)))


# -- what it is made from -------------------------------------------------------------------------


def test_an_unknown_policy_is_refused_by_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'fifo'"):
        scheduler("fifi")


def test_a_setting_that_a_policy_does_not_have() -> None:
    with pytest.raises(InvalidParameters, match="policy 'fifo' has no setting 'queues'"):
        scheduler({"kind": "fifo", "queues": 3})


def test_explaining_a_job_that_is_not_live() -> None:
    with pytest.raises(KeyError):
        scheduler("fifo").explain("gone")

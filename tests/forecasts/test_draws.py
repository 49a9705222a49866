"""Draws of run times: given what has been seen, and the same whatever is changed."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest

from rm_emulator.forecasts.draws import DrawnTimes, KnownRunTimes, stage_belief
from rm_emulator.forecasts.run_times import JudgedBeliefs, Listener
from schedulers.core.events import ContainerEnded, ContainerStarted, HistoryPrimed, JobSubmitted, NodeAdded, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, PastJob, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.kit.beliefs import Belief, quantile
from schedulers.kit.history import HistoryParams

SECOND = 1000


def heard(past: list[float], *, tasks: int = 4, runs: bool = True) -> tuple[Listener, Scheduler]:
    """A job `nightly` of so many tasks on a free cluster, after earlier runs of these mean run times (s)."""
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="event"))
    listener = Listener(scheduler.state)
    tell = listener.around(scheduler.handle)
    tell(NodeAdded(0, Node(id="n", capacity=(tasks, tasks * 1024))))
    jobs = [
        PastJob(name="nightly", submitted=0, finished=n, stages=((tasks, seconds * SECOND),))
        for n, seconds in enumerate(past)
    ]
    tell(HistoryPrimed(0, tuple(jobs)))
    tell(JobSubmitted(1, Job(id="j", name="nightly", stages=(Stage(name="one", tasks=tasks, demand=(1, 1024)),))))
    if runs:
        for container in list(scheduler.state.containers):
            tell(ContainerStarted(1, container))
    return listener, scheduler


def drawn(listener: Listener, now: int, draws: int = 400) -> np.ndarray:
    """[draws, tasks]: the run times of the running tasks, ms."""
    moment = KnownRunTimes(listener, now, 1)
    return np.array([moment.draw(number).running for number in range(draws)])


def test_history_says_how_long_a_task_takes() -> None:
    listener, _ = heard([100.0] * 40)
    times = drawn(listener, 2)
    assert np.median(times) == pytest.approx(100 * SECOND, rel=0.25)


@pytest.mark.parametrize("elapsed_s", [10, 100, 1000, 100_000])
def test_no_running_task_ends_before_it_has_run_as_long_as_it_has(elapsed_s: int) -> None:
    listener, _ = heard([100.0] * 40)
    assert drawn(listener, 1 + elapsed_s * SECOND, 50).min() >= elapsed_s * SECOND


def test_a_task_that_has_run_longer_than_expected_takes_longer_than_the_others_did() -> None:
    listener, _ = heard([100.0] * 40)
    early, late = (np.median(drawn(listener, 1 + s * SECOND)) for s in (10, 300))
    assert late > 2 * early


def test_finished_tasks_outweigh_a_history_that_was_wrong() -> None:
    listener, scheduler = heard([100.0, 5.0] * 20, tasks=12)
    tell = listener.around(scheduler.handle)
    for container in list(scheduler.state.containers)[:10]:
        tell(ContainerEnded(1 + 400 * SECOND, container, 0, 400 * SECOND))
    assert np.median(drawn(listener, 1 + 400 * SECOND)) > 350 * SECOND


def test_a_draw_is_the_same_whenever_it_is_made() -> None:
    listener, _ = heard([100.0] * 40)
    first, second = (KnownRunTimes(listener, 2, 1).draw(7).running for _ in range(2))
    assert first.tolist() == second.tolist()
    assert KnownRunTimes(listener, 2, 1).draw(8).running.tolist() != first.tolist()


def test_run_times_are_the_same_by_container_and_by_task() -> None:
    listener, scheduler = heard([100.0] * 40, tasks=6)
    draw = KnownRunTimes(listener, 1 + 50 * SECOND, 1).draw(3)
    times = DrawnTimes(1, draw, 0)
    tasks = {number: each.task for number, each in scheduler.state.containers.items()}
    some = np.array(sorted(tasks)[1:5])
    by_container = draw.running_ms(some)
    assert by_container is not None
    assert by_container.tolist() == [times.ms(tasks[number], 1, "fresh") for number in some.tolist()]
    assert draw.running_ms(np.array([*some.tolist(), 999])) is None


def test_a_job_without_any_history_is_named() -> None:
    listener, _ = heard([], runs=False)
    assert KnownRunTimes(listener, 2, 1).unknown == ["j"]
    listener, _ = heard([100.0] * 3, runs=False)
    assert KnownRunTimes(listener, 2, 1).unknown == []


def test_a_task_that_is_over_makes_a_job_known() -> None:
    listener, scheduler = heard([])
    listener.around(scheduler.handle)(ContainerEnded(9, min(scheduler.state.containers), 0, 8))
    assert KnownRunTimes(listener, 9, 1).unknown == []


def test_facts_that_teach_nothing_pass_by() -> None:
    listener, scheduler = heard([100.0] * 3)
    assert listener.around(scheduler.handle)(Tick(5)) == []
    # A task that failed has no run time to learn from.
    listener.around(scheduler.handle)(ContainerEnded(6, min(scheduler.state.containers), 1, 5))
    seen = listener.beliefs.history.running("j")
    assert seen is not None
    assert seen.counts == [0]


def test_a_belief_is_told_by_the_errors_of_stages_with_as_many_parents() -> None:
    """History says 100 s of all stages; first stages take 10 s, and stages behind others 200 s."""
    beliefs, prior = JudgedBeliefs(HistoryParams()), Belief(math.log(100 * SECOND), 1.0, 0.1, "history:user")
    first, behind = (Stage(name="s", tasks=4, demand=(1,), parents=parents) for parents in ((), (0,)))
    for _ in range(60):
        beliefs.judge(prior, 10 * SECOND, first)
        beliefs.judge(prior, 200 * SECOND, behind)
    for stage, seconds in ((first, 10), (behind, 200)):
        assert math.exp(quantile(beliefs.parts(prior, stage), 0.5)) == pytest.approx(seconds * SECOND, rel=0.1)


def test_two_of_fifty_two_further_errors_are_taken_to_lie_outside_of_the_fifty_seen() -> None:
    beliefs, prior = JudgedBeliefs(HistoryParams()), Belief(11.0, 1.0, 0.1, "history:user")
    for number in range(100):
        beliefs.judge(prior, math.exp(11.0 + (0.0 if number % 10 else 3.0)))
    *groups, (weight, _, wide) = beliefs.parts(prior)
    assert weight == pytest.approx(2 / 52)
    assert wide == pytest.approx(0.9)  # the deviation of all errors
    assert sum(each for each, _, _ in groups) == pytest.approx(50 / 52)


def chain(ended_s: float | None) -> KnownRunTimes:
    """A job of two stages, both believed to take 100 s; the first has ended after so long, or waits to start."""
    scheduler = Scheduler(SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="event"))
    listener = Listener(scheduler.state)
    tell = listener.around(scheduler.handle)
    past = [
        PastJob(name="nightly", submitted=0, finished=n, stages=((1, s), (1, s)))
        for n, s in enumerate(np.random.default_rng(3).lognormal(math.log(100 * SECOND), 0.7, 200).tolist())
    ]
    tell(HistoryPrimed(0, tuple(past)))
    if ended_s is not None:
        tell(NodeAdded(0, Node(id="n", capacity=(1,))))
    stages = tuple(Stage(name=str(n), tasks=1, demand=(1,), parents=(n - 1,) if n else ()) for n in (0, 1))
    tell(JobSubmitted(1, Job(id="j", name="nightly", stages=stages)))
    now = 2
    if ended_s is not None:
        (container,) = scheduler.state.containers
        tell(ContainerStarted(2, container))
        now += round(ended_s * SECOND)
        tell(ContainerEnded(now, container, 0, now - 2))
    return KnownRunTimes(listener, now, 1)


def test_a_stage_behind_a_long_stage_is_drawn_longer_than_behind_a_short_one() -> None:
    short, long = (fmean(draw(n).laws[0][0] for n in range(400)) for draw in (chain(s).draw for s in (20, 500)))
    assert long > short + 0.2


def test_surprises_of_a_stage_and_its_parent_are_tied_in_a_draw() -> None:
    moment = chain(None)
    means = np.array([[middle + sd * sd / 2 for middle, sd in moment.draw(n).laws] for n in range(1000)])
    assert np.corrcoef(means.T)[0, 1] == pytest.approx(0.32, abs=0.1)


def test_intervals_hold_as_often_as_they_say_where_history_is_wrong_by_chance() -> None:
    """Truth = estimate x error and estimate = truth x error are both met: 80 % hold 70 to 90 % of 300 new stages."""
    for shrinks in (False, True):
        random = np.random.default_rng(5)
        beliefs = JudgedBeliefs(HistoryParams())
        listener = Listener.__new__(Listener)
        listener.beliefs = beliefs
        held = []
        for number in range(800):
            level, error = random.normal(10, 1.5), random.normal(0, 1.0)
            truth, mean = (level, level + error) if shrinks else (level + error, level)
            prior = Belief(mean, 1.0, 0.1, "history:job_name")
            if number >= 500:
                belief = stage_belief(listener, prior)
                inside = belief.cumulated[np.searchsorted(belief.grid, truth) * len(belief.noises) - 1]
                held.append(0.1 < inside < 0.9)
            beliefs.judge(prior, math.exp(truth))
        assert 0.7 < fmean(held) < 0.9

"""The rest of a run played forward: who ends when."""

from __future__ import annotations

import math
from typing import Any

import pytest

from schedulers.planning.forward import Play, PlayedJob, PlayedStage


def stage(left: float, task_ms: float, *, parents: int = 0, children: tuple[int, ...] = (), **more: Any) -> PlayedStage:
    return PlayedStage(left, task_ms, parents, children, path=task_ms, **more)


def job(*stages: PlayedStage, most: int = 99, idle: int = 0) -> PlayedJob:
    return PlayedJob(list(stages), most, idle)


def chain(*lefts: float, task_ms: float = 10.0) -> PlayedJob:
    last = len(lefts) - 1
    return job(
        *(
            stage(left, task_ms, parents=int(index > 0), children=(index + 1,) if index < last else ())
            for index, left in enumerate(lefts)
        )
    )


def test_tasks_flow_through_the_executors() -> None:
    assert Play([job(stage(12, 10.0))], 4, 4).ends() == [30.0]


def test_a_stage_takes_as_long_as_one_of_its_tasks_at_least() -> None:
    assert Play([job(stage(3, 10.0))], 9, 9).ends() == [10.0]


def test_stages_follow_each_other_and_executors_stay() -> None:
    assert Play([chain(4, 2)], 2, 2, moving_ms=5.0).ends() == [5.0 + 20.0 + 10.0]


def test_nobody_is_served_without_executors() -> None:
    assert Play([chain(1)], 0, 1).ends() == [math.inf]


def test_a_job_is_served_first_up_to_its_number_only() -> None:
    small, large = job(stage(4, 10.0), most=1), job(stage(6, 10.0), most=3)
    assert Play([small, large], 4, 4).ends() == pytest.approx([30.0, 20.0])


def test_executors_go_where_they_were_promised() -> None:
    giver = job(stage(2, 10.0, executors=2, goes=[(2, 0, 2)]))
    ends = Play([giver, job(stage(2, 10.0)), job(stage(2, 10.0))], 0, 2).ends()
    assert ends == [10.0, 30.0, 20.0]


def test_what_runs_already_ends_when_its_rest_is_over() -> None:
    assert Play([job(stage(0.6, 10.0, executors=2, soonest=4.0))], 0, 2).ends() == [4.0]


def test_executors_that_come_later_take_what_is_left() -> None:
    play = Play([job(stage(4, 10.0, executors=1))], 0, 3, moving_ms=10.0)
    play.send(0, 0, 1, own=False)
    assert play.ends() == pytest.approx([10.0 + 15.0])


def test_a_crowded_job_is_slower() -> None:
    ends = [Play([job(stage(4 * count, 10.0))], count, 4, crowding=0.5).ends() for count in (1, 4)]
    assert ends == [pytest.approx([20.0]), pytest.approx([40.0])]


def test_a_copy_plays_alike() -> None:
    made = chain(4, 2)
    assert Play([made.copied()], 2, 2).ends() == Play([made.copied()], 2, 2).ends()

"""The validator of schedules: what is right passes, and each kind of violation is one sentence."""

from __future__ import annotations

import math

import pytest

from rm_emulator.known_answers.schedules import Problem, TaskRun, violations

#: Two parents of one child, on two unlike machines.
JOIN = Problem(times=[[4, 2], [3, 3], [5, 1]], machines=2, edges=[(0, 2, 6), (1, 2, 2)], rates=2.0, copies=2)
RIGHT = [TaskRun(0, 0, 0, 4), TaskRun(1, 1, 0, 3), TaskRun(2, 1, 7, 8)]


def test_a_right_schedule_has_no_violation() -> None:
    assert violations(JOIN, RIGHT) == []


def test_a_copy_feeds_children_where_it_ran() -> None:
    assert violations(JOIN, [*RIGHT[:2], TaskRun(0, 1, 3, 5, copy=True), TaskRun(2, 1, 5, 6)]) == []


def test_a_copy_that_was_ended_feeds_nobody() -> None:
    runs = [*RIGHT[:2], TaskRun(0, 1, 3, 4, copy=True, done=False), TaskRun(2, 1, 5, 6)]
    assert violations(JOIN, runs) == ["task 2 on machine 1 starts at 5, and what it needs of task 0 is there at 7"]


def test_starts_within_a_rounding_error_are_right() -> None:
    assert violations(JOIN, [*RIGHT[:2], TaskRun(2, 1, 7 - 1e-12, 8)]) == []


def test_a_failed_attempt_is_no_run_too_many() -> None:
    assert violations(JOIN, [TaskRun(0, 1, 3, 4, done=False), *RIGHT]) == []


def test_a_task_of_no_time_takes_no_room() -> None:
    assert violations(Problem(times=[[4], [0]], machines=1), [TaskRun(0, 0, 0, 4), TaskRun(1, 0, 2, 2)]) == []


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        (RIGHT[:2], "task 2 never comes to its end"),
        ([*RIGHT, TaskRun(1, 0, 4, 7)], "task 1 runs 2 times, on machines 1 and 0, and not as copies"),
        ([TaskRun(0, 0, 0, 4, copy=True), *RIGHT[1:]], "of task 0 there are copies only"),
        ([*RIGHT, TaskRun(1, 1, 8, 11, copy=True)], "task 1 comes to its end twice on machine 1"),
        ([TaskRun(0, 0, 0, 3), *RIGHT[1:]], "task 0 on machine 0 runs for 3, and takes 4 there"),
        ([TaskRun(0, 0, -1, 3), *RIGHT[1:]], "task 0 on machine 0 starts at -1, before 0"),
        (
            [TaskRun(0, 0, 2, 6), *RIGHT[1:]],
            "task 2 on machine 1 starts at 7, and what it needs of task 0 is there at 9",
        ),
        (
            [*RIGHT, TaskRun(0, 1, 2, 4, copy=True)],
            "machine 1 runs task 1 and task 0 at 2, and runs one at a time",
        ),
        ([*RIGHT, TaskRun(3, 0, 4, 5)], "task 3 on machine 0: there are tasks 0 to 2"),
        ([*RIGHT, TaskRun(0, 2, 4, 5, copy=True)], "the copy of task 0 on machine 2: there are machines 0 to 1"),
        ([TaskRun(0, 0, 4, 0), *RIGHT[1:]], "task 0 on machine 0: it runs from 4 to 0"),
        ([TaskRun(0, 0, 0, math.nan), *RIGHT[1:]], "task 0 on machine 0: it runs from 0 to nan"),
        (
            [TaskRun(0, 0, 0, 5, done=False), TaskRun(0, 0, 5, 9), RIGHT[1], TaskRun(2, 1, 12, 13)],
            "task 0 on machine 0 runs for 5, and takes 4 there",
        ),
    ],
)
def test_each_violation_is_one_sentence(runs: list[TaskRun], sentence: str) -> None:
    assert violations(JOIN, runs) == [sentence]


def test_more_copies_than_allowed() -> None:
    problem = Problem(times=[[1] * 3], machines=3, copies=2)
    runs = [TaskRun(0, 0, 0, 1), TaskRun(0, 1, 0, 1, copy=True), TaskRun(0, 2, 0, 1, copy=True)]
    assert violations(problem, runs) == ["task 0 runs 3 times, and 2 are allowed"]


def test_copies_where_none_are_allowed_even_if_they_were_ended() -> None:
    runs = [TaskRun(0, 0, 0, 2), TaskRun(0, 1, 0, 1, copy=True, done=False)]
    assert violations(Problem(times=[[2, 2]], machines=2), runs) == [
        "the copy of task 0 on machine 1: copies are not allowed"
    ]


def test_more_at_once_than_a_machine_can() -> None:
    problem = Problem(times=[[2]] * 3, machines=1, capacities=[[4, 9]], demands=[[2, 1], [2, 1], [1, 1]])
    assert violations(problem, [TaskRun(0, 0, 0, 2), TaskRun(1, 0, 0, 2), TaskRun(2, 0, 2, 4)]) == []
    assert violations(problem, [TaskRun(0, 0, 0, 2), TaskRun(1, 0, 0, 2), TaskRun(2, 0, 1, 3)]) == [
        "machine 0 is over its capacity of [4, 9] at 1: task 2 brings its use to [5, 3]"
    ]


def test_a_machine_is_held_from_the_grant_on() -> None:
    problem = Problem(times=[[2], [2]], machines=1)
    assert violations(problem, [TaskRun(0, 0, 0, 2), TaskRun(1, 0, 4, 6, since=1)]) == [
        "machine 0 runs task 0 and task 1 at 1, and runs one at a time"
    ]


def test_a_task_that_starts_before_a_stage_above_has_ended() -> None:
    problem = Problem(times=[[], [], []], machines=3, after=[((0, 1), (2,))])
    assert violations(problem, [TaskRun(0, 0, 0, 2), TaskRun(1, 1, 0, 5), TaskRun(2, 2, 3, 4)]) == [
        "task 2 on machine 2 starts at 3, and task 1 before it ends at 5"
    ]


def test_a_task_that_starts_before_it_is_released() -> None:
    assert violations(Problem(times=[[2]], machines=1, releases=[3]), [TaskRun(0, 0, 2, 4)]) == [
        "task 0 on machine 0 starts at 2, before 3"
    ]


def test_rates_may_differ_by_pair_and_direction() -> None:
    problem = Problem(times=[[1, 1], [1, 1]], machines=2, edges=[(0, 1, 6)], rates=[[math.inf, 3], [1, math.inf]])
    assert violations(problem, [TaskRun(0, 0, 0, 1), TaskRun(1, 1, 3, 4)]) == []
    assert violations(problem, [TaskRun(0, 1, 0, 1), TaskRun(1, 0, 3, 4)]) == [
        "task 1 on machine 0 starts at 3, and what it needs of task 0 is there at 7"
    ]

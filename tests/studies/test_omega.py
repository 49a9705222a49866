"""Omega beside its rivals, on a small cell: the shapes that the page of results tells of."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from studies import omega

CELL = {**omega.CELL, "span_s": 240.0, "batch_tasks": 20.0, "service_interarrival_s": 20.0}
RIVALS = omega.rivals(20.0)


@cache
def long(name: str) -> Any:
    return omega.runs(RIVALS[name], CELL, 60, (1,))


def busyness(name: str, scheduler: str) -> float:
    return omega._mean(long(name), scheduler, "busyness")


def test_one_path_thinks_as_long_about_every_job() -> None:
    assert busyness("one path", "all") > 0.9


def test_batch_jobs_wait_behind_services_where_there_is_one_queue() -> None:
    waits = {name: omega._mean(long(name), "batch" if " " not in name else "all", "wait_s") for name in RIVALS}
    waits["shared state"] = omega._mean(long("shared state"), "batch", "wait_s")
    assert waits["one path"] > waits["several paths"] > 10 * waits["shared state"]


def test_two_levels_lock_batch_jobs_out_while_a_service_is_thought_about() -> None:
    waits = [omega._mean(long(name), "batch", "wait_s") for name in ("two-level", "shared state")]
    assert waits[0] > 10 * waits[1]


@pytest.mark.parametrize("name", ["one path", "several paths", "two-level"])
def test_only_shared_state_has_conflicts(name: str) -> None:
    everybody = "all" if "path" in name else ""
    assert omega._mean(long(name), everybody, "conflict_fraction") == 0


def test_sequence_numbers_and_all_or_nothing_have_more_conflicts() -> None:
    found = {
        name: omega._mean(omega.runs(each, CELL, 60, (1,)), "service", "conflict_fraction")
        for name, each in omega.commits(20.0).items()
    }
    assert found["sequence, incremental"] > found["fit, incremental"]


def test_more_schedulers_are_less_busy_each() -> None:
    one, four = (omega._mean(omega.runs(omega.many(n), CELL, 60, (1,)), "batch", "busyness") for n in (1, 4))
    assert one > four

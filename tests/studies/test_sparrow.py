"""Sparrow's tables on small clusters: their shape, and the formula beside what happens."""

from __future__ import annotations

from statistics import fmean

import pytest

from studies import sparrow
from studies.sparrow import Ran, Size

SMALL = Size(workers=60, slots=2, jobs=80, tasks=15)


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, float], list[Ran]]:
    return sparrow.responses(SMALL, (0.9,), (1,))


def test_random_is_far_behind_then_per_task_then_batch_and_late_binding_is_nearly_ideal(
    found: dict[tuple[str, float], list[Ran]],
) -> None:
    means = {method: fmean(found[method, 0.9][0].jcts) for method in sparrow.METHODS}
    assert means["random"] > 1.3 * means["per_task"]
    assert means["per_task"] > means["batch"] > means["late_binding"] >= means["ideal"]
    assert means["late_binding"] < 1.1 * means["ideal"]


def test_probes_cost_five_messages_a_task_and_random_workers_one(
    found: dict[tuple[str, float], list[Ran]],
) -> None:
    assert [found[method, 0.9][0].messages for method in ("random", "per_task", "batch", "ideal")] == [1, 5, 5, 0]


@pytest.mark.slow
def test_the_part_of_jobs_that_never_waits_is_near_the_formula() -> None:
    size = Size(workers=400, slots=1, jobs=300, tasks=sparrow.ZERO_WAIT_TASKS, delay=0)
    rows = sparrow.wait_table(sparrow.waits(size, (1, 2))).splitlines()[2:]
    assert [row.split(" | ")[-1].removesuffix(" |") for row in rows] == ["yes"] * 4


def test_a_table_has_a_row_per_method_and_a_column_per_load(found: dict[tuple[str, float], list[Ran]]) -> None:
    lines = sparrow.response_table(found).splitlines()
    assert lines[0] == "| method | load 0.9 |"
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == list(sparrow.METHODS)

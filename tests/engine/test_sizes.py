"""YARN's container sizes. Rows of the tables: hadoop TestSchedulerUtils (testNormalizeRequest*)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.engine.sizes import Sizes, in_sizes
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.model import Job, Stage
from schedulers.yarn.vectors import normalised


@pytest.mark.parametrize(
    ("ask", "maximum", "size"),
    [(-1024, 8192, 1024), (0, 8192, 1024), (1034, 8192, 2048), (8092, 8182, 8182), (8292, 8192, 8192)],
)
def test_memory(ask: int, maximum: int, size: int) -> None:
    assert normalised(ask, 1024, 1024, maximum) == size


def test_the_fair_scheduler_rounds_though_its_minimum_is_zero() -> None:
    assert normalised(512, 0, 1024, 10240) == 1024


@given(st.integers(-10, 10**6), st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 10**5))
def test_a_size_of_a_size_is_itself(ask: int, minimum: int, increment: int, maximum: int) -> None:
    size = normalised(ask, minimum, increment, maximum)
    assert normalised(size, minimum, increment, maximum) == size <= maximum


def test_a_workload_asks_in_sizes() -> None:
    job = Job(id="j", stages=(Stage(name="s", tasks=1, demand=(1500, 1034)),))
    workload = Workload(name="w", jobs=(WorkloadJob(job=job, submit_ms=0, runtimes=(Fixed(1),)),))
    sizes = Sizes(minimum=(1000, 1024), increment=(1000, 1024), maximum=(4000, 8192))
    assert in_sizes(workload, sizes).jobs[0].job.stages[0].demand == (2000, 2048)

"""Services beside batch jobs, as they are drawn."""

from __future__ import annotations

from statistics import fmean

import pytest

from rm_emulator.workload.mixed import MixedSettings, generate
from rm_emulator.workload.model import Fixed
from schedulers.core.model import Service

DAY = generate(MixedSettings(span_s=86_400.0), seed=1)
BATCH = [source for source in DAY.jobs if source.job.kind == "batch"]
SERVICES = [source for source in DAY.jobs if source.job.kind == "service"]


def test_both_streams_come_as_often_as_they_should() -> None:
    assert len(BATCH) == pytest.approx(8640, rel=0.05)
    assert len(SERVICES) == pytest.approx(4320, rel=0.05)


def test_numbers_of_tasks_and_run_times_have_the_means_of_the_settings() -> None:
    assert fmean(source.job.tasks for source in BATCH) == pytest.approx(100, rel=0.05)
    assert fmean(source.job.tasks for source in SERVICES) == pytest.approx(10, rel=0.08)
    times = [source.runtimes[0] for source in BATCH]
    assert fmean(each.ms for each in times if isinstance(each, Fixed)) == pytest.approx(100_000, rel=0.05)


def test_arrivals_are_in_order_and_within_the_span() -> None:
    arrivals = [source.submit_ms for source in DAY.jobs]
    assert arrivals == sorted(arrivals)
    assert 0 <= arrivals[0] <= arrivals[-1] < 86_400_000


def test_services_have_their_objective_and_a_queue_of_their_own() -> None:
    made = generate(MixedSettings(start_within_s=9.0, preemptible=True), seed=1)
    assert {each.job.service for each in made.jobs if each.job.kind == "service"} == {Service(start_within_ms=9000)}
    assert {(each.job.kind, each.job.queue) for each in made.jobs} == {("batch", "batch"), ("service", "service")}


def test_scale_multiplies_arrivals() -> None:
    once, twice = (len(generate(MixedSettings(scale=scale), seed=3).jobs) for scale in (1.0, 2.0))
    assert twice == pytest.approx(2 * once, rel=0.15)


def test_another_seed_is_another_mix() -> None:
    assert generate(MixedSettings(), seed=1) == generate(MixedSettings(), seed=1)
    assert generate(MixedSettings(), seed=1) != generate(MixedSettings(), seed=2)

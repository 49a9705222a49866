"""Chains of a preset's jobs: what a chain is made of, and what a seed and a load may change."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.workload.chains import generate
from rm_emulator.workload.model import PerTask, Workload
from rm_emulator.workload.synthetic import PRESETS
from rm_emulator.workload.work import offered_load
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import check_job

KNOBS = PRESETS["google19-like"]


@cache
def made(jobs: int = 300, seed: int = 1, load: float | None = None) -> Workload:
    return generate(KNOBS, (2, 5), jobs=jobs, seed=seed, load=load)


def test_each_stage_waits_for_the_one_before() -> None:
    for entry in made().jobs:
        check_job(entry.job, 2)
        assert [stage.parents for stage in entry.job.stages] == [(), (0,), (1,), (2,), (3,)][: len(entry.job.stages)]


def test_every_number_of_stages_is_as_frequent() -> None:
    counts = np.bincount([len(entry.job.stages) for entry in made(1000).jobs])
    assert counts[:2].tolist() == [0, 0]
    assert counts[2:].tolist() == pytest.approx([250] * 4, rel=0.3)


def test_the_chains_of_a_name_have_as_many_stages_now_and_before() -> None:
    counts: dict[str, set[int]] = {}
    for entry in made().jobs:
        counts.setdefault(entry.job.name, set()).add(len(entry.job.stages))
    for past in made().history:
        counts.setdefault(past.name, set()).add(len(past.stages))
    assert {len(each) for each in counts.values()} == {1}


def test_all_stages_are_runs_of_one_name() -> None:
    for entry in made().jobs:
        assert len({(stage.tasks, stage.demand) for stage in entry.job.stages}) == 1
        for stage, times in zip(entry.job.stages, entry.runtimes, strict=True):
            assert isinstance(times, PerTask)
            assert len(times.ms) == stage.tasks


def test_names_recur_as_often_as_the_preset_s() -> None:
    chains = made(1000)
    assert len(chains.jobs) / len({entry.job.name for entry in chains.jobs}) == pytest.approx(2.5, rel=0.25)


def test_a_past_chain_ends_before_the_first_arrival_and_takes_as_long_as_its_stages() -> None:
    for past in made().history:
        assert past.finished <= 0
        assert past.finished - past.submitted >= sum(ms for _, ms in past.stages)


def test_history_is_oldest_first() -> None:
    ends = [past.finished for past in made().history]
    assert ends == sorted(ends)


def test_the_load_is_the_one_asked_for() -> None:
    assert offered_load(made(load=0.7), 150) == pytest.approx(0.7, rel=1e-3)
    assert offered_load(made(), 150) == pytest.approx(KNOBS.window_load, rel=1e-3)


def test_another_load_changes_the_arrivals_alone() -> None:
    low, high = made(load=0.7), made(load=1.3)
    still = [[msgspec.structs.replace(entry, submit_ms=0) for entry in each.jobs] for each in (low, high)]
    assert still[0] == still[1]
    assert low.history == high.history


def test_another_seed_draws_other_chains() -> None:
    assert made(20).jobs != made(20, seed=2).jobs


def test_history_can_be_left_out() -> None:
    without = generate(KNOBS, (2, 5), jobs=20, history=False)
    assert without.history == ()
    assert without.jobs == made(20).jobs


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 3), st.integers(1, 99))
@settings(max_examples=10, deadline=None)
@pytest.mark.drawn(of=4)
def test_there_are_as_many_jobs_as_asked_for(jobs: int, least: int, more: int, seed: int) -> None:
    chains = generate(KNOBS, (least, least + more), jobs=jobs, seed=seed, slots=10)
    assert len({entry.job.id for entry in chains.jobs}) == jobs
    assert all(least <= len(entry.job.stages) <= least + more for entry in chains.jobs)
    assert chains.jobs[0].submit_ms == 0


@pytest.mark.parametrize("stages", [(0, 3), (4, 3)])
def test_impossible_numbers_of_stages_are_refused(stages: tuple[int, int]) -> None:
    with pytest.raises(InvalidParameters, match="stages"):
        generate(KNOBS, stages, jobs=3)


@pytest.mark.parametrize(("jobs", "load"), [(0, 1.0), (3, 0.0)])
def test_no_jobs_and_no_load_are_refused(jobs: int, load: float) -> None:
    with pytest.raises(InvalidParameters, match="must be above 0"):
        generate(KNOBS, (2, 5), jobs=jobs, load=load)

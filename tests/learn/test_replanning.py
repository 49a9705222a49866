"""Re-planning: what is searched, and what a search may know."""

from __future__ import annotations

import numpy as np
import pytest

from rm_emulator.learn import fast_kernel as kernel
from rm_emulator.learn.fast_jobs import FastSetting, setting_of
from rm_emulator.learn.replanning import Search, foresee, improved, replanned
from tests.learn.test_fast import BATCH, rule, scenario

pytestmark = pytest.mark.slow
SEARCH = Search(candidates=6, plays=2, period_ms=20_000)


@pytest.fixture(scope="module")
def setting() -> FastSetting:
    return setting_of(scenario({**BATCH, "jobs": 5, "sizes": [2, 5]}, 9), 1)


def test_without_candidates_the_rule_stays(setting: FastSetting) -> None:
    base = rule(setting, "curves")
    found = replanned(setting.play, base, setting.draws, SEARCH._replace(candidates=0), np.random.default_rng(1))
    assert np.array_equal(found, setting.play.ends(base, setting.draws))


def test_equal_draws_of_the_search_have_equal_runs(setting: FastSetting) -> None:
    base = rule(setting, "curves")
    one, other = (replanned(setting.play, base, setting.draws, SEARCH, np.random.default_rng(2)) for _ in range(2))
    assert np.array_equal(one, other)
    assert (one > 0).all()


def test_a_search_leaves_the_run_and_the_rule_as_they_are(setting: FastSetting) -> None:
    base, state = rule(setting, "curves"), setting.play.begin()
    setting.play.go_on(state, base, setting.draws, until_ms=30_000)
    before, jobs = [part.copy() for part in state], base.jobs.copy()
    improved(setting.play, state, base, SEARCH, np.random.default_rng(3))
    assert all(np.array_equal(part, old) for part, old in zip(state, before, strict=True))
    assert np.array_equal(base.jobs, jobs)


def test_running_tasks_go_on_for_longer_than_they_have_run(setting: FastSetting) -> None:
    base, state = rule(setting, "curves"), setting.play.begin()
    setting.play.go_on(state, base, setting.draws, until_ms=30_000)
    running = state.places["status"] == kernel.RUNNING
    assert running.any()
    now, rest = int(state.clock[kernel.NOW]), set()
    for seed in range(5):
        drawn = foresee(setting.play, state, np.random.default_rng(seed)).state
        times = drawn.event[running] >> kernel._TIME
        assert (times > now).all()
        rest.add(tuple(times.tolist()))
    assert len(rest) > 1

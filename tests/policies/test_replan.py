"""Re-planning: what is searched, what a search may know, and that a replay does without."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rm_emulator
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.experiments.assembly import assemble, workload_of
from rm_emulator.issues import InvalidInput
from rm_emulator.learn.fast_jobs import FastSetting, setting_of
from rm_emulator.scenario.schema import Scenario
from rm_emulator.testing import POLICY_CHECKS, PolicyCheck, Subject, case_for, replay, run_case
from schedulers.core import keyed
from schedulers.core.abilities import Searches, ability
from schedulers.core.events import JobSubmitted, SearchEnded, TaskEnded
from schedulers.core.log import Log, parse
from schedulers.core.replay import Replay
from schedulers.planning.replan import kernel
from schedulers.planning.replan.kernel import Rule
from schedulers.planning.replan.search import changed, foresee, improved
from schedulers.policies.replan import Replan
from tests.learn.test_fast import BATCH, rule, scenario

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_report")]
SMALL = {**BATCH, "jobs": 5, "sizes": [2, 5]}
#: Two queries on 2 GB again and again.
STREAM = {**BATCH, "jobs": 12, "arrivals": "poisson", "interarrival": "20s", "queries": [1, 6], "sizes": [2]}
SEARCH: dict[str, Any] = {"budget_ms": None, "candidates": 6, "plays": 2, "period_s": 20.0}


@pytest.fixture(scope="module")
def setting() -> FastSetting:
    return setting_of(scenario(SMALL, 9), 1)


class Ran:
    """A run of the engine with its log. predictor: of the policy; ticks: each look at the clock takes 1 ms."""

    def __init__(self, of: Scenario, seed: int, predictor: str = "oracle", ticks: bool = False, **params: Any) -> None:
        self.chunks: list[bytes] = []
        self.recording = MemoryRecording(attempts=True)
        entry = {"kind": "replan", "label": "replan", "predictor": {"kind": predictor}, **SEARCH, **params}
        made = assemble(of, entry, seed, workload_of(of, seed), self.recording, log=lambda _: Log(self.chunks.append))
        self.scheduler = made.deciders.schedulers[0]
        searches = ability(self.scheduler.policy, Searches)
        assert searches is not None
        if ticks:
            clock = count()
            searches.clock = lambda: next(clock) / 1000
        made.simulation.run()
        for log in made.deciders.logs.values():
            log.flush()

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.chunks).splitlines()

    @property
    def searches(self) -> list[SearchEnded]:
        return [each for each in parse(self.lines) if isinstance(each, SearchEnded)]

    @property
    def ends(self) -> dict[str, int | None]:
        return {row.id: row.finish_ms for row in self.recording.jobs}


def replanned(setting: FastSetting, base: Rule, params: Replan.Params, seed: int) -> list[int]:
    """Ends of a batch in the fast simulator, with a search at each job's end, and each period."""
    play, state, found, pause = setting.play, setting.play.begin(), base, 0
    for number in count():
        play.go_on(state, found, setting.draws, pause_ms=pause)
        if not state.clock[kernel.LEFT]:
            break
        random = keyed.generator(seed, "replan", number)
        found = improved(play, state, found, random, candidates=params.candidates, plays=params.plays).rule
        pause = int(state.clock[kernel.NOW]) + round(1000 * params.period_s)
    return [int(end) for end in state.jobs["end_ms"]]


def test_without_candidates_the_rule_stays(setting: FastSetting) -> None:
    base = rule(setting, "curves")
    ends = setting.play.ends(base, setting.draws).tolist()
    assert replanned(setting, base, Replan.Params(candidates=0), 1) == ends
    ran = Ran(scenario(SMALL, 9), 1, candidates=0)
    assert [ran.ends[each.job.id] for each in setting.workload] == ends
    assert not ran.searches


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_policy_has_the_run_of_the_fast_simulator(seed: int) -> None:
    of = scenario({**SMALL, "jobs": 6}, 13)
    setting = setting_of(of, seed)
    base = rule(setting, "curves")
    ends = replanned(setting, base, Replan.Params(**SEARCH), seed)
    assert ends != setting.play.ends(base, setting.draws).tolist()
    ran = Ran(of, seed)
    assert [ran.ends[each.job.id] for each in setting.workload] == ends


def test_a_replay_agrees_although_the_clock_stopped_the_searches() -> None:
    ran = Ran(scenario(SMALL, 9), 1, ticks=True, budget_ms=4.5, candidates=100, period_s=3.0)
    assert {(each.why, each.solved) for each in ran.searches} == {("stopped", 4)}
    assert any(each.found for each in ran.searches)
    assert replay(ran.lines) == ran.lines


def test_a_replay_needs_no_fast_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(scenario(SMALL, 9), 1)
    unknown = Ran(scenario({**STREAM, "jobs": 3}, 9), 1, predictor="three_sigma_dag")
    monkeypatch.setattr(Replan, "missing", classmethod(lambda cls: "numba is not installed"))
    for each in (ran, unknown):
        assert replay(each.lines) == each.lines
    with pytest.raises(ValueError, match="policy 'replan': numba is not installed"):
        Ran(scenario(SMALL, 9), 1)


def test_a_run_with_a_budget_of_time_is_not_played_again(tmp_path: Path) -> None:
    small = scenario({**SMALL, "jobs": 2}, 9).model_dump(mode="json")
    small["spec"]["policies"] = [{"kind": "replan", "predictor": {"kind": "oracle"}, **SEARCH, "budget_ms": 1.0}]
    rm_emulator.run(small, out=tmp_path / "run")
    with pytest.raises(InvalidInput, match="from a moment on: the clock stops the searches"):
        rm_emulator.simulate(from_=f"{tmp_path / 'run'}@5s")


def test_a_job_is_told_what_searches_have_changed_or_why_there_are_none() -> None:
    planned = said(Ran(scenario(SMALL, 9), 1).lines)
    assert any(each.startswith("re-planned: its place in the order x ") for each in planned)
    unknown = said(Ran(scenario({**STREAM, "jobs": 3}, 9), 1, predictor="three_sigma_dag").lines)
    why = "served by the rule of `curves`, not re-planned: run times by wave are not known of job "
    assert any(each.startswith(why) for each in unknown)


def said(lines: list[bytes]) -> set[str]:
    """Sentences on live jobs in the replay of a log."""
    replay = Replay(line + b"\n" for line in lines)
    found: set[str] = set()
    for _ in replay:
        scheduler = replay.scheduler
        found |= {scheduler.policy.about(job).get("said", "") for job in scheduler.state.jobs.values()}
    return found


def test_nothing_is_searched_before_run_times_are_known() -> None:
    ran = Ran(scenario(STREAM, 9), 1, predictor="three_sigma_dag")
    left, names, known = Counter[str](), dict[str, str](), set[str]()
    for fact in parse(ran.lines):
        if isinstance(fact, JobSubmitted):
            left[fact.job.id], names[fact.job.id] = fact.job.tasks, fact.job.name
        elif isinstance(fact, TaskEnded):
            left[fact.job] -= 1
            known |= set() if left[fact.job] else {names[fact.job]}
        elif isinstance(fact, SearchEnded):
            assert known >= {names[job] for job, tasks in left.items() if tasks}
    assert len(ran.searches) >= 5
    assert replay(ran.lines) == ran.lines


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.drawn(of=4)
def test_the_policy_keeps_its_promises_where_executors_outlive_tasks(check: PolicyCheck) -> None:
    # Of each four scenarios of the profile, the last one has executors.
    policy = {"kind": "replan", "candidates": 4, "plays": 2, "period_s": 1.0}
    check(Subject(policy=policy, predictor={"kind": "oracle"}, profile={"kind": "events"}), (3, 7, 11, 15))


def test_promises_are_kept_by_searching() -> None:
    subject = Subject(
        policy={"kind": "replan", "candidates": 4}, predictor={"kind": "oracle"}, profile={"kind": "events"}
    )
    lines = [run_case(subject, case_for(subject, seed)).lines for seed in (3, 7, 11, 15)]
    searches = [[each for each in parse(of) if isinstance(each, SearchEnded)] for of in lines]
    assert sum(map(bool, searches)) >= 2
    assert any(each.found for of in searches for each in of)


def test_a_search_leaves_the_run_and_the_rule_as_they_are(setting: FastSetting) -> None:
    base, state = rule(setting, "curves"), setting.play.begin()
    setting.play.go_on(state, base, setting.draws, until_ms=30_000)
    before, jobs = [part.copy() for part in state], base.jobs.copy()
    improved(setting.play, state, base, np.random.default_rng(3), candidates=6, plays=2)
    assert all(np.array_equal(part, old) for part, old in zip(state, before, strict=True))
    assert np.array_equal(base.jobs, jobs)


def test_running_tasks_go_on_for_longer_than_they_have_run(setting: FastSetting) -> None:
    base, state = rule(setting, "curves"), setting.play.begin()
    setting.play.go_on(state, base, setting.draws, until_ms=30_000)
    running = state.places["status"] == kernel.RUNNING
    assert running.any()
    now, rest = int(state.clock[kernel.NOW]), set()
    for drawn in foresee(setting.play, state, np.random.default_rng(1), 5):
        times = drawn.state.event[running] >> kernel._TIME
        assert (times > now).all()
        rest.add(tuple(times.tolist()))
    assert len(rest) > 1


def test_a_play_that_is_given_up_has_a_larger_sum(setting: FastSetting) -> None:
    base, state, random = rule(setting, "curves"), setting.play.begin(), np.random.default_rng(4)
    setting.play.go_on(state, base, setting.draws, until_ms=10_000)
    least = setting.play.total_ms(state, base, setting.draws)
    for _ in range(50):
        candidate = changed(setting.play, state, base, random)
        whole = setting.play.total_ms(state, candidate, setting.draws)
        given_up = setting.play.total_ms(state, candidate, setting.draws, least)
        assert given_up == whole if whole <= least else given_up > least

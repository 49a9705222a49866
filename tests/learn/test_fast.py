"""The fast simulator: the same run as the engine's, event for event; and invariants on arbitrary jobs."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.experiments.assembly import assemble, workload_of
from rm_emulator.learn.fast_jobs import FastSetting, play_of, setting_of
from rm_emulator.learn.fast_rules import rule_of
from rm_emulator.scenario.schema import Scenario
from rm_emulator.workload.model import Waves, WorkloadJob
from rm_emulator.workload.waves import StageWaves
from schedulers.core.model import Job, Stage
from schedulers.planning.replan.kernel import IDLE, JOB_NOW, MANY, MOVING, PLACE, STAGE_NOW, Ints, Rule
from schedulers.planning.replan.plays import FastRun, Unsuitable, copied, random_draws

# Numba compiles the kernel for ten seconds, once on a machine.
pytestmark = pytest.mark.slow

FULL = Path(__file__).parents[2] / "../shared/data/tpch-spark-profiles.json.gz"
POLICIES = {
    "fair": {"kind": "weighted_fair", "alpha": 0.0},
    "tuned": {"kind": "weighted_fair", "alpha": -1.1},
    "capped_sjf": {"kind": "capped_sjf"},
    "curves": {"kind": "curves"},
    "learned": {"kind": "curves", "learned": True},
}
BATCH = {"kind": "tpch", "arrivals": "batch", "draws": "released", "sizes": [2, 5, 10, 20, 50, 100], "history": 0}
STREAM = {"kind": "tpch", "jobs": 8, "draws": "released", "interarrival": "5s", "sizes": [2, 5, 10], "history": 0}


def scenario(workload: dict[str, object], executors: int, **cluster: object) -> Scenario:
    block = {
        "nodes": [{"count": executors, "capacity": {"cpu": 1, "memory": "2Gi"}}],
        "profile": "events",
        "executors": {"moving_delay": "2s", "warmup": "1s"},
        **cluster,
    }
    policy = {"kind": "curves", "predictor": {"kind": "oracle"}}
    spec = {"seeds": [1], "cluster": block, "workload": workload, "policies": [policy]}
    head = {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "fast"}}
    return Scenario.model_validate({**head, "spec": spec})


def rule(setting: FastSetting, label: str) -> Rule:
    jobs = [each.job for each in setting.workload]
    return rule_of(POLICIES[label], jobs, setting.told, setting.play.executors)


def engine_run(of: Scenario, label: str, seed: int, *, attempts: bool = True) -> MemoryRecording:
    recording = MemoryRecording(attempts=attempts)
    entry = {**POLICIES[label], "label": label, "predictor": {"kind": "oracle"}}
    assemble(of, entry, seed, workload_of(of, seed), recording)[0].run()
    return recording


@pytest.mark.parametrize("label", POLICIES)
@pytest.mark.parametrize("workload", [{**BATCH, "jobs": 6, "sizes": [2, 5]}, STREAM], ids=["batch", "stream"])
@pytest.mark.drawn(of=4)
def test_every_task_starts_and_ends_as_in_the_engine(label: str, workload: dict[str, object]) -> None:
    of = scenario(workload, 13)
    for seed in (1, 2, 3):
        setting = setting_of(of, seed)
        trace = setting.play.new_trace()
        ends = setting.play.ends(rule(setting, label), setting.draws, trace)
        recording = engine_run(of, label, seed)
        numbers = {each.job.id: number for number, each in enumerate(setting.workload)}
        jobs, stages = setting.play.jobs.jobs, setting.play.jobs.stages
        engine = np.full_like(trace, -1)
        for each in recording.tasks:
            task = stages["first_task"][jobs["first"][numbers[each.job]] + each.stage] + each.task
            engine[task] = each.started_ms, each.ended_ms
        assert np.array_equal(trace, engine)
        assert {numbers[row.id]: row.finish_ms for row in recording.jobs} == dict(enumerate(ends))


@pytest.mark.skipif(not FULL.exists(), reason=f"needs the measured profiles of Decima's release at {FULL}")
@pytest.mark.parametrize("label", POLICIES)
@pytest.mark.drawn(of=4)
def test_decimas_batch_setting_has_the_engines_means(label: str) -> None:
    of = scenario({**BATCH, "jobs": 20, "profiles": str(FULL)}, 50)
    for seed in (1000, 1001):
        setting = setting_of(of, seed)
        mean = setting.play.mean_jct_s(setting.play.ends(rule(setting, label), setting.draws))
        rows = engine_run(of, label, seed, attempts=False).jobs
        assert mean == pytest.approx(fmean((row.finish_ms or 0) - row.submit_ms for row in rows) / 1000)


@st.composite
def plays(draw: st.DrawFn) -> tuple[FastRun, list[Job], list[list[float]]]:
    """Jobs with arbitrary stages and run times, some of 0 ms, on a few executors."""
    workload, waves = [], {}
    for number in range(draw(st.integers(1, 5))):
        stages = []
        for index in range(draw(st.integers(1, 4))):
            parents = draw(st.sets(st.integers(0, index - 1))) if index else set()
            tasks = draw(st.integers(1, 6))
            stages.append(Stage(name=f"s{index}", tasks=tasks, demand=(1,), parents=tuple(sorted(parents))))
            some = st.lists(st.integers(0, 5000), min_size=1, max_size=3)
            levels = {level: draw(some) for level in (5, 10)}
            waves[f"j{number}", index] = StageWaves(levels, levels, {5: draw(some)})
        times = tuple(Waves(f"j{number}", index) for index in range(len(stages)))
        workload.append(
            WorkloadJob(job=Job(id=f"j{number}", stages=tuple(stages)), submit_ms=number * 700, runtimes=times)
        )
    play = play_of(workload, lambda times: waves[times.profile, times.stage], draw(st.integers(1, 6)), 2000)
    told = [[waves[times.profile, times.stage].rough_ms + 1 for times in each.runtimes] for each in workload]
    return play, [each.job for each in workload], told


def sane(play: FastRun, trace: Ints) -> None:
    """Every task ran once, no more tasks at once than executors, and stages waited for their parents."""
    began, ended = trace.T
    assert (began >= 0).all()
    assert (ended >= began).all()
    changes = sorted([(at, 1) for at in began] + [(at, -1) for at in ended])
    running = np.cumsum([change for _, change in changes])
    # A task of 0 ms begins after its own end in this order: -1 there, and never more than all executors.
    assert running.max() <= play.executors
    stages = play.jobs.stages
    tasks = [slice(stage["first_task"], stage["first_task"] + stage["tasks"]) for stage in stages]
    for stage, own in zip(stages, tasks, strict=True):
        for child in play.jobs.children[stage["first_child"] : stage["end_child"]]:
            assert began[tasks[child]].min() >= ended[own].max()


@settings(max_examples=60, deadline=None)
@given(plays(), st.sampled_from(sorted(POLICIES)), st.integers(0, 99))
def test_every_task_ends_once_on_an_executor_of_its_own(
    made: tuple[FastRun, list[Job], list[list[float]]], label: str, seed: int
) -> None:
    play, jobs, told = made
    draws = random_draws(play.tasks, np.random.default_rng(seed))
    trace, again = play.new_trace(), play.new_trace()
    of = rule_of(POLICIES[label], jobs, told, play.executors)
    ends = play.ends(of, draws, trace)
    sane(play, trace)
    first = play.jobs.stages["first_task"][play.jobs.jobs["first"]]
    assert (np.maximum.reduceat(trace[:, 1], first) == ends).all()
    assert (play.ends(of, draws, again) == ends).all()
    assert (again == trace).all()


@settings(max_examples=60, deadline=None)
@given(plays(), st.integers(0, 30_000), st.integers(-1, 30_000), st.integers(0, 99))
def test_a_run_goes_on_from_any_moment_as_if_nobody_had_stopped_it(
    made: tuple[FastRun, list[Job], list[list[float]]], at: int, pause: int, seed: int
) -> None:
    play, jobs, told = made
    draws = random_draws(play.tasks, np.random.default_rng(seed))
    of = rule_of(POLICIES["curves"], jobs, told, play.executors)
    state = play.begin()
    play.go_on(state, of, draws, until_ms=at, pause_ms=pause)
    branch = copied(state)
    ends = play.ends(of, draws)
    for each in (state, branch):
        play.go_on(each, of, draws)
        assert (each.jobs["end_ms"] == ends).all()


@settings(max_examples=60, deadline=None)
@given(plays(), st.integers(1, 3), st.integers(0, 2), st.integers(0, 99))
def test_caps_on_stages_and_on_held_executors_are_kept(
    made: tuple[FastRun, list[Job], list[list[float]]], cap: int, hold: int, seed: int
) -> None:
    play, jobs, told = made
    draws = random_draws(play.tasks, np.random.default_rng(seed))
    of = rule_of(POLICIES["capped_sjf"], jobs, told, play.executors)
    of.stages["cap"], of.jobs["hold"] = cap, hold
    state, trace = play.begin(), play.new_trace()
    for until in range(0, 60_000, 501):
        play.go_on(state, of, draws, until_ms=until, trace=trace)
        assert state.stages["running"].max() <= cap
        moving = state.places["job"][state.places["status"] == MOVING]
        assert np.bincount(moving, minlength=len(jobs)).max() <= hold
    play.go_on(state, of, draws, trace=trace)
    sane(play, trace)


def test_a_later_state_adds_up() -> None:
    setting = setting_of(scenario({**BATCH, "jobs": 6, "sizes": [2, 5]}, 13), 1)
    state = setting.play.begin()
    setting.play.go_on(state, rule(setting, "curves"), setting.draws, until_ms=9000)
    stages, jobs, places = state.stages, state.jobs, state.places
    assert (stages["unstarted"] + stages["running"] + stages["finished"] == setting.play.jobs.stages["tasks"]).all()
    first = setting.play.jobs.jobs["first"]
    for name in ("unstarted", "running"):
        assert (np.add.reduceat(stages[name], first) == jobs[name]).all()
    busy = places["status"] > 0
    assert (np.bincount(places["job"][busy], minlength=len(jobs)) == jobs["executors"]).all()
    assert 0 < jobs["left"].sum() < setting.play.tasks
    assert set(state.idle[: (places["status"] == IDLE).sum()]) == set(np.flatnonzero(places["status"] == IDLE))


def test_cheap_caps_change_nothing() -> None:
    setting = setting_of(scenario({**BATCH, "jobs": 6, "sizes": [2, 5]}, 13), 1)
    of = rule(setting, "curves")
    ends = setting.play.ends(of, setting.draws).copy()
    of.stages["cap"], of.jobs["hold"] = 13, 13
    assert (setting.play.ends(of, setting.draws) == ends).all()
    of.stages["cap"] = 1
    assert setting.play.mean_jct_s(setting.play.ends(of, setting.draws)) > setting.play.mean_jct_s(ends)
    assert MANY > 13


def test_records_are_of_whole_words() -> None:
    for kind in (JOB_NOW, STAGE_NOW, PLACE):
        assert kind.itemsize == 8 * len(kind.names or ())


@pytest.mark.parametrize(
    ("workload", "cluster", "why"),
    [
        ({**BATCH, "jobs": 2, "durations": "per_task"}, {}, "not measured in waves"),
        ({**BATCH, "jobs": 2}, {"startup": "1s"}, r"beyond profile `events` .*startup"),
        ({**BATCH, "jobs": 2, "drawn": {"memory": "2Gi"}, "demand": {"cpu": 1}}, {}, "several sizes"),
    ],
)
def test_what_the_fast_simulator_does_not_play_is_refused(
    workload: dict[str, object], cluster: dict[str, object], why: str
) -> None:
    with pytest.raises(Unsuitable, match=why):
        setting_of(scenario(workload, 5, **cluster), 1)


def test_other_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="does not know policy 'fifo'"):
        rule_of({"kind": "fifo"}, [], [], 5)

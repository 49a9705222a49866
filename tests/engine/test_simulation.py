"""The engine in each profile: when tasks are granted, launched, over, and heard of."""

from __future__ import annotations

import gc
import itertools
from itertools import pairwise
from typing import Any

import pytest

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import EngineConfig, Executors
from rm_emulator.engine.control import Stalled
from rm_emulator.engine.features.unlike import locality
from rm_emulator.engine.profile import profiles
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Attempt, Audit, MemoryRecording, job, node, stage
from rm_emulator.workload.model import Fixed, PerNode, PerTask, Remote, RunTimes, Waves, Workload, WorkloadJob
from rm_emulator.workload.waves import StageWaves
from schedulers.core.events import ContainerEnded, Estimated, Event, Heartbeat, JobChanged, JobSubmitted, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler

FREE = Remote()


class Run:
    """One run of jobs `(submit_ms, job, run times)` on `nodes` under fifo."""

    def __init__(
        self,
        jobs: list[tuple[int, Job, tuple[RunTimes, ...]]],
        *nodes: Node,
        policy: str | dict[str, Any] = "fifo",
        remote: Remote = FREE,
        apart: float = 1.0,
        am: tuple[int, ...] = (),
        predictor: dict[str, Any] | None = None,
        seed: int = 1,
        waves_of: Any = None,
        run: bool = True,
        **config: Any,
    ) -> None:
        nodes = nodes or (node(),)
        self.config = EngineConfig(nodes=nodes, **config)
        settings = SchedulerConfig(
            resources=("cpu", "memory"),
            policy={"kind": policy} if isinstance(policy, str) else policy,
            predictor=predictor,
            offers=timing(self.config).offers,
            executors=self.config.executors is not None,
            containers_per_offer=self.config.containers_per_heartbeat,
        )
        self.audit = Audit(Scheduler(settings))
        self.kept = MemoryRecording()
        sources = tuple(
            WorkloadJob(job=spec, submit_ms=at, runtimes=times, apart=apart, am=am) for at, spec, times in jobs
        )
        self.simulation = Simulation(
            self.config,
            Workload(name="test", jobs=sources, remote=remote),
            self.audit,
            self.kept,
            seed=seed,
            waves_of=waves_of,
            oracle=predictor == {"kind": "oracle"},
        )
        if run:
            self.simulation.run()
            self.audit.drained()

    @property
    def tasks(self) -> list[Attempt]:
        return sorted(self.kept.tasks, key=lambda t: (t.granted_ms, t.job, t.stage, t.task))

    def facts(self, kind: type[Event]) -> list[Any]:
        return [event for event, _ in self.audit.history if isinstance(event, kind)]


def single(ms: int, tasks: int = 1) -> list[tuple[int, Job, tuple[RunTimes, ...]]]:
    return [(0, job("a", stage(tasks)), (Fixed(ms),))]


SEEDS = range(8)


# -- yarn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_yarn_grants_at_the_first_beat_and_starts_at_the_application_masters_tick(seed: int) -> None:
    (task,) = Run(single(5000), seed=seed).tasks
    assert 0 <= task.granted_ms < 1000
    assert task.started_ms == 1000


@pytest.mark.parametrize("seed", SEEDS)
def test_yarn_reports_an_end_at_once_by_an_out_of_band_beat(seed: int) -> None:
    first, second = Run(single(5300, tasks=2), seed=seed).tasks
    assert (first.ended_ms, second.granted_ms, second.started_ms) == (6300, 6300, 7000)


def test_yarn_counts_its_interval_from_the_out_of_band_beat() -> None:
    jobs = [*single(5321), (20_000, job("b"), (Fixed(10),))]
    later = Run(jobs).tasks[1]
    assert later.granted_ms == 20_321


def test_a_grant_at_the_very_tick_is_picked_up_at_the_next_one() -> None:
    jobs = [*single(4000), (2000, job("b"), (Fixed(10),))]
    later = Run(jobs).tasks[1]  # a runs from 1000 to 5000; the master of b ticks at 5000 too
    assert (later.granted_ms, later.started_ms) == (5000, 6000)


def test_each_application_master_ticks_from_its_own_submission() -> None:
    (task,) = Run([(250, job("a"), (Fixed(10),))], am_heartbeat_ms=400).tasks
    assert (task.started_ms - 250) % 400 == 0
    assert 0 < task.started_ms - task.granted_ms <= 400


def test_the_mean_wait_for_a_beat_among_k_free_nodes_is_the_interval_over_k_plus_one() -> None:
    nodes = tuple(node(f"n{i}") for i in range(4))
    waits = [Run([(77, job("a"), (Fixed(1),))], *nodes, seed=seed).tasks[0].granted_ms - 77 for seed in range(300)]
    assert sum(waits) / len(waits) == pytest.approx(1000 / 5, rel=0.1)


def test_the_next_stage_is_asked_for_at_the_masters_tick_after_the_last_end() -> None:
    spec = job("a", stage(2), stage(parents=(0,)))
    run = Run([(0, spec, (PerTask((5300, 2100)), Fixed(10)))], node("n", 2))
    assert [(fact.at, fact.asked) for fact in run.facts(JobChanged)] == [(7000, (1,))]
    assert run.tasks[-1].granted_ms >= 7000


def test_roots_are_asked_for_at_submission() -> None:
    assert Run(single(10)).facts(JobSubmitted)[0].asks == "roots"


def test_so_many_containers_per_heartbeat() -> None:
    run = Run(single(9000, tasks=6), node("n", 6), containers_per_heartbeat=2)
    grants = [t.granted_ms for t in run.tasks]
    assert grants == [grants[0]] * 2 + [grants[0] + 1000] * 2 + [grants[0] + 2000] * 2


def test_the_interval_is_a_setting() -> None:
    grants = [Run(single(10), seed=seed, heartbeat_ms=100).tasks[0].granted_ms for seed in range(50)]
    assert max(grants) < 100


# -- sls ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_sls_asks_one_tick_after_submission_and_launches_two_after_that(seed: int) -> None:
    (task,) = Run(single(5000), profile="sls", seed=seed).tasks
    assert 1000 <= task.granted_ms < 2000
    assert task.started_ms == 3000


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("seconds", [1, 5, 30])
def test_sls_wave_takes_two_seconds_more_than_whole_seconds(seed: int, seconds: int) -> None:
    # Real runs of Hadoop 3.3.5 under SLS: lifetime + 2 s per wave, whatever the phases.
    starts = [t.started_ms for t in Run(single(1000 * seconds, tasks=4), profile="sls", seed=seed).tasks]
    assert [b - a for a, b in itertools.pairwise(starts)] == [1000 * seconds + 2000] * 3


def test_sls_wave_of_broken_seconds_depends_on_the_phase() -> None:
    cycles = set()
    for seed in range(30):
        first, second = Run(single(5300, tasks=2), profile="sls", seed=seed).tasks
        cycles.add(second.started_ms - first.started_ms)
    assert cycles == {7000, 8000}


def test_sls_hears_of_an_end_at_the_nodes_next_beat() -> None:
    run = Run(single(5300), profile="sls")
    (heard,) = run.facts(ContainerEnded)
    assert heard.at % 1000 == run.tasks[0].granted_ms % 1000
    assert 0 < heard.at - run.tasks[0].ended_ms <= 1000


@pytest.mark.parametrize("seed", SEEDS)
def test_sls_does_not_ask_for_the_next_stage_before_the_last_end_was_heard(seed: int) -> None:
    spec = job("a", stage(), stage(parents=(0,)))
    run = Run([(0, spec, (Fixed(5300), Fixed(10)))], profile="sls", seed=seed)
    heard = run.facts(ContainerEnded)[0].at
    asked = next(fact.at for fact in run.facts(JobChanged) if fact.asked == (1,))
    assert asked > heard


def test_nothing_is_asked_for_at_submission_in_sls() -> None:
    assert Run(single(10), profile="sls").facts(JobSubmitted)[0].asks == "asked"


# -- events ---------------------------------------------------------------------------------------


def test_events_decides_at_once_and_without_beats() -> None:
    run = Run(single(500, tasks=2), profile="events")
    assert [(t.granted_ms, t.started_ms, t.ended_ms) for t in run.tasks] == [(0, 0, 500), (500, 500, 1000)]
    assert run.facts(Heartbeat) == []


def test_events_starts_the_next_stage_at_once() -> None:
    spec = job("a", stage(), stage(parents=(0,)))
    run = Run([(0, spec, (Fixed(500), Fixed(100)))], profile="events")
    assert run.simulation.end_ms == 600


# -- nodes and launch -----------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "runtime"), [(2.0, 2500), (0.5, 10_000), (3.0, 1667), (1.0, 5000)])
def test_a_nodes_speed_scales_run_times(speed: float, runtime: int) -> None:
    (task,) = Run(single(5000), node(speed=speed)).tasks
    assert task.ended_ms - task.started_ms == runtime


def test_no_task_takes_less_than_a_millisecond() -> None:
    (task,) = Run(single(1), node(speed=50.0)).tasks
    assert task.ended_ms - task.started_ms == 1


def test_predictors_hear_run_times_with_the_speed_of_the_node() -> None:
    run = Run(single(5000), node(speed=2.0), policy="gs", predictor={"kind": "three_sigma"})
    learned = run.audit.scheduler.predictor.dump()
    assert "5000.0" in str(learned)


def test_startup_delays_the_first_instant() -> None:
    (task,) = Run(single(5000), startup=Fixed(700)).tasks
    assert (task.started_ms, task.ended_ms) == (1700, 6700)


# -- executors ------------------------------------------------------------------------------------


def waves_of(waves: Waves, executors: Executors) -> StageWaves:
    return StageWaves({5: [300]}, {5: [200]}, {5: [100]}, warmup_ms=executors.warmup_ms)


W = Waves("q", 0)


def kept(jobs: list[tuple[int, Job, tuple[RunTimes, ...]]], *nodes: Node, **config: Any) -> Run:
    return Run(jobs, *nodes, profile="events", executors=Executors(moving_ms=2000), waves_of=waves_of, **config)


def test_a_new_executor_costs_the_moving_delay() -> None:
    assert kept(single(50)).tasks[0].started_ms == 2000


def test_waves_are_fresh_then_rest_then_first_of_the_next_stage() -> None:
    spec = job("a", stage(3), stage(2, parents=(0,)))
    run = kept([(0, spec, (W, W))])
    assert [t.ended_ms - t.started_ms for t in run.tasks] == [300, 100, 100, 200, 100]


def test_an_executor_goes_on_without_delay_inside_its_job() -> None:
    spec = job("a", stage(2), stage(parents=(0,)))
    run = kept([(0, spec, (W, W))])
    assert [t.started_ms for t in run.tasks] == [2000, 2300, 2400]


def test_an_executor_that_has_waited_is_fresh_again() -> None:
    # The first stage's second task takes longer: the executor of the first one waits for it, in its job.
    spec = job("a", stage(2), stage(2, parents=(0,)))
    first = PerTask((100, 250))
    run = kept([(0, spec, (first, W))], node("n", 2))
    assert [(t.started_ms, t.ended_ms - t.started_ms) for t in run.tasks[2:]] == [(2250, 300), (2250, 200)]


def test_an_executor_that_moves_to_another_job_pays_again_and_is_fresh_there() -> None:
    jobs = [(0, job("a", stage(), stage(2)), (W, W)), (10, job("b", stage()), (W,))]
    run = kept(jobs, node("n", 2))
    mine = next(t for t in run.tasks if t.job == "b")
    assert mine.started_ms - mine.granted_ms == 2000
    assert mine.ended_ms - mine.started_ms == 300


def test_an_executor_that_is_brought_ahead_starts_at_once_when_the_stage_opens() -> None:
    spec = job("a", stage(), stage(2, parents=(0,)))
    run = kept([(0, spec, (W, W))], node("n", 3), policy={"kind": "weighted_fair", "alpha": 0})
    assert [t.started_ms for t in run.tasks] == [2000, 2300, 2300]
    assert [t.ended_ms - t.started_ms for t in run.tasks] == [300, 300, 300]


def test_executors_need_decisions_at_scheduling_events() -> None:
    with pytest.raises(ValueError, match="executors need the profile 'events', this cluster has 'yarn'"):
        Run(single(1), profile="yarn", executors=Executors())


# -- the run as a whole ---------------------------------------------------------------------------


def test_a_job_that_can_never_finish_stalls_the_run_and_says_why() -> None:
    jobs = [*single(10), (5, job("big", stage(demand=(64_000, 1), name="train")), (Fixed(1),))]
    run = Run(jobs, run=False)
    with pytest.raises(Stalled, match=r"1 jobs can never finish; the first is 'big': stage train asks for 64 cpu"):
        run.simulation.run()


def test_a_stalled_run_reports_the_unfinished_jobs_too() -> None:
    run = Run([*single(10), (5, job("big", stage(demand=(64_000, 1))), (Fixed(1),))], run=False)
    with pytest.raises(Stalled):
        run.simulation.run()
    assert [(row.id, row.finish_ms is None) for row in run.kept.jobs] == [("a", False), ("big", True)]


@pytest.mark.parametrize("policy", ["capacity", "fifo"])
def test_a_run_stalls_though_the_master_of_the_job_that_cannot_finish_runs_on(policy: str) -> None:
    jobs = [*single(10), (5, job("big", stage(demand=(64_000, 1), name="train")), (Fixed(1),))]
    run = Run(jobs, node("n", 2), policy=policy, am=(1, 1), run=False)
    with pytest.raises(Stalled, match="1 jobs can never finish; the first is 'big': stage train asks for 64 cpu"):
        run.simulation.run()


@pytest.mark.parametrize("skip", [True, False])
def test_a_stalled_run_ends_in_naive_mode_too(skip: bool) -> None:
    run = Run([(0, job("big", stage(demand=(64_000, 1))), (Fixed(1),))], skip=skip, run=False)
    with pytest.raises(Stalled):
        run.simulation.run()


@pytest.mark.parametrize("profile", ["yarn", "events"])
def test_a_stalled_run_ends_under_a_policy_with_a_period_too(profile: str) -> None:
    policy = {"kind": "capacity", "preemption": {"enabled": True}}
    run = Run([(0, job("big", stage(demand=(64_000, 1))), (Fixed(1),))], policy=policy, profile=profile, run=False)
    with pytest.raises(Stalled):
        run.simulation.run()


def test_a_policy_s_period_lasts_over_a_long_pause() -> None:
    policy = {"kind": "capacity", "preemption": {"enabled": True}}
    run = Run([*single(10), (5_000_000, job("b"), (Fixed(10),))], policy=policy, profile="events")
    ticks = [event.at for event in run.facts(Tick)]
    assert all(later - earlier <= 3000 for earlier, later in pairwise(ticks))


def test_a_scheduler_that_looks_from_time_to_time_looks_in_each_cycle() -> None:
    """The FairScheduler sees a new application at its next update, and in cycles nothing else would call for one."""
    run = Run(single(10), policy="fair_yarn", profile="events")
    assert [task.started_ms for task in run.tasks] == [0]


def test_naive_mode_lasts_over_a_long_pause() -> None:
    jobs = [*single(10), (500_000, job("b"), (Fixed(10),))]
    assert len(Run(jobs, skip=False).tasks) == 2


def test_an_empty_workload_is_over_at_once() -> None:
    run = Run([], run=False)
    run.simulation.run()
    assert (run.simulation.end_ms, run.kept.jobs) == (0, [])


def test_jobs_are_reported_with_what_happened_to_them() -> None:
    spec = job("a", stage(2), stage(parents=(0,)), name="etl", user="ann")
    run = Run([(100, spec, (PerTask((500, 300)), Fixed(50)))], node("n", 2), profile="events")
    (row,) = run.kept.jobs
    assert (row.submit_ms, row.first_start_ms, row.finish_ms) == (100, 100, 650)
    assert (row.tasks, row.stages, row.width, row.work_ms, row.ideal_ms) == (3, 2, 2, 850, 550)
    assert (row.name, row.user) == ("etl", "ann")


def test_the_oracle_is_told_before_the_job_arrives() -> None:
    run = Run(single(700, tasks=2), policy="sjf", predictor={"kind": "oracle"})
    facts = [event for event, _ in run.audit.history if isinstance(event, Estimated | JobSubmitted)]
    assert facts[0] == Estimated(0, "a", (700,))
    assert isinstance(facts[1], JobSubmitted)


def test_the_oracle_is_told_times_by_node_where_they_are_no_matter_of_speed() -> None:
    spec = job("a", stage(2), stage(parents=(0,)))
    times = (PerNode(("n", "m"), ((100, 300), (200, 400))), Fixed(50))
    run = Run([(0, spec, times)], node("n"), node("m", speed=2.0), policy="sjf", predictor={"kind": "oracle"})
    assert run.facts(Estimated) == [Estimated(0, "a", (250, 50), {"n": (150, 0), "m": (350, 0)})]


@pytest.mark.parametrize("rows", [((100, 300),), ((100, 300), (100, 300))])
def test_a_task_takes_its_time_on_its_node_whatever_the_speed(rows: tuple[tuple[int, ...], ...]) -> None:
    run = Run(
        [(0, job("a", stage(2)), (PerNode(("n", "m"), rows),))], node("n"), node("m", speed=2.0), profile="events"
    )
    assert {task.node: task.ended_ms for task in run.tasks} == {"n": 100, "m": 300}
    assert run.kept.jobs[0].ideal_ms == 100


def test_times_by_node_without_one_of_the_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="job 'a' stage 's' has run times by node, but none for 'm'"):
        Run([(0, job("a"), (PerNode(("n",), ((1,),)),))], node("n"), node("m"))


@pytest.mark.parametrize("predictor", [None, {"kind": "slearn"}, {"kind": "posterior"}])
def test_nobody_else_is_told(predictor: dict[str, Any] | None) -> None:
    assert Run(single(700, tasks=5), policy="gs", predictor=predictor).facts(Estimated) == []


@pytest.mark.parametrize(
    ("policy", "predictor"), [("fifo", None), ("las", None), ("fair", None), ("gs", {"kind": "posterior"})]
)
def test_finished_jobs_are_forgotten(policy: str, predictor: dict[str, Any] | None) -> None:
    jobs = [(3000 * i, job(f"j{i}", stage(3), stage(2, parents=(0,))), (Fixed(500), Fixed(200))) for i in range(60)]
    run = Run(jobs, node("n", 4), policy=policy, predictor=predictor, profile="events")
    assert (run.simulation.jobs, run.simulation.containers) == ({}, {})
    assert len(run.audit.state.journal.orders.unread()) <= 2
    memory = run.audit.scheduler.policy.dump() or {}
    assert len(memory.get("places", ())) <= 2
    assert len(memory.get("charges", ())) == 0


def test_progress_is_told_now_and_then() -> None:
    heard: list[int] = []
    run = Run(single(1, tasks=1200), node("n", 100), profile="events", run=False)
    run.simulation._progress = heard.append
    run.simulation.run()
    assert heard == [512, 1024]


def test_two_policies_meet_the_same_run_times() -> None:
    def lengths(policy: str) -> dict[tuple[str, int, int], int]:
        jobs = [(0, job(name, stage(5)), (PerTask((100, 200, 300, 400, 500)),)) for name in "abc"]
        run = Run(jobs, node("n", 2), policy=policy, profile="events")
        return {(t.job, t.stage, t.task): t.ended_ms - t.started_ms for t in run.tasks}

    assert lengths("fifo") == lengths("fair")


# -- application masters in containers ------------------------------------------------------------


def with_master(ms: int, tasks: int = 1, *, at: int = 0, name: str = "a") -> WorkloadJob:
    return WorkloadJob(job=job(name, stage(tasks)), submit_ms=at, runtimes=(Fixed(ms),), am=(1000, 1024))


def run_sources(sources: tuple[WorkloadJob, ...], seed: int, **config: Any) -> MemoryRecording:
    made = EngineConfig(nodes=(node(cores=8),), **{"profile": "sls", **config})
    audit = Audit(Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="heartbeat")))
    kept = MemoryRecording()
    Simulation(made, Workload(name="test", jobs=sources), audit, kept, seed=seed).run()
    audit.drained()
    return kept


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_takes_seven_ticks_more_than_its_task(seed: int) -> None:
    """Master granted, asks at 1, reply at 2, launch at 3; 5 s; its node's beat, taken at 9, counted at 10."""
    kept = run_sources((with_master(5000, at=4000),), seed)
    (row,) = kept.jobs
    (task,) = (t for t in kept.tasks if t.stage == 0)
    assert (task.started_ms, task.ended_ms, row.finish_ms) == (7000, 12_000, 14_000)


def test_nodes_beat_from_their_second_turn() -> None:
    """SLS's NodeManagers register in their first, so that a job of second 0 starts a second later than others."""
    (task,) = (t for t in run_sources((with_master(5000),), 1).tasks if t.stage == 0)
    assert task.started_ms == 4000


@pytest.mark.parametrize("seed", SEEDS)
def test_a_master_holds_its_container_from_its_grant_to_the_jobs_end(seed: int) -> None:
    kept = run_sources((with_master(5000, at=4000),), seed)
    (master,) = (t for t in kept.tasks if t.stage == 1)
    assert master.started_ms == master.granted_ms
    assert 4000 <= master.granted_ms < 5000
    assert master.ended_ms == 14_000


def test_a_skipping_run_with_masters_is_the_naive_one() -> None:
    sources = tuple(with_master(3000 + 700 * n, tasks=3, at=1000 * n, name=f"j{n}") for n in range(6))
    skipping, naive = run_sources(sources, 3), run_sources(sources, 3, skip=False)
    assert skipping.tasks == naive.tasks
    assert skipping.jobs == naive.jobs


def test_the_last_master_is_reported_though_nobody_waits_for_its_room() -> None:
    kept = run_sources((with_master(5000),), 1, profile="yarn")
    assert [(t.stage, t.code) for t in kept.tasks] == [(0, 0), (1, 0)]


# -- input ----------------------------------------------------------------------------------------


def reads(*hosts: tuple[str, ...]) -> list[tuple[int, Job, tuple[RunTimes, ...]]]:
    return [(0, job("a", Stage(name="s", tasks=len(hosts), demand=(1000, 1024), hosts=hosts)), (Fixed(1000),))]


def test_a_task_away_from_its_input_takes_longer() -> None:
    nodes = [node("n1", rack="a"), node("n2", rack="a"), node("n3", rack="b", speed=2.0)]
    made = Run(reads(("n1",), ("n1",), ("n1",), ()), *nodes, remote=Remote(rack=1.2, off=1.5), profile="events")
    took = {t.node: t.ended_ms - (t.started_ms or 0) for t in made.tasks if t.task < 3}
    assert took == {"n1": 1000, "n2": 1200, "n3": 750}
    assert locality(made.simulation.feature) == {"node": 1 / 3, "rack": 1 / 3, "off": 1 / 3}
    assert made.kept.jobs[0].work_ms == 4000  # distance is no work


@pytest.mark.parametrize(("racks", "gang", "ms"), [("aa", True, 1000), ("ab", True, 1500), ("ab", False, 1000)])
def test_a_gang_that_is_not_in_one_rack_takes_longer(racks: str, gang: bool, ms: int) -> None:
    nodes = [node(f"n{number}", rack=rack) for number, rack in enumerate(racks)]
    stages = (Stage(name="s", tasks=2, demand=(1000, 1024), gang=gang), stage(1, parents=(0,)))
    made = Run([(0, job("a", *stages), (Fixed(1000), Fixed(1000)))], *nodes, apart=1.5, profile="events")
    assert [t.ended_ms - (t.started_ms or 0) for t in made.tasks] == [ms, ms, 1000]


def test_without_input_there_is_no_locality() -> None:
    assert locality(Run(single(1000)).simulation.feature) is None


def test_a_move_to_a_task_without_input_forgets_the_distance() -> None:
    both = (
        Stage(name="s", tasks=1, demand=(1000, 1024), hosts=(("n2",),)),
        stage(3, parents=(0,)),
    )
    jobs: list[Any] = [(0, job("a", *both), (Fixed(1000), Fixed(1000)))]
    made = Run(jobs, node("n1"), profile="events", executors=Executors(moving_ms=0), remote=Remote(off=1.5))
    assert [t.ended_ms - (t.started_ms or 0) for t in made.tasks] == [1500, 1000, 1000, 1000]
    assert locality(made.simulation.feature) == {"node": 0.0, "rack": 0.0, "off": 1.0}


@pytest.mark.parametrize("profile", profiles.names)
def test_plans_are_recorded(profile: str) -> None:
    made = Run(single(1000), policy="graphene", predictor={"kind": "oracle"}, profile=profile)
    assert [planned.makespan for planned in made.kept.plans.values()] == [1000]


@pytest.mark.parametrize("profile", profiles.names)
def test_a_wait_that_never_ends_is_a_stall(profile: str) -> None:
    small = Node(id="n1", capacity=(500, 512))
    policy = {"kind": "delay", "node_skips": 10**9}
    with pytest.raises(Stalled, match="waits for a node that holds its input"):
        Run(reads(("n1",)), small, node("n2"), policy=policy, profile=profile)


@pytest.mark.parametrize("profile", profiles.names)
@pytest.mark.parametrize("settings", [{"node_skips": 7}, {"form": "time"}], ids=str)
def test_a_wait_on_an_idle_cluster_ends(profile: str, settings: dict[str, Any]) -> None:
    small = Node(id="n1", capacity=(500, 512))
    (task,) = Run(reads(("n1",)), small, node("n2"), policy={"kind": "delay", **settings}, profile=profile).tasks
    assert task.node == "n2"
    assert 2000 < task.granted_ms < 10_000


def test_garbage_is_looked_for_rarely_while_a_run_runs_and_as_before_afterwards() -> None:
    before, during = gc.get_threshold(), []
    made = Run(single(5000), run=False)
    made.simulation.calendar.at(1, 1, 0, lambda _: during.append(gc.get_threshold()[0]))
    made.simulation.run()
    assert during[0] > 100 * before[0]
    assert gc.get_threshold() == before


def test_a_run_leaves_the_collector_off_where_it_is_off() -> None:
    before, during = gc.get_threshold(), []
    made = Run(single(5000), run=False)
    made.simulation.calendar.at(1, 1, 0, lambda _: during.append(gc.get_threshold()[0]))
    gc.set_threshold(0)
    try:
        made.simulation.run()
    finally:
        gc.set_threshold(*before)
    assert during == [0]

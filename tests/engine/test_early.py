"""Edges that are no barriers, by hand: when tasks get containers, start and end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import Central, EngineConfig, Executors
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Audit, MemoryRecording, job, node, replay, stage
from rm_emulator.workload.model import Fixed, PerTask, RunTimes, Workload, WorkloadJob
from schedulers.core.abilities import Preempts
from schedulers.core.errors import InvalidJob
from schedulers.core.live import RUNNING
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Edge, Job, Stage, check_job
from schedulers.core.policy import ClusterView, Policy, Victim
from schedulers.core.scheduler import Scheduler
from schedulers.policies.fifo import Fifo

SLOW_START = Edge(parent=0, kind="share", share=0.05)
ONE_TO_ONE = Edge(parent=0, kind="one_to_one")


def tied(tasks: int, *edges: int | Edge, name: str = "s", **fields: object) -> Stage:
    return msgspec.structs.replace(stage(tasks, name=name), parents=edges, **fields)


class Run:
    """A run of jobs that arrive at 0, and job b at `last_ms`, each with its run times, under fifo."""

    def __init__(
        self,
        *jobs: tuple[Job, tuple[RunTimes, ...]],
        nodes: int = 2,
        policy: Policy | None = None,
        last_ms: int = 0,
        **config,
    ) -> None:
        self.config = EngineConfig(nodes=tuple(node(f"n{i}") for i in range(nodes)), **{"profile": "events", **config})
        self.log: list[bytes] = []
        made = SchedulerConfig(
            resources=("cpu", "memory"),
            policy={"kind": "fifo"},
            offers=timing(self.config).offers,
            executors=self.config.executors is not None,
        )
        log = Log(self.log.append)
        self.audit, self.kept = Audit(Scheduler(made, log=log, policy=policy)), MemoryRecording()
        entries = tuple(
            WorkloadJob(job=spec, submit_ms=last_ms * (spec.id == "b"), runtimes=times) for spec, times in jobs
        )
        self.simulation = Simulation(self.config, Workload(name="t", jobs=entries), self.audit, self.kept)
        self.simulation.run()
        self.audit.drained()
        log.flush()

    def of(self, stage: int, job: str = "a") -> list[tuple[int, int | None, int]]:
        """Grant, start and end of the stage's tasks, by task."""
        found = sorted(
            (t for t in self.kept.tasks if (t.job, t.stage, t.code) == (job, stage, 0)), key=lambda t: t.task
        )
        return [(t.granted_ms, t.started_ms, t.ended_ms) for t in found]


#: Three maps of 10, 10 and 20 s, and two reduces of 5 s.
MAPS, REDUCES = PerTask((10_000, 10_000, 20_000)), Fixed(5000)


def test_with_slow_start_a_reduce_task_takes_the_slot_that_no_map_needs_and_runs_once_all_maps_are_over() -> None:
    spec = job("a", stage(3, name="map"), tied(2, SLOW_START, name="reduce"))
    run = Run((spec, (MAPS, REDUCES)), startup=Fixed(4000))
    # Two maps hold the two slots up to 14 s, start-up included; the third has the first slot up to 38 s.
    assert run.of(0) == [(0, 4000, 14_000), (0, 4000, 14_000), (14_000, 18_000, 38_000)]
    # The first reduce has started up when the last map ends; the second gets the slot of that map.
    assert run.of(1) == [(14_000, 38_000, 43_000), (38_000, 42_000, 47_000)]


def test_behind_a_barrier_both_reduce_tasks_start_up_after_the_last_map() -> None:
    run = Run((job("a", stage(3), tied(2, 0)), (MAPS, REDUCES)), startup=Fixed(4000))
    assert run.of(1) == [(38_000, 42_000, 47_000)] * 2


def test_an_early_container_wastes_the_room_that_another_job_could_have_used() -> None:
    other = job("b", stage(1)), (Fixed(3000),)
    for edge, granted in ((SLOW_START, 30_000), (0, 10_000)):
        run = Run((job("a", stage(3), tied(1, edge)), (MAPS, REDUCES)), other)
        assert run.of(0, "b") == [(granted, granted, granted + 3000)]


def test_no_reduce_task_gets_a_container_while_a_map_waits() -> None:
    # With two slots for four maps of 10 s the share is reached at 10 s, and the last two maps take both slots.
    run = Run((job("a", stage(4), tied(2, SLOW_START)), (Fixed(10_000), REDUCES)))
    assert run.of(1) == [(20_000, 20_000, 25_000)] * 2


class PreemptsAMap(Fifo, Preempts):
    """Preempts the last map of job a once, when job b comes."""

    preempted = False

    def victims(self, view: ClusterView) -> Sequence[Victim]:
        if "b" not in view.jobs:
            return ()
        running = [c.id for c in view.containers.values() if (c.stage, c.task, c.status) == (0, 2, RUNNING)]
        if self.preempted or not running:
            return ()
        self.preempted = True
        return [Victim(running[0], "test", "a")]


def test_when_a_map_must_run_again_its_early_reduce_task_gives_up_its_slot_until_the_map_has_one() -> None:
    spec = job("a", stage(3, name="map"), tied(2, SLOW_START, name="reduce"))
    other = job("b", stage(1)), (Fixed(1000),)
    policy = PreemptsAMap(PreemptsAMap.Params())
    run = Run((spec, (MAPS, REDUCES)), other, policy=policy, startup=Fixed(4000), last_ms=20_000)
    failed = [(t.stage, t.task, t.granted_ms, t.started_ms, t.ended_ms) for t in run.kept.tasks if t.code]
    # The core hears of the map's end a ms after the preemption, and preempts the reduce task.
    assert failed == [(0, 2, 14_000, 18_000, 20_000), (1, 0, 14_000, None, 20_001)]
    assert run.of(0)[2] == (20_001, 24_001, 44_001)
    assert run.of(1) == [(20_002, 44_001, 49_001), (44_001, 48_001, 53_001)]


def test_an_early_task_waits_for_the_last_of_two_parents() -> None:
    edges = SLOW_START, Edge(parent=1, kind="share", share=0.5)
    times = PerTask((1000, 9000)), PerTask((2000, 7000)), Fixed(500)
    run = Run((job("a", stage(2), stage(2), tied(1, *edges)), times), nodes=5)
    assert run.of(2) == [(2000, 9000, 9500)]


def test_the_next_stage_begins_early_only_once_its_own_parent_runs() -> None:
    chain = job("a", stage(2), tied(2, SLOW_START), tied(1, Edge(parent=1, kind="share", share=0.5)))
    run = Run((chain, (PerTask((1000, 5000)), PerTask((1000, 4000)), Fixed(500))), nodes=4)
    assert run.of(1) == [(1000, 5000, 6000), (1000, 5000, 9000)]
    assert run.of(2) == [(6000, 9000, 9500)]


def test_a_one_to_one_chain_pipelines() -> None:
    chain = job("a", stage(3), tied(3, ONE_TO_ONE), tied(3, Edge(parent=1, kind="one_to_one")))
    run = Run((chain, (PerTask((1000, 3000, 2000)), Fixed(2000), Fixed(1000))), nodes=9)
    assert run.of(1) == [(1000, 1000, 3000), (3000, 3000, 5000), (2000, 2000, 4000)]
    assert run.of(2) == [(3000, 3000, 4000), (5000, 5000, 6000), (4000, 4000, 5000)]


def test_a_task_behind_two_one_to_one_edges_waits_for_both_of_its_number() -> None:
    edges = ONE_TO_ONE, Edge(parent=1, kind="one_to_one")
    times = PerTask((1000, 5000)), PerTask((4000, 2000)), Fixed(100)
    run = Run((job("a", stage(2), stage(2), tied(2, *edges)), times), nodes=6)
    assert run.of(2) == [(4000, 4000, 4100), (5000, 5000, 5100)]


def test_a_barrier_beside_a_one_to_one_edge_holds_all_tasks() -> None:
    times = PerTask((1000, 2000)), Fixed(7000), Fixed(100)
    run = Run((job("a", stage(2), stage(1), tied(2, ONE_TO_ONE, 1)), times), nodes=6)
    assert run.of(2) == [(7000, 7000, 7100)] * 2


def test_the_ideal_follows_the_tasks_of_one_to_one_edges() -> None:
    # Task by task 9 + 1 and 1 + 9 s; a barrier would make 9 + 9 of the two longest.
    chain = job("a", stage(2), tied(2, ONE_TO_ONE), tied(1, Edge(parent=1, kind="share", share=0.5)))
    run = Run((chain, (PerTask((9000, 1000)), PerTask((1000, 9000)), Fixed(500))), nodes=9)
    assert [row.ideal_ms for row in run.kept.jobs] == [10_500]
    assert run.simulation.end_ms == 10_500


def test_executors_go_on_with_a_one_to_one_stage() -> None:
    run = Run((job("a", stage(3), tied(3, ONE_TO_ONE)), (Fixed(1000), Fixed(500))), executors=Executors(moving_ms=0))
    assert [ended for _, _, ended in run.of(1)] == [1500, 2000, 2500]


@pytest.mark.parametrize("profile", ["yarn", "sls", "kubernetes"])
def test_in_every_profile_the_reduce_runs_after_the_maps_and_is_granted_before(profile: str) -> None:
    run = Run((job("a", stage(3), tied(1, SLOW_START)), (MAPS, REDUCES)), profile=profile)
    last = max(ended for _, _, ended in run.of(0))
    ((granted, started, _),) = run.of(1)
    assert granted < last <= started


def test_a_log_with_early_containers_replays() -> None:
    run = Run((job("a", stage(3), tied(3, ONE_TO_ONE), tied(2, SLOW_START)), (MAPS, REDUCES, REDUCES)))
    lines = b"".join(run.log).splitlines()
    assert replay(lines) == lines


@pytest.mark.parametrize(
    ("edge", "fields", "words"),
    [
        (Edge(parent=1, kind="one_to_one"), {}, "has 2 tasks and the parent 3"),
        (Edge(parent=0, kind="share"), {}, "share 0 (above 0 and below 1)"),
        (Edge(parent=0, kind="share", share=1.0), {}, "share 1 (above 0 and below 1)"),
        (Edge(parent=0, share=0.5), {}, "kind barrier with a share"),
        (Edge(parent=0, kind="share", share=0.5), {"gang": True}, "is a gang"),
        (Edge(parent=0, kind="one_to_one", data=5), {}, "takes data"),
    ],
)
def test_an_edge_that_makes_no_sense_is_refused(edge: Edge, fields: dict[str, object], words: str) -> None:
    spec = job("a", stage(2), stage(3), tied(2, edge, **fields))
    with pytest.raises(InvalidJob, match="edge to parent") as error:
        check_job(spec, 2)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"executors": Executors(moving_ms=0)}, "do not go with executors"),
        ({"architecture": Central(t_job_ms=100)}, "do not go with an architecture"),
    ],
)
def test_where_a_stage_waits_as_a_whole_a_share_is_refused(config: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Run((job("a", stage(3), tied(1, SLOW_START)), (MAPS, REDUCES)), **config)


def test_a_share_is_rounded_up_as_by_mapreduce() -> None:
    least = [
        Edge(parent=0, kind="share", share=share).least(tasks)
        for share, tasks in ((0.05, 20), (0.05, 21), (0.07, 100), (1e-9, 3))
    ]
    assert least == [1, 2, 7, 1]

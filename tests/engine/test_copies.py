"""Copies of tasks in an emulated run: every profile carries them out, each task is counted once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import Disorder, EngineConfig
from rm_emulator.engine.profile import profiles
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Audit, MemoryRecording, job, node, stage
from rm_emulator.workload.model import Fixed, PerNode, RunTimes, Workload, WorkloadJob
from schedulers.core import abilities
from schedulers.core.decisions import Copy
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import CopyRules, Edge, Job, Links, Stage
from schedulers.core.places import Places, Requirement
from schedulers.core.policy import ClusterView, Offer, Suggestion, Suggestions, policies
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler
from schedulers.policies.fifo import Fifo

MIB = 1024**2
SHUFFLE = job("a", stage(2, name="map"), stage(4, parents=(Edge(parent=0, data=80 * MIB),), name="reduce"))


class Copying(Fifo, abilities.Copies):
    """Copies whatever has begun wherever there is room, before it starts anything."""

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """See Policy."""
        for live in list(view.jobs.values()):
            for part in live.stages:
                for task in range(part.tasks):
                    for there in list(offer.nodes or view.nodes.values()):
                        if view.may_copy(live, part, task, there):
                            yield Suggestion(live.id, part.index, node=there.id, task=task, copy=True)
        yield from super().schedule(view, offer)


@pytest.fixture(autouse=True)
def copying() -> Iterator[None]:
    policies.register("copying", source="a test")(Copying)
    yield
    del policies._entries["copying"]


class Run:
    """A run of jobs on four nodes of one core, n0 to n3, and its log."""

    def __init__(
        self, *jobs: tuple[Job, tuple[RunTimes, ...]], copies: CopyRules, links: Links | None = None, **config
    ) -> None:
        nodes = tuple(node(f"n{i}") for i in range(4))
        engine = EngineConfig(nodes=nodes, links=links, **config)
        chunks: list[bytes] = []
        log = Log(chunks.append)
        made = SchedulerConfig(
            resources=("cpu", "memory"), policy={"kind": "copying"}, offers=timing(engine).offers, copies=copies
        )
        self.audit, self.kept = Audit(Scheduler(made, log=log)), MemoryRecording()
        entries = tuple(WorkloadJob(job=spec, submit_ms=0, runtimes=times) for spec, times in jobs)
        self.simulation = Simulation(engine, Workload(name="t", jobs=entries), self.audit, self.kept)
        self.simulation.run()
        self.audit.drained()
        log.flush()
        self.lines = b"".join(chunks).splitlines(keepends=True)

    @property
    def copies(self) -> list[Copy]:
        """All that were made."""
        return [d for _, decisions in self.audit.history for d in decisions if isinstance(d, Copy)]


TWO = ((SHUFFLE, (Fixed(3000), Fixed(2000))), (job("b", stage(6)), (Fixed(5000),)))


@pytest.mark.parametrize("name", profiles.names)
@pytest.mark.parametrize("others", ["run", "end"])
@pytest.mark.parametrize("links", [None, Links(rate=10 * MIB)])
def test_every_profile_carries_copies_out_and_counts_each_task_once(
    name: str, others: str, links: Links | None
) -> None:
    run = Run(*TWO, copies=CopyRules(max=3, others=others), links=links, profile=name)
    assert run.copies
    assert run.simulation.finished_tasks == 12
    rows = {row.id: row for row in run.kept.jobs}
    assert [(row.work_ms, row.failed_tasks) for row in rows.values()] == [(14_000, 0), (30_000, 0)]
    assert {attempt.container for attempt in run.kept.tasks if attempt.copy} == {copy.container for copy in run.copies}


@pytest.mark.parametrize("name", profiles.names)
@pytest.mark.parametrize("others", ["run", "end"])
def test_a_log_with_copies_is_replayed_to_the_same_decisions(name: str, others: str) -> None:
    run = Run(*TWO, copies=CopyRules(others=others), links=Links(rate=10 * MIB), profile=name)
    replayed = [decision for step in Replay(run.lines) for decision in step.decisions]
    assert [decision for decision in replayed if isinstance(decision, Copy)] == run.copies


@pytest.mark.parametrize("name", profiles.names)
def test_in_disorder_too_everything_ends(name: str) -> None:
    disorder = Disorder(delay=0.3, duplicate=0.3, late=0.3)
    run = Run(*TWO, copies=CopyRules(others="end"), links=Links(rate=10 * MIB), profile=name, disorder=disorder)
    assert len(run.kept.jobs) == 2


def test_copies_of_a_job_that_is_over_are_ended_at_once_and_the_run_ends_with_it() -> None:
    times = PerNode(("n0", "n1", "n2", "n3"), ((1000, 9000, 9000, 9000),))
    run = Run(
        (job("a", stage(2)), (times,)), (job("b", stage()), (Fixed(1),)), copies=CopyRules(max=4), profile="events"
    )
    ends = {(attempt.node, attempt.copy): (attempt.ended_ms, attempt.code) for attempt in run.kept.tasks}
    assert all(ended <= run.simulation.end_ms for ended, _ in ends.values())


def test_what_waits_for_data_starts_sooner_when_a_copy_has_made_it_meanwhile() -> None:
    """A task ends on n0 at 1 s, its copy on n1 at 4 s; what n0 sends is on n2 at 9 s, what n1 sends at once."""
    on_n2 = Places(terms=((Requirement("metadata.name", "In", ("n2",), field=True),),))
    reduce = Stage(name="reduce", tasks=1, demand=(1000, 1), parents=(Edge(parent=0, data=80 * MIB),), places=on_n2)
    times = PerNode(("n0", "n1", "n2", "n3"), ((1000, 3000, 3000, 3000),))
    links = Links(pairs={"n0": {"n2": 10 * MIB}})
    run = Run((job("a", stage(), reduce), (times, Fixed(500))), copies=CopyRules(), links=links, profile="events")
    (task,) = [attempt for attempt in run.kept.tasks if attempt.stage == 1]
    assert (task.granted_ms, task.arrived_ms, task.started_ms, task.ended_ms) == (1000, 4000, 4000, 4500)

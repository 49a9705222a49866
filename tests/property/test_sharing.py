"""What the papers promise of the policies, on random scenarios."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import (
    Audit,
    MemoryRecording,
    Ran,
    Subject,
    case,
    job,
    node,
    run_case,
    scheduler,
    stage,
    subjects,
)
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.compatible import assigns_ahead
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, Estimated, Event, JobSubmitted, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.policy import policies
from schedulers.core.scheduler import Scheduler
from schedulers.kit.assigned import AssigningPolicy
from schedulers.kit.levels import LevelSettings, level_of
from schedulers.planning.tetrisched.policy import PlanAheadPolicy

# -- GS: weighted sharing (SLearn, section 5.1) -----------------------------------------------------


def split(queues: int, decay: float, slots: int, churn: list[int]) -> list[int]:
    """Slots held by one endless job per queue, after random ends and refills."""
    settings = {"kind": "gs", "queues": queues, "weight_decay": decay}
    made = scheduler(settings, node("n", slots), offers="cycle", predictor={"kind": "oracle"})
    for queue in range(queues):
        made.handle(Estimated(0, f"j{queue}", (max(1, 10 ** (queue + 6) // (5 * slots)),)))
        made.handle(JobSubmitted(0, job(f"j{queue}", stage(4 * slots))))
    made.handle(Tick(0))
    for at, pick in enumerate(churn, start=1):
        there = list(made.state.containers)
        for container in there[pick % 7 :: 7][: slots // 8]:
            made.handle(ContainerEnded(at, container, 0, 1))
        made.handle(Tick(at))
    held = [0] * queues
    for container in made.state.containers.values():
        held[int(container.job[1:])] += 1
    return held


@given(st.lists(st.integers(0, 99), max_size=6))
def test_under_permanent_backlog_queues_hold_by_their_weights(churn: list[int]) -> None:
    assert split(5, 2.0, 62, churn) == [32, 16, 8, 4, 2]


def test_the_papers_weights_give_the_papers_shares() -> None:
    assert split(3, 10.0, 1110, [3, 1]) == [1000, 100, 10]


def stream(policy: str) -> tuple[int, int]:
    """When a large job first starts among small ones that ask for twice the cluster, and the last of those."""
    small = [(500 * i, f"s{i}", 4, 1000) for i in range(100)]
    jobs = sorted([*small, (10, "large", 20, 60_000)])
    sources = tuple(
        WorkloadJob(job=job(name, stage(tasks)), submit_ms=at, runtimes=(Fixed(ms),)) for at, name, tasks, ms in jobs
    )
    config = EngineConfig(nodes=(node("n", 4),), profile="events")
    settings = SchedulerConfig(
        resources=("cpu", "memory"), policy={"kind": policy}, predictor={"kind": "oracle"}, offers="cycle"
    )
    kept = MemoryRecording()
    Simulation(config, Workload(name="stream", jobs=sources), Scheduler(settings), kept, oracle=True).run()
    first = {row.id: row.first_start_ms for row in kept.jobs}
    return first["large"], max(first[name] for _, name, _, _ in small)


def test_gs_starves_nobody_where_sjf_does() -> None:
    large, last = stream("gs")
    assert large < last / 10
    large, last = stream("sjf")
    assert large >= last


# -- SLearn ---------------------------------------------------------------------------------------


def placements(ran: Ran) -> list[tuple[int, Any]]:
    return [(event.at, d) for event, decisions in ran.audit.history for d in decisions if isinstance(d, Place)]


@pytest.mark.parametrize("seed", range(16))
def test_when_every_job_is_thin_slearn_is_first_in_first_out(seed: int) -> None:
    thin = Subject(policy={"kind": "gs"}, predictor={"kind": "slearn", "thin_limit": 10**9})
    fifo = Subject(policy={"kind": "fifo"})
    made = case(seed, executors=False)
    assert placements(run_case(thin, made)) == placements(run_case(fifo, made))


@given(
    st.lists(st.tuples(st.integers(3, 12), st.integers(0, 7), st.integers(10, 99)), min_size=1, max_size=6),
    st.sampled_from([1, 3, 40]),
)
def test_without_variance_slearn_puts_every_wide_job_where_the_oracle_does(shape: list[Any], percent: int) -> None:
    bounds = [1e6 * 10**q for q in range(LevelSettings().queues - 1)]
    jobs = tuple(
        WorkloadJob(job=job(f"j{i}", stage(width)), submit_ms=0, runtimes=(Fixed(digits * 10**power),))
        for i, (width, power, digits) in enumerate(shape)
    )
    queues = []
    for predictor in ({"kind": "slearn", "fixed_percent": percent}, {"kind": "oracle"}):
        settings = SchedulerConfig(
            resources=("cpu", "memory"), policy={"kind": "gs"}, predictor=predictor, offers="cycle"
        )
        config = EngineConfig(nodes=(node("n", 5),), profile="events")
        kept = MemoryRecording()
        workload = Workload(name="still", jobs=jobs)
        Simulation(config, workload, Scheduler(settings), kept, oracle=predictor["kind"] == "oracle").run()
        queues.append({row.id: level_of(row.size_ms, bounds) for row in kept.jobs})
    assert queues[0] == queues[1]


# -- every policy ---------------------------------------------------------------------------------


class Conserving(Audit):
    """Also checks that no launchable task fits any node after a cycle."""

    def handle(self, event: Event) -> list:
        decisions = super().handle(event)
        if isinstance(event, Tick):
            assert not self.state.sizes.has_room(), f"after {event} tasks wait although there is room for them"
        return decisions


def conserves(subject: Subject) -> bool:
    """Those that count beats give few containers at each and reserve nodes: see tests/property/test_queues.py for them.

    Tasks that wait in line at a node leave another one free on which they would end later, as in a plan of leases.
    """
    policy = policies.entry(subject.policy["kind"]).cls
    return not (
        policy.triggers.every_beat
        or issubclass(policy, AssigningPolicy | PlanAheadPolicy)
        or assigns_ahead(subject.placement)
    )


CONSERVING = list(filter(conserves, subjects()))


@pytest.mark.parametrize("number", range(len(CONSERVING)))
@pytest.mark.drawn(of=4)
def test_every_policy_conserves_work(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rm_emulator.testing.Audit", Conserving)
    made = case(300 + number, profile="events", executors=False)
    run_case(CONSERVING[number], msgspec.structs.replace(
        made, config=msgspec.structs.replace(made.config, containers_per_heartbeat=None)
    ))  # fmt: skip


@pytest.mark.parametrize("policy", [entry.name for entry in policies])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.drawn(of=8)
def test_no_job_is_faster_than_its_longest_path_or_its_work_on_the_whole_cluster(policy: str, seed: int) -> None:
    made = case(40 + seed, executors=False)
    ran = run_case(Subject(policy={"kind": policy}), made)
    nodes = made.config.nodes
    fastest = max(there.speed for there in nodes)
    speed = [sum(there.speed * there.capacity[r] for there in nodes) for r in range(len(made.config.resources))]
    sources = {entry.job.id: entry for entry in made.workload.jobs}
    for row in ran.kept.jobs:
        took = row.finish_ms - row.submit_ms
        assert took >= row.ideal_ms / fastest - 1
        source = sources[row.id]
        for r, there in enumerate(speed):
            pairs = zip(source.job.stages, source.runtimes, strict=True)
            work = sum(each.demand[r] * sum(runtimes.ms) for each, runtimes in pairs)
            assert not there or took >= work / there - 1

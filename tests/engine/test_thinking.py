"""Schedulers that take their time: what holds whatever they are set to."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.engine.architectures.shared_state import SharedStateProfile
from rm_emulator.engine.config import (
    Architecture,
    Central,
    EngineConfig,
    GiveUp,
    Thinker,
    TwoLevel,
)
from rm_emulator.engine.config import (
    SharedState as Shared,
)
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers, assign_jobs, first_container
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.thinking import ThinkingProfile, ThinkingScheduler
from rm_emulator.known_answers.kinds import omega
from rm_emulator.testing import MemoryRecording, case
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core import checks
from schedulers.core.decisions import Place
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Service, Stage
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler
from tests.engine.omega_reference import commits
from tests.examples import examples

NAMES = ("X", "Y", "Z")
POLICIES = (
    "requeue",
    "fifo",
    "sjf",
    "fair",
    "drf",
    "tetris",
    "las",
    "gs",
    "graphene",
    "hdrf",
    "random",
    "bounded",
    "srpt",
    "weighted_fair",
    "capped_sjf",
    "cp",
    "bfs",
    "hrrn",
)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Known-answer cases of kind `omega_trace` without an answer, all numbers whole."""
    names = NAMES[: draw(st.integers(1, 3))]
    times = st.fixed_dictionaries({"t_job": st.integers(0, 4), "t_task": st.integers(0, 2)})
    machines = {f"m{n}": draw(st.integers(1, 6)) for n in range(draw(st.integers(1, 4)))}
    orders = st.permutations(list(machines))
    numbers = range(draw(st.integers(1, 8)))
    return {
        "architecture": draw(st.sampled_from(("shared_state", "two_level", "monolithic_single", "monolithic_multi"))),
        "conflict": draw(st.sampled_from(("sequence", "resource_fit"))),
        "commit": draw(st.sampled_from(("incremental", "all_or_nothing"))),
        "machines": machines,
        "schedulers": {name: {**draw(times), "order": draw(orders)} for name in names},
        "single": draw(times),
        "retry": draw(st.integers(1, 3)),
        "give_up": [draw(st.integers(1, 4)), draw(st.integers(4, 8))],
        "jobs": [
            {
                "id": f"j{n}",
                "by": draw(st.sampled_from(names)),
                "at": draw(st.integers(0, 12)),
                "tasks": draw(st.integers(1, 5)),
                "cpu": draw(st.integers(1, 4)),
                "dur": draw(st.integers(1, 12)),
            }
            for n in numbers
        ],
    }


@settings(max_examples=examples(300))
@given(cases())
def test_the_engine_commits_what_the_definition_says(case: dict[str, Any]) -> None:
    if case["architecture"] != "shared_state":
        del case["conflict"], case["commit"]
    if case["architecture"].startswith("monolithic"):
        for scheduler in case["schedulers"].values():
            del scheduler["order"]
    case["jobs"].sort(key=lambda j: (j["at"], j["id"]))
    kept, _ = omega._run(case)
    assert [[t.ended_ms // 1000, t.job, t.placed, t.refused] for t in kept.tries] == commits(case)


# -- whole runs of small random scenarios ---------------------------------------------------------


def _behind_barriers(workload: Workload) -> Workload:
    """The same jobs with barriers alone: no architecture has other edges."""
    replace = msgspec.structs.replace
    jobs = (
        replace(
            each, job=replace(each.job, stages=tuple(replace(stage, parents=stage.above) for stage in each.job.stages))
        )
        for each in workload.jobs
    )
    return replace(workload, jobs=tuple(jobs))


def thinking(
    architecture: Architecture, policy: str = "fifo", seed: int = 1
) -> tuple[Simulation, MemoryRecording, list[list[bytes]]]:
    """A run of a small random scenario: its simulation, what was recorded, and each scheduler's log as lines."""
    made = case(seed, profile="events", executors=False)
    workload = _behind_barriers(made.workload)
    config = msgspec.structs.replace(made.config, architecture=architecture, containers_per_heartbeat=None)
    thinkers = getattr(architecture, "thinkers", (Thinker(name="all"),))
    logs: list[list[bytes]] = [[] for _ in thinkers]
    schedulers = []
    for number, chunks in enumerate(logs):
        settings = SchedulerConfig(
            resources=config.resources,
            policy={"kind": policy},
            predictor={"kind": "oracle"},
            placement={"kind": "best_fit"},
            offers="thought",
            seed=seed,
            first_container=first_container(number) if number else 1,
        )
        schedulers.append(Scheduler(settings, log=Log(chunks.append)))
    kept = MemoryRecording()
    several = MultipleSchedulers(schedulers, assign_jobs(workload.jobs, thinkers))
    simulation = Simulation(config, workload, several, kept, seed=seed, oracle=True)
    simulation.run()
    for scheduler in schedulers:
        assert scheduler._log is not None
        scheduler._log.flush()
    return simulation, kept, [b"".join(chunks).splitlines(keepends=True) for chunks in logs]


TIMES = {"t_job_ms": 300, "t_task_ms": 70}
THREE = tuple(
    Thinker(name=name, t_job_ms=t_job, t_task_ms=50) for name, t_job in zip(NAMES, (200, 900, 1500), strict=True)
)
ARCHITECTURES: dict[str, Architecture] = {
    "central": Central(**TIMES),
    "two_level": TwoLevel(schedulers=THREE),
    "fit": Shared(schedulers=THREE),
    "sequence": Shared(schedulers=THREE, conflict="sequence"),
    "fit_whole": Shared(schedulers=THREE, commit="all_or_nothing"),
    "sequence_whole": Shared(schedulers=THREE, conflict="sequence", commit="all_or_nothing", own_ends="at_once"),
}
KINDS = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
SEEDS = pytest.mark.parametrize("seed", range(6))


@SEEDS
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.drawn(of=4)
def test_one_shared_state_scheduler_has_no_conflicts_and_the_log_of_central(policy: str, seed: int) -> None:
    alone = Shared(schedulers=(Thinker(name="alone", **TIMES),), conflict="sequence", own_ends="at_once")
    _, kept, logs = thinking(alone, policy, seed)
    assert sum(row.refused for row in kept.tries) == 0
    assert logs == thinking(ARCHITECTURES["central"], policy, seed)[2]


@SEEDS
@KINDS
@pytest.mark.drawn(of=4)
def test_every_job_ends_or_is_given_up(architecture: Architecture, seed: int) -> None:
    simulation, kept, _ = thinking(architecture, seed=seed)
    given_up = {row.job for row in kept.tries if row.given_up}
    assert {row.id for row in kept.jobs if row.finish_ms is None} == given_up
    assert len(kept.jobs) == len(simulation.workload.jobs)
    assert sum(row.placed for row in kept.tries) == len(kept.tasks)


@SEEDS
@KINDS
@pytest.mark.drawn(of=4)
def test_every_scheduler_s_log_replays(architecture: Architecture, seed: int) -> None:
    for lines in thinking(architecture, seed=seed)[2]:
        assert sum(len(step.decisions) for step in Replay(lines)) > 0


@SEEDS
@KINDS
@pytest.mark.drawn(of=4)
def test_capacity_is_never_exceeded(architecture: Architecture, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    requeue = ThinkingProfile._requeue

    def committed(self: ThinkingProfile, scheduler: ThinkingScheduler, *rest: Any) -> None:
        nonlocal looked
        looked += 1
        free = [list(node.room) for node in self.engine.config.nodes]
        for container in self.engine.containers.values():
            for r, amount in enumerate(container.master.source.job.stages[container.stage].demand):
                free[container.index][r] -= amount
        assert free == self.free
        assert min(map(min, free)) >= 0
        requeue(self, scheduler, *rest)

    monkeypatch.setattr(ThinkingProfile, "_requeue", committed)
    thinking(architecture, seed=seed)
    assert looked


@SEEDS
@KINDS
@pytest.mark.drawn(of=4)
def test_a_scheduler_that_begins_to_think_sees_what_is_free(
    architecture: Architecture, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0
    think_ms = ThinkingProfile.think_ms

    def look(self: ThinkingProfile, scheduler: ThinkingScheduler, name: str) -> int:
        nonlocal seen
        seen += 1
        shown = getattr(self, "_offers", {}).get(scheduler.number)
        assert isinstance(self.control, MultipleSchedulers)
        state = self.control.schedulers[scheduler.number].state
        checks.validate(state)
        for index, node in enumerate(state.nodes.values()):
            free = self.free[index] if shown is None else shown.get(index, [0] * len(node.free))
            assert node.free == free
        return think_ms(self, scheduler, name)

    monkeypatch.setattr(ThinkingProfile, "think_ms", look)
    thinking(architecture, seed=seed)
    assert seen or isinstance(architecture, Central)


@SEEDS
@pytest.mark.parametrize("conflict", ["resource_fit", "sequence"])
@pytest.mark.drawn(of=4)
def test_what_resource_fit_refuses_sequence_numbers_refuse_too(
    conflict: Literal["resource_fit", "sequence"], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = SharedStateProfile.refused_claims
    compared = []

    def both(self: SharedStateProfile, scheduler: ThinkingScheduler, claims: list[Place]) -> list[Place]:
        too_large, newer = self._fit_conflicts(scheduler, claims), self._sequence_conflicts(scheduler, claims)
        compared.append((len(too_large), len(newer)))
        assert {claim.container for claim in too_large} <= {claim.container for claim in newer}
        return refused(self, scheduler, claims)

    monkeypatch.setattr(SharedStateProfile, "refused_claims", both)
    thinking(Shared(schedulers=THREE, conflict=conflict), seed=seed)
    assert compared


def run(
    architecture: Architecture, *jobs: WorkloadJob, cores: int = 4, policy: str = "fifo"
) -> tuple[Simulation, MemoryRecording]:
    """These jobs on one node of so many cores; returns the simulation and what was recorded."""
    config = EngineConfig(
        nodes=(Node(id="n", capacity=(cores,)),), resources=("cpu",), profile="events", architecture=architecture
    )
    thinkers = getattr(architecture, "thinkers", (Thinker(name="all"),))
    schedulers = [
        Scheduler(
            SchedulerConfig(
                resources=("cpu",), policy={"kind": policy}, offers="thought", first_container=first_container(number)
            )
        )
        for number in range(len(thinkers))
    ]
    kept = MemoryRecording()
    simulation = Simulation(
        config,
        Workload(name="w", jobs=jobs, resources=("cpu",)),
        MultipleSchedulers(schedulers, assign_jobs(jobs, thinkers)),
        kept,
    )
    simulation.run()
    return simulation, kept


def source(name: str, tasks: int = 1, cores: int = 1, at: int = 0, ms: int = 1000, **fields: Any) -> WorkloadJob:
    """A job of one stage."""
    stages = (Stage(name="s", tasks=tasks, demand=(cores,)),)
    return WorkloadJob(job=Job(id=name, stages=stages, **fields), submit_ms=at, runtimes=(Fixed(ms),))


def test_a_job_that_never_fits_is_given_up_and_the_run_ends() -> None:
    one = Shared(schedulers=(Thinker(name="one"),), give_up=GiveUp(none_placed=3, attempts=9))
    simulation, kept = run(one, source("large", cores=5), source("small"))
    assert {row.id: row.finish_ms is None for row in kept.jobs} == {"large": True, "small": False}
    assert sum(row.job == "large" for row in kept.tries) == 4
    assert simulation.calendar.now < 60_000


def test_a_job_that_is_given_up_half_placed_is_over_when_nothing_of_it_runs() -> None:
    one = Shared(schedulers=(Thinker(name="one", t_job_ms=0, t_task_ms=0),), give_up=GiveUp(none_placed=1, attempts=2))
    _, kept = run(one, source("wide", tasks=6, ms=60_000))
    assert [row.placed for row in kept.tries] == [4, 0, 0]
    assert [task.code for task in kept.tasks] == [0, 0, 0, 0]
    assert kept.jobs[0].finish_ms is None


def test_alike_schedulers_take_jobs_in_turn() -> None:
    thinkers = [Thinker(name="s", users=("u",)), Thinker(name="a"), Thinker(name="b")]
    jobs = [source(str(n), user="u" if n == 2 else "") for n in range(5)]
    assert assign_jobs(jobs, thinkers) == {"0": 1, "1": 2, "2": 0, "3": 1, "4": 2}


def test_a_job_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match=r"job '1' .* goes to no scheduler"):
        assign_jobs([source("1")], [Thinker(name="s", users=("u",))])


def test_a_service_kind_chooses_its_scheduler() -> None:
    thinkers = [Thinker(name="s", kinds=("service",)), Thinker(name="b", kinds=("batch",))]
    assert assign_jobs([source("1"), source("2", service=Service())], thinkers) == {"1": 1, "2": 0}


def test_the_policy_says_which_job_is_next() -> None:
    def order(policy: str) -> list[str]:
        jobs = (source("a", ms=5), source("b", tasks=3), source("c"))
        _, kept = run(Central(t_job_ms=100, t_task_ms=5), *jobs, policy=policy)
        return [row.job for row in kept.tries]

    assert order("fifo") == ["a", "b", "c"]
    assert order("random") != order("fifo")


def test_a_refused_claim_is_no_failed_attempt() -> None:
    two = Shared(schedulers=(Thinker(name="x", users=("x",)), Thinker(name="y")), conflict="sequence")
    _, kept = run(two, source("a", user="x"), source("b"))
    assert sum(row.refused for row in kept.tries) == 1
    assert [task.attempt for task in kept.tasks] == [0, 0]
    assert [row.failed_tasks for row in kept.jobs] == [0, 0]

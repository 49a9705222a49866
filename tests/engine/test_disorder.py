"""Controlled disorder: seeded, in the log, and harmless to a core that ignores repetitions."""

from __future__ import annotations

import msgspec
import pytest

from rm_emulator.engine.config import Disorder
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Audit, Case, Ran, Subject, case, run_case, scheduler_config
from schedulers.core.events import ContainerEnded, Event
from schedulers.core.log import Ignored, parse
from schedulers.core.scheduler import Scheduler

FAIR = Subject(policy={"kind": "fair"})


def ran(seed: int, disorder: Disorder | None, profile: str = "yarn", **kwargs: object) -> Ran:
    made: Case = case(seed, profile=profile, **kwargs)
    return run_case(FAIR, msgspec.structs.replace(made, config=msgspec.structs.replace(made.config, disorder=disorder)))


def heard(run: Ran, kind: type[Event]) -> list[Event]:
    return [event for event, _ in run.audit.history if isinstance(event, kind)]


QUIET = Disorder(permute=False)


@pytest.mark.parametrize("profile", ["yarn", "sls", "events"])
def test_disorder_of_nothing_changes_nothing(profile: str) -> None:
    assert ran(5, QUIET, profile).lines == ran(5, None, profile).lines


@pytest.mark.parametrize("profile", ["yarn", "sls", "events"])
@pytest.mark.parametrize(
    "disorder",
    [
        Disorder(),
        Disorder(permute=False, delay=0.5, delay_ms=3000),
        Disorder(permute=False, duplicate=0.5),
        Disorder(permute=False, late=0.5, late_ms=3000),
        Disorder(delay=0.8, duplicate=0.8, late=1.0),
    ],
    ids=["permute", "delay", "duplicate", "late", "all"],
)
def test_every_disorder_drains_and_repeats(profile: str, disorder: Disorder) -> None:
    first = ran(6, disorder, profile)
    first.audit.drained()
    assert ran(6, disorder, profile).log.sha256 == first.log.sha256


def test_repeated_completions_are_ignored_and_in_the_log() -> None:
    run = ran(6, Disorder(permute=False, duplicate=1.0), "events")
    ignored = [line for line in parse(run.lines) if isinstance(line, Ignored)]
    assert ignored
    assert all(note.why in ("late", "duplicate") for note in ignored)


def test_a_repeated_completion_is_heard_twice() -> None:
    run = ran(6, Disorder(permute=False, duplicate=1.0), "events")
    ends = [event.container for event in heard(run, ContainerEnded) if isinstance(event, ContainerEnded)]
    assert sorted(ends) == sorted([*set(ends), *set(ends)])


def test_late_completions_are_late_by_no_more_than_was_asked_for() -> None:
    run = ran(6, Disorder(permute=False, delay=1.0, delay_ms=400), "events")
    ended = {t.job + str((t.stage, t.task)): t.ended_ms for t in run.kept.tasks}
    last_heard = max(event.at for event in heard(run, ContainerEnded))
    assert max(ended.values()) < last_heard <= max(ended.values()) + 400


def test_late_decisions_start_later() -> None:
    calm = ran(6, QUIET, "events")
    late = ran(6, Disorder(permute=False, late=1.0, late_ms=500), "events")
    calm_waits = [t.started_ms - t.granted_ms for t in calm.kept.tasks if t.started_ms is not None]
    late_waits = [t.started_ms - t.granted_ms for t in late.kept.tasks if t.started_ms is not None]
    assert min(late_waits) > min(calm_waits)


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_the_run_ends_although_every_heartbeat_is_late(profile: str, skip: bool) -> None:
    made = case(6, profile=profile)
    config = msgspec.structs.replace(made.config, skip=skip, disorder=Disorder(permute=False, delay=1.0, delay_ms=300))
    audit = Audit(Scheduler(scheduler_config(FAIR, config, 6)))
    simulation = Simulation(config, made.workload, audit, seed=6)
    simulation.run(until=3_600_000)
    audit.drained()
    assert len(simulation.profile.ring) == 0, "nodes still beat, an hour after everything is over"


def test_executors_repeat_completions_without_finishing_other_jobs() -> None:
    for seed in range(20):
        run = ran(seed, Disorder(duplicate=0.7, delay=0.3, delay_ms=4000), "events", executors=True)
        run.audit.drained()
        executed = {(t.job, t.stage, t.task) for t in run.kept.tasks if t.code == 0}
        finished = {
            (e.job.id, i, t)
            for e in run.simulation.workload.jobs
            for i, s in enumerate(e.job.stages)
            for t in range(s.tasks)
        }
        assert executed == finished


def test_another_seed_is_another_disorder() -> None:
    made = case(6, disorder=True, profile="events")
    other = msgspec.structs.replace(made, seed=7)
    assert run_case(FAIR, made).log.sha256 != run_case(FAIR, other).log.sha256

"""The present moment of a cluster, and a policy's rule, as the fast simulator takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from schedulers.core.events import RuleChange
from schedulers.core.live import GRANTED, IDLE, MOVING
from schedulers.core.model import Job, Stage
from schedulers.core.waves import LEVELS, WAVES, StageRunTimes, choices
from schedulers.kit.curves import CurvesSettings
from schedulers.kit.partition import executors_of, to_start
from schedulers.planning.replan import kernel, rules
from schedulers.planning.replan.plays import FastRun, durations_of, jobs_of, random_draws
from schedulers.planning.replan.seen import Seen, Task, course_of

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView
    from schedulers.core.state import ContainerState, JobState
    from schedulers.planning.replan.kernel import FastState, Rule

_STATUS: Final = {GRANTED: kernel.GRANTED, IDLE: kernel.IDLE, MOVING: kernel.MOVING}
#: Settings of a job that a search may change, as in `kernel.JOB_RULE`.
_OF_JOB: Final = ("factor", "price", "hold")


class Changed(Protocol):
    """What searches have changed of the rule for a job."""

    factor: float
    price: float
    hold: int
    caps: dict[int, int]


class PlayedMoment(NamedTuple):
    """A moment of a cluster: times count from this moment."""

    play: FastRun
    state: FastState
    jobs: Sequence[JobState]
    told: list[list[float]]
    """Estimates by job and stage, ms per task."""


@cache
def load() -> None:
    """Load the machine code, or make it, once in a process: no search should wait for this."""
    job = Job(id="", stages=(Stage(name="", tasks=1, demand=(1,)),))
    course = course_of([StageRunTimes(((1,),), ((0,) * len(LEVELS),) * len(WAVES))])
    play = FastRun(jobs_of([(0, job)]), durations_of([course], choices(inverted=True)), 1, 0)
    state = play.begin()
    kernel.arrive_at(state, 0, 0)
    kernel.end_after(state, 0, 0)
    play.ends(rules.curves([job], [[1.0]], 1, CurvesSettings()), random_draws(1, np.random.default_rng(0)))


def present(view: ClusterView, jobs: Sequence[JobState], seen: Seen, *, moving_ms: int, inverted: bool) -> PlayedMoment:
    """The present moment. Requires that there is no `obstacle`."""
    courses = [course for job in jobs if (course := seen.course(job.spec)) is not None]
    play = FastRun(
        jobs_of([(0, job.spec) for job in jobs]),
        durations_of(courses, choices(inverted=inverted)),
        executors_of(view, {jobs[0].stages[0].demand}),
        moving_ms,
    )
    state, numbers = play.begin(), {job.id: number for number, job in enumerate(jobs)}
    of_job, of_stage = state.jobs, state.stages
    of_job["unstarted"], of_job["left"] = [to_start(job) for job in jobs], [job.left for job in jobs]
    of_job["running"], of_job["waiting"] = [job.running for job in jobs], [job.waiting for job in jobs]
    of_job["executors"] = [job.executors for job in jobs]
    stages = [stage for job in jobs for stage in job.stages]
    for name in ("finished", "running", "parents_left"):
        of_stage[name] = [getattr(stage, name) for stage in stages]
    of_stage["unstarted"] = [stage.waiting for stage in stages]
    places = {number: place for place, number in enumerate(sorted(view.containers))}
    for number, place in places.items():
        _put(play, state, place, view.containers[number], numbers, seen.tasks.get(number, Task()), view.now)
    idle = [places[container.id] for container in view.idle()]
    state.idle[: len(idle)] = idle
    clock = state.clock
    clock[kernel.NUMBER], clock[kernel.PLACES] = len(places) + 1, play.executors - len(places)
    clock[kernel.ARRIVED], clock[kernel.IDLERS], clock[kernel.DUE] = len(jobs), len(idle), 1
    clock[kernel.WAITING] = of_job["waiting"].sum()
    return PlayedMoment(
        play, state, jobs, [[view.task_ms(job.id, stage.index) or 0.0 for stage in job.stages] for job in jobs]
    )


def _put(
    play: FastRun,
    state: FastState,
    place: int,
    container: ContainerState,
    numbers: Mapping[str, int],
    task: Task,
    now: int,
) -> None:
    """Let a container have a place in a state."""
    there, job = state.places[place], numbers[container.job]
    first = play.jobs.jobs["first"][job]
    there["number"], there["job"] = place + 1, job
    there["status"] = _STATUS.get(container.status, kernel.RUNNING)
    there["stage"] = first + container.stage if container.stage >= 0 else -1
    there["task"] = container.task
    # Times before the present are negative; -1 is for none, which counts as long ago.
    there["last_end_ms"] = task.ended - now if task.ended >= 0 else -1
    if container.status in (GRANTED, MOVING):
        kernel.arrive_at(state, place, max(0, container.granted + play.moving_ms - now))
    elif container.status != IDLE:
        there["began_ms"], there["wave"], there["width"] = container.started - now, task.wave, min(task.width, 100)
        kernel.end_after(state, place, now - container.started + 1)


def rule_of(there: PlayedMoment, changed: Mapping[str, Changed], settings: CurvesSettings) -> Rule:
    """The rule of `curves`, with what searches have changed by job."""
    rule = rules.curves([job.spec for job in there.jobs], there.told, there.play.executors, settings)
    for number, job in enumerate(there.jobs):
        of, first = changed[job.id], there.play.jobs.jobs["first"][number]
        for name in _OF_JOB:
            rule.jobs[name][number] = getattr(of, name)
        for stage, cap in of.caps.items():
            rule.stages["cap"][first + stage] = cap
    return rule


def changes(there: PlayedMoment, before: Rule, after: Rule) -> tuple[RuleChange, ...]:
    """Settings that are other in a later rule."""
    made = [
        RuleChange(job.id, -1, name, float(after.jobs[name][number]))
        for number, job in enumerate(there.jobs)
        for name in _OF_JOB
        if before.jobs[name][number] != after.jobs[name][number]
    ]
    firsts = there.play.jobs.jobs["first"]
    for stage in np.flatnonzero(before.stages["cap"] != after.stages["cap"]).tolist():
        number = int(np.searchsorted(firsts, stage, side="right")) - 1
        cap = float(after.stages["cap"][stage])
        made.append(RuleChange(there.jobs[number].id, stage - int(firsts[number]), "cap", cap))
    return tuple(made)

"""Jobs to come, drawn from those that arrived last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from scipy.special import ndtr

from rm_emulator.forecasts.draws import KnownRunTimes
from rm_emulator.forecasts.moment import Paused, PausedRun
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario.durations import show_duration
from rm_emulator.workload.model import Drawn, Fixed, WorkloadJob
from schedulers.core import keyed
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.state import ClusterState
from schedulers.objects.memory import PAST_JOBS
from schedulers.objects.names import DEFAULT_QUEUE

#: How many windows of arrivals are laid one after the other: a play that lasts longer sees no further arrivals.
_WINDOWS: Final = 4
_DAY_MS: Final = 86_400_000
#: Time of day of `tonight`, ms: by then most people have left.
_TONIGHT_MS: Final = 22 * 3_600_000
#: A window of whole days is turned by days and, so that draws differ, by at most so long either way, ms.
_EITHER_WAY_MS: Final = 3_600_000
replace = msgspec.structs.replace


def arrived(run: Paused, window_ms: int) -> list[WorkloadJob]:
    """The batch jobs of the last so long before the moment; none for 0. Raises InvalidInput where nothing arrived.

    Of jobs that have ended on a live cluster see `_again`.
    """
    if not window_ms:
        return []
    live, since, remembered = run.simulation.arrivals.arrived, run.at_ms - window_ms, list[WorkloadJob]()
    if isinstance(run, PausedRun):
        known, what = run.at_ms, "the run up to the moment"
    else:
        known, what = run.at_ms - _known_since(run), "what the brain remembers"
        ended = (job for job in run.past.jobs if job.submitted > since and _is_told(job, run))
        remembered = list(_again(ended, live, run.scheduler.state))
    if window_ms > known:
        message = f"{show_duration(window_ms)} is longer than {what} ({show_duration(known)})"
        raise InvalidInput([Issue("--arrivals", message)])
    found = [*remembered, *(job for job in live if job.submit_ms > since and job.job.kind == "batch")]
    if not found:
        raise InvalidInput([Issue("--arrivals", f"no job arrived in the last {show_duration(window_ms)}")])
    return found


def guessed(run: Paused, window_ms: int) -> tuple[str, ...]:
    """A note where jobs to come are like jobs of which the brain remembers the sizes alone."""
    if not window_ms or isinstance(run, PausedRun):
        return ()
    since, like = run.at_ms - window_ms, _recurring(run.simulation.arrivals.arrived)
    ended = [job for job in run.past.jobs if job.submitted > since]
    sizes = sum(_same(job) not in like for job in ended if _is_told(job, run))
    lost = sum(not _is_told(job, run) for job in ended)
    notes = []
    if sizes:
        notes.append(
            f"of {len(ended) - lost} ended jobs that arrive again, {sizes} are known by their sizes alone: taken for "
            "chains of stages, each task with the largest request of its job"
        )
    if lost:
        notes.append(f"{lost} ended jobs do not arrive again: nobody knows what their tasks asked for")
    return tuple(notes)


def _is_told(job: PastJob, run: Paused) -> bool:
    """Whether the history tells what the job's tasks asked for, in the resources of the cluster."""
    resources = len(run.scheduler.config.resources)
    return len(job.demand) == resources and any(tasks for tasks, _ in job.stages)


def _known_since(run: Paused) -> int:
    """From when on all jobs are known, ms: a full memory begins with the end of its oldest job."""
    ended = run.past.jobs
    if len(ended) >= PAST_JOBS:
        return min(job.finished for job in ended)
    submitted = [*(job.submitted for job in ended), *(job.submit_ms for job in run.simulation.arrivals.arrived)]
    return min(submitted, default=run.at_ms)


#: User, name and numbers of tasks by stage.
_Recurring: TypeAlias = tuple[str, str, tuple[int, ...]]


def _recurring(live: Sequence[WorkloadJob]) -> dict[_Recurring, WorkloadJob]:
    """The last live run of each recurring job."""
    return {
        (each.job.user, each.job.name, tuple(stage.tasks for stage in each.job.stages)): each
        for each in live
        if each.job.name
    }


def _same(job: PastJob) -> _Recurring:
    return job.user, job.name, tuple(tasks for tasks, _ in job.stages)


def _again(past: Iterable[PastJob], live: Sequence[WorkloadJob], state: ClusterState) -> Iterator[WorkloadJob]:
    """Ended jobs as these arrived: as the live run of the recurring job, else as a chain of stages.

    A job whose queue is not known, or is closed, goes where the live run is, or else the user's last live job, or else
    everybody's last.
    """
    like, queues = _recurring(live), {each.job.user: each.job.queue for each in live}
    usual = live[-1].job.queue if live else DEFAULT_QUEUE
    for job in past:
        own = job.queue if _is_open(job.queue, state) else ""
        if (same := like.get(_same(job))) is not None:
            spec = replace(same.job, queue=own) if own else same.job
            yield replace(same, job=spec, submit_ms=job.submitted)
            continue
        sizes = [tasks for tasks, _ in job.stages if tasks]
        stages = tuple(
            Stage(name=f"s{number}", tasks=tasks, demand=job.demand, parents=(number - 1,) if number else ())
            for number, tasks in enumerate(sizes)
        )
        queue = own or queues.get(job.user, usual)
        name = job.name or job.app or "job"
        spec = Job(id=name, stages=stages, name=job.name, user=job.user, app=job.app, queue=queue)
        yield WorkloadJob(job=spec, submit_ms=job.submitted, runtimes=(Fixed(1),) * len(stages))


def _is_open(queue: str, state: ClusterState) -> bool:
    """Whether jobs may be submitted to the queue."""
    declared = queue == DEFAULT_QUEUE or queue in state.queues
    return declared and state.tree.closed(queue, state.counts.next_job) is None


def keeps_time_of_day(window_ms: int) -> bool:
    """Whether jobs drawn from so long a window arrive at the time of day at which they came before."""
    return window_ms > 0 and window_ms % _DAY_MS == 0


def tonight(at_ms: int) -> int:
    """The next 22:00 after a moment, ms on the same clock."""
    return at_ms + _DAY_MS - (at_ms - _TONIGHT_MS) % _DAY_MS


class Recent:
    """The batch jobs that arrived in the last `window_ms` before the moment; 0: none are to come.

    A draw turns the window by a random time and lays it end to end: gaps between arrivals, their bursts and the mix
    of jobs stay as they were (a circular block bootstrap). Where the window is of whole days, so does the time of day,
    to an hour. Raises InvalidInput, see `arrived`.
    """

    def __init__(self, run: Paused, moment: KnownRunTimes | None, window_ms: int) -> None:
        self._now, self._window, self._seed = run.at_ms, window_ms, run.setting.seed
        self._sources = arrived(run, window_ms)
        # Before any play, so that the plays share the beliefs; None where run times are true ones.
        self._beliefs = None if moment is None else [moment.beliefs(source.job) for source in self._sources]

    def jobs(self, draw: int) -> tuple[WorkloadJob, ...]:
        """The jobs to come in a draw, in order of arrival. Their tasks' run times are drawn by the engine."""
        if not self._sources:
            return ()
        random = keyed.generator(self._seed, "arrivals", str(self._now), draw)
        turn = int(random.random() * self._window)
        if keeps_time_of_day(self._window):
            turn += int((2 * random.random() - 1) * _EITHER_WAY_MS) - turn % _DAY_MS
        made = []
        for number, source in enumerate(self._sources):
            offset = (source.submit_ms - self._now + turn) % self._window
            for window in range(_WINDOWS):
                at = self._now + 1 + offset + window * self._window
                runtimes = source.runtimes
                if self._beliefs is not None:
                    laws = [belief.at(float(ndtr(random.standard_normal()))) for belief in self._beliefs[number]]
                    runtimes = tuple(_drawn(*law) for law in laws)
                # The name has the draw, since the engine draws run times by names.
                name = f"{source.job.id}~{draw}-{window}-{number}"
                made.append(replace(source, job=replace(source.job, id=name), submit_ms=at, runtimes=runtimes))
        return tuple(sorted(made, key=lambda job: (job.submit_ms, job.job.id)))


def _drawn(middle: float, deviation: float) -> Drawn:
    """Log-normal run times from the mean and the standard deviation of their logarithm."""
    variance = deviation * deviation
    return Drawn(mean_ms=max(1.0, math.exp(middle + variance / 2)), cov=math.sqrt(math.expm1(variance)))

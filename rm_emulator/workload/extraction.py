"""From a whole trace to an experiment: the procedure of the SLearn paper (Jajoo et al., NSDI 2022, section 4.3).

The trace is cut in two halves by time. Jobs drawn from the second half run; similar jobs of the first half are the
history for predictors. Arrivals are squeezed until the load is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from rm_emulator.workload.model import PerNode, PerTask, RunTimes, Workload, WorkloadJob
from rm_emulator.workload.work import Sampler, mean_task_ms, offered_load
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, PastJob
from schedulers.kit.paths import to_output

#: A past job is history for a sampled job with the same value of any of these features.
FEATURES: Final = ("name", "user", "app")


def extract(
    workload: Workload,
    *,
    jobs: int = 1250,
    slots: int = 150,
    trace_slots: int | None = None,
    drop_wider_than: int | None = None,
    load: float | None = None,
    seed: int = 1,
    sampler: Sampler | None = None,
) -> Workload:
    """An experiment on `slots` slots out of a long trace.

    1. Jobs with arrivals in the second half of the arrival span are candidates, all earlier jobs may become history.
    2. `trace_slots`: slots of the trace's own cluster, `slots` unless given. Task counts are divided by
       trace_slots / slots (rounded, at least 1; of tasks with run times of their own a random subset stays), as
       the paper does for 2Sigma; or, with `drop_wider_than`, jobs with a wider stage are left out and the rest
       stays unchanged, as the paper does (150) for Google.
    3. `jobs` candidates are drawn with equal probability, or all candidates where there are fewer.
    4. Arrivals start at 0 and are scaled linearly until work over slots x span is `load`; None: the load of the
       whole trace on its own slots. A single job has no span and is left alone.
    5. History: jobs of the first half, and past jobs of the trace, with the name, user or app of a drawn job and an
       end before the cut if run at once; times are negative, on the trace's own scale.

    `sampler`: run times absent from the trace itself (`Waves`), see `describe.describe`.
    Raises InvalidParameters for impossible numbers, an empty half, or unknown run times.
    """
    _check(jobs, slots, trace_slots, load)
    if not workload.jobs:
        raise InvalidParameters(f"workload '{workload.name}' has no jobs to extract from")
    wanted = load if load is not None else offered_load(workload, trace_slots or slots, sampler)
    cut = (workload.jobs[0].submit_ms + workload.jobs[-1].submit_ms + 1) // 2
    narrow = [job for job in workload.jobs if drop_wider_than is None or job.job.width <= drop_wider_than]
    first = [job for job in narrow if job.submit_ms < cut]
    second = [job for job in narrow if job.submit_ms >= cut]
    if not first or not second:
        raise InvalidParameters(
            f"workload '{workload.name}' cannot be cut in two halves: {len(first)} of {len(narrow)} jobs arrive before "
            "the middle of its arrival span"
        )
    ratio = 1.0 if trace_slots is None or drop_wider_than is not None else slots / trace_slots
    drawn = [compressed(job, ratio, seed) for job in _drawn(second, jobs, seed)]
    return Workload(
        name=f"{workload.name}-extract",
        jobs=at_load(drawn, wanted, slots, sampler),
        history=_history([compressed(job, ratio, seed) for job in first], workload.history, drawn, cut, sampler),
        resources=workload.resources,
        contents=workload.contents,
        source=f"{workload.source or workload.name}; {len(drawn)} jobs of the second half (SLearn, section 4.3)",
    )


def at_load(
    jobs: Sequence[WorkloadJob], load: float | None, slots: float, sampler: Sampler | None = None
) -> tuple[WorkloadJob, ...]:
    """The same jobs, the first at 0, with gaps scaled to `load`, the work over slots x arrival span.

    None, and jobs with a common arrival, leave the gaps alone. Raises InvalidParameters for unknown run times.
    """
    start, span = jobs[0].submit_ms, jobs[-1].submit_ms - jobs[0].submit_ms
    stretch = 1.0
    if load is not None and span > 0:
        offered = offered_load(Workload(name="", jobs=tuple(jobs)), slots, sampler)
        if offered is None:
            raise InvalidParameters("the load cannot be set: some run times are in a profile that is not here")
        stretch = offered / load
    return tuple(msgspec.structs.replace(job, submit_ms=round((job.submit_ms - start) * stretch)) for job in jobs)


def compressed(job: WorkloadJob, ratio: float, seed: int) -> WorkloadJob:
    """The job with `ratio` times as many tasks per stage (0 < ratio <= 1), rounded half up, at least 1."""
    if ratio == 1.0:
        return job
    stages, runtimes = [], []
    for index, (stage, times) in enumerate(zip(job.job.stages, job.runtimes, strict=True)):
        tasks = max(1, int(stage.tasks * ratio + 0.5))
        stages.append(msgspec.structs.replace(stage, tasks=tasks))
        runtimes.append(_subset(times, tasks, job.job.id, index, seed))
    return msgspec.structs.replace(
        job, job=msgspec.structs.replace(job.job, stages=tuple(stages)), runtimes=tuple(runtimes)
    )


def _check(jobs: int, slots: int, trace_slots: int | None, load: float | None) -> None:
    if jobs < 1 or slots < 1:
        raise InvalidParameters(f"jobs {jobs}, slots {slots}: at least 1 each")
    if trace_slots is not None and trace_slots < slots:
        raise InvalidParameters(
            f"trace_slots {trace_slots} is below slots {slots}: a trace is compressed to a smaller cluster, not widened"
        )
    if load is not None and not 0 < load < float("inf"):
        raise InvalidParameters(f"load {load}: a number above 0")


def _drawn(candidates: Sequence[WorkloadJob], jobs: int, seed: int) -> list[WorkloadJob]:
    """`jobs` of them with equal probability, still in order of arrival."""
    lots = keyed.generator(seed, "extraction jobs").random(len(candidates))
    return [candidates[index] for index in sorted(np.argsort(lots, kind="stable")[:jobs].tolist())]


def _subset(times: RunTimes, tasks: int, job: str, stage: int, seed: int) -> RunTimes:
    if not isinstance(times, PerTask | PerNode) or tasks >= len(times.ms) or len(times.ms) == 1:
        return times
    lots = keyed.generator(seed, "extraction tasks", job, stage).random(len(times.ms))
    drawn = sorted(np.argsort(lots, kind="stable")[:tasks].tolist())
    return msgspec.structs.replace(times, ms=tuple(times.ms[index] for index in drawn))


def _history(
    first: Sequence[WorkloadJob],
    earlier: Iterable[PastJob],
    drawn: Sequence[WorkloadJob],
    cut: int,
    sampler: Sampler | None,
) -> tuple[PastJob, ...]:
    values = {(feature, getattr(job.job, feature)) for job in drawn for feature in FEATURES}

    def similar(job: Job | PastJob) -> bool:
        return any(getattr(job, feature) and (feature, getattr(job, feature)) in values for feature in FEATURES)

    past = [
        msgspec.structs.replace(job, submitted=job.submitted - cut, finished=job.finished - cut)
        for job in earlier
        if similar(job)
    ]
    past += [_past_job(job, cut, sampler) for job in first if similar(job.job)]
    return tuple(sorted((job for job in past if job.finished < 0), key=lambda job: (job.finished, job.name)))


def _past_job(job: WorkloadJob, cut: int, sampler: Sampler | None) -> PastJob:
    stages = []
    for index, stage in enumerate(job.job.stages):
        mean = mean_task_ms(job, index, sampler)
        if mean is None:
            raise InvalidParameters(f"job '{job.job.id}' cannot be history: its run times are in a profile not given")
        stages.append((stage.tasks, mean))
    submitted = job.submit_ms - cut
    return PastJob(
        name=job.job.name,
        submitted=submitted,
        finished=submitted + _shortest_ms(job, [mean for _, mean in stages]),
        stages=tuple(stages),
        user=job.job.user,
        app=job.job.app,
        demand=tuple(map(max, zip(*(stage.demand for stage in job.job.stages), strict=True))),
    )


def _shortest_ms(job: WorkloadJob, means: Sequence[float]) -> int:
    """How long the job takes when nothing waits: its longest path; a stage takes its longest known, else mean, task."""
    return int(max(to_output(job.job.stages, lambda index: _longest_ms(job.runtimes[index], means[index]))))


def _longest_ms(times: RunTimes, mean: float) -> int:
    if isinstance(times, PerNode):
        return max(min(row) for row in times.ms)
    return max(times.ms) if isinstance(times, PerTask) else round(mean)

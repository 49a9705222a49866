"""Answers from plays: when jobs will start and end, whom a new job delays, and how wrong earlier answers were.

All times are ms on the clock of the run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from rm_emulator.engine.containers import Master
from rm_emulator.forecasts.plays import Courses, JobCourse

#: The quantiles of an answer; between the outer two lies its 80 % interval.
QUANTILES: Final = (0.1, 0.5, 0.9)
#: A job is said to be delayed or helped from this share of its time to the end on, in the median.
_NOTED: Final = 0.01


class Expected(msgspec.Struct, frozen=True):
    """A time to come, as quantiles over the draws; None where so many draws end without it."""

    p10_ms: int | None
    p50_ms: int | None
    p90_ms: int | None


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A live job."""

    job: str
    name: str
    user: str
    queue: str
    submitted_ms: int
    tasks: int
    ended: int
    """Tasks that have ended."""
    running: int
    """Tasks granted or running."""
    started_ms: int | None
    """Start of its first task; None: none has started."""
    start: Expected | None
    """When its first task will start; None where one has started."""
    finish: Expected
    known: bool
    """False where nothing is known of the run times of a stage: then its finish is not answered."""


class Delay(msgspec.Struct, frozen=True):
    """What a change does to the end of another job."""

    job: str
    p10_ms: int
    p50_ms: int
    p90_ms: int
    """Later end with the change than without, in the same draw; below 0: sooner."""


class Tried(msgspec.Struct, frozen=True):
    """A change that was tried so that the new job starts or ends sooner."""

    kind: str
    change: str
    """In words."""
    start: Expected
    finish: Expected
    sooner_ms: int
    """By how much sooner after its submission the job ends, in the median of the draws."""


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for a job that was asked about, as if submitted at the moment."""

    job: str
    start: Expected
    finish: Expected
    known: bool
    nodes: tuple[str, ...]
    """Nodes that its tasks ran on in most draws, the most frequent first."""
    delays: tuple[Delay, ...]
    """Jobs that end later or sooner because of the job, the most delayed first."""
    sooner: tuple[Tried, ...] = ()
    """Changes that were tried, the best three that help."""


class Percent(msgspec.Struct, frozen=True):
    """A relative difference in percent, as quantiles over the draws; None where in so many draws a job never ends."""

    p10: float | None
    p50: float | None
    p90: float | None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A change to the present, and its effect on the live jobs, draw by draw with the same run times."""

    change: str
    """In words."""
    jct_before: Expected
    """Mean JCT of the live jobs without the change, ms."""
    jct_after: Expected
    """The same with the change."""
    longer_pct: Percent
    """By how much longer the mean time from the moment to the end is with the change; below 0: shorter."""
    jobs: tuple[Delay, ...]
    """Jobs that end later or sooner with the change, the most delayed first."""
    never: tuple[str, ...]
    """Jobs that end without the change, and with the change never end in most draws."""

    def is_worse(self, tolerance_pct: float) -> bool:
        """Whether the median draw is worse by more than the tolerance."""
        return self.longer_pct.p50 is None or self.longer_pct.p50 > tolerance_pct


class Record(msgspec.Struct, frozen=True):
    """How good earlier answers were: of so many 80 % intervals, how many held what came."""

    answers: int
    held: int
    moments_ms: tuple[int, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """All of `simulate`."""

    at_ms: int
    policy: str
    draws: int
    jobs: tuple[JobAnswer, ...]
    asked: tuple[NewJob, ...] = ()
    compared: Compared | None = None
    """None where no change was asked about."""
    unknown: tuple[str, ...] = ()
    """Live jobs about whose run times nothing is known; what waits behind them is drawn widely."""
    record: Record | None = None
    """None where no earlier answer can be judged yet."""
    notes: tuple[str, ...] = ()
    wall_clock: bool = False
    """Whether times are ms since the epoch, rather than on the clock of a run."""


def expected(times: Iterable[int | None]) -> Expected:
    """The quantiles over the draws; a draw without an end counts as never."""
    found = quantiles(math.inf if ms is None else ms for ms in times)
    return Expected(*(None if value is None else round(value) for value in found))


def quantiles(values: Iterable[float]) -> list[float | None]:
    """The quantiles of an answer, see `at_quantiles`; None for an infinite value."""
    return [None if math.isinf(value) else value for value in at_quantiles(values)]


def at_quantiles(values: Iterable[float]) -> list[float]:
    """The values at QUANTILES, each of some draw, so that infinite values are no trouble.

    Of n exchangeable draws, a further draw lies below the r-th smallest with chance r / (n + 1).
    """
    ascending = sorted(values)
    n = len(ascending)
    return [ascending[min(max(math.floor((n + 1) * level + 0.5), 1), n) - 1] for level in QUANTILES]


def job_answer(job: Master, draws: Sequence[Courses], *, known: bool) -> JobAnswer:
    """The answer for a live job."""
    courses = [draw[job.name] for draw in draws]
    spec, state = job.source.job, job.state
    stages = [stage for stage in state.stages if not state.spec.stages[stage.index].master]
    started = job.first_start_ms
    return JobAnswer(
        job=job.name,
        name=spec.name,
        user=spec.user,
        queue=spec.queue,
        submitted_ms=job.source.submit_ms,
        tasks=spec.tasks,
        ended=sum(stage.finished for stage in stages),
        running=sum(stage.running for stage in stages),
        started_ms=started,
        start=expected(course.start_ms for course in courses) if started is None else None,
        finish=expected(course.finish_ms for course in courses) if known else Expected(None, None, None),
        known=known,
    )


def most_frequent(nodes: Iterable[Sequence[str]], draws: int) -> tuple[str, ...]:
    """Nodes in at least half of the draws, the most frequent first."""
    seen = Counter(node for each in nodes for node in set(each))
    return tuple(node for node, times in seen.most_common() if 2 * times >= draws)


def delays(without: Sequence[Courses], with_: Sequence[Courses], at_ms: int) -> tuple[Delay, ...]:
    """Jobs that end later or sooner with a change, draw by draw, the most delayed first."""
    found = []
    for job in without[0]:
        pairs = [(a[job].finish_ms, b[job].finish_ms) for a, b in zip(without, with_, strict=True) if job in b]
        later = [b - a for a, b in pairs if a is not None and b is not None]
        if len(later) < len(without):
            continue
        usual = fmean(a - at_ms for a, _ in pairs if a is not None)
        low, middle, high = (round(value) for value in at_quantiles(later))
        if abs(middle) > _NOTED * max(1.0, usual):
            found.append(Delay(job, low, middle, high))
    return tuple(sorted(found, key=lambda each: -each.p50_ms))


class Judgement(NamedTuple):
    """An earlier answer: the job and the 80 % interval of its end."""

    job: str
    low_ms: int | None
    high_ms: int | None


def judge(earlier: Iterable[Judgement], ended: Mapping[str, int], now_ms: int) -> tuple[int, int]:
    """(answers, held): whether the end of each job lay in its interval. ended: by job, up to `now_ms`.

    A job that has not ended decides about its answer only where the interval is over.
    """
    answers = held = 0
    for job, low, high in earlier:
        came = ended.get(job)
        if came is not None:
            answers += 1
            held += (low is None or low <= came) and (high is None or came <= high)
        elif high is not None and high < now_ms:
            answers += 1
    return answers, held


def course_of(draws: Sequence[Courses], job: str) -> list[JobCourse]:
    """The job's course in each draw."""
    return [draw[job] for draw in draws]

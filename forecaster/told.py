"""What DagJobs are told of their start and end: which answers are news, and how good past answers were. No I/O.

Times of answers are RFC 3339 text as in the status; `now_s` is any clock in seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final, NamedTuple

import msgspec

from schedulers.objects.dagjob import ExpectedStatus, ExpectedTimes
from schedulers.objects.meta import Meta, to_ms

#: An answer is news from this share of the time left on.
_NEWS: Final = 0.1
#: Seconds between two writes of one job, at least.
AGAIN_S: Final = 10.0
#: Ends by which past answers are judged: the newest.
_JUDGED: Final = 1000


class ListedStatus(msgspec.Struct):
    """Fields of a DagJob's status that answers need."""

    phase: str = ""
    completionTime: str | None = None
    expected: ExpectedStatus | None = None


class Listed(msgspec.Struct):
    """A DagJob as the API server lists it, as far as answers are concerned."""

    metadata: Meta
    status: ListedStatus = msgspec.field(default_factory=ListedStatus)

    @property
    def job(self) -> str:
        """Id of the job in the core, as `core_job` names a DagJob."""
        return f"{self.metadata.key}.{self.metadata.uid[:8]}"

    @property
    def is_over(self) -> bool:
        """Whether the job has succeeded or failed for good."""
        return self.status.phase in ("Succeeded", "Failed")


class Word(NamedTuple):
    """A write that is due. expected: None takes the answer away."""

    meta: Meta
    expected: ExpectedStatus | None


class Quality(NamedTuple):
    """How good past answers were, over the newest ends; NaN where no job that was answered has ended."""

    held: float
    """Share of the 80 % intervals that held the end that came, 0..1."""
    error_s: float
    """Median of the distance between the median answered and the end that came."""


class _Job:
    """What one DagJob was told last, and will be told next."""

    def __init__(self, listed: Listed) -> None:
        # An answer of the process before this process: neither written again nor left unjudged.
        self.meta, self.written, self.written_s = listed.metadata, listed.status.expected, -math.inf
        self.next, self.has_next = self.written, False
        self.first = self.written.finish if self.written is not None else None

    def want(self, expected: ExpectedStatus | None) -> None:
        self.next, self.has_next = expected, is_news(self.written, expected)


class Told:
    """All live DagJobs with their answers."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}  # by uid
        self._ends: deque[tuple[bool, float]] = deque(maxlen=_JUDGED)  # (held, error in s)
        self._has_heard = False

    @property
    def has_answers(self) -> bool:
        """Whether any job has an answer in its status, as far as is known."""
        return not self._has_heard or any(job.written is not None for job in self._jobs.values())

    def hear(self, answers: Mapping[str, ExpectedStatus], listed: Iterable[Listed]) -> None:
        """New answers, by id of the job, and all DagJobs there are.

        A job without an answer keeps the old answer, whose `asOf` tells the age; a job that is over has none.
        """
        before, self._jobs, self._has_heard = self._jobs, {}, True
        for each in listed:
            job = before.get(each.metadata.uid) or _Job(each)
            self._jobs[each.metadata.uid] = job
            if each.is_over:
                self._judge(job, each)
                job.want(None)
            elif each.job in answers:
                job.want(answers[each.job])

    def due(self, now_s: float) -> Word | None:
        """The next write: of the jobs with news, the job told longest ago; None where all others were told lately.

        The answer of a job that is over goes at once: an end to come would be wrong.
        """
        waiting = [
            job
            for job in self._jobs.values()
            if job.has_next and (job.next is None or job.written_s + AGAIN_S <= now_s)
        ]
        job = min(waiting, key=lambda each: each.written_s, default=None)
        return None if job is None else Word(job.meta, job.next)

    def wrote(self, word: Word, now_s: float) -> None:
        """The word is in the status."""
        if (job := self._jobs.get(word.meta.uid)) is not None:
            job.written, job.written_s, job.has_next = word.expected, now_s, False
            if job.first is None and word.expected is not None:
                job.first = word.expected.finish

    def drop(self, word: Word) -> None:
        """The word cannot be written; the job's next answer can."""
        if (job := self._jobs.get(word.meta.uid)) is not None:
            job.has_next = False

    def quality(self) -> Quality:
        """Each ended job counts once, with the first answer that it got. Jobs that failed are not counted."""
        if not self._ends:
            return Quality(math.nan, math.nan)
        held, errors = zip(*self._ends, strict=True)
        return Quality(sum(held) / len(held), median(errors))

    def _judge(self, job: _Job, ended: Listed) -> None:
        """Once: an interval that is open above holds every later end."""
        first, job.first = job.first, None
        came = to_ms(ended.status.completionTime)
        if first is None or came is None or ended.status.phase != "Succeeded":
            return
        low, middle, high = (to_ms(text) for text in (first.p10, first.p50, first.p90))
        if low is not None and middle is not None:
            self._ends.append((low <= came and (high is None or came <= high), abs(came - middle) / 1000))


def is_news(old: ExpectedStatus | None, new: ExpectedStatus | None) -> bool:
    """Whether a job has to be told: another kind of answer, or a time moved by more than a tenth of the time left."""
    if old is None or new is None:
        return old is not new
    if old.known != new.known:
        return True
    now_ms = to_ms(new.asOf) or 0
    return _moved(old.start, new.start, now_ms) or _moved(old.finish, new.finish, now_ms)


def _moved(old: ExpectedTimes | None, new: ExpectedTimes | None, now_ms: int) -> bool:
    if old is None or new is None:
        return old is not new
    before, after = ([to_ms(text) for text in (times.p10, times.p50, times.p90)] for times in (old, new))
    if any((a is None) != (b is None) for a, b in zip(before, after, strict=True)):
        return True
    left = max((ms - now_ms for ms in after[:2] if ms is not None), default=0)
    pairs = zip(before, after, strict=True)
    return any(abs(b - a) > _NEWS * left for a, b in pairs if a is not None and b is not None)

"""Up to which width a job is thin, by how jobs fared that a limit treats differently from the others."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple

from schedulers.core.model import Job

#: Newest jobs by which a limit is judged. Fewer than for the part of pilots, as few jobs are of a width between limits.
_WINDOW: Final = 25


class _Tried(NamedTuple):
    """A running job of a width between the limits: the limit it met, its submission, its longest task so far (ms)."""

    limit: int
    submitted: int
    longest: float


class AdaptiveThinLimit:
    """A limit "adaptively chosen like the sampling percentage" (Jajoo et al., SLearn, NSDI 2022, section 7).

    limits: ascending. Each is tried for 25 jobs in this order, then the limit with which the last 25 jobs had the
    lowest mean completion time over longest task. Jobs count whose width lies between the limits: others are thin, or
    sampled, under all of them. A limit without finished jobs scores infinity; equal scores: the lower limit.
    """

    def __init__(self, limits: Sequence[int]) -> None:
        self._limits = tuple(limits)
        self._tried = 0
        self._windows: dict[int, deque[float]] = {limit: deque(maxlen=_WINDOW) for limit in limits}
        self._running: dict[str, _Tried] = {}

    def choose(self, job: Job, at: int) -> int:
        """The limit for a new job."""
        phase = self._tried // _WINDOW
        limit = self._limits[phase] if phase < len(self._limits) else self.best()
        if self._limits[0] <= job.width < self._limits[-1]:
            self._tried += 1
            self._running[job.id] = _Tried(limit, at, 0.0)
        return limit

    def best(self) -> int:
        """The limit with the lowest score."""
        return min(self._limits, key=self.score)

    def score(self, limit: int) -> float:
        """Mean completion time over longest task of the last jobs with the limit."""
        return fmean(self._windows[limit]) if self._windows[limit] else math.inf

    def finished(self, job: str, ms: float) -> None:
        """Hear of a task's run time at speed 1."""
        tried = self._running.get(job)
        if tried is not None and ms > tried.longest:
            self._running[job] = tried._replace(longest=ms)

    def done(self, job: str, at: int) -> None:
        """The job succeeded: judge its limit and forget it."""
        tried = self._running.pop(job, None)
        if tried is not None and tried.longest:
            self._windows[tried.limit].append((at - tried.submitted) / tried.longest)

    def gone(self, job: str) -> None:
        """The job was cancelled: forget it."""
        self._running.pop(job, None)

    def dump(self) -> Any:
        """Plain data for `load`."""
        windows = [[limit, list(window)] for limit, window in self._windows.items()]
        return {"tried": self._tried, "windows": windows, "running": [[job, *t] for job, t in self._running.items()]}

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        self._tried = data["tried"]
        for limit, values in data["windows"]:
            self._windows[limit].clear()
            self._windows[limit].extend(values)
        self._running = {job: _Tried(*tried) for job, *tried in data["running"]}

"""Which task a master copies: the rules of Hadoop's MapReduce and of LATE, on what tasks report of their progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final


@dataclass(slots=True)
class ReportedTask:
    """A task under way in a single container, as reported; times in ms."""

    task: int
    started: int
    takes: int
    """Run time at its rate of progress so far."""


@dataclass(slots=True)
class StageReport:
    """A stage of which no task waits, as its job's master knows it at time `now`, ms."""

    now: int
    tasks: int
    slots: int
    """Number of its tasks that the cluster holds at once."""
    took: Sequence[int]
    """Run times of its finished tasks, ms."""
    single: Sequence[ReportedTask]
    under_way: int
    """Tasks in at least one container."""
    copied: int
    """Tasks in several containers."""


class SpeculationRule(ABC):
    """A rule by which a master asks for copies, at most one of each stage in a look."""

    pause_ms: ClassVar[int]
    """From a look that led to a copy to the next look; else `LOOK_MS`."""

    @abstractmethod
    def choose(self, stage: StageReport) -> int | None:
        """The task to be copied now, or None."""

    def slow_nodes(self, progress: Mapping[str, float]) -> tuple[str, ...]:
        """Nodes too slow for a copy. progress: by node the sum over the job's tasks there, done ones counting 1."""
        return ()


#: Between two looks, ms (`mapreduce.job.speculative.retry-after-no-speculate`).
LOOK_MS: Final = 1000


class MapReduceSpeculation(SpeculationRule):
    """Copies the task with the most to gain: expected end less the end of a copy that takes the mean run time.

    Source: Hadoop 3.3, DefaultSpeculator, LegacyTaskRuntimeEstimator and StartEndTimesBase. Their threshold of a mean
    and a standard deviation is computed there, and compared with nothing.
    """

    pause_ms = 15_000

    def choose(self, stage: StageReport) -> int | None:
        """See SpeculationRule."""
        done = len(stage.took)
        # Compared as 20 * done, since 5 % of the tasks need not be a whole number.
        if not done or 20 * done < stage.tasks:
            return None
        if stage.copied >= max(10, stage.tasks // 100, stage.under_way // 10):
            return None
        copy_ends = stage.now + sum(stage.took) // done
        late = [each for each in stage.single if each.started + each.takes > copy_ends]
        return min(late, key=lambda each: (-each.started - each.takes, each.task)).task if late else None


class LateSpeculation(SpeculationRule):
    """Copies the task with the longest time left, if its progress is among the slowest, on a node not too slow.

    Source: Zaharia et al., OSDI 2008, section 4: SpeculativeCap 10 % of the slots, SlowTaskThreshold and
    SlowNodeThreshold the 25th percentiles; a task is looked at once it has run for a minute (by secondary texts). The
    cap counts the copies of a stage alone, since a master knows no other jobs.
    """

    pause_ms = LOOK_MS
    _YOUNG_MS = 60_000

    def choose(self, stage: StageReport) -> int | None:
        """See SpeculationRule."""
        if stage.copied >= max(1, stage.slots // 10):
            return None
        old = [each for each in stage.single if each.started + self._YOUNG_MS <= stage.now]
        if not old:
            return None
        # Of progress rates the inverse: the 25th percentile from below is that of run times from above.
        times = sorted([*stage.took, *(each.takes for each in stage.single)], reverse=True)
        slow = [each for each in old if each.takes > times[len(times) // 4]]
        return min(slow, key=lambda each: (-each.started - each.takes, each.task)).task if slow else None

    def slow_nodes(self, progress: Mapping[str, float]) -> tuple[str, ...]:
        """See SpeculationRule."""
        least = sorted(progress.values())[len(progress) // 4]
        return tuple(node for node, there in progress.items() if there < least)


RULES: Final[Mapping[str, type[SpeculationRule]]] = {"mapreduce": MapReduceSpeculation, "late": LateSpeculation}


def takes_ms(run_time: int, worked: int, elapsed: int) -> int:
    """Run time of a task at its rate of progress so far, ms.

    run_time: of the whole task. worked: time after which it stood still, or was not heard. elapsed: since its start.
    """
    # Hadoop divides by a progress of at least 1/10,000.
    return min(elapsed * run_time // worked, 10_000 * elapsed) if worked > 0 else 10_000 * elapsed

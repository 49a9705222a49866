"""Run times from measured waves: how long a Spark task takes by wave and by number of executors.

The first task on a new executor (`fresh`) starts a JVM and loads classes; the first task of a
stage on a known executor of the job (`first`) still warms up; later tasks (`rest`) run warm. Each of the
three was measured at several levels of parallelism (5, 10, 20, ... executors), because tasks of a
job on many executors compete for disk and network.

Source of the rules: Decima (SIGCOMM 2019), section 6.2, as released in hongzimao/decima-sim:
spark_env/node.py (choice of level and wave), spark_env/job_generator.py (cleaning at load time),
spark_env/job_dag.py (intervals between levels). Where the released code would stop because nothing was
measured, a nearest measurement is taken instead; each such place says so.

Nothing here keeps state: a draw is a pure function of two uniform numbers per task, so two policies meet the same run
time for the same task at the same wave and level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from schedulers.core import keyed
from schedulers.core.waves import LEVELS, TOP, WAVES, StageRunTimes, Wave, choices

_INVERTED: Final = choices(inverted=True)
_INTERPOLATED: Final = choices(inverted=False)


def without_fresh(first: Sequence[int], fresh: Iterable[int]) -> list[int]:
    """The first-wave durations of a level without the fresh durations, in their order.

    The released first-wave lists contain the fresh durations too; each fresh duration takes away an equal
    first-wave duration (job_generator.py: pre_process_task_duration).
    """
    left = Counter(fresh)
    cleaned = []
    for duration in first:
        if left[duration] > 0:
            left[duration] -= 1
        else:
            cleaned.append(duration)
    return cleaned


def filled(first: Mapping[int, Sequence[int]]) -> dict[int, Sequence[int]]:
    """First-wave durations per level, an empty level filled from the next lower level with durations.

    Levels below the lowest level with durations stay empty, as released.
    """
    last: Sequence[int] = ()
    full: dict[int, Sequence[int]] = {}
    for level in sorted(first):
        last = first[level] or last
        full[level] = last
    return full


class StageWaves:
    """The measured run times of a stage, ready for draws in about a third of a microsecond each.

    fresh, first, rest: ms per level (number of executors); `first` without fresh durations (`without_fresh`),
        not yet `filled`. The keys of `first` are the measured levels.
    warmup_ms: added to a first-wave duration in place of a fresh duration.
    inverted: choose between two levels as the released code does; False interpolates.
    rough_ms: mean over all waves and levels after cleaning, if known (a summary keeps the exact mean); else
        computed here. The released code's duration of a task before the task is scheduled.
    scale: factor on every duration; none falls below 1 ms.

    Raises ValueError when nothing at all was measured.
    """

    __slots__ = ("choices", "rough_ms", "tables")

    def __init__(
        self,
        fresh: Mapping[int, Sequence[int]],
        first: Mapping[int, Sequence[int]],
        rest: Mapping[int, Sequence[int]],
        *,
        warmup_ms: int = 1000,
        inverted: bool = True,
        rough_ms: float | None = None,
        scale: float = 1.0,
    ) -> None:
        new, known, warm = _scaled(fresh, scale), _scaled(filled(first), scale), _scaled(rest, scale)
        levels = sorted(known)
        drawn: dict[Wave, dict[int, list[int]]] = {"fresh": {}, "first": {}, "rest": {}}
        for level in levels:
            lists = _lists(new.get(level, []), known[level], warm.get(level, []), warmup_ms)
            if lists is not None:
                for wave, durations in zip(drawn, lists, strict=True):
                    drawn[wave][level] = durations
        if not drawn["rest"]:
            raise ValueError("a stage without a single measured duration")
        self.choices: Sequence[tuple[int, int, float]] = _INVERTED if inverted else _INTERPOLATED
        """By number of executors, 0 to 100: index of the level below, of the level above, probability of the former."""
        self.tables = {wave: [_at(durations, level, levels) for level in LEVELS] for wave, durations in drawn.items()}
        """By wave and level of LEVELS, the measured run times, ms."""
        self.rough_ms: float = mean_of(new, known, warm) if rough_ms is None else rough_ms * scale

    def duration(self, u_level: float, u_pick: float, executors: int, wave: Wave) -> int:
        """Run time in ms of a task.

        u_level, u_pick: the task's two uniform numbers in [0, 1) (see `TaskDraws`).
        executors: attached to the job, with the executor of the task; >= 1.
        wave: 'fresh' for an executor without an earlier task of the job, 'rest' after a task of the same stage, 'first'
            otherwise.
        """
        below, above, share = self.choices[executors if executors < TOP else TOP]
        durations = self.tables[wave][below if u_level < share else above]
        return durations[int(u_pick * len(durations))]


def run_times_of(waves: StageWaves) -> StageRunTimes:
    """A measured stage as a scheduler is told, each list once."""
    numbers: dict[int, int] = {}
    lists: list[tuple[int, ...]] = []
    by_wave = []
    for wave in WAVES:
        for measured in waves.tables[wave]:
            if id(measured) not in numbers:
                numbers[id(measured)] = len(lists)
                lists.append(tuple(measured))
        by_wave.append(tuple(numbers[id(measured)] for measured in waves.tables[wave]))
    return StageRunTimes(tuple(lists), tuple(by_wave))


def mean_of(*waves: Mapping[int, Sequence[int]]) -> float:
    """Mean over all durations of all levels of the given waves, in ms."""
    lists = [durations for wave in waves for durations in wave.values()]
    return sum(map(sum, lists)) / sum(map(len, lists))


def _scaled(wave: Mapping[int, Sequence[int]], scale: float) -> dict[int, list[int]]:
    if scale == 1.0:
        return {level: list(durations) for level, durations in wave.items()}
    return {level: [max(1, round(d * scale)) for d in durations] for level, durations in wave.items()}


def _lists(
    fresh: list[int], first: list[int], rest: list[int], warmup_ms: int
) -> tuple[list[int], list[int], list[int]] | None:
    """The durations for draws of each wave at a level; None without measurements.

    The order of fall-backs is as released; a rest wave in place of a missing fresh or first wave is ours (the released
    code would fail).
    """
    if not (fresh or first or rest):
        return None
    on_new = fresh or [duration + warmup_ms for duration in first or rest]
    on_known = first or fresh or rest
    return on_new, on_known, rest or on_known


def _at(drawn: Mapping[int, list[int]], level: int, measured: Sequence[int]) -> list[int]:
    """The durations for `level`: its own, or for a level without measurements the largest level's (as released).

    A measured level without durations left takes the next lower level with durations, else the next higher (ours).
    """
    if level not in measured:
        level = measured[-1]
    if level in drawn:
        return drawn[level]
    lower = [smaller for smaller in drawn if smaller < level]
    return drawn[max(lower)] if lower else drawn[min(drawn)]


class TaskDraws:
    """The uniform numbers of a stage's tasks, keyed by (seed, job, stage, index, attempt) and nothing else.

    First attempts are drawn as a block when the stage appears, later attempts one by one.
    """

    __slots__ = ("_job", "_seed", "_stage", "level", "pick")

    def __init__(self, seed: int, job: str, stage: int, tasks: int) -> None:
        block = keyed.generator(seed, "durations", job, stage).random((2, tasks))
        self._seed, self._job, self._stage = seed, job, stage
        self.level: list[float] = block[0].tolist()
        self.pick: list[float] = block[1].tolist()
        """By task, of its first attempt."""

    def of(self, index: int, attempt: int = 0) -> tuple[float, float]:
        """(u_level, u_pick) of an attempt (0 is the first) of task `index`."""
        if attempt == 0:
            return self.level[index], self.pick[index]
        ids = (self._job, self._stage, index, attempt)
        return (
            keyed.uniform(self._seed, "durations", *ids, "level"),
            keyed.uniform(self._seed, "durations", *ids, "pick"),
        )


class TaskDurations:
    """Run times of the tasks of a job's stage: a measured stage and the job's draws."""

    __slots__ = ("_choices", "_level", "_pick", "_tables", "draws", "waves")

    def __init__(self, waves: StageWaves, draws: TaskDraws) -> None:
        self.waves, self.draws = waves, draws
        self._choices, self._tables = waves.choices, waves.tables
        self._level, self._pick = draws.level, draws.pick

    def ms(self, index: int, executors: int, wave: Wave, attempt: int = 0) -> int:
        """Run time of an attempt of task `index`; executors and wave as in `StageWaves.duration`."""
        if attempt:
            return self.waves.duration(*self.draws.of(index, attempt), executors, wave)
        # What `StageWaves.duration` does, written out: this is asked once per task, and calls cost more than work.
        below, above, share = self._choices[executors if executors < TOP else TOP]
        durations = self._tables[wave][below if self._level[index] < share else above]
        return durations[int(self._pick[index] * len(durations))]

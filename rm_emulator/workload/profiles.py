"""Measured Spark profiles of the TPC-H queries: durations per stage, wave and number of executors.

154 jobs were measured: 22 queries on 2, 5, 10, 20, 50, 80 and 100 GB of data (hongzimao/decima-sim:
spark_env/tpch, the release of Decima, SIGCOMM 2019). The package ships a summary: per query, size, stage,
wave and number of executors the count and the quantiles of the durations (lists of up to 14 values whole).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rm_emulator.workload.model import RunTimes, Waves
from rm_emulator.workload.waves import StageWaves, filled, mean_of, without_fresh
from rm_emulator.workload.work import Sampler
from schedulers.core.errors import UnknownName
from schedulers.core.model import Job

#: Where the summary keeps the durations' quantiles; dense at the tails, which carry much of the mean.
QUANTILES: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_FORMAT: Final = "rm-emulator TPC-H profiles, version 1"
BUILTIN: Final = "tpch-summary.json.gz"

Durations = Mapping[int, Sequence[int]]


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """Measured durations of a wave at a level: all durations (ms), or their quantiles in ascending order."""

    count: int
    values: tuple[int, ...]

    def spread(self, quantiles: Sequence[float]) -> list[int]:
        """`count` durations: the measured ones, or as many evenly spaced points of the quantile function."""
        if len(self.values) == self.count:
            return list(self.values)
        points = (np.arange(self.count) + 0.5) / self.count
        spread: list[int] = np.rint(np.interp(points, quantiles, self.values)).astype(np.int64).tolist()
        return spread

    def summarised(self) -> Sample:
        """The sorted values when there are few, else their quantiles at `QUANTILES`."""
        if self.count <= len(QUANTILES):
            return Sample(self.count, tuple(sorted(self.values)))
        return Sample(self.count, tuple(np.rint(np.quantile(self.values, QUANTILES)).astype(np.int64).tolist()))


Wave = dict[int, Sample]


class StageProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A measured stage, with durations per level (number of executors) in each wave."""

    tasks: int
    parents: tuple[int, ...]
    """Indexes of the parent stages in the job."""
    rough_ms: float
    """Mean over all waves and levels after cleaning (`waves`), from the full durations."""
    fresh: Wave
    first: Wave
    """Without the fresh durations."""
    rest: Wave


class JobProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A query at a data size."""

    query: int
    size_gb: int
    stages: tuple[StageProfile, ...]

    @property
    def key(self) -> str:
        """'tpch-2g-q1': the key in `model.Waves.profile`."""
        return profile_key(self.query, self.size_gb)

    @property
    def work_ms(self) -> float:
        """Total of all tasks at the rough durations."""
        return sum(stage.tasks * stage.rough_ms for stage in self.stages)


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """The form on disk; `quantiles`: () when every duration is there."""

    format: str
    source: str
    quantiles: tuple[float, ...]
    jobs: tuple[JobProfile, ...]


def profile_key(query: int, size_gb: int) -> str:
    """The name of a query's profile at a size."""
    return f"tpch-{size_gb}g-q{query}"


def measured_stage(
    tasks: int, parents: Iterable[int], fresh: Durations, first: Durations, rest: Durations
) -> StageProfile:
    """A stage from durations as released, with the fresh durations in the first waves too."""
    cleaned = {level: without_fresh(durations, fresh.get(level, ())) for level, durations in first.items()}
    return StageProfile(
        tasks=tasks,
        parents=tuple(sorted(parents)),
        rough_ms=mean_of(fresh, filled(cleaned), rest),
        fresh=_wave(fresh),
        first=_wave(cleaned),
        rest=_wave(rest),
    )


def _wave(durations: Durations) -> Wave:
    return {level: Sample(len(values), tuple(values)) for level, values in sorted(durations.items())}


class TpchProfiles:
    """Measured jobs by key ('tpch-2g-q1'). Raises ValueError when a key is there twice.

    quantiles: where the samples' quantiles lie; () when every duration is there.
    """

    def __init__(self, jobs: Iterable[JobProfile], *, source: str, quantiles: Sequence[float] = ()) -> None:
        self.source = source
        self.quantiles = tuple(quantiles)
        self._jobs = {job.key: job for job in sorted(jobs, key=lambda job: (job.query, job.size_gb))}
        self._waves: dict[tuple[str, int, int, bool, float], StageWaves] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def exact(self) -> bool:
        """Whether every measured duration is there."""
        return not self.quantiles

    @property
    def jobs(self) -> list[JobProfile]:
        """All jobs, by query, then size."""
        return list(self._jobs.values())

    def job(self, key: str) -> JobProfile:
        """Raises UnknownName with the nearest key."""
        if key not in self._jobs:
            raise UnknownName("TPC-H profile", key, self._jobs)
        return self._jobs[key]

    def stage_waves(
        self, key: str, stage: int, *, warmup_ms: int = 1000, inverted: bool = True, scale: float = 1.0
    ) -> StageWaves:
        """The source of draws for a stage's run times; made once and kept. Raises UnknownName."""
        wanted = (key, stage, warmup_ms, inverted, scale)
        if wanted not in self._waves:
            profile = self.job(key).stages[stage]
            fresh, first, rest = (self._spread(wave) for wave in (profile.fresh, profile.first, profile.rest))
            self._waves[wanted] = StageWaves(
                fresh, first, rest, warmup_ms=warmup_ms, inverted=inverted, rough_ms=profile.rough_ms, scale=scale
            )
        return self._waves[wanted]

    def waves_of(self, runtimes: Waves, *, warmup_ms: int = 1000, inverted: bool = True) -> StageWaves:
        """`stage_waves` for a workload's reference."""
        return self.stage_waves(
            runtimes.profile, runtimes.stage, warmup_ms=warmup_ms, inverted=inverted, scale=runtimes.scale
        )

    def pooled(self, key: str, stage: int, level: int) -> NDArray[np.int64]:
        """All durations of a stage at a level, in ms: of every wave, each as often as measured.

        The largest measured level stands in for a level without measurements.
        """
        profile = self.job(key).stages[stage]
        waves = (profile.fresh, profile.first, profile.rest)
        measured = sorted(lv for lv in profile.first if any(lv in wave and wave[lv].count for wave in waves))
        nearest = level if level in measured else measured[-1]
        lists = [wave[nearest].spread(self.quantiles) for wave in waves if nearest in wave]
        return np.concatenate([np.asarray(durations, dtype=np.int64) for durations in lists])

    def summarised(self) -> TpchProfiles:
        """The same jobs with quantiles in place of long lists of durations."""
        jobs = [
            msgspec.structs.replace(job, stages=tuple(_summarised(stage) for stage in job.stages)) for job in self.jobs
        ]
        return TpchProfiles(jobs, source=self.source, quantiles=QUANTILES)

    def to_bytes(self) -> bytes:
        """Gzipped JSON; the same bytes for the same profiles."""
        file = _File(format=_FORMAT, source=self.source, quantiles=self.quantiles, jobs=tuple(self.jobs))
        return gzip.compress(msgspec.json.encode(file), 9, mtime=0)

    @staticmethod
    def from_bytes(data: bytes) -> TpchProfiles:
        """The inverse of `to_bytes`. Raises ValueError for anything else."""
        try:
            file = msgspec.json.decode(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, type=_File)
        except (msgspec.MsgspecError, EOFError, OSError, zlib.error) as error:
            raise ValueError(f"not a file of TPC-H profiles: {error}") from None
        if file.format != _FORMAT:
            raise ValueError(f"TPC-H profiles in the format '{file.format}' (this version reads '{_FORMAT}')")
        return TpchProfiles(file.jobs, source=file.source, quantiles=file.quantiles)

    def _spread(self, wave: Wave) -> dict[int, list[int]]:
        return {level: sample.spread(self.quantiles) for level, sample in wave.items()}


def _summarised(stage: StageProfile) -> StageProfile:
    fresh, first, rest = (
        {level: sample.summarised() for level, sample in wave.items()}
        for wave in (stage.fresh, stage.first, stage.rest)
    )
    return msgspec.structs.replace(stage, fresh=fresh, first=first, rest=rest)


@cache
def builtin_profiles() -> TpchProfiles:
    """The summary in the package, read once a process."""
    data = resources.files("rm_emulator.workload").joinpath("data", BUILTIN).read_bytes()
    return TpchProfiles.from_bytes(data)


def from_profiles(profiles: TpchProfiles, executors: int = 50) -> Sampler:
    """Run times of measured stages: all durations at `executors` executors, of every wave alike."""

    def sample(job: Job, stage: int, times: RunTimes) -> list[float] | None:
        if not isinstance(times, Waves):
            return None
        pooled = profiles.pooled(times.profile, times.stage, executors)
        return [float(ms) * times.scale for ms in pooled]

    return sample

"""Jobs to come, drawn from those that arrived last."""

from __future__ import annotations

import math
from typing import Final

import msgspec
from scipy.special import ndtr

from rm_emulator.forecasts.draws import KnownRunTimes
from rm_emulator.forecasts.moment import Paused
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario.durations import show_duration
from rm_emulator.workload.model import Drawn, WorkloadJob
from schedulers.core import keyed

#: How many windows of arrivals are laid one after the other: a play that lasts longer sees no further arrivals.
_WINDOWS: Final = 4
replace = msgspec.structs.replace


def arrived(run: Paused, window_ms: int) -> list[WorkloadJob]:
    """The batch jobs of the last so long before the moment; none for 0. Raises InvalidInput where nothing arrived."""
    if window_ms > run.at_ms:
        message = f"{show_duration(window_ms)} is longer than the run up to the moment"
        raise InvalidInput([Issue("--arrivals", message)])
    since = run.at_ms - window_ms
    found = [
        source
        for source in run.simulation.arrivals.arrived
        if window_ms and source.submit_ms > since and source.job.kind == "batch"
    ]
    if window_ms and not found:
        raise InvalidInput([Issue("--arrivals", f"no job arrived in the last {show_duration(window_ms)}")])
    return found


class Recent:
    """The batch jobs that arrived in the last `window_ms` before the moment; 0: none are to come.

    A draw turns the window by a random time and lays it end to end: gaps between arrivals, their bursts and the mix
    of jobs stay as they were (a circular block bootstrap). Raises InvalidInput, see `arrived`.
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

"""Jobs to come, drawn from those that arrived last."""

from __future__ import annotations

from typing import Final

import msgspec

from rm_emulator.forecasts.draws import Moment
from rm_emulator.forecasts.moment import PausedRun
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario.durations import show_duration
from rm_emulator.workload.model import WorkloadJob
from schedulers.core import keyed

#: How many windows of arrivals are laid one after the other: a play that lasts longer sees no further arrivals.
_WINDOWS: Final = 8
replace = msgspec.structs.replace


class Recent:
    """The batch jobs that arrived in the last `window_ms` before the moment; 0: none are to come.

    A draw turns the window by a random time and lays it end to end: gaps between arrivals, their bursts and the mix
    of jobs stay as they were (a circular block bootstrap). Run times are drawn as of any new job. Raises InvalidInput
    where nothing arrived.
    """

    def __init__(self, run: PausedRun, moment: Moment | None, window_ms: int) -> None:
        self._moment, self._now, self._window, self._seed = moment, run.at_ms, window_ms, run.recorded.cell.seed
        arrived = run.simulation.arrivals.arrived
        since = run.at_ms - window_ms
        self._sources = [
            source for source in arrived if window_ms and source.submit_ms > since and source.job.kind == "batch"
        ]
        if window_ms and not self._sources:
            raise InvalidInput([Issue("--arrivals", f"no job arrived in the last {show_duration(window_ms)}")])
        if window_ms > run.at_ms:
            raise InvalidInput(
                [Issue("--arrivals", f"{show_duration(window_ms)} is longer than the run up to the moment")]
            )

    def jobs(self, draw: int) -> tuple[WorkloadJob, ...]:
        """The jobs to come in a draw, in order of arrival."""
        if not self._sources:
            return ()
        turn = int(keyed.uniform(self._seed, "arrivals", self._now, draw) * self._window)
        made = []
        for number, source in enumerate(self._sources):
            offset = (source.submit_ms - self._now + turn) % self._window
            for window in range(_WINDOWS):
                name = f"{source.job.id}~{window}-{number}"
                at = self._now + 1 + offset + window * self._window
                job = replace(source, job=replace(source.job, id=name), submit_ms=at)
                made.append(job if self._moment is None else self._moment.arriving(job, draw))
        return tuple(sorted(made, key=lambda job: (job.submit_ms, job.job.id)))

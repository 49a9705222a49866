"""The predictor that is told the truth: the bound that all others are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from schedulers.core.model import Job
from schedulers.core.predictor import Estimate, Predictor, predictors
from schedulers.core.registry import NoParams


@predictors.register("oracle", source="Jajoo et al., SLearn, NSDI 2022, section 5.1.3", worlds=("emulator",))
class Oracle(Predictor):
    """Knows the true mean run time of every stage: whatever the event Estimated says."""

    Params = NoParams
    told_truth = True

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._told: dict[str, tuple[int, ...]] = {}

    def told(self, job: str, runtimes_ms: Sequence[int]) -> None:
        """Remembers the answer until the job ends."""
        self._told[job] = tuple(runtimes_ms)

    def job_done(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._told.pop(job.id, None)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._told.pop(job.id, None)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """What was told; None for a job or stage that nothing was said about."""
        told = self._told.get(job)
        if told is None or stage >= len(told):
            return None
        return Estimate(float(told[stage]), 0.0, "oracle")

    def dump(self) -> Any:
        """The answers for the jobs that have not ended."""
        return [[job, list(ms)] for job, ms in self._told.items()]

    def load(self, data: Any) -> None:
        """Takes over what `dump` returned."""
        self._told = {job: tuple(ms) for job, ms in data}

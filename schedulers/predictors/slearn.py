"""SLearn: a few random tasks of each job run first, and estimate the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.model import Job
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan, predictors
from schedulers.kit.sampling import Sampled, Sampler, SamplingParams, sample_estimate


@predictors.register("slearn", source="Jajoo et al., SLearn, NSDI 2022, section 5.1.2")
class SLearn(Predictor):
    """Sampling: the mean of random pilot tasks, as many as the adaptive ratio says; thin jobs bypass."""

    class Params(SamplingParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings: sampling, and the use of the root stages' pilots for later stages."""

        later_stages: Annotated[
            Literal["pooled", "weighted"],
            msgspec.Meta(
                description="later stages: mean over all pilots, or over root stages weighted by their number of tasks"
            ),
        ] = "pooled"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._sampler = Sampler(params, seed)

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Draws the pilots, from the stages without parents only."""
        return self._sampler.plan(job, at)

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Takes in a pilot's run time; other tasks count for the score of the ratio only."""
        self._sampler.finished(task, runtime_ms * node_speed)

    def job_done(self, job: Job, at: int) -> None:
        """Scores the ratio used for the job."""
        self._sampler.done(job.id, at)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._sampler.gone(job.id)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """Mean of the stage's pilots, or of all pilots for a later stage. None until all have finished."""
        sampled = self._sampler.get(job)
        if sampled is None or sampled.left:
            return None
        own = sampled.values.get(stage)
        if own:
            return sample_estimate(own, self.params.estimator)
        pooled = sample_estimate(sampled.pooled(), self.params.estimator)
        if self.params.later_stages == "pooled":
            return pooled
        return Estimate(self._weighted(sampled), pooled.spread_ms, pooled.source)

    def dump(self) -> Any:
        """Pilots of the running jobs and the scores of the ratios."""
        return self._sampler.dump()

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        self._sampler.load(data)

    def _weighted(self, sampled: Sampled) -> float:
        rows: Sequence[tuple[int, float]] = [
            (sampled.tasks[stage], sample_estimate(values, self.params.estimator).task_ms)
            for stage, values in sampled.values.items()
        ]
        return sum(tasks * ms for tasks, ms in rows) / sum(tasks for tasks, _ in rows)

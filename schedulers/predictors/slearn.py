"""SLearn: a few random tasks of each job run first, and estimate the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.model import Job
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan, predictors
from schedulers.kit.sampling import Sampled, Sampler, SamplingParams, sample_estimate
from schedulers.kit.thin_limit import AdaptiveThinLimit


@predictors.register("slearn", source="Jajoo et al., SLearn, NSDI 2022, section 5.1.2")
class SLearn(Predictor):
    """Sampling: the mean of random pilot tasks, as many as the adaptive ratio says; thin jobs bypass.

    A job with at least `thin_limit` tasks in its widest stage is sampled: a few random tasks, its pilots, run first,
    and the mean of their run times is the estimate. The other tasks are held until all pilots have finished; a policy
    may run them on slots of no use to other jobs, and their run times are not samples. Narrower jobs bypass: they go
    to the highest-priority queue without an estimate.

    **Number of pilots** (SLearn, figure 4): 3 % of the tasks for the first `score_window` sampled jobs, then 2 %, then
    4 %. Afterwards the percentage whose last `score_window` finished jobs had the lowest mean normalised completion
    time; 1 % or 5 % when 2 % or 4 % beats 3 % by more than `gain_margin`.

    **Choices where the source is silent:**

    - Pilots of a DAG come from every stage without parents. A later stage is estimated by the mean over all pilots, or
      over root stages weighted by their tasks (`later_stages: weighted`).
    - The window holds exactly T jobs; the printed code drops a job only once there are more, and so holds T + 1.
    - A percentage without finished jobs scores infinity, and nothing is explored against it. Without any score the
      predictor stays at 3 %.
    - Failed pilots run again, and only the successful attempt counts.
    - Pilots are drawn by seed, job and stage, so every policy samples the same tasks.
    - Of `thin_limits` each is tried for 25 jobs of a width between them, and the best by the last 25 such jobs stays.
    """

    class Params(SamplingParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings: sampling, and the use of the root stages' pilots for later stages."""

        later_stages: Annotated[
            Literal["pooled", "weighted"],
            msgspec.Meta(
                description="estimate of later stages: mean over all pilots (pooled), or over root stages weighted by "
                "their tasks; a choice of ours, as the paper samples single stages"
            ),
        ] = "pooled"
        thin_limits: Annotated[
            tuple[Annotated[int, msgspec.Meta(ge=0)], ...],
            msgspec.Meta(
                description="limits to choose from instead of `thin_limit`, ascending, by the completion times under "
                "each (SLearn, section 7); none: `thin_limit` holds",
                examples=[[2, 3, 4, 5, 6]],
            ),
        ] = ()

        def __post_init__(self) -> None:
            super().__post_init__()
            if any(a >= b for a, b in pairwise(self.thin_limits)):
                raise ValueError(f"thin_limits {list(self.thin_limits)} have to ascend")

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._sampler = Sampler(params, seed)
        self._limits = AdaptiveThinLimit(params.thin_limits or [params.thin_limit])

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Draws the pilots, from the stages without parents only."""
        return self._sampler.plan(job, at, self._limits.choose(job, at))

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Takes in a pilot's run time; other tasks count for the scores of ratio and thin limit only."""
        self._sampler.finished(task, runtime_ms * node_speed)
        self._limits.finished(task.job, runtime_ms * node_speed)

    def job_done(self, job: Job, at: int) -> None:
        """Scores the ratio and the thin limit used for the job."""
        self._sampler.done(job.id, at)
        self._limits.done(job.id, at)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._sampler.gone(job.id)
        self._limits.gone(job.id)

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
        """Pilots of the running jobs, the scores of the ratios and, where there are several, of the thin limits."""
        limits = {"limits": self._limits.dump()} if self.params.thin_limits else {}
        return {**self._sampler.dump(), **limits}

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        self._sampler.load(data)
        if "limits" in data:
            self._limits.load(data["limits"])

    def _weighted(self, sampled: Sampled) -> float:
        rows: Sequence[tuple[int, float]] = [
            (sampled.tasks[stage], sample_estimate(values, self.params.estimator).task_ms)
            for stage, values in sampled.values.items()
        ]
        return sum(tasks * ms for tasks, ms in rows) / sum(tasks for tasks, _ in rows)

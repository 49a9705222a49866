"""SLearn-DAG: the first stage is sampled, and its error corrects history's word on the later ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from schedulers.core.model import Job, PastJob
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan, predictors
from schedulers.kit.history import History
from schedulers.kit.sampling import SampledHistoryParams, Sampler, sample_estimate


@predictors.register("slearn_dag", source="Jajoo et al., SLearn, NSDI 2022, section 6")
class SLearnDag(Predictor):
    """Both: pilots estimate the root stages; later stages are 3Sigma-DAG's estimates times sampled over predicted.

    Root stages get the mean of their pilots, d_s, as under `slearn`. A later stage gets the estimate of
    `three_sigma_dag` times d_s / d_h, where d_h is history's estimate of the root stages (SLearn, section 6). The
    factor is clipped to `min_ratio` .. `max_ratio`. Pilots and history follow the choices of `slearn` and
    `three_sigma`.
    """

    class Params(SampledHistoryParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings: sampling, history, and how far the correction may go."""

        min_ratio: Annotated[
            float, msgspec.Meta(gt=0, le=1, description="smallest factor on history's estimates of later stages (ours)")
        ] = 0.1
        max_ratio: Annotated[
            float, msgspec.Meta(ge=1, description="largest factor on history's estimates of later stages (ours)")
        ] = 10.0

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._sampler = Sampler(params, seed)
        self._history = History(params, per_stage=True)
        self._predicted: dict[str, list[float]] = {}

    def prime(self, history: Sequence[PastJob]) -> None:
        """Learns from past jobs, stage by stage."""
        self._history.prime(history)

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Draws the pilots and notes history's estimate of each stage."""
        keys = self._history.opened(job, at)
        plan = self._sampler.plan(job, at)
        if not plan.thin:
            self._predicted[job.id] = [self._from_history(keys, stage, at) for stage in range(len(job.stages))]
        return plan

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Takes in a run time, for the pilots and for history."""
        ms = runtime_ms * node_speed
        self._sampler.finished(task, ms)
        self._history.finished(task, ms)

    def job_done(self, job: Job, at: int) -> None:
        """Scores the ratio and learns the job's run times."""
        self._predicted.pop(job.id, None)
        self._sampler.done(job.id, at)
        self._history.closed(job.id, at)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._predicted.pop(job.id, None)
        self._sampler.gone(job.id)
        self._history.gone(job.id)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """A root stage's own pilots; a later stage's history, corrected. None until all pilots have finished."""
        sampled = self._sampler.get(job)
        if sampled is None or sampled.left:
            return None
        own = sampled.values.get(stage)
        if own:
            return sample_estimate(own, self.params.estimator)
        predicted = self._predicted[job]
        estimator = self.params.estimator
        seen = sum(sampled.tasks[s] * sample_estimate(ms, estimator).task_ms for s, ms in sampled.values.items())
        said = sum(tasks * predicted[s] for s, tasks in sampled.tasks.items())
        ratio = correction(seen, said, self.params.min_ratio, self.params.max_ratio)
        return Estimate(ratio * predicted[stage], source=f"history*{ratio:.3g}")

    def dump(self) -> Any:
        """History, pilots of the running jobs, and history's estimates for them."""
        predicted = [[job, list(ms)] for job, ms in self._predicted.items()]
        return {"sampler": self._sampler.dump(), "history": self._history.dump(), "predicted": predicted}

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        self._sampler.load(data["sampler"])
        self._history.load(data["history"])
        self._predicted = {job: list(ms) for job, ms in data["predicted"]}

    def _from_history(self, keys: Sequence[tuple[str, str]], stage: int, at: int) -> float:
        known = self._history.distribution(keys, stage, at)
        return float(self.params.default_task_ms) if known is None else known[0].power_mean(-2)


def correction(sampled: float, predicted: float, lowest: float, highest: float) -> float:
    """Sampled over predicted, within bounds; 1 where either says nothing (is not above 0)."""
    if sampled <= 0 or predicted <= 0:
        return 1.0
    return min(highest, max(lowest, sampled / predicted))

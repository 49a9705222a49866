"""The predictor with the true run times: a bound for all others. Its answers can be made wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job
from schedulers.core.predictor import Estimate, Predictor, SamplePlan, predictors

#: Of an underestimated job the answer is this part of the truth.
HUNDREDFOLD: Final = 0.01


def misjudged(seed: int, job: str, stage: int, error: tuple[float, float]) -> float:
    """Factor of misjudgement of a stage, with a relative error drawn from [lowest, highest].

    The draw depends on the seed, the job's id and the stage alone: every policy errs by the same factor.
    """
    low, high = error
    return 1 + low if low == high else 1 + low + (high - low) * keyed.uniform(seed, "oracle-error", job, stage)


@predictors.register("oracle", source="Jajoo et al., SLearn, NSDI 2022, section 5.1.3", worlds=("emulator",))
class Oracle(Predictor):
    """Knows the true mean run time of every stage, from the event Estimated.

    The oracle is a bound for all other predictors, and exists in the emulator only. With `error` its answers are wrong
    by a factor per stage, as in Graphene (OSDI 2016, section 8), to show the cost of misestimation. A workload's
    `asks` with the same `error` misjudges the demands of a stage by the same factor. `error_quantiles` gives errors the
    distribution of a real predictor, and `underestimated` errors to large jobs above all.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings. Each draw hangs on the seed and the job alone, so that all policies meet the same errors."""

        error: Annotated[
            tuple[float, float],
            msgspec.Meta(
                description="range of the relative error of each stage's answer: [lowest, highest], above -1; a "
                "single draw per stage"
            ),
        ] = (0.0, 0.0)
        error_quantiles: Annotated[
            tuple[tuple[float, float], ...],
            msgspec.Meta(
                description="quantiles of a further relative error: [part of all stages, error], both ascending, from "
                "part 0 to part 1; a single draw per stage",
                examples=[[[0, -0.5], [0.5, 0.18], [1, 2.8]]],
            ),
        ] = ()
        underestimated: Annotated[
            float, msgspec.Meta(ge=0, le=1, description="share of large jobs taken for a hundredth of their size")
        ] = 0.0
        large_ms: Annotated[
            float, msgspec.Meta(ge=0, description="work from which on a job is large, ms of run time over all tasks")
        ] = 0.0

    told_truth = True
    estimates_stay = True

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._error = params.error
        if not -1 < params.error[0] <= params.error[1]:
            raise InvalidParameters(f"oracle: error is {list(params.error)} (two numbers, ascending, above -1)")
        self._quantiles, self._underestimated, self._large_ms = _curve(params), params.underestimated, params.large_ms
        self._told: dict[str, tuple[int, ...]] = {}
        self._by_node: dict[str, dict[str, tuple[int, ...]]] = {}
        self._small: set[str] = set()

    def hear_estimates(self, job: str, runtimes_ms: Sequence[int]) -> None:
        """Remembers the answer until the job ends."""
        self._told[job] = tuple(runtimes_ms)

    def hear_estimates_by_node(self, job: str, runtimes_ms: Mapping[str, Sequence[int]]) -> None:
        """Remembers the answer until the job ends."""
        self._by_node[job] = {node: tuple(ms) for node, ms in runtimes_ms.items()}

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Draws whether the job is underestimated."""
        if self._underestimated and job.id in self._told and self._is_underestimated(job):
            self._small.add(job.id)
        return None

    def _is_underestimated(self, job: Job) -> bool:
        work_ms = sum(stage.tasks * ms for stage, ms in zip(job.stages, self._told[job.id], strict=True))
        return work_ms >= self._large_ms and keyed.uniform(self.seed, "underestimated", job.id) < self._underestimated

    def _factor(self, job: str, stage: int) -> float:
        """Of the stage's answer over the truth."""
        if job in self._small:
            return HUNDREDFOLD
        factor = misjudged(self.seed, job, stage, self._error)
        if self._quantiles is not None:
            factor *= math.exp(np.interp(keyed.uniform(self.seed, "oracle-quantile", job, stage), *self._quantiles))
        return factor

    def job_done(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._told.pop(job.id, None)
        self._by_node.pop(job.id, None)
        self._small.discard(job.id)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self.job_done(job, at)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """The time told; None for a job or stage without a time."""
        told = self._told.get(job)
        if told is None or stage >= len(told):
            return None
        return Estimate(told[stage] * self._factor(job, stage), 0.0, "oracle")

    def estimate_on(self, job: str, stage: int, node: str) -> float | None:
        """The time told for the node; None for a node or stage without a time."""
        told = self._by_node.get(job, {}).get(node, ())
        if stage >= len(told) or not told[stage]:
            return None
        return told[stage] * self._factor(job, stage)

    def dump(self) -> Any:
        """The answers for the unfinished jobs."""
        return [[job, list(ms), self._by_node.get(job, {}), job in self._small] for job, ms in self._told.items()]

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        for job, ms, by_node, *small in data:
            self._told[job] = tuple(ms)
            if by_node:
                self.hear_estimates_by_node(job, by_node)
            if any(small):
                self._small.add(job)


def _curve(params: Oracle.Params) -> tuple[list[float], list[float]] | None:
    """Parts of all answers, and the logarithm of the factor below which each part lies; None without quantiles."""
    pairs = params.error_quantiles
    if not pairs:
        return None
    parts, errors = [part for part, _ in pairs], [error for _, error in pairs]
    rising = all(low < high for low, high in pairwise(parts)) and errors == sorted(errors)
    if not (rising and parts[0] == 0 and parts[-1] == 1 and errors[0] > -1):
        raise InvalidParameters(
            f"oracle: error_quantiles is {[list(pair) for pair in pairs]} (pairs of a part and an error, both "
            "ascending, from part 0 to part 1, errors above -1)"
        )
    return parts, [math.log1p(error) for error in errors]

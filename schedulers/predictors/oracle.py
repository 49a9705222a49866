"""The predictor with the true run times: a bound for all others. Its answers can be made wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job
from schedulers.core.predictor import Estimate, Predictor, predictors


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
    `asks` with the same `error` misjudges the demands of a stage by the same factor.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings. error: a stage's time counts (1 + a draw from this range) times, at every question."""

        error: Annotated[
            tuple[float, float],
            msgspec.Meta(
                description="range of the relative error of each stage's answer: [lowest, highest], above -1; a "
                "single draw per stage"
            ),
        ] = (0.0, 0.0)

    told_truth = True
    estimates_stay = True

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._error = params.error
        if not -1 < params.error[0] <= params.error[1]:
            raise InvalidParameters(f"oracle: error is {list(params.error)} (two numbers, ascending, above -1)")
        self._told: dict[str, tuple[int, ...]] = {}
        self._by_node: dict[str, dict[str, tuple[int, ...]]] = {}

    def hear_estimates(self, job: str, runtimes_ms: Sequence[int]) -> None:
        """Remembers the answer until the job ends."""
        self._told[job] = tuple(runtimes_ms)

    def hear_estimates_by_node(self, job: str, runtimes_ms: Mapping[str, Sequence[int]]) -> None:
        """Remembers the answer until the job ends."""
        self._by_node[job] = {node: tuple(ms) for node, ms in runtimes_ms.items()}

    def job_done(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._told.pop(job.id, None)
        self._by_node.pop(job.id, None)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self.job_done(job, at)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """The time told; None for a job or stage without a time."""
        told = self._told.get(job)
        if told is None or stage >= len(told):
            return None
        return Estimate(told[stage] * misjudged(self.seed, job, stage, self._error), 0.0, "oracle")

    def estimate_on(self, job: str, stage: int, node: str) -> float | None:
        """The time told for the node; None for a node or stage without a time."""
        told = self._by_node.get(job, {}).get(node, ())
        if stage >= len(told) or not told[stage]:
            return None
        return told[stage] * misjudged(self.seed, job, stage, self._error)

    def dump(self) -> Any:
        """The answers for the unfinished jobs."""
        return [[job, list(ms), self._by_node.get(job, {})] for job, ms in self._told.items()]

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        for job, ms, by_node in data:
            self._told[job] = tuple(ms)
            if by_node:
                self.hear_estimates_by_node(job, by_node)

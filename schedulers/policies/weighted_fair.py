"""Weighted fair sharing: a job's share follows a power of its total work (a baseline of Decima, SIGCOMM'19)."""

from __future__ import annotations

from math import ceil
from typing import Annotated

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, TieSetting, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import ByShare, Key, Measure
from schedulers.kit.partition import Partitioned, executors_of


@policies.register(
    "weighted_fair", source="Decima (SIGCOMM'19), section 7.1: (tuned) weighted fair; alpha 0: decima-sim"
)
class WeightedFair(Partitioned, ByShare, NeedsEstimates):
    """Shares the cluster in proportion to (weight x total work ^ alpha): 0 is plain fair, 1 naive, about -1 tuned.

    Total work is estimated; a job without an estimate counts with `unsized_ms`. With `alpha: 0` no predictor is
    needed. Where containers end with their task, the job with the least use for its share goes first.

    On clusters with executors, jobs in order of submission get up to their share, rounded up. An executor comes to its
    job before the job has tasks for the executor, waits while earlier stages still run, and stays until the job has
    nothing more to start. Executors beyond all shares stay idle: the division of Decima's released simulator.
    """

    spills = False

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        alpha: Annotated[
            float,
            msgspec.Meta(
                ge=-10,
                le=10,
                description="exponent of a job's total work: 0 plain fair, 1 naive, about -1 tuned; larger: larger "
                "shares for large jobs",
            ),
        ] = -1.0
        measure: Measure = "dominant"
        unsized_ms: Annotated[
            float, msgspec.Meta(gt=0, description="total work of a job without an estimate, in task ms")
        ] = 5e5
        tie: TieSetting = "submit"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        if params.alpha == 0:
            self.without = frozenset({NeedsEstimates})
        self._whole = (0.0, 0)

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        tie = view.tie(job, self.params.tie)
        if view.has_executors:
            return (job.submitted, tie)
        held = job.executors if self.params.measure == "slots" else view.share(job)
        return (held / self._weight(job), tie)

    def most(self, job: JobState, view: ClusterView) -> float:
        """See Partitioned.most."""
        if not view.has_executors:
            return super().most(job, view)
        weights, executors = self._whole
        return ceil(executors * self._weight(job) / weights)

    def ranked(self, view: ClusterView) -> list[JobState]:
        """See Partitioned.standing."""
        jobs = super().ranked(view)
        demands = {stage.demand for job in view.jobs.values() for stage in job.stages if stage.waiting}
        self._whole = sum(map(self._weight, jobs)), executors_of(view, demands)
        return jobs

    def _weight(self, job: JobState) -> float:
        # In units of `unsized_ms`, so that no power leaves the range of floats.
        size = self.params.unsized_ms if job.size_ms is None else max(job.size_ms, 1.0)
        return job.spec.weight * float((size / self.params.unsized_ms) ** self.params.alpha)

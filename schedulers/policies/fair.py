"""Fair sharing between jobs: the job with the least in use, per unit of weight, goes first."""

from __future__ import annotations

from collections.abc import Generator
from math import ceil

import msgspec

from schedulers.core.policy import ClusterView, Offer, Outcome, Suggestion, Suggestions, TieSetting, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import ByShare, Key, Measure, place_by_share


@policies.register("fair", source="DRF (NSDI'11), section 4; with executors Decima's baseline (decima-sim issue 14)")
class Fair(ByShare):
    """Serves the job with the least in use, by slots or by dominant share, per unit of weight.

    The policy needs no estimates. Jobs share the cluster whatever their queues; for shares between queues see `drf`
    and `hdrf`.

    On clusters with executors, an executor that becomes idle stays with its job while the job holds no more than its
    equal part of all executors and has a task for the executor; otherwise the executor serves another job. The policy
    holds no executor for later stages. (Decima's released dynamic partition also waits: `weighted_fair` with `alpha:
    0`.)
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        measure: Measure = "dominant"
        tie: TieSetting = "submit"

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return place_by_share(job, view, self.params.measure, self.params.tie)

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Keep idle executors where they are within the job's part, then serve the poorest job."""
        if view.has_executors:
            yield from self._keep(view, offer)
        yield from super().schedule(view, offer)

    @staticmethod
    def _keep(view: ClusterView, offer: Offer) -> Generator[Suggestion, Outcome, None]:
        if not view.waiting:
            return
        part = ceil(_executors(view) / len(view.waiting))
        for container in view.idle():
            job = view.waiting.get(container.job)
            if job is not None and job.executors <= part:
                stage = next((stage for stage in job.open_stages() if stage.size == container.size), None)
                if stage is not None:
                    yield Suggestion(job.id, stage.index)


def _executors(view: ClusterView) -> int:
    """How many executors of the smallest waiting demand the cluster holds, used ones included."""
    smallest = min((s.demand for j in view.waiting.values() for s in j.open_stages()), key=sum)
    return min(c // d for c, d in zip(view.capacity, smallest, strict=True) if d)

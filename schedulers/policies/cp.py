"""Critical path: jobs as they came, inside a job the stage with the longest way to the output first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, TieSetting, policies
from schedulers.core.state import JobState, StageState
from schedulers.kit.ordered import Key, Ordered
from schedulers.kit.paths import Length, critical_first


@policies.register("cp", source="Graphene (OSDI'16), baseline CP; list scheduling by critical path: Graham 1969")
class CriticalPath(Ordered, NeedsEstimates):
    """Serves jobs in order of submission, inside a job the stage with the longest estimated path to the output first.

    The setting `length` says how long a stage is on a path. A stage without an estimate adds nothing to a path. The
    policy needs a predictor.
    """

    bundles = True
    order_is_stable = True

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        length: Length = "task"
        tie: TieSetting = "submit"

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return (job.submitted, view.tie(job, self.params.tie))

    def arrange(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Iterable[StageState]:
        """See Ordered.arrange."""
        return critical_first(job, stages, view, self.params.length)

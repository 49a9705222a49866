"""Shortest job first, and inside a job the critical path first (a baseline of Decima, SIGCOMM'19)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, TieSetting, policies
from schedulers.core.state import JobState, StageState
from schedulers.kit.ordered import Key
from schedulers.kit.partition import Partitioned
from schedulers.kit.paths import Length, critical_first


@policies.register("sjf_cp", source="Decima (SIGCOMM'19), section 7.1: SJF-CP")
class ShortestJobCriticalPath(Partitioned, NeedsEstimates):
    """Serves the job with the least estimated total work first, in it the stage with the longest path to the output.

    Jobs without an estimate come last; a stage without an estimate adds nothing to a path. The policy needs a
    predictor. `capped_sjf` has the same order with a limit per job.

    On clusters with executors, an executor goes to the smallest job whenever the executor is idle, and is held for the
    first job also while the job waits for a stage to end: the division of Decima's released simulator.
    """

    bundles = True
    order_is_stable = True
    stays = False
    limits = False

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        length: Length = "task"
        tie: TieSetting = "submit"

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        size = math.inf if job.size_ms is None else job.size_ms
        return (size, view.tie(job, self.params.tie))

    def arrange(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Iterable[StageState]:
        """See Ordered.arrange."""
        return critical_first(job, stages, view, self.params.length)
